#include "engine/quantize/calibrate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/autograd.h"
#include "engine/passes/inference.h"
#include "engine/quantize/insert.h"
#include "engine/specialize.h"
#include "onnx/save.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

constexpr size_t kMostKept = 4;  // samples that errors are measured with

// A layer that bytes can compute.
struct ByteLayer {
  size_t at;
  std::string name;
  ValueId input, result;
};

std::vector<ByteLayer> layers_of(const Graph& g) {
  Graph copy = g;
  const PassOptions none;
  const Rewriter r(copy, none, "calibrate");
  std::vector<ByteLayer> layers;
  for (size_t at = 0; at < r.size(); ++at)
    if (const std::string name = layer_name(r, at); !name.empty())
      layers.push_back({at, name, r.value(r.node(at), "input"), r.node(at).results[0]});
  return layers;
}

// A network of fixed sizes in float32.
class FloatGraph {
 public:
  FloatGraph(const Network& network, const onnx::Values& inputs) {
    std::string reason;
    const PassOptions options;
    made_ = specialize(network, inputs, options, reason);
    STRATA_CHECK(made_, NotImplemented, "calibrate: the network cannot be a graph, which int8 needs: {}", reason);
    layers_ = layers_of(graph());
    STRATA_CHECK(!layers_.empty(), Value,
                 "calibrate: the network has no convolution or linear layer with constant "
                 "weights in float32, so int8 has nothing to do");
  }
  const Graph& graph() const { return made_->graph(); }
  const std::vector<ByteLayer>& layers() const { return layers_; }
  std::vector<Tensor> inputs_of(const onnx::Values& values) const { return made_->inputs_of(values); }

  // Calls f(value, tensor) for the inputs and the results of all nodes.
  template <class F> void follow(const onnx::Values& values, const F& f) const {
    const std::vector<Tensor> inputs = inputs_of(values);
    for (size_t i = 0; i < inputs.size(); ++i) f(graph().inputs[i], inputs[i]);
    made_->program->inspect(inputs, [&](const Node&, ValueId id, const Tensor& t) { f(id, t); });
  }

 private:
  std::shared_ptr<const Specialization> made_;
  std::vector<ByteLayer> layers_;
};

void make_bytes(Graph& g, const CalibrationTable& table) {
  const PassOptions none;
  insert_bytes(g, table, none);
  fuse_bytes(g, none);
}

// The squares of the error and of the values.
struct Error {
  double error = 0, size = 0;
  void add(const Tensor& got, const Tensor& want) {
    const Tensor a = to(to(got, Device()), DType::F64), b = to(to(want, Device()), DType::F64);
    error += sum(square(sub(a, b))).item<double>();
    size += sum(square(b)).item<double>();
  }
  double relative() const {
    if (error == 0) return 0;
    const double e = size > 0 ? std::sqrt(error / size) : 1e30;
    return std::isfinite(e) ? e : 1e30;
  }
};

// One layer alone, with the values that go into it in float32.
Error error_of(const Graph& g, const ByteLayer& layer, const CalibrationTable& table,
               const std::map<ValueId, Tensor>& values, const Tensor& want) {
  Graph alone;
  alone.values = g.values;
  alone.nodes = {g.nodes[layer.at]};
  alone.outputs = {layer.result};
  std::vector<Tensor> inputs;
  std::set<ValueId> used;
  graph::for_each_use(g.nodes[layer.at], [&](ValueId id) { used.insert(id); });
  for (const Graph::State& s : g.states)
    if (used.erase(s.id)) alone.states.push_back(s);
  for (const ValueId id : used) {
    alone.inputs.push_back(id);
    inputs.push_back(values.at(id));
  }
  make_bytes(alone, table);
  Error e;
  e.add(graph::run(alone, inputs)[0], want);
  return e;
}

class Calibration {
 public:
  Calibration(const Network& network, const CalibrationOptions& options) : network_(network), options_(options) {
    STRATA_CHECK(options.percentile > 0 && options.percentile <= 100, Value,
                 "calibrate: percentile is {}; expected more than 0 and at most 100", options.percentile);
    STRATA_CHECK(options.max_error >= 0, Value, "calibrate: max_error is {}; expected 0 or more", options.max_error);
    static constexpr const char* kNames[] = {"entropy", "min-max", "percentile"};
    table_.method = kNames[static_cast<size_t>(options.method)];
  }

  void observe(const onnx::Values& values) {
    const FloatGraph& f = graph_for(values);
    std::set<ValueId> wanted;
    for (const ByteLayer& l : f.layers()) wanted.insert(l.input);
    f.follow(values, [&](ValueId id, const Tensor& t) {
      note_large(f.graph().values[id].name, t);
      if (!wanted.contains(id)) return;
      const Tensor x = contiguous(to(to(t, Device()), DType::F32));
      histograms_[table_name(f.graph().values[id].name)].add(x.data<float>(), x.numel());
    });
    ++table_.samples;
    if (kept_.size() < kMostKept) kept_.push_back(values);
  }

