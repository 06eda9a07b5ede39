// Calibration for int8: a network is run in float32 on real inputs, and the sizes of what goes into its layers are noted.
#pragma once
#include <functional>
#include <optional>

#include "engine/network.h"
#include "engine/quantize/table.h"

namespace strata::engine {

enum class Calibrator : uint8_t { Entropy, MinMax, Percentile };
STRATA_API Calibrator calibrator_of(const std::string& name);  // "entropy", "min-max", "percentile"; throws Value

struct CalibrationOptions {
  Calibrator method = Calibrator::Entropy;
  double percentile = 99.99;
  // The largest error of an output, relative to its size, that int8 may make: the layers with the largest errors stay in float32
  // until it is met. 0: all layers are int8.
  double max_error = 0;
};

// Inputs of one run after the other, in the order of the network's; nothing at the end.
using Samples = std::function<std::optional<onnx::Values>()>;
STRATA_API CalibrationTable calibrate(const Network& network, const Samples& next,
                                      const CalibrationOptions& options = {});

// Writes the network as a model of ONNX with QuantizeLinear and DequantizeLinear around its layers and int8 weights, for the sizes
// of these inputs. Returns how many layers are in int8.
STRATA_API size_t save_quantized(const Network& network, const onnx::Values& inputs, const CalibrationTable& table,
                                 const std::string& path);

}  // namespace strata::engine
