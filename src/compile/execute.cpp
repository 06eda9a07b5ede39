// Runs a graph by calling its records in order.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "autograd/autograd.h"
#include "compile/control.h"
#include "compile/control_flow.h"
#include "dispatch/deferred.h"
#include "dispatch/observer.h"
#include "dispatch/source_line.h"
#include "strata/ops.h"

namespace strata::graph {
namespace {

// How often each value is used.
std::vector<uint32_t> uses_of_body(const Graph& g) {
  std::vector<uint32_t> uses(g.values.size(), 0);
  for (const Node& n : g.nodes) for_each_use(n, [&](ValueId id) { ++uses[id]; });
  for (const ValueId id : g.outputs) ++uses[id];
  return uses;
}
// What is given is used once more: by the caller.
std::vector<uint32_t> uses_of(const Graph& g) {
  std::vector<uint32_t> uses = uses_of_body(g);
  for (const Graph::Write& w : g.writes) ++uses[w.value];
  for (const ValueId id : g.inputs) ++uses[id];
  for (const Graph::State& s : g.states) ++uses[s.id];
  return uses;
}

class Execution {
 public:
  Execution(const Graph& g, const RunPlan& plan, const std::vector<Tensor>& inputs)
      : g_(g), values_(g.values.size()), uses_(plan.uses), plan_(&plan) {
    STRATA_CHECK(inputs.size() == g.inputs.size(), Value, "graph: expected {} inputs, found {}", g.inputs.size(),
                 inputs.size());
    find_dims(inputs);
    for (size_t i = 0; i < inputs.size(); ++i) values_[g.inputs[i]] = fitting(inputs[i], g.inputs[i]);
    for (const Graph::State& s : g.states) values_[s.id] = s.tensor;
    overwrites_ = plan.overwrites && targets_share_nothing(inputs);
  }

  // Of a body, whose arguments nobody else needs.
  Execution(const Graph& g, std::vector<uint32_t> uses, std::vector<Tensor>&& inputs, const std::vector<int64_t>& dims)
      : g_(g), values_(g.values.size()), uses_(std::move(uses)), dims_(dims) {
    STRATA_CHECK(inputs.size() == g.inputs.size(), Value, "graph: a function with {} arguments got {}", g.inputs.size(),
                 inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (uses_[g.inputs[i]]) values_[g.inputs[i]] = fitting(inputs[i], g.inputs[i]);
      inputs[i] = {};
    }
  }

  void set_numbers(const std::vector<Program::NumberPlace>& places, std::span<const double> numbers) {
    places_ = places;
    numbers_given_ = numbers;
  }
  void inspect(const Program::Inspect& look) {
    look_ = &look;
    overwrites_ = false;
    run();
  }
  std::vector<Tensor> run() {
    const Scoped<const std::string*> line(replayed_line, replayed_line);
    for (const Node& n : g_.nodes) {
      if (checks_compiled()) replayed_line = &n.source;
      if (n.bodies.empty()) run(n);
      else run_control(n);
      for_each_use(n, [&](ValueId id) { release(id); });
    }
    std::vector<Tensor> outputs;
    for (const ValueId id : g_.outputs) outputs.push_back(values_[id]);
    return outputs;
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> outputs = run();
    static const OpRecord& copy = find_op("copy");
    for (size_t i = 0; i < g_.writes.size(); ++i) {
      const Tensor &target = target_of(i, inputs), &value = values_[g_.writes[i].value];
      if (target.get() == value.get()) continue;                    // written where it is
      const bool leaf = target->requires_grad && !target->history;  // the program has written to it without gradients
      const Scoped grad(thread_state.grad_mode, thread_state.grad_mode && !leaf);
      call_inplace(copy, Args(target, value, false));
    }
    return outputs;
  }

 private:
  static constexpr int64_t kUnknown = -1;

  // The sizes of the dimensions that vary in this run.
  void find_dims(const std::vector<Tensor>& inputs) {
    dims_.assign(g_.dims.size(), kUnknown);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Graph::Value& want = g_.values[g_.inputs[i]];
      if (!inputs[i] || want.shape.size() != static_cast<size_t>(inputs[i].dim())) continue;  // refused later
      for (size_t axis = 0; axis < want.shape.size(); ++axis)
        for (size_t d = 0; d < dims_.size(); ++d)
          if (want.shape[axis] == size_of_dim(d) && dims_[d] == kUnknown) dims_[d] = inputs[i]->shape[axis];
    }
    for (size_t d = 0; d < dims_.size(); ++d)
      STRATA_CHECK(dims_[d] == kUnknown || (dims_[d] >= g_.dims[d].min && dims_[d] <= g_.dims[d].max), Value,
                   "graph: dimension '{}' has size {}; it may have {} to {}", g_.dims[d].name, dims_[d], g_.dims[d].min,
                   g_.dims[d].max);
  }
  std::vector<int64_t> evaluated(const Sizes& sizes) const {
    std::vector<int64_t> list;
    for (const Size& s : sizes) list.push_back(evaluate(s, dims_));
    return list;
  }
  // The type of a value in this run.
  ValueType type_now(ValueId id) const {
    const Graph::Value& v = g_.values[id];
    ValueType type = v.type;
    if (!v.shape.empty()) type.shape = evaluated(v.shape);
    if (!v.strides.empty()) type.strides = evaluated(v.strides);
    return type;
  }