  CalibrationTable finish() {
    STRATA_CHECK(table_.samples > 0, Value, "calibrate: there are no samples; give at least one");
    for (const auto& [name, h] : histograms_) {
      CalibrationTable::Range& r = table_.values[name];
      r.largest = h.largest();
      r.threshold = options_.method == Calibrator::MinMax    ? h.largest()
                    : options_.method == Calibrator::Entropy ? h.entropy_threshold()
                                                             : h.percentile_threshold(options_.percentile);
    }
    measure_layers();
    if (options_.max_error > 0) keep_worst_in_floats();
    return table_;
  }

 private:
  const FloatGraph& graph_for(const onnx::Values& values) {
    std::unique_ptr<FloatGraph>& f = graphs_[key_of(values)];
    if (!f) f = std::make_unique<FloatGraph>(network_, values);
    return *f;
  }

  // Sums of values in float16 should stay in its range too.
  void note_large(const std::string& value, const Tensor& t) {
    constexpr double kLargest = 65504.0 / 2;
    if (!is_floating(t.dtype()) || t.numel() == 0) return;
    const double largest = amax(abs(t)).item<double>();
    if (largest < kLargest) return;
    double& known = table_.large[table_name(value)];
    known = std::max(known, std::isfinite(largest) ? largest : 1e38);
  }

  void measure_layers() {
    std::map<std::string, Error> errors;
    for (const onnx::Values& sample : kept_) {
      const FloatGraph& f = graph_for(sample);
      std::map<ValueId, Tensor> values;
      f.follow(sample, [&](ValueId id, const Tensor& t) { values[id] = t; });
      for (const ByteLayer& l : f.layers()) {
        const Error e = error_of(f.graph(), l, table_, values, values.at(l.result));
        errors[l.name].error += e.error;
        errors[l.name].size += e.size;
      }
    }
    for (const auto& [name, e] : errors) table_.errors[name] = e.relative();
  }

  double output_error() {
    std::vector<Error> errors;
    for (const onnx::Values& sample : kept_) {
      const FloatGraph& f = graph_for(sample);
      Graph bytes = f.graph();
      make_bytes(bytes, table_);
      const std::vector<Tensor> inputs = f.inputs_of(sample), want = graph::run(f.graph(), inputs),
                                got = graph::run(bytes, inputs);
      errors.resize(want.size());
      for (size_t i = 0; i < want.size(); ++i)
        if (is_floating(want[i].dtype())) errors[i].add(got[i], want[i]);
    }
    double worst = 0;
    for (const Error& e : errors) worst = std::max(worst, e.relative());
    return worst;
  }

  void keep_worst_in_floats() {
    std::vector<std::pair<double, std::string>> layers;
    for (const auto& [name, error] : table_.errors) layers.emplace_back(error, name);
    std::ranges::sort(layers, std::greater<>());
    for (size_t count = 0; output_error() > options_.max_error && count < layers.size();) {
      count = std::min(layers.size(), std::max<size_t>(1, 2 * count));
      table_.floats.clear();
      for (size_t i = 0; i < count; ++i) table_.floats.push_back(layers[i].second);
    }
  }

  const Network& network_;
  const CalibrationOptions options_;
  std::map<std::string, std::unique_ptr<FloatGraph>> graphs_;  // by the sizes of inputs
  std::map<std::string, Histogram> histograms_;
  std::vector<onnx::Values> kept_;
  CalibrationTable table_;
};
}  // namespace

Calibrator calibrator_of(const std::string& name) {
  if (name == "entropy") return Calibrator::Entropy;
  if (name == "min-max" || name == "minmax") return Calibrator::MinMax;
  if (name == "percentile") return Calibrator::Percentile;
  fail(ErrorKind::Value,
       fmt::format("calibrate: method '{}' is unknown; expected 'entropy', 'min-max' or 'percentile'", name));
}

CalibrationTable calibrate(const Network& network, const Samples& next, const CalibrationOptions& options) {
  const autograd::NoGrad off;
  Calibration calibration(network, options);
  while (const std::optional<onnx::Values> values = next()) calibration.observe(*values);
  return calibration.finish();
}

size_t save_quantized(const Network& network, const onnx::Values& inputs, const CalibrationTable& table,
                      const std::string& path) {
  const autograd::NoGrad off;
  PassOptions options;
  options.only_layers = true;
  std::string reason;
  const auto made = specialize(network, inputs, options, reason);
  STRATA_CHECK(made, NotImplemented, "quantize: the network cannot be a graph, which a model with int8 needs: {}",
               reason);
  Graph g = made->graph();
  const size_t layers = insert_bytes(g, table, options);
  onnx::SaveOptions how;
  for (const Port& p : network.outputs()) how.output_names.push_back(p.name);
  onnx::save(g, path, how);
  return layers;
}

}  // namespace strata::engine
