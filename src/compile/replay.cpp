#include "compile/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <ranges>

#include "autograd/autograd.h"
#include "autograd/hooks.h"
#include "autograd/saved_hooks.h"
#include "compile/passes.h"
#include "compile/recorder.h"
#include "compile/rehearsal.h"
#include "compile/tape.h"
#include "dispatch/deferred.h"
#include "record/precision.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata::graph {
namespace {

// What a call may change about a tensor besides its values. A run of the graph would not.
struct Facts {
  Tensor tensor, grad;  // held, so that their addresses stay taken
  Ref<History> history;
  const Storage* storage;
  const std::byte* data;
  ValueType type;
  bool requires_grad;
  std::vector<int64_t> hooks;
  explicit Facts(const Tensor& t)
      : tensor(t),
        grad(t.grad()),
        history(t->history),
        storage(t->storage.get()),
        data(t->data),
        type(type_of(*t)),
        requires_grad(t->requires_grad),
        hooks(hooks_of(*t)) {}
};
// What changed, or null. The history changes with recorded writes, which a graph has.
const char* change(const Facts& before, bool written) {
  const Facts now(before.tensor);
  if (now.storage != before.storage || now.data != before.data || now.type != before.type)
    return "changes the memory or the shape of a tensor (set_data, resize_, .data = ...)";
  if (now.requires_grad != before.requires_grad && (!written || !before.tensor->history))
    return "changes requires_grad of a tensor";
  if (now.hooks != before.hooks && now.history.get() == before.history.get())
    return "registers or removes a hook of a tensor";
  return nullptr;
}

bool may_be_deferred(const ValueType& type) {
  int64_t elements = 1;
  for (const int64_t n : type.shape) elements *= n;
  return type.device.type != DeviceType::Cpu || elements >= least_deferred();
}

}  // namespace

Recording::Switches::Switches()
    : grad(thread_state.grad_mode),
      inference(thread_state.inference_mode),
      deterministic(is_deterministic()),
      dtype(default_dtype()),
      device(thread_state.default_device) {}
bool program_must_run() {
  return thread_state.observed || thread_state.anomaly_mode || thread_state.autocast || thread_state.explain ||
         thread_state.tuning || thread_state.reference_only || autograd::current_saved_hooks();
}

Recording::TensorFacts::TensorFacts(const TensorImpl& t)
    : type(type_of(t)),
      requires_grad(t.requires_grad),
      inference(t.inference),
      storage(t.storage.get()),
      data(t.data),
      hooks(hooks_of(t)) {}
bool Recording::TensorFacts::same_type(const TensorImpl& t) const {
  return t.requires_grad == requires_grad && t.inference == inference && t.dtype == type.dtype &&
         t.device == type.device && std::ranges::equal(t.sizes(), type.shape) &&
         std::equal(type.strides.begin(), type.strides.end(), t.strides) && hooks_of(t) == hooks;
}

Recording::Recording(const std::vector<Tensor>& inputs, States states) : states_(std::move(states)) {
  for (const Tensor& t : inputs) input_facts_.emplace_back(*t);
  for (const auto& [name, tensor] : states_) state_facts_.emplace_back(*tensor);
  sharing_ = sharing_of(inputs);
}

// For each input: the first tensor with the same memory, states before inputs, and the distance in it; then the first input that is
// the same object.
std::vector<int64_t> Recording::sharing_of(std::span<const Tensor> inputs) const {
  const auto tensor = [&](size_t i) -> const TensorImpl& {
    return i < states_.size() ? *states_[i].second : *inputs[i - states_.size()];
  };
  std::vector<int64_t> sharing;
  for (size_t i = states_.size(); i < states_.size() + inputs.size(); ++i) {
    const Storage* own = tensor(i).storage.get();
    size_t first = 0;
    while (first < i && (!own || tensor(first).storage.get() != own)) ++first;
    sharing.push_back(static_cast<int64_t>(first));
    sharing.push_back(first < i ? tensor(i).data - tensor(first).data : 0);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t first = 0;
    while (inputs[first].get() != inputs[i].get()) ++first;
    sharing.push_back(static_cast<int64_t>(first));
  }
  return sharing;
}

