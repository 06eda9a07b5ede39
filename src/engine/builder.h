// Builds engines: checks profiles, makes the graphs of their sizes, and times kernels.
#pragma once
#include <memory>
#include <string>

#include "engine/engine.h"

namespace strata::engine {

STRATA_API std::shared_ptr<Engine> build(std::shared_ptr<const Network> network, BuilderConfig config = {});
// The model of an .onnx file.
STRATA_API std::shared_ptr<Engine> build(const std::string& path, Device device = {}, BuilderConfig config = {});

// Inputs for runs whose results do not matter: random numbers; integers are all `integer`.
STRATA_API onnx::Values sample_inputs(const Network& network, const OptimizationProfile& profile, int64_t integer = 0);
// Whether all sizes of all inputs are known: from the profile, else from the network.
STRATA_API bool has_all_sizes(const Network& network, const OptimizationProfile& profile);
// Measures the kernels of a built engine's sizes on this device, and keeps the fastest. Returns how many nodes had a choice.
STRATA_API size_t tune(Engine& engine, const onnx::Values& inputs, double seconds, TimingCache& cache);

}  // namespace strata::engine
