#include "engine/specialize.h"
#include "engine/graph_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "autograd/autograd.h"
#include "compile/capture.h"
#include "compile/sharing.h"
#include "dispatch/autocast.h"
#include "dispatch/settings.h"
#include "engine/passes/retype.h"
#include "strata/ops.h"

namespace strata::engine {

std::string objection_to_shapes(const Graph& g, const Node& n) {
  if (!n.bodies.empty()) return fmt::format("{} decides by values", n.op->name);
  if (n.form != Form::Plain || graph::count_written(n)) return {};  // what is written to has a shape already
  bool any = false;
  graph::for_each_use(n, [&](ValueId) { any = true; });
  if (!any) return {};
  try {
    result_types(g, n);
  } catch (const Error& e) { return e.what(); }
  return {};
}

// --- constants --------------------------------------------------------------------------------------------------------
static bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a->storage.get() == b->storage.get() && a->data == b->data) return true;
  if (a.is_cpu()) return std::memcmp(a->data, b->data, a.nbytes()) == 0;
  const auto bits = [](const Tensor& t) {  // NaN is equal to itself
    Tensor same = alias(*t);
    same->dtype = DType::U8;
    same->set_shape(Shape({static_cast<int64_t>(t.nbytes())}));
    same->set_contiguous_strides();
    return same;
  };
  return all(eq(bits(a), bits(b))).item<bool>();
}

Tensor ConstantStore::find(const Tensor& t) const {
  const auto [begin, end] = kept_.equal_range(static_cast<int64_t>(t.nbytes()));
  for (auto at = begin; at != end; ++at) {
    const Tensor& known = at->second;
    if (graph::type_of(*known) == graph::type_of(*t) && same_bytes(known, t)) return known;
  }
  return {};
}

void ConstantStore::share(Graph& g) {
  const std::lock_guard lock(lock_);
  std::erase_if(kept_, [](const auto& entry) { return entry.second->refs.load() == 1; });  // of graphs that are gone
  std::vector<Tensor> fresh;
  for (Graph::State& s : g.states) {
    if (!s.tensor->is_dense() || !s.tensor->storage || s.tensor.numel() == 0) continue;
    if (const Tensor known = find(s.tensor)) s.tensor = known;
    else fresh.push_back(s.tensor);
  }
  for (const Tensor& t : fresh) kept_.emplace(static_cast<int64_t>(t.nbytes()), t);
}

size_t ConstantStore::bytes() const {
  const std::lock_guard lock(lock_);
  size_t sum = 0;
  for (const auto& [bytes, t] : kept_) sum += static_cast<size_t>(bytes);
  return sum;
}

std::string key_of(std::span<const onnx::Value> inputs) {
  std::string key;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i) key += ';';
    if (!inputs[i].tensor) {
      key += inputs[i].defined() ? '*' : '-';
      continue;
    }
    bool first = true;
    for (const int64_t n : inputs[i].tensor.shape()) {
      if (!first) key += 'x';
      key += std::to_string(n);
      first = false;
    }
  }
  return key;
}

namespace {

bool is_plain_tensor(const onnx::Value& v) { return v.tensor && v.carried == onnx::ElementType::Undefined; }

// What a run of the network is for a capture: some of its inputs are those of the graph.
struct Followed {
  const Network& network;
  std::vector<onnx::Value> values;
  std::vector<size_t> given;
  std::vector<onnx::ElementType> carried = {};
  std::string objection = {};

  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) values[given[i]] = onnx::Value(inputs[i]);
    std::vector<Tensor> outputs;
    for (const onnx::Value& v : network.run(values)) {
      STRATA_CHECK(v.tensor, NotImplemented, "output '{}' is {}, not a tensor", network.outputs()[outputs.size()].name,
                   onnx::kind_of(v));
      outputs.push_back(v.tensor);
      carried.push_back(v.carried);
    }
    return outputs;
  }
};

}  // namespace