std::vector<Tensor> Recording::follow(const Program& f, const std::vector<Tensor>& inputs) {
  const CaptureOptions options{.states = states_};
  Recorder recorder(options, true);
  std::vector<Facts> facts;  // by value id
  for (const Tensor& t : inputs) {
    recorder.add_input(t, fmt::format("input_{}", facts.size()));
    facts.emplace_back(t);
  }
  for (const auto& [name, t] : states_) {
    recorder.add_state(t, name, true);
    facts.emplace_back(t);
  }
  const auto is_given = [&](ValueId id) { return id < facts.size(); };
  if (notes_values_) recorder.note_values(notes_);
  const uint64_t first_order = next_order();
  std::vector<Tensor> outputs;
  {
    const Observing observing(recorder);
    outputs = f(inputs);
  }
  if (notes_values_) outputs_ = outputs;
  for (const Facts& before : facts) {
    if (const char* what = change(before, recorder.has_written(*before.tensor))) recorder.refuse(what);
    if (recorder.went_back() && !before.hooks.empty()) recorder.refuse("may run hooks of a tensor in a backward pass");
    records_ |= before.history.get() != before.tensor->history.get();
  }
  for (const Tensor& t : outputs) {
    const auto found = std::ranges::find(facts, t.get(), [](const Facts& f) { return f.tensor.get(); });
    const auto same = static_cast<ValueId>(found - facts.begin());
    same_as_.push_back(is_given(same) ? same : kNoValue);
    first_with_.push_back(static_cast<size_t>(std::ranges::find(outputs, t.get(), &Tensor::get) - outputs.begin()));
    own_versions_.push_back(static_cast<bool>(t->write_counter));
    leaf_.push_back(t->requires_grad && !t->history);
    used_up_.emplace_back();
    inference_.push_back(t->inference);
    if (is_given(same)) continue;
    const ValueId owner = recorder.owner_of(*t);
    if (owner != kNoValue && (recorder.has_written(*t) || !is_given(owner)))
      recorder.refuse(
        "returns a tensor that shares memory with one that it writes to, or that it did not compute by ops");
    if (!t.requires_grad()) continue;
    Tape tape = tape_of({&t, 1}, first_order);
    if (tape.freed) {
      used_up_.back() = {node_of(*t)->name(), tape.freed->name()};
    } else {
      records_ = true;
      if (!tape.beyond_ops.empty()) recorder.refuse(std::move(tape.beyond_ops));
    }
  }
  std::vector<Tensor> results = outputs;  // and the gradients that it leaves
  const auto grad_before = [&](ValueId id) { return facts[id].grad; };
  for (const Recorder::Given& g : recorder.given())
    if (g.looked_at && recorder.refused().empty()) {
      gradients_.push_back({.of = g.id, .was = grad_before(g.id).get() != nullptr});
      if (const char* why = gradients_.back().note(facts[g.id].tensor, grad_before(g.id), results))
        recorder.refuse(why);
    }
  for (size_t i = outputs.size(); i < results.size(); ++i)
    if (recorder.owner_of(*results[i]) != kNoValue)
      recorder.refuse("leaves a .grad that shares memory with another tensor");
  if (recorder.refused().empty()) {
    try {
      Graph graph = recorder.finish(results);
      for (size_t i = 0; i < results.size() && !recorder.lost_gradient().empty(); ++i) {
        const bool is_given = i < outputs.size() && same_as_[i] != kNoValue;
        if (results[i]->requires_grad && !is_given && (i >= outputs.size() || used_up_[i].first.empty()))
          recorder.refuse(recorder.lost_gradient());
      }
      for (const Graph::State& s : graph.states)
        for (const Facts& before : facts)
          if (!s.named && before.grad.get() == s.tensor.get()) recorder.refuse("uses the .grad of a tensor");
      keep_used_gradients(graph, recorder);
      if (!records_) remove_copies(graph);
      apply_graph_fault(graph);
      for (const Graph::Write& w : graph.writes)
        if (!is_given(w.target) && std::ranges::find(graph.inputs, w.target) == graph.inputs.end())
          recorder.refuse("writes to a tensor that it made without ops, such as tensor([...])");
      for_each_graph(graph, [&](const Graph& g) {
        fuses_ |= std::ranges::any_of(g.values, [](const Graph::Value& v) { return may_be_deferred(v.type); });
      });
      program_ = std::make_shared<const graph::Program>(std::move(graph));
    } catch (const Error& e) { recorder.refuse(e.what()); }
  }
  if (!recorder.refused().empty()) refuse(recorder.refused());
  return outputs;
}

