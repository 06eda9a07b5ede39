#include "engine/builder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "autograd/autograd.h"
#include "base/interrupt.h"
#include "base/warning.h"
#include "dispatch/settings.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata::engine {
namespace {

// The sizes of an input, -1 for one that is not known.
std::vector<int64_t> sizes_of(const Port& port, const OptimizationProfile& profile) {
  if (const auto range = profile.ranges.find(port.name); range != profile.ranges.end()) return range->second.opt;
  if (!port.has_shape) return {-1};
  std::vector<int64_t> sizes;
  for (const Port::Dim& d : port.dims) sizes.push_back(d.size);
  return sizes;
}

// Makes the graph for the sizes of a profile, and returns the inputs that it was followed with. Integers may be indices, or numbers to
// divide by: if no sample is taken, the first run makes the graph.
onnx::Values make_graph(const Engine& engine, const OptimizationProfile& profile) {
  for (const int64_t integer : {0, 1}) {
    onnx::Values inputs = sample_inputs(engine.network(), profile, integer);
    engine.check_inputs(inputs);
    if (engine.specialization(inputs)) return inputs;
    engine.forget_failure(key_of(inputs));
  }
  return {};
}

void tell(const BuilderConfig& config, const std::string& what, double done) {
  if (config.progress && !config.progress(what, done)) fail(ErrorKind::Runtime, "engine: the build was stopped");
}

}  // namespace

bool has_all_sizes(const Network& network, const OptimizationProfile& profile) {
  return std::ranges::all_of(network.inputs(), [&](const Port& p) {
    if (p.optional) return true;
    const std::vector<int64_t> sizes = sizes_of(p, profile);
    return p.kind == onnx::TypeInfo::Kind::Tensor && p.element != onnx::ElementType::String &&
           std::ranges::find(sizes, -1) == sizes.end();
  });
}

onnx::Values sample_inputs(const Network& network, const OptimizationProfile& profile, int64_t integer) {
  onnx::Values values;
  const autograd::NoGrad off;
  Generator generator(0);
  for (const Port& p : network.inputs()) {
    if (p.optional) {
      values.emplace_back();
      continue;
    }
    const std::vector<int64_t> shape = sizes_of(p, profile);
    const DType dtype = onnx::storage_dtype(p.element);
    const Tensor t = is_floating(dtype) ? to(randn(shape, &generator, TensorOptions(DType::F32)), dtype)
                                        : full(shape, integer, TensorOptions(dtype));
    values.emplace_back(to(t, network.device()),
                        onnx::is_carried(p.element) ? p.element : onnx::ElementType::Undefined);
  }
  return values;
}

size_t tune(Engine& engine, const onnx::Values& inputs, double seconds, TimingCache& cache) {
  const auto context = engine.create_context();
  Runner* runner = context->runner_for(inputs);
  if (!runner) return 0;
  const std::vector<Tensor> given = runner->what().inputs_of(inputs);
  try {
    const Runner::Tuned tuned = runner->tune(given, seconds, cache);
    engine.set_tactics(runner->what().key, tuned.tactics);
    return tuned.measured;
  } catch (const graph::OtherResult& e) {
    engine.give_up(runner->what(), e.what());
    return tune(engine, inputs, seconds, cache);
  }
}

namespace {
// Whether a model says itself which of its values are bytes, and with which scales.
bool has_bytes(const Network& network) {
  return std::ranges::any_of(network.op_counts(), [](const auto& op) {
    return std::ranges::any_of(std::array{"uantize", "QLinear", "Integer", "int8"},
                               [&](const char* part) { return op.first.find(part) != std::string::npos; });
  });
}
}  // namespace

std::shared_ptr<Engine> build(std::shared_ptr<const Network> network, BuilderConfig config) {
  const auto begin = std::chrono::steady_clock::now();
  if (config.int8 && config.calibration.values.empty() && !has_bytes(*network))
    warn(
      "engine: int8 needs a calibration (engine.calibrate; `strata engine quantize --saveTable`, then --calib), or a "
      "model "
      "with QuantizeLinear; without one the engine computes in floats");
  auto engine = std::make_shared<Engine>(std::move(network), std::move(config));
  const BuilderConfig& c = engine->config();
  if (!c.graphs_now) return engine;
  TimingCache cache = c.timing_cache.empty() ? TimingCache() : TimingCache::read(c.timing_cache);
  const size_t known = cache.size();
  std::vector<OptimizationProfile> profiles = c.profiles;
  if (profiles.empty()) profiles.emplace_back();
  for (size_t i = 0; i < profiles.size(); ++i) {
    if (!has_all_sizes(engine->network(), profiles[i])) continue;
    const double share = 1 / static_cast<double>(profiles.size());
    tell(c, fmt::format("graph of profile {}", i), static_cast<double>(i) * share);
    const onnx::Values inputs = make_graph(*engine, profiles[i]);
    if (inputs.empty() || c.level == 0) continue;
    tell(c, fmt::format("kernels of profile {}", i), (static_cast<double>(i) + 0.5) * share);
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    tune(*engine, inputs, std::max(0.0, c.time_limit - spent), cache);
  }
  if (!c.timing_cache.empty() && cache.size() != known) cache.write(c.timing_cache);
  tell(c, "done", 1);
  return engine;
}

std::shared_ptr<Engine> build(const std::string& path, Device device, BuilderConfig config) {
  return build(std::make_shared<OnnxNetwork>(onnx::read_model(path), device), std::move(config));
}

}  // namespace strata::engine