  Tensor fitting(const Tensor& given, ValueId id) const {
    const Graph::Value& want = g_.values[id];
    STRATA_CHECK(given, Type, "graph: input '{}' is an undefined tensor; expected {}", want.name,
                 to_string(want, g_.dims));
    if (is_as_captured(*given, want)) return given;
    const ValueType found = type_of(*given);
    const bool fits = found.dtype == want.type.dtype && found.device == want.type.device &&
                      found.shape.size() == want.type.shape.size();
    const ValueType type = fits ? type_now(id) : want.type;
    STRATA_CHECK(
      fits && found.shape == type.shape, Value,
      "graph: input '{}' is {}; the graph was captured with {}. Capture it again for other shapes, dtypes and "
      "devices",
      want.name, to_string(found), to_string(want, g_.dims));
    if (same_layout(found, type)) return given;
    static const OpRecord& clone = find_op("clone_strided");
    return call(clone, Args(given, IntList(type.strides)));
  }
  const Tensor& target_of(size_t write, const std::vector<Tensor>& inputs) const {
    const auto [is_state, index] = plan_->targets[write];
    return is_state ? g_.states[index].tensor : inputs[index];
  }
  void release(ValueId id) {
    if (--uses_[id] == 0) values_[id] = {};
  }

  // Whether no other input or state has the memory of one that is written to.
  bool targets_share_nothing(const std::vector<Tensor>& inputs) const {
    const auto memory_of = [](const Tensor& t) { return t->storage.get(); };
    const auto of_state = [&](const Graph::State& s) { return memory_of(s.tensor); };
    if (!std::ranges::equal(g_.states, plan_->state_memory, {}, of_state)) return false;  // it has been replaced
    for (const Tensor& t : inputs)
      if (std::ranges::binary_search(plan_->written, memory_of(t))) return false;
    return std::ranges::all_of(plan_->targets, [&](const RunPlan::Target& target) {
      if (target.is_state) return true;
      const Storage* memory = memory_of(inputs[target.index]);
      return std::ranges::count(inputs, memory, memory_of) == 1 &&
             std::ranges::find(plan_->state_memory, memory) == plan_->state_memory.end();
    });
  }
  // A tensor with a value that a call overwrites: its own, if nobody needs the old value, or can see its memory.
  Tensor copy_for(ValueId id, ValueId result, const Tensor& t) {
    static const OpRecord& clone = find_op("clone");
    if (thread_state.grad_mode) return call(clone, Args(t, Value()));
    const bool own = uses_[id] == 1 && t->refs.load() == 2 && t->storage && t->storage->refs.load() == 1;
    return own || (overwrites_ && plan_->overwriting[result]) ? t : call(clone, Args(t, Value()));
  }
  // Replaces what the call overwrites by copies, which it returns: undefined for a None in a list.
  std::vector<Tensor> copy_overwritten(const Node& n, Args& args) {
    std::vector<Tensor> copies;
    const uint16_t written = n.form == Form::InPlace ? 1 : written_by(n);
    if (!written) return copies;
    const size_t count = n.form == Form::InPlace ? 1 : count_written(n), first = n.results.size() - count;
    copies.reserve(count);
    auto list = lists_.begin();
    for (uint32_t i = 0; i < args.size; ++i) {
      const auto* ids = std::get_if<ValueList>(&n.args[i]);
      std::vector<Tensor>* items = ids ? &*list++ : nullptr;
      if (!(written >> i & 1)) continue;
      const auto replace = [&](ValueId id, const Tensor& t) {
        return copies.emplace_back(t ? copy_for(id, n.results[first + copies.size()], t) : Tensor());
      };
      if (ids) {
        for (size_t k = 0; k < items->size(); ++k) (*items)[k] = replace(ids->ids[k], (*items)[k]);
      } else {
        STRATA_CHECK(args.is_tensor(i), Value, "graph: {} writes to '{}', which is no tensor", n.op->name,
                     n.op->params[i].name);
        args[i] = Value(replace(std::get<ValueRef>(n.args[i]).id, args.share(i)));
      }
    }
    return copies;
  }