// Why a graph cannot leave the gradient that a tensor has now, or null. A new one becomes one of the results.
const char* Recording::Gradient::note(const Tensor& t, const Tensor& before, std::vector<Tensor>& results) {
  const Tensor now = t.grad();
  if (has_hooks(*t)) return "uses the .grad of a tensor with hooks";
  if (!now) {
    becomes = before ? Becomes::None : Becomes::Same;
    return nullptr;
  }
  const bool same =
    before && (now.get() == before.get() || (now->storage.get() == before->storage.get() && now->data == before->data &&
                                             type_of(*now) == type_of(*before)));
  if (same) return nullptr;
  if (now->extra) return "leaves a sparse .grad";
  if (now.requires_grad()) return "leaves a .grad with a gradient of its own (create_graph=True)";
  becomes = Becomes::Result;
  result = static_cast<size_t>(std::ranges::find(results, now.get(), [](const Tensor& r) { return r.get(); }) -
                               results.begin());
  if (result == results.size()) results.push_back(now);
  return nullptr;
}

// Gradients of earlier calls whose values nobody uses are no inputs: zero_grad() was called before anything else.
void Recording::keep_used_gradients(Graph& graph, const Recorder& recorder) {
  std::vector<bool> used(graph.values.size(), false);
  for (const graph::Node& n : graph.nodes) for_each_use(n, [&](ValueId id) { used[id] = true; });
  for (const ValueId id : graph.outputs) used[id] = true;
  for (const Graph::Write& w : graph.writes) used[w.target] = used[w.value] = true;
  for (const Recorder::Given& g : recorder.given()) {
    if (g.grad == kNoValue) continue;
    if (!used[g.grad]) {
      std::erase(graph.inputs, g.grad);
      continue;
    }
    used_gradients_.emplace_back(g.id, graph.values[g.grad].type);
  }
  // in the order of the graph's inputs
  const auto place = [&](const auto& entry) {
    const auto g = std::ranges::find(recorder.given(), entry.first, &Recorder::Given::id);
    return std::ranges::find(graph.inputs, g->grad) - graph.inputs.begin();
  };
  std::ranges::sort(used_gradients_, {}, place);
}

void Recording::refuse(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (refused_.empty()) refused_ = why;
  work_.reset();
  program_.reset();
}
std::string Recording::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}
std::string Recording::why_not_launched() const {
  const std::lock_guard lock(mutex_);
  return why_not_launched_;
}
std::shared_ptr<const graph::Program> Recording::program() const {
  const std::lock_guard lock(mutex_);
  return program_;
}

std::string Recording::objection(std::span<const Tensor> inputs) const {
  if (Switches() != switches_) return "grad mode, inference mode, the default dtype or the default device";
  if (inputs.size() != input_facts_.size()) return "the number of tensors";
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!input_facts_[i].same_type(*inputs[i]))
      return fmt::format("an argument: {} was {}", to_string(type_of(*inputs[i])), to_string(input_facts_[i].type));
  if (sharing_of(inputs) != sharing_) return "which arguments share memory";
  for (size_t i = 0; i < states_.size(); ++i)
    if (!state_facts_[i].same_type(*states_[i].second) || !state_facts_[i].same_memory(*states_[i].second))
      return states_[i].first;
  for (const Gradient& g : gradients_)
    if (const Tensor& t = given(g.of, inputs); (t->shared_grad().get() != nullptr) != g.was || has_hooks(*t))
      return "whether a tensor has a .grad, or hooks";
  return used_gradients_.empty() || gradients_fit(inputs) ? "" : "a .grad";
}

