#include "engine/step.h"
#include "engine/graph_names.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/trace.h"
#include "dispatch/choose.h"
#include "dispatch/settings.h"
#include "dispatch/tuning_store.h"
#include "record/declined.h"

namespace strata::engine {

// --- calls ------------------------------------------------------------------------------------------------------------
NodeProgram::NodeProgram(const Graph& g, const Node& node) {
  Graph alone;
  Node n = node;
  const auto place_of = [&](ValueId id) {
    const auto found = std::ranges::find(uses_, id);
    if (found != uses_.end()) return static_cast<ValueId>(found - uses_.begin());
    uses_.push_back(id);
    alone.values.push_back(g.values[id]);
    return static_cast<ValueId>(uses_.size() - 1);
  };
  for (graph::Argument& a : n.args) {
    if (auto* ref = std::get_if<ValueRef>(&a)) ref->id = place_of(ref->id);
    if (auto* list = std::get_if<ValueList>(&a))
      for (ValueId& id : list->ids)
        if (id != kNoValue) id = place_of(id);
  }
  for (ValueId i = 0; i < uses_.size(); ++i) alone.inputs.push_back(i);
  for (ValueId& id : n.results) {
    if (id == kNoValue) continue;
    results_.push_back(id);
    alone.values.push_back(g.values[id]);
    id = static_cast<ValueId>(alone.values.size() - 1);
    alone.outputs.push_back(id);
  }
  alone.nodes.push_back(std::move(n));
  program_.emplace(std::move(alone));
}

void NodeProgram::run(std::vector<Tensor>& values) const {
  std::vector<Tensor> inputs;
  inputs.reserve(uses_.size());
  for (const ValueId id : uses_) inputs.push_back(values[id]);
  std::vector<Tensor> results = program_->run(inputs);
  for (size_t i = 0; i < results_.size(); ++i) values[results_[i]] = std::move(results[i]);
}

// --- arguments --------------------------------------------------------------------------------------------------------
void Step::bind(const Graph& g, const Node& n, const std::vector<Tensor>& values) {
  args.size = static_cast<uint32_t>(n.args.size());
  lists_.reserve(n.args.size());
  list_of_arg_.assign(n.args.size(), 0);
  for (uint32_t i = 0; i < args.size; ++i) {
    args[i] = std::visit(
      [&](const auto& v) -> Value {
        using T = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<T, ValueRef>) {
          if (!values[v.id]) late_.push_back({i, kWhole, v.id});
          else held_.push_back(values[v.id]);
          return Value(values[v.id]);
        } else if constexpr (std::is_same_v<T, ValueList>) {
          list_of_arg_[i] = lists_.size();
          std::vector<Tensor>& list = lists_.emplace_back();
          for (const ValueId id : v.ids) {
            if (id != kNoValue && !values[id]) late_.push_back({i, list.size(), id});
            list.push_back(id == kNoValue ? Tensor() : values[id]);
          }
          return Value(TensorList(std::span<const Tensor>(list)));
        } else if constexpr (std::is_same_v<T, graph::ComplexNumber>) {
          return Value(static_cast<const Complex<double>*>(&v));
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          return Value(IntList(v));
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          return Value(std::span<const double>(v));
        } else if constexpr (std::is_same_v<T, std::string>) {
          return Value(std::string_view(v));
        } else if constexpr (std::is_same_v<T, graph::Size> || std::is_same_v<T, graph::Sizes>) {
          fail(ErrorKind::Internal, "engine: a size that varies in '" + name_of(g, n) + "'");
        } else {
          return Value(v);
        }
      },
      n.args[i]);
  }
}

void Step::bind_copy(const Tensor& to, const Tensor& from) {
  held_ = {to, from};
  outs = {to};
  args = Args(to, from, false);
}

void Step::refresh(const std::vector<Tensor>& values) {
  for (const Late& late : late_) {
    if (late.item == kWhole) args[late.arg] = Value(values[late.id]);
    else lists_[list_of_arg_[late.arg]][late.item] = values[late.id];
  }
}

// --- kernels ----------------------------------------------------------------------------------------------------------
// Dispatch prepares some calls before a kernel runs (dispatch/call.cpp): those are left to it.
bool Step::can_be_direct() const {
  if (thread_state.reference_only || kernels().empty() || !late_.empty() || op->crosses) return false;
  if (op->formulas && !is_floating(outs[0].dtype())) return false;  // integers may have to wrap
  const auto usual = [&](const TensorImpl& t) {
    return !is_complex(t.dtype) && t.dtype != DType::U64 && t.device.type == device.type;
  };
  for (const Tensor& t : outs)
    if (!usual(*t)) return false;
  for (uint32_t i = 0; i < args.size; ++i) {
    if (args[i].tag == Tag::Complex || (args.is_tensor(i) && !usual(args.tensor(i)))) return false;
    if (args[i].tag == Tag::Tensors)
      for (const Tensor& t : args[i].tensor_list())
        if (t && !usual(*t)) return false;
  }
  return true;
}