  void run(const Node& n) {
    const Scoped grad(thread_state.grad_mode, thread_state.grad_mode && !n.no_grad);
    lists_.clear();
    numbers_.clear();
    Args args;
    args.size = static_cast<uint32_t>(n.args.size());
    for (uint32_t i = 0; i < args.size; ++i) args[i] = value_of(n.args[i]);
    if (const auto at = static_cast<size_t>(&n - g_.nodes.data()); !places_.empty() && places_[0].node == at)
      for (; !places_.empty() && places_[0].node == at; places_ = places_.subspan(1))
        args[static_cast<uint32_t>(places_[0].arg)] = numbers_given_[places_[0].number];
    if (n.form == Form::InPlace && thread_state.grad_mode && run_as_plain(n, args)) return;
    std::vector<Tensor> copies = copy_overwritten(n, args);
    if (n.op->returns_list && n.form == Form::Plain) {
      std::vector<Tensor> results = call_list(*n.op, args);
      STRATA_CHECK(results.size() + copies.size() == n.results.size(), Runtime,
                   "graph: {} returned {} results; it was captured with {}", n.op->name, results.size(),
                   n.results.size() - copies.size());
      keep_all(n, 0, results);
      return keep_all(n, results.size(), copies);
    }
    Tensor results[kMaxOutputs];
    const size_t count = n.op->outputs;
    if (n.form == Form::InPlace) {
      results[0] = call_inplace(*n.op, args);
    } else if (n.form == Form::Out) {
      for (size_t k = 0; k < count; ++k) results[k] = memory_for(type_now(n.results[k]));
      call_out(*n.op, args, results);
    } else {
      std::optional<OnDeviceOf> there;  // an op without tensors makes them where it did
      if (!n.op->needed && !n.results.empty() && n.results[0] != kNoValue)
        there.emplace(g_.values[n.results[0]].type.device);
      call_into(*n.op, args, results);
      keep_all(n, count, copies);
    }
    keep_all(n, 0, std::span(results, count));
  }
  // x.mul_(x): the sum of gradients of x has eager's order if no copy takes the place of one x.
  bool run_as_plain(const Node& n, const Args& args) {
    const ValueId self = std::get<ValueRef>(n.args[0]).id;
    uint32_t times = 0;
    for_each_use(n, [&](ValueId id) { times += id == self; });
    if (times < 2 || !n.op->formulas) return false;
    Tensor result = call(*n.op, args);
    if (!is_as_captured(*result, g_.values[n.results[0]])) return false;
    keep_all(n, 0, {&result, 1});
    return true;
  }
  std::vector<Tensor> values_of(const std::vector<ValueId>& ids) const {
    std::vector<Tensor> list;
    list.reserve(ids.size());
    for (const ValueId id : ids) list.push_back(values_[id]);
    return list;
  }
  // Calls a body several times.
  auto caller_of(const Graph& body, const std::vector<Tensor>& others = {}) const {
    return [this, &body, &others, uses = uses_of_body(body)](Tensors inputs) {
      inputs.insert(inputs.end(), others.begin(), others.end());
      return Execution(body, uses, std::move(inputs), dims_).run();
    };
  }
  int64_t integer_of(const Argument& a) const {
    if (const auto* size = std::get_if<Size>(&a)) return evaluate(*size, dims_);
    if (const auto* is = std::get_if<bool>(&a)) return *is;
    return std::get<int64_t>(a);
  }