const Tensor& Recording::given(ValueId id, std::span<const Tensor> inputs) const {
  return id < inputs.size() ? inputs[id] : states_[id - inputs.size()].second;
}
// Whether the gradients that the graph uses have the types that they had, and memory that nothing else has.
bool Recording::gradients_fit(std::span<const Tensor> inputs) const {
  std::vector<const Storage*> memory;
  for (const Tensor& t : inputs) memory.push_back(t->storage.get());
  for (const auto& [name, t] : states_) memory.push_back(t->storage.get());
  std::vector<Ref<TensorImpl>> grads;
  for (const auto& [id, type] : used_gradients_) {
    const Ref<TensorImpl>& grad = grads.emplace_back(given(id, inputs)->shared_grad());
    if (grad->extra || !grad->storage || type_of(*grad) != type || !covers_its_storage(*grad)) return false;
    memory.push_back(grad->storage.get());
  }
  std::ranges::sort(memory);
  return std::ranges::all_of(grads, [&](const auto& g) {
    const auto [first, end] =
      std::equal_range(memory.begin(), memory.end(), static_cast<const Storage*>(g->storage.get()));
    return end - first == 1;
  });
}

bool Recording::audit_is_due() {
  ++calls_;
  return std::has_single_bit(calls_) && refused().empty();
}

// Apart from that of the graphs; empty: none.
std::string Recording::other_difference(const Recording& again) const {
  if (again.same_as_ != same_as_ || again.first_with_ != first_with_ || again.used_up_ != used_up_ ||
      again.inference_ != inference_)
    return "returns other objects than before";
  return again.gradients_ != gradients_ ? "leaves other gradients than before" : "";
}

bool Recording::generalize(const Recording& again, std::span<const double> before, std::span<const double> now) {
  const std::lock_guard lock(mutex_);
  if (!program_ || !again.program_ || !other_difference(again).empty()) return false;
  const auto same = [](double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); };
  const Graph& known = program_->graph();
  Graph other = again.program_->graph();
  if (known.nodes.size() != other.nodes.size()) return false;
  std::vector<graph::Program::NumberPlace> places;
  for (size_t i = 0; i < known.nodes.size(); ++i) {
    const graph::Node& a = known.nodes[i];
    graph::Node& b = other.nodes[i];
    for (size_t k = 0; k < std::min(a.args.size(), b.args.size()); ++k) {
      const auto* x = std::get_if<double>(&a.args[k]);
      auto* y = std::get_if<double>(&b.args[k]);
      if (!x || !y || same(*x, *y)) continue;
      size_t n = 0;
      while (n < before.size() && !(same(before[n], *x) && same(now[n], *y))) ++n;
      if (n == before.size()) return false;
      places.push_back({i, k, n});
      *y = *x;
    }
  }
  if (!difference(known, other).what.empty()) return false;
  for (const auto& [node, arg, number] : program_->places()) {
    const auto is_it = [&](const auto& p) { return p.node == node && p.arg == arg; };
    if (std::ranges::any_of(places, is_it)) continue;
    if (!same(before[number], now[number])) return false;  // it is a parameter, but did not change with its number
    places.push_back({node, arg, number});
  }
  std::ranges::sort(places, {}, &graph::Program::NumberPlace::node);
  program_ = std::make_shared<const graph::Program>(known, std::move(places));
  work_.reset();
  launch_ = Launch::Impossible;
  why_not_launched_ = "a number differs from call to call; a tensor on the device would not";
  return true;
}

void Recording::compare(const Recording& again, std::string_view advice, std::span<const double> numbers) {
  Difference changed{again.refused()};
  if (const auto known = program(); changed.what.empty() && known)
    changed = difference(known->graph_with(numbers), again.program()->graph());
  if (changed.what.empty()) changed.what = other_difference(again);
  if (changed.what.empty()) return;
  refuse(fmt::format("differs from call to call: {}", changed.what));
  STRATA_CHECK(
    !replayed_ || changed.seen_by_runs, Runtime,
    "compile: an audit of replayed calls failed. The function {}. Something decided it that replay does not guard, "
    "and the {} calls that were replayed may have used an old value. Pass it as an argument, or compile without {}; "
    "further calls run the function",
    changed.what, replayed_, advice);
}

