// What an engine is, what its layers take, and how exact they are: as JSON, text and HTML. Names come from files: in HTML they are
// escaped, on a terminal control characters are replaced.
#pragma once
#include <string>
#include <vector>

#include "engine/engine.h"

namespace strata::engine {

// Inputs, outputs, profiles, precisions, ops, and the graphs that were made so far.
STRATA_API std::string describe(const Engine& engine);  // JSON
// The graph for these sizes: nodes, memory, decisions of the passes, or why there is none.
STRATA_API std::string describe(const Engine& engine, std::span<const onnx::Value> inputs);  // JSON

// Peaks of the device, for shares; 0: not known.
struct Peaks {
  double flops = 0, bytes = 0;  // per second
};
// The best of `times` runs of each layer. Throws NotImplemented if there is no graph for these inputs.
STRATA_API std::vector<LayerProfile> profile(ExecutionContext& context, std::span<const onnx::Value> inputs, int times);
STRATA_API std::string profile_json(const std::vector<LayerProfile>& layers, const Peaks& peaks);
STRATA_API std::string profile_text(const std::vector<LayerProfile>& layers, const Peaks& peaks);
STRATA_API std::string profile_html(const std::vector<LayerProfile>& layers, const Peaks& peaks,
                                    const std::string& title);

// How far the value of a layer is from that of the network without optimisation, in float32.
struct LayerError {
  std::string name, op, dtype;
  double max_error = 0, mean_error = 0;
  double sqnr = 0;         // signal to noise in dB; infinite if both are equal
  int64_t first_nan = -1;  // position of the first element that is NaN here and not there
};
// By layer, in the order of the run. Layers whose values the passes have replaced are not in the list.
STRATA_API std::vector<LayerError> accuracy(const Engine& engine, std::span<const onnx::Value> inputs);
STRATA_API std::string accuracy_json(const std::vector<LayerError>& layers);
STRATA_API std::string accuracy_text(const std::vector<LayerError>& layers);

// A text from a file for a terminal: without what it would take as commands.
STRATA_API std::string printable(std::string_view text);
STRATA_API std::string escaped(std::string_view text);  // for HTML

}  // namespace strata::engine
