#include "compile/rehearsal.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "autograd/autograd.h"
#include "compile/tape.h"
#include "dispatch/deferred.h"
#include "dispatch/source_line.h"
#include "dispatch/value_difference.h"
#include "strata/ops.h"

namespace strata::graph {
namespace {

std::mutex fault_lock;
std::string fault;  // the op that graphs call wrongly

Tensor copy_of(const Tensor& t) {
  if (!t || !t->storage || t.is_meta()) return {};
  const Unseen unseen;
  return clone(alias(*t));
}

// A gradient for a result: numbers that depend on the place only.
Tensor cotangent(const Tensor& t) {
  const Unseen unseen;
  const Tensor numbers = sin(add(arange(t.numel(), TensorOptions().dtype(DType::F64)), 1));
  return to(reshape(numbers, t.shape()), t.device(), t.dtype());
}

std::string difference_between(const Tensor& got, const Tensor& want) {
  if (!got || !want) return static_cast<bool>(got) == static_cast<bool>(want) ? "" : "one of them is missing";
  if (got.dtype() != want.dtype() || !got->same_shape(*want))
    return fmt::format("{} instead of {}", to_string(type_of(*got)), to_string(type_of(*want)));
  return value_difference(got, want);
}

// What is wrong with the result of a node, given the values of the program; empty: nothing.
std::string objection_to(const Node& n, ValueId id, const Tensor& got, const Graph& g,
                         const std::vector<std::pair<ValueId, Tensor>>& notes) {
  const auto want = std::ranges::find(notes, id, &std::pair<ValueId, Tensor>::first);
  if (want == notes.end()) return {};
  const std::string d = difference_between(got, want->second);
  return d.empty() ? "" : fmt::format("{}{} (%{}): {}", n.op->name, at_line(n.source), g.values[id].name, d);
}

}  // namespace

void plant_graph_fault(std::string op) {
  const std::lock_guard lock(fault_lock);
  fault = std::move(op);
}
void apply_graph_fault(Graph& graph) {
  const std::lock_guard lock(fault_lock);
  if (fault.empty()) return;
  for (Node& n : graph.nodes) {
    if (n.op->name != fault) continue;
    for (Argument& a : n.args)
      if (auto* number = std::get_if<double>(&a)) {
        *number += 1;
        return;
      }
    if (n.args.size() > 1 && std::holds_alternative<ValueRef>(n.args[1])) std::swap(n.args[0], n.args[1]);
    return;
  }
}

Rehearsal::Before::Before(const Tensor& t)
    : tensor(t),
      values(copy_of(t)),
      base(t->base),
      history(t->history),
      history_of_base(base ? base->history : Ref<History>()),
      requires_grad(t->requires_grad),
      base_requires_grad(base && base->requires_grad),
      output(t->output),
      rebases(t->rebases),
      rebases_of_base(base ? base->rebases : 0) {}
void Rehearsal::Before::put_back() const {
  if (values) {
    const Unseen unseen;
    copy_(alias(*tensor), values);
  }
  tensor->history = history;
  tensor->requires_grad = requires_grad;
  tensor->output = output;
  tensor->rebases = rebases;
  if (!base) return;
  base->history = history_of_base;
  base->requires_grad = base_requires_grad;
  base->rebases = rebases_of_base;
}

Rehearsal::Result Rehearsal::result_of(const Tensor& t) { return {copy_of(t), t.requires_grad()}; }

Rehearsal::Rehearsal(Recording& known, const std::vector<Tensor>& inputs, std::span<const double> numbers)
    : known_(known),
      inputs_(inputs),
      numbers_(numbers.begin(), numbers.end()),
      graph_(known.program()),
      drawn_(default_generator().state()),
      drawn_after_(drawn_) {
  if (!graph_) return;
  const std::vector<Tensor> graph_inputs = known.graph_inputs_for(inputs);
  const RunPlan plan(graph_->graph());
  for (const auto& [is_state, index] : plan.targets)
    written_.emplace_back(is_state ? graph_->graph().states[index].tensor : graph_inputs[index]);
  for (const Recording::Gradient& g : known.gradients_) {
    const Tensor& t = known.given(g.of, inputs);
    grads_.emplace_back(t, t.grad());
  }
  const auto add_leaf = [&](const Tensor& t) {
    if (t.requires_grad() && hooks_of(*t).empty()) leaves_.push_back(t);  // hooks of the caller are left alone
  };
  for (const Tensor& t : inputs) add_leaf(t);
  for (const auto& [name, t] : known.states_) add_leaf(t);
  const uint64_t replayed = known.replayed_;
  try {
    if (const auto outputs = known.replay(inputs, numbers_)) keep_results(*outputs);
  } catch (const Error& e) { error_ = e.what(); }
  known.replayed_ = replayed;  // the function's results are used
  for (const auto& [t, grad] : grads_) Tensor(t).set_grad(grad);
  for (const Before& b : written_) b.put_back();
  default_generator().set_state(drawn_);
}

void Rehearsal::keep_results(const std::vector<Tensor>& outputs) {
  done_ = true;
  drawn_after_ = default_generator().state();
  for (const Tensor& t : outputs) results_.push_back(result_of(t));
  for (const Before& b : written_) written_after_.push_back(result_of(b.tensor));
  grads_after_ = gradients_left();
  gradients_ = gradients_of(outputs);
}

std::vector<Tensor> Rehearsal::gradients_left() const {
  std::vector<Tensor> left;
  for (const auto& [t, before] : grads_) left.push_back(copy_of(t.grad()));
  return left;
}

// Of each result through which a backward pass of the caller would go.
std::vector<Rehearsal::Gradients> Rehearsal::gradients_of(std::span<const Tensor> outputs) const {
  std::vector<Gradients> all(outputs.size());
  const Generator::State drawn = default_generator().state();
  for (size_t i = 0; i < outputs.size() && !leaves_.empty(); ++i) {
    const Tensor& t = outputs[i];
    if (known_.same_as_[i] != kNoValue || !known_.used_up_[i].first.empty() || !t.requires_grad()) continue;
    const Tensor g = cotangent(t);
    try {
      all[i].values = autograd::grad({&t, 1}, leaves_, {&g, 1}, true, false, true);
    } catch (const Error& e) { all[i].error = e.what(); }
    for (Tensor& value : all[i].values) value = copy_of(value);
  }
  default_generator().set_state(drawn);
  return all;
}

// The first thing that the program has left otherwise, in words.
std::string Rehearsal::difference(const Recording& program) const {
  std::string found;
  const auto differs = [&](const std::string& what, const Tensor& got, const Tensor& want) {
    if (const std::string d = difference_between(got, want); !d.empty()) found = fmt::format("{}: {}", what, d);
    return !found.empty();
  };
  for (size_t i = 0; i < results_.size(); ++i) {
    const Tensor& want = program.outputs_[i];
    if (results_[i].requires_grad != want.requires_grad())
      return fmt::format("result {}: requires_grad is {}", i, results_[i].requires_grad);
    if (differs(fmt::format("result {}", i), results_[i].values, want)) return found;
  }
  const Graph& g = graph_->graph();
  for (size_t i = 0; i < written_.size(); ++i)
    if (differs("what it writes to " + g.values[g.writes[i].target].name, written_after_[i].values, written_[i].tensor))
      return found;
  const std::vector<Tensor> left = gradients_left();
  for (size_t i = 0; i < left.size(); ++i)
    if (differs(fmt::format("a .grad ({})", g.values[known_.gradients_[i].of].name), grads_after_[i], left[i]))
      return found;
  const Generator::State drawn = default_generator().state();
  if (drawn.seed != drawn_after_.seed || drawn.position != drawn_after_.position)
    return "it draws another number of random numbers";
  const std::vector<Gradients> gradients = gradients_of(program.outputs_);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Gradients &got = gradients_[i], &want = gradients[i];
    if (got.error.empty() != want.error.empty())
      return fmt::format("the gradient of result {} raises only {}: {}", i,
                         want.error.empty() ? "there" : "in the function", got.error + want.error);
    for (size_t k = 0; k < want.values.size(); ++k)
      if (differs(fmt::format("a gradient of result {}", i), got.values[k], want.values[k])) return found;
  }
  return {};
}