// Whether a launch, which overwrites the gradients of the one before, takes none from the program.
bool Recording::gradients_are_free(const LaunchedProgram& work, const std::vector<Tensor>& inputs) const {
  return std::ranges::all_of(gradients_, [&](const Gradient& g) {
    const bool is_result = g.becomes == Gradient::Becomes::Result && g.result >= same_as_.size();
    return !is_result || work.is_free(g.result, given(g.of, inputs)->shared_grad().get());
  });
}

// The work on a GPU, to be launched as one; null if its ops must be called.
std::shared_ptr<LaunchedProgram> Recording::launchable(const std::vector<Tensor>& inputs,
                                                       const std::vector<Tensor>& graph_inputs) {
  const std::lock_guard one(launching_);
  std::shared_ptr<const graph::Program> current;
  {
    const std::lock_guard lock(mutex_);
    if (launch_ != Launch::Possible || !program_) return nullptr;
    if (work_) return work_->fits() && gradients_are_free(*work_, inputs) ? work_ : nullptr;
    current = program_;
  }
  using Use = LaunchedProgram::Use;  // gradients are lent: the next call may overwrite those that nobody else holds
  std::vector<Use> uses(current->graph().outputs.size(), Use::Lent);
  for (size_t i = 0; i < same_as_.size(); ++i) uses[i] = same_as_[i] != kNoValue ? Use::None : Use::Given;
  std::shared_ptr<LaunchedProgram> work;  // made without the lock: an op of the user may wait for another thread
  std::string error;
  const Generator::State drawn = default_generator().state();
  try {
    work = std::make_shared<LaunchedProgram>(current, graph_inputs, std::move(uses), fuses_);
  } catch (const Error& e) {  // such as an op that waits for the device
    error = e.what();
    default_generator().set_state(drawn);  // the ops are called instead
  }
  const std::lock_guard lock(mutex_);
  if (!work) {
    launch_ = Launch::Impossible;
    why_not_launched_ = error;
  } else if (program_) {
    work_ = work;
  }
  return work;
}

std::optional<std::vector<Tensor>> Recording::replay(const std::vector<Tensor>& inputs,
                                                     std::span<const double> numbers) {
  return replay(inputs, used_gradients_.empty() ? inputs : graph_inputs_for(inputs), numbers);
}
std::vector<Tensor> Recording::graph_inputs_for(const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> with_grads = inputs;
  for (const auto& [id, type] : used_gradients_) with_grads.push_back(given(id, inputs).grad());
  return with_grads;
}
std::optional<std::vector<Tensor>> Recording::replay(const std::vector<Tensor>& inputs,
                                                     const std::vector<Tensor>& graph_inputs,
                                                     std::span<const double> numbers) {
  std::optional<autograd::NoGrad> off;
  if (!records_) off.emplace();
  if (const auto work = launchable(inputs, graph_inputs)) {
    std::vector<Tensor> outputs = work->run(graph_inputs);
    ++launched_;
    return finished(std::move(outputs), inputs);
  }
  const std::shared_ptr<const graph::Program> current = program();
  if (!current) return std::nullopt;
  const Generator::State drawn = default_generator().state();
  std::vector<Tensor> outputs;
  try {
    std::optional<Deferral> deferral;
    if (fuses_) deferral.emplace();
    outputs = current->run(graph_inputs, numbers);
    if (deferral) deferral->finish();
  } catch (const OtherResult& e) {  // nothing was written yet
    refuse(e.what());
    default_generator().set_state(drawn);
    return std::nullopt;
  }
  outputs = finished(std::move(outputs), inputs);
  const std::lock_guard lock(mutex_);
  if (launch_ == Launch::Unknown) {  // the kernels are compiled now
    const char* why = records_ ? "gradients are recorded" : LaunchedProgram::objection(current->graph());
    launch_ = why ? Launch::Impossible : Launch::Possible;
    if (why) why_not_launched_ = why;
  }
  return outputs;
}