  void run_control(const Node& n) {
    const Scoped grad(thread_state.grad_mode, thread_state.grad_mode && !n.no_grad);
    const Control control = control_of(*n.op);
    std::set<const Storage*> outside;
    for_each_use(n, [&](ValueId id) {
      if (values_[id]->storage) outside.insert(values_[id]->storage.get());
    });
    std::vector<Tensor> results;
    if (current_observer()) {
      results = run_observed(n, control);
    } else if (control == Control::Cond) {
      const bool taken = truth_of(values_[std::get<ValueRef>(n.args[kPred]).id], "cond: pred");
      results = caller_of(n.bodies[taken ? 0 : 1])(values_of(list_of(n, kOperands)));
    } else if (control == Control::While) {
      results = run_while(n);
    } else {
      results = run_scan(n);
    }
    copy_shared(results, std::move(outside));
    STRATA_CHECK(results.size() == n.results.size(), Runtime, "graph: {} returned {} results; it was captured with {}",
                 n.op->name, results.size(), n.results.size());
    keep_all(n, 0, results);
  }
  // As a program does it, so that a capture of this run has the node again.
  std::vector<Tensor> run_observed(const Node& n, Control control) const {
    const std::vector<Tensor> others = values_of(list_of(n, list_of_others(control)));
    if (control == Control::Cond)
      return cond(values_[std::get<ValueRef>(n.args[kPred]).id], caller_of(n.bodies[0]), caller_of(n.bodies[1]),
                  others);
    if (control == Control::While) {
      LoopOptions options{.stacked = static_cast<size_t>(integer_of(n.args[kStacked]))};
      if (!std::holds_alternative<std::monostate>(n.args[kMaxTrips])) options.max_trips = integer_of(n.args[kMaxTrips]);
      const auto go_on = caller_of(n.bodies[0], others);
      return while_loop([&](const Tensors& now) { return go_on(now)[0]; }, caller_of(n.bodies[1], others),
                        values_of(list_of(n, kCarried)), options);
    }
    ScanOptions options{.dim = integer_of(n.args[kScanDim]), .reverse = integer_of(n.args[kReverse]) != 0};
    if (!std::holds_alternative<std::monostate>(n.args[kLength])) options.length = integer_of(n.args[kLength]);
    return scan(caller_of(n.bodies[0], others), values_of(list_of(n, kInit)), values_of(list_of(n, kXs)), options);
  }
  std::vector<Tensor> run_while(const Node& n) const {
    const std::vector<Tensor> others = values_of(list_of(n, kLoopOthers));
    const auto go_on = caller_of(n.bodies[0], others), body = caller_of(n.bodies[1], others);
    Trips trips{.stacked = static_cast<size_t>(integer_of(n.args[kStacked]))};
    if (!std::holds_alternative<std::monostate>(n.args[kMaxTrips])) trips.max = integer_of(n.args[kMaxTrips]);
    const auto no_rows = [&] { return rows_of_none(n, n.results.size() - trips.stacked, 0); };
    return graph::run_while([&](const Tensors& now) { return truth_of(go_on(now)[0], "while_loop: the condition"); },
                            body, values_of(list_of(n, kCarried)), trips, no_rows);
  }
  std::vector<Tensor> run_scan(const Node& n) const {
    const std::vector<Tensor> others = values_of(list_of(n, kScanOthers)), xs = values_of(list_of(n, kXs)),
                              init = values_of(list_of(n, kInit));
    Steps steps{.dim = integer_of(n.args[kScanDim]), .reverse = integer_of(n.args[kReverse]) != 0};
    steps.count = xs.empty() ? integer_of(n.args[kLength]) : xs[0].size(steps.dim);
    const auto no_rows = [&] { return rows_of_none(n, init.size(), steps.dim); };
    return graph::run_scan(caller_of(n.bodies[0], others), init, xs, steps, no_rows);
  }
  // The stacked results of a loop that ends before its first trip.
  std::vector<Tensor> rows_of_none(const Node& n, size_t first, int64_t dim) const {
    std::vector<Tensor> rows;
    for (size_t k = first; k < n.results.size(); ++k) {
      ValueType type = type_now(n.results[k]);
      type.shape[static_cast<size_t>(dim)] = 0;
      rows.push_back(zeros(type.shape, TensorOptions().dtype(type.dtype).device(type.device)));
    }
    return rows;
  }

  void keep_all(const Node& n, size_t first, std::span<Tensor> results) {
    for (size_t k = 0; look_ && k < results.size(); ++k)
      if (const ValueId id = n.results[first + k]; results[k] && id != kNoValue && uses_[id])
        (*look_)(n, id, results[k]);
    for (size_t k = 0; k < results.size(); ++k)
      if (const ValueId id = n.results[first + k]; id != kNoValue && uses_[id]) keep(n, id, std::move(results[k]));
  }

  // Whether it has the very type that was captured: the usual case, without memory for another type.
  bool is_as_captured(const TensorImpl& t, const Graph::Value& v) const {
    return v.shape.empty() && v.strides.empty() && t.dtype == v.type.dtype && t.device == v.type.device &&
           std::ranges::equal(t.sizes(), v.type.shape) &&
           std::equal(v.type.strides.begin(), v.type.strides.end(), t.strides);
  }
  void keep(const Node& n, ValueId id, Tensor result) {
    if (result && is_as_captured(*result, g_.values[id])) [[likely]] {
      values_[id] = std::move(result);
      return;
    }
    const ValueType want = type_now(id);
    if (!result || !same_layout(type_of(*result), want)) [[unlikely]]
      throw OtherResult(fmt::format(
        "graph: {} returned {}; it was captured with {}{}. Its results depend on values or on settings: capture again",
        n.op->name, result ? to_string(type_of(*result)) : "nothing", to_string(want),
        n.source.empty() ? "" : " at " + n.source));
    values_[id] = std::move(result);
  }