// The first node with another result, from the state before the call.
std::string Rehearsal::first_node(const Recording& program) const {
  struct Now {
    std::vector<Before> written;
    std::vector<std::pair<Tensor, Tensor>> grads;
    Generator::State drawn = default_generator().state();
    ~Now() {
      for (const auto& [t, grad] : grads) Tensor(t).set_grad(grad);
      for (const Before& b : written) b.put_back();
      default_generator().set_state(drawn);
    }
  } now;
  for (const Before& b : written_) now.written.emplace_back(b.tensor);
  for (const auto& [t, grad] : grads_) {
    now.grads.emplace_back(t, t.grad());
    Tensor(t).set_grad(grad);
  }
  for (const Before& b : written_) b.put_back();
  const std::vector<Tensor> graph_inputs = known_.graph_inputs_for(inputs_);
  std::string found;
  const auto look = [&](const Node& n, ValueId id, const Tensor& t) {
    if (found.empty()) found = objection_to(n, id, t, graph_->graph(), program.notes_);
  };
  const auto run = [&](const Program::Inspect& inspect) {
    default_generator().set_state(drawn_);
    const autograd::NoGrad off;
    graph_->inspect(graph_inputs, inspect, numbers_);
  };
  run(look);
  if (!found.empty()) return "The first node that differs: " + found;
  struct Held {
    const Node* node;
    ValueId id;
    Tensor value;
  };
  std::vector<Held> held;  // values of groups are computed when they are looked at
  {
    Deferral deferral;
    run([&](const Node& n, ValueId id, const Tensor& t) { held.push_back({&n, id, t}); });
    deferral.finish();
  }
  for (const Held& h : held) look(*h.node, h.id, h.value);
  if (found.empty()) return "No node has another result when it runs alone or in a group";
  return fmt::format("If ops are computed in groups, the first node that differs is {}", found);
}