// One value that the program returned as two objects, such as x and x.data.
static Tensor another_object(const Tensor& t, bool counts_apart) {
  Tensor same = counts_apart ? data_of(*t) : alias(*t);
  same->requires_grad = t->requires_grad;
  same->history = t->history;
  same->output = t->output;
  return same;
}
// The results of a replayed call, with the objects that it was given in their places; the gradients go to their tensors.
std::vector<Tensor> Recording::finished(std::vector<Tensor> outputs, const std::vector<Tensor>& inputs) {
  ++replayed_;
  for (const Gradient& g : gradients_)
    if (g.becomes != Gradient::Becomes::Same)
      Tensor(given(g.of, inputs)).set_grad(g.becomes == Gradient::Becomes::None ? Tensor() : outputs[g.result]);
  outputs.resize(same_as_.size());
  const auto is_new = [&](size_t i) { return same_as_[i] == kNoValue && first_with_[i] == i; };
  const auto is_given = [&](const Tensor& t) {
    const auto is_it = [&](const Tensor& other) { return other.get() == t.get(); };
    return std::ranges::any_of(inputs, is_it) || std::ranges::any_of(states_, is_it, &States::value_type::second);
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (is_new(i) && is_given(outputs[i])) {  // x.data of an argument x
      outputs[i] = own_versions_[i] ? data_of(*outputs[i]) : alias(*outputs[i]);
      outputs[i]->requires_grad = leaf_[i];
    }
    const auto same = [&](size_t j) { return is_new(j) && outputs[j].get() == outputs[i].get(); };
    if (is_new(i) && std::ranges::any_of(std::views::iota(size_t{0}, i), same))
      outputs[i] = another_object(outputs[i], own_versions_[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (same_as_[i] != kNoValue) {
      outputs[i] = given(same_as_[i], inputs);
      continue;
    }
    if (first_with_[i] < i) {
      outputs[i] = outputs[first_with_[i]];
      continue;
    }
    outputs[i]->inference = inference_[i];
    if (const auto& [op, freed] = used_up_[i]; !op.empty()) outputs[i] = autograd::used_up(outputs[i], op, freed);
  }
  return outputs;
}

std::string Recording::input_types() const {
  std::string text;
  for (const TensorFacts& t : input_facts_) text += (text.empty() ? "" : ", ") + to_string(t.type);
  return text;
}
void Recording::release() {
  const std::lock_guard lock(mutex_);
  work_.reset();
  program_.reset();
  states_.clear();
}

std::vector<Tensor> Replayer::call(const std::string& rest, const std::vector<Tensor>& inputs,
                                   const Recording::Program& program) {
  for (size_t i = 0; i < inputs.size(); ++i)
    STRATA_CHECK(inputs[i], Type, "compile: tensor number {} of the arguments is undefined", i);
  const auto run = [&] {
    Deferral deferral;
    std::vector<Tensor> results = program(inputs);
    deferral.finish();
    return results;
  };
  if (thread_state.observed || compile_mode() == CompileMode::Off) return program(inputs);
  if (program_must_run()) return run();
  const std::lock_guard lock(*running_);
  for (const auto& [key, recording] : recordings_) {
    if (key != rest || !recording->objection(inputs).empty()) continue;
    Recording& known = *recording;  // the list may grow meanwhile
    const bool audit = known.audit_is_due();
    if (!known.refused().empty()) return run();
    if (checks_compiled()) {
      const Rehearsal rehearsal(known, inputs);
      Recording again(inputs, states_);
      again.note_values();
      std::vector<Tensor> results = again.follow(program, inputs);
      known.compare(again, "strata::Replay");
      rehearsal.compare(again);
      return results;
    }
    if (!audit) {
      if (auto results = known.replay(inputs)) return *std::move(results);
      return run();
    }
    Recording again(inputs, states_);
    std::vector<Tensor> results = again.follow(program, inputs);
    known.compare(again, "strata::Replay");
    return results;
  }
  if (recordings_.size() == kMostRecordings) return run();
  auto recording = std::make_unique<Recording>(inputs, states_);
  std::vector<Tensor> results = recording->follow(program, inputs);
  recordings_.emplace_back(rest, std::move(recording));
  return results;
}

}  // namespace strata::graph