bool Step::accepts(const Kernel& k, Plan& p, std::string* reason) const {
  p.reset();
  const char* why = k.objection(bound(), p);
  if (!why && k.plans() && p.workspace > workspace_limit()) why = "needs more workspace than the limit";
  if (why && reason) *reason = why;
  return !why;
}

void Step::choose(const std::string* name) {
  plan.reset();
  direct = can_be_direct();
  kernel = nullptr;
  if (!direct) return;
  for (const Kernel& k : kernels())
    if (name && *name == k.name && accepts(k, plan)) kernel = &k;
  for (const Kernel& k : kernels()) {
    if (kernel) break;
    if (accepts(k, plan)) kernel = &k;
  }
  direct = kernel != nullptr;  // dispatch says why none accepts the call
  if (!direct) return;
  plan.reset();
  (void)kernel->objection(bound(), plan);
}

void Step::run(const TensorImpl* workspace) const {
  Call c = bound();
  if (!direct || thread_state.reference_only || thread_state.explain) return run_kernel(c);
  const tracing::Span span(tracing::Layer::Kernel, kernel->name);
  if (!kernel->plans()) return kernel->run(c);
  c.workspace = plan.workspace ? workspace : nullptr;
  try {
    if (kernel->run_plan) return kernel->run_plan(c, plan);
    Workspace memory(c);
    kernel->run_in(c, memory);
  } catch (const Declined&) {
    c.workspace = nullptr;
    run_kernel(c);
  }
}

double Step::time_of(const Kernel& k) const {
  constexpr double kRoundUs = 200;
  const Call c = bound();
  Plan p;
  p.reset();
  (void)k.objection(c, p);
  const auto microseconds = [&](int calls) {
    if (device.type != DeviceType::Cpu) cuda::synchronize(device);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) strata::run(k, c, p);
    if (device.type != DeviceType::Cpu) cuda::synchronize(device);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / calls;
  };
  for (int warm = 0; warm < 2; ++warm) microseconds(1);
  double best = microseconds(1);
  const int calls = static_cast<int>(std::clamp(kRoundUs / std::max(best, 0.01), 1.0, 20.0));
  for (int i = 0; i < 3; ++i) best = std::min(best, microseconds(calls));
  return best;
}

bool Step::tune(TimingCache& cache, bool only_cached) {
  std::vector<const Kernel*> ready;
  Plan p;
  for (const Kernel& k : kernels())
    if (accepts(k, p)) ready.push_back(&k);
  if (ready.size() < 2) return false;
  const std::string where = device_key(device), what = signature_of(bound());
  TimingCache::Times times;
  if (const auto known = cache.find(where, what)) times = *known;
  const auto is_known = [&](const Kernel* k) { return times.contains(k->name); };
  if (!std::ranges::all_of(ready, is_known)) {
    if (only_cached) return false;
    for (const Kernel* k : ready) {
      // the reference at the end of a list may take minutes
      const bool slow = k == ready.back() && device.type == DeviceType::Cpu;
      if (!slow) times[k->name] = time_of(*k);
      else times.emplace(k->name, HUGE_VAL);
    }
    TimingCache::Times finite;
    for (const auto& [name, us] : times) finite[name] = std::min(us, 1e30);
    cache.add(where, what, std::move(finite));
  }
  const auto best = std::ranges::min_element(ready, {}, [&](const Kernel* k) { return times.at(k->name); });
  const std::string name = (*best)->name;
  choose(&name);
  return true;
}

LayerProfile Step::describe(const Graph& g) const {
  const Node& n = g.nodes[node];
  LayerProfile layer;
  layer.name = engine::name_of(g, n);
  layer.op = op->name;
  layer.bytes = bytes_of(g, n);
  layer.flops = flops_of(g, n);
  if (!direct) return layer;
  layer.kernel = kernel->name;
  layer.source = strata::name_of(kernel->source);
  Plan p;
  for (const Kernel& k : kernels()) {
    if (&k == kernel) continue;
    std::string reason;
    if (accepts(k, p, &reason)) reason = &k > kernel ? "comes later" : "was slower";
    layer.rejected.emplace_back(k.name, reason);
  }
  return layer;
}

}  // namespace strata::engine