namespace {
std::atomic<uint64_t> parts_checked{0}, parts_refused{0};
}  // namespace
FollowedParts followed_parts() { return {parts_checked, parts_refused}; }

void follow_and_check(const std::function<void()>& program, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> before;
  for (const Tensor& t : inputs) before.push_back(copy_of(t.grad()));
  const Generator::State drawn = default_generator().state();
  Recording part(inputs, {});
  part.note_values();
  part.follow(
    [&](const std::vector<Tensor>&) -> std::vector<Tensor> {
      program();
      return {};
    },
    inputs);
  const auto graph = part.program();
  const auto is_meta = [](const Graph::Value& v) { return v.type.device.type == DeviceType::Meta; };
  if (!graph || std::ranges::any_of(graph->graph().values, is_meta)) {
    ++parts_refused;
    return;
  }
  std::vector<Tensor> graph_inputs = inputs;
  for (const auto& [id, type] : part.used_gradients_) graph_inputs.push_back(before[id]);
  const Generator::State after = default_generator().state();
  default_generator().set_state(drawn);
  std::string found;
  try {
    const autograd::NoGrad off;
    graph->inspect(graph_inputs, [&](const Node& n, ValueId id, const Tensor& t) {
      if (found.empty()) found = objection_to(n, id, t, graph->graph(), part.notes_);
    });
  } catch (const Error& e) { found = fmt::format("it raises {}", e.what()); }
  default_generator().set_state(after);
  ++parts_checked;
  STRATA_CHECK(found.empty(), Runtime,
               "compile: STRATA_COMPILE=everywhere found that a graph differs from the program: {}", found);
}

void Rehearsal::compare(const Recording& program) const {
  constexpr const char* kBegin = "compile: STRATA_COMPILE=check found that a replayed call differs from the function";
  if (!graph_ || !known_.refused().empty() || !program.refused().empty()) return;
  STRATA_CHECK(error_.empty(), Runtime, "{}: it raises {}", kBegin, error_);
  if (!done_) return;  // the graph did not fit, and the function ran
  const std::string what = difference(program);
  if (what.empty()) return;
  fail(ErrorKind::Runtime, fmt::format("{}: {}. {}", kBegin, what, first_node(program)));
}

}  // namespace strata::graph