std::shared_ptr<const Specialization> specialize(const Network& network, std::span<const onnx::Value> inputs,
                                                 const PassOptions& options, std::string& reason,
                                                 ConstantStore* constants) {
  Followed followed{network, {inputs.begin(), inputs.end()}, {}};
  std::vector<Tensor> tensors;
  graph::CaptureOptions how;
  how.allow_constant_reads = true;
  how.composites = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    if (!is_plain_tensor(inputs[i])) {
      reason = fmt::format("input '{}' is {}", network.inputs()[i].name, onnx::kind_of(inputs[i]));
      return nullptr;
    }
    followed.given.push_back(i);
    const Tensor& t = inputs[i].tensor;
    tensors.push_back(t.device() == network.device() ? alias(*t) : to(t, network.device()));
    how.input_names.push_back(network.inputs()[i].name);
  }
  auto s = std::make_shared<Specialization>();
  s->key = key_of(inputs);
  Graph g;
  try {
    const autograd::NoGrad off;
    const autocast::Off same_dtypes;
    const Scoped scope(graph::capture_scope(), std::string());
    g = graph::capture([&](const std::vector<Tensor>& given) { return followed(given); }, tensors, how);
    if (network.device().type != DeviceType::Cpu) cuda::synchronize(network.device());  // its errors belong to this run
  } catch (const Error& e) {
    reason = e.what();
    return nullptr;
  }
  for (const Node& n : g.nodes) {
    reason = objection_to_shapes(g, n);
    if (!reason.empty()) return nullptr;
  }
  if (!g.writes.empty()) {
    reason = "it writes to its inputs or weights";
    return nullptr;
  }
  s->nodes_captured = g.nodes.size();
  s->given = std::move(followed.given);
  s->carried = std::move(followed.carried);
  PassOptions with_decisions = options;
  with_decisions.decisions = &s->decisions;
  optimize(g, with_decisions);
  if (constants) constants->share(g);
  s->program = std::make_shared<const graph::Program>(std::move(g));
  plan_memory(*s);
  return s;
}

// --- memory -----------------------------------------------------------------------------------------------------------
namespace {

StepKind kind_of(const Node& n, const Graph& g) {
  if (n.form == Form::Plain && n.op->name == "reshape") return StepKind::View;  // where it is one
  if (n.form != Form::Plain || graph::count_written(n) || n.op->returns_list || !n.bodies.empty() || n.op->composite_fn)
    return StepKind::Call;
  if (n.op->view_fn) return StepKind::View;
  if (!n.op->infer_fn || n.op->random) return StepKind::Call;
  for (size_t k = 0; k < n.results.size(); ++k)  // an op that is given None for a result returns none there
    if (n.results[k] == kNoValue || graph::Sharing::of_result(n, k)) return StepKind::Call;
  bool complex = false;
  graph::for_each_use(n, [&](ValueId id) { complex |= is_complex(g.values[id].type.dtype); });
  if (complex && n.op->complex_fn) return StepKind::Call;
  const Device device = n.results.empty() ? Device() : g.values[n.results[0]].type.device;
  const Backend backend = device.type == DeviceType::Cpu ? Backend::Cpu : Backend::Cuda;
  return n.results.empty() || n.op->kernels(backend).empty() ? StepKind::Call : StepKind::Kernel;
}

size_t bytes_of(const ValueType& type) {
  if (checked_numel(type.shape) == 0) return 0;
  int64_t last = 0;  // the largest position of an element
  for (size_t d = 0; d < type.shape.size(); ++d) last += (type.shape[d] - 1) * type.strides[d];
  return static_cast<size_t>(last + 1) * size_of(type.dtype);
}

}  // namespace

void plan_memory(Specialization& s) {
  const Graph& g = s.graph();
  const graph::Sharing sharing(g);
  constexpr uint32_t kEnd = UINT32_MAX;
  std::vector<uint32_t> last(g.values.size(), 0);  // by root: the last step that uses the memory
  const auto use = [&](ValueId id, uint32_t step) { last[sharing.root(id)] = std::max(last[sharing.root(id)], step); };
  for (uint32_t i = 0; i < g.nodes.size(); ++i) graph::for_each_use(g.nodes[i], [&](ValueId id) { use(id, i); });
  std::vector<bool> returned(g.values.size(), false);
  for (const ValueId id : g.outputs) {
    use(id, kEnd);
    returned[id] = true;
  }
  s.kinds.clear();
  s.out_blocks.clear();
  s.blocks.clear();
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    std::vector<uint32_t>& blocks = s.out_blocks.emplace_back(n.results.size(), Specialization::kNoBlock);
    s.kinds.push_back(kind_of(n, g));
    if (s.kinds.back() != StepKind::Kernel) continue;
    for (size_t k = 0; k < n.results.size(); ++k) {
      const ValueId id = n.results[k];
      if (returned[id]) continue;  // it is written where the caller wants it
      blocks[k] = static_cast<uint32_t>(s.blocks.size());
      s.blocks.push_back({bytes_of(g.values[id].type), i, std::max(i, last[sharing.root(id)])});
    }
  }
  s.arena_bytes = place(s.blocks);
}

}  // namespace strata::engine