  static Tensor memory_for(const ValueType& type) {
    static const OpRecord& empty = find_op("empty_strided");
    Args args = empty.defaults;
    args[0] = Value(IntList(type.shape));
    args[1] = Value(IntList(type.strides));
    args[2] = Value(type.dtype);
    args[3] = Value(type.device);
    return call(empty, args);
  }

  Value value_of(const Argument& a) {
    return std::visit(
      [&](const auto& v) -> Value {
        using T = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return Value();
        } else if constexpr (std::is_same_v<T, ValueRef>) {
          return Value(values_[v.id]);
        } else if constexpr (std::is_same_v<T, ValueList>) {
          lists_.reserve(Args::kMax);
          std::vector<Tensor>& list = lists_.emplace_back();
          for (const ValueId id : v.ids) list.push_back(id == kNoValue ? Tensor() : values_[id]);
          return Value(TensorList(std::span<const Tensor>(list)));
        } else if constexpr (std::is_same_v<T, ComplexNumber>) {
          return Value(static_cast<const Complex<double>*>(&v));
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          return Value(IntList(v));
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          return Value(std::span<const double>(v));
        } else if constexpr (std::is_same_v<T, Size>) {
          return Value(evaluate(v, dims_));
        } else if constexpr (std::is_same_v<T, Sizes>) {
          numbers_.reserve(Args::kMax);
          return Value(IntList(numbers_.emplace_back(evaluated(v))));
        } else if constexpr (std::is_same_v<T, std::string>) {
          return Value(std::string_view(v));
        } else {
          return Value(v);
        }
      },
      a);
  }

  const Graph& g_;
  std::vector<Tensor> values_;
  std::vector<uint32_t> uses_;     // that are still to come; those of inputs and states never end
  const RunPlan* plan_ = nullptr;  // null: of a body, which writes to nothing
  bool overwrites_ = false;
  const Program::Inspect* look_ = nullptr;
  std::span<const Program::NumberPlace> places_;  // still to come
  std::span<const double> numbers_given_;
  std::vector<int64_t> dims_;  // by index in Graph::dims
  // Lists that the arguments of the node that runs refer to. Reserved at once: they must not move.
  std::vector<std::vector<Tensor>> lists_;
  std::vector<std::vector<int64_t>> numbers_;
};

}  // namespace

std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
  return Execution(graph, RunPlan(graph), inputs).run(inputs);
}
RunPlan::RunPlan(const Graph& g) : uses(uses_of(g)), overwriting(graph::overwriting(g)) {
  std::unordered_map<ValueId, Target> places;
  for (size_t i = 0; i < g.states.size(); ++i) {
    places[g.states[i].id] = {true, i};
    state_memory.push_back(g.states[i].tensor->storage.get());
  }
  for (size_t i = 0; i < g.inputs.size(); ++i) places[g.inputs[i]] = {false, i};
  for (const Graph::Write& w : g.writes) {
    targets.push_back(places.at(w.target));
    if (targets.back().is_state) written.push_back(state_memory[targets.back().index]);
  }
  std::ranges::sort(written);
  std::vector<const Storage*> all = state_memory;
  std::ranges::sort(all);
  const bool alone = std::ranges::all_of(written, [&](const Storage* memory) {
    const auto [first, end] = std::equal_range(all.begin(), all.end(), memory);
    return end - first == 1;
  });
  overwrites = alone && std::ranges::find(overwriting, true) != overwriting.end();
}
Program::Program(Graph graph, std::vector<NumberPlace> places)
    : graph_(std::move(graph)), plan_(graph_), places_(std::move(places)) {}
Graph Program::graph_with(std::span<const double> numbers) const {
  Graph g = graph_;
  for (const NumberPlace& p : places_) g.nodes[p.node].args[p.arg] = numbers[p.number];
  return g;
}
void Program::inspect(const std::vector<Tensor>& inputs, const Inspect& look, std::span<const double> numbers) const {
  Execution run(graph_, plan_, inputs);
  run.set_numbers(places_, numbers);
  run.inspect(look);
}
std::vector<Tensor> Program::run(const std::vector<Tensor>& inputs, std::span<const double> numbers) const {
  Execution run(graph_, plan_, inputs);
  run.set_numbers(places_, numbers);
  return run.run(inputs);
}

}  // namespace strata::graph
