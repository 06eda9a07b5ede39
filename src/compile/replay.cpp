#include "compile/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "autograd/autograd.h"
#include "autograd/saved_hooks.h"
#include "compile/recorder.h"
#include "dispatch/deferred.h"
#include "record/precision.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata::graph {
namespace {

// What a call may change about a tensor besides its values. A run of the graph would not.
struct Facts {
  const Storage* storage;
  const std::byte* data;
  const TensorImpl* grad;
  const History* history;
  ValueType type;
  bool requires_grad;
  explicit Facts(const Tensor& t)
      : storage(t->storage.get()),
        data(t->data),
        grad(t.grad().get()),
        history(t->history.get()),
        type(type_of(*t)),
        requires_grad(t->requires_grad) {}
};
// What changed, or null. The history changes with recorded writes, which a graph has.
const char* change(const Facts& before, const Tensor& t, bool written) {
  const Facts now(t);
  if (now.grad != before.grad) return "changes the .grad of a tensor (backward() inside)";
  if (now.storage != before.storage || now.data != before.data || now.type != before.type)
    return "changes the memory or the shape of a tensor (set_data, resize_, .data = ...)";
  if (now.requires_grad != before.requires_grad && !written) return "changes requires_grad of a tensor";
  return nullptr;
}

std::string shown(const Argument& a, const Graph& g) {
  struct Text {
    const Graph& g;
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(const ValueRef& v) const { return g.values[v.id].name; }
    std::string operator()(const ValueList& v) const { return fmt::format("{} tensors", v.ids.size()); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(const ComplexNumber& v) const { return fmt::format("{}+{}j", v.re, v.im); }
    std::string operator()(const std::vector<int64_t>& v) const { return strata::to_string(Shape(v.data(), v.size())); }
    std::string operator()(const std::vector<double>& v) const { return fmt::format("{} numbers", v.size()); }
    std::string operator()(const std::string& v) const { return "'" + v + "'"; }
    std::string operator()(DType v) const { return name_of(v); }
    std::string operator()(const Device& v) const { return strata::to_string(v); }
    std::string operator()(const Size&) const { return "a size"; }
    std::string operator()(const Sizes&) const { return "sizes"; }
  };
  return std::visit(Text{g}, a);
}
std::string place_of(const Node& n) {
  return n.source.empty() ? n.op->name : fmt::format("{} at {}", n.op->name, n.source);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.get() == b.get()) return true;
  if (type_of(*a) != type_of(*b)) return false;
  const autograd::NoGrad off;
  const auto on_host = [](const Tensor& t) { return contiguous(to(t.get()->requires_grad ? detach(t) : t, Device())); };
  const Tensor x = on_host(a), y = on_host(b);
  return x.nbytes() == 0 || std::memcmp(x.bytes(), y.bytes(), x.nbytes()) == 0;
}

std::string difference(const Node& a, const Node& b, const Graph& before, const Graph& now) {
  if (a.op != b.op || a.form != b.form) return fmt::format("calls {}; it called {} before", place_of(b), place_of(a));
  for (size_t i = 0; i < b.args.size(); ++i)
    if (!(a.args[i] == b.args[i]))
      return fmt::format("{} got {}={}; it got {} before", place_of(b), b.op->params[i].name, shown(b.args[i], now),
                         shown(a.args[i], before));
  if (a.no_grad != b.no_grad) return fmt::format("{} runs in another gradient mode than before", place_of(b));
  for (size_t k = 0; k < std::min(a.bodies.size(), b.bodies.size()); ++k)
    if (const Difference d = difference(a.bodies[k], b.bodies[k]); !d.what.empty())
      return fmt::format("has another {} of {}: it {}", name_of_body(control_of(*b.op), k), place_of(b), d.what);
  return a.results == b.results ? "" : fmt::format("{} has other results than before", place_of(b));
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
      data(t.data) {}
bool Recording::TensorFacts::same_type(const TensorImpl& t) const {
  return t.requires_grad == requires_grad && t.inference == inference && t.dtype == type.dtype &&
         t.device == type.device && std::ranges::equal(t.sizes(), type.shape) &&
         std::equal(type.strides.begin(), type.strides.end(), t.strides);
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
  std::vector<std::pair<Tensor, Facts>> facts;
  std::vector<const TensorImpl*> objects;  // by value id
  for (const Tensor& t : inputs) {
    recorder.add_input(t, fmt::format("input_{}", objects.size()));
    facts.emplace_back(t, t);
    objects.push_back(t.get());
  }
  for (const auto& [name, t] : states_) {
    recorder.add_state(t, name, true);
    facts.emplace_back(t, t);
    objects.push_back(t.get());
  }
  const auto is_given = [&](ValueId id) { return id < objects.size(); };
  const uint64_t first_order = next_order();
  std::vector<Tensor> outputs;
  {
    const Observing observing(recorder);
    outputs = f(inputs);
  }
  for (const auto& [tensor, before] : facts)
    if (const char* what = change(before, tensor, recorder.has_written(*tensor))) recorder.refuse(what);
  for (const Tensor& t : outputs) {
    const auto same = static_cast<ValueId>(std::ranges::find(objects, t.get()) - objects.begin());
    same_as_.push_back(is_given(same) ? same : kNoValue);
    const ValueId owner = recorder.owner_of(*t);
    if (!is_given(same) && owner != kNoValue && (recorder.has_written(*t) || !is_given(owner)))
      recorder.refuse(
        "returns a tensor that shares memory with one that it writes to, or that it did not compute by ops");
  }
  if (std::string why = beyond_ops(outputs, first_order); !why.empty()) recorder.refuse(std::move(why));
  if (recorder.refused().empty()) {
    try {
      Graph graph = recorder.finish(outputs);
      for (const Graph::State& s : graph.states)
        for (const auto& [tensor, before] : facts)
          if (!s.named && before.grad == s.tensor.get()) recorder.refuse("uses the .grad of a tensor");
      for (const Graph::Write& w : graph.writes)
        if (!is_given(w.target)) recorder.refuse("writes to a tensor that it made without ops, such as tensor([...])");
      for_each_graph(graph, [&](const Graph& g) {
        fuses_ |= std::ranges::any_of(g.values, [](const Graph::Value& v) { return may_be_deferred(v.type); });
      });
      program_ = std::make_shared<const graph::Program>(std::move(graph));
    } catch (const Error& e) { recorder.refuse(e.what()); }
  }
  if (!recorder.refused().empty()) refuse(recorder.refused());
  return outputs;
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
  return {};
}

bool Recording::audit_is_due() {
  ++calls_;
  return std::has_single_bit(calls_) && refused().empty();
}

void Recording::compare(const Recording& again, std::string_view advice) {
  Difference changed{again.refused()};
  if (const auto known = program(); changed.what.empty() && known)
    changed = difference(known->graph(), again.program()->graph());
  if (changed.what.empty() && again.same_as_ != same_as_) changed.what = "returns other objects than before";
  if (changed.what.empty()) return;
  refuse(fmt::format("differs from call to call: {}", changed.what));
  STRATA_CHECK(
    !replayed_ || changed.seen_by_runs, Runtime,
    "compile: an audit of replayed calls failed. The function {}. Something decided it that replay does not guard, "
    "and the {} calls that were replayed may have used an old value. Pass it as an argument, or compile without {}; "
    "further calls run the function",
    changed.what, replayed_, advice);
}

// The work on a GPU, to be launched as one; null if its ops must be called.
std::shared_ptr<LaunchedProgram> Recording::launchable(const std::vector<Tensor>& inputs) {
  const std::lock_guard one(launching_);
  std::shared_ptr<const graph::Program> current;
  {
    const std::lock_guard lock(mutex_);
    if (launch_ != Launch::Possible || !program_) return nullptr;
    if (work_) return work_->fits() ? work_ : nullptr;
    current = program_;
  }
  std::vector<bool> unused;
  for (const ValueId same : same_as_) unused.push_back(same != kNoValue);
  std::shared_ptr<LaunchedProgram> work;  // made without the lock: an op of the user may wait for another thread
  std::string error;
  try {
    work = std::make_shared<LaunchedProgram>(current, inputs, std::move(unused), fuses_);
  } catch (const Error& e) { error = e.what(); }  // such as an op that waits for the device
  const std::lock_guard lock(mutex_);
  if (!work) {
    launch_ = Launch::Impossible;
    why_not_launched_ = error;
  } else if (program_) {
    work_ = work;
  }
  return work;
}

std::optional<std::vector<Tensor>> Recording::replay(const std::vector<Tensor>& inputs) {
  if (const auto work = launchable(inputs)) {
    std::vector<Tensor> outputs = work->run(inputs);
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
    outputs = current->run(inputs);
    if (deferral) deferral->finish();
  } catch (const OtherResult& e) {  // nothing was written yet
    refuse(e.what());
    default_generator().set_state(drawn);
    return std::nullopt;
  }
  outputs = finished(std::move(outputs), inputs);
  const std::lock_guard lock(mutex_);
  if (launch_ == Launch::Unknown) {  // the kernels are compiled now
    bool records = false;
    for (size_t i = 0; i < outputs.size(); ++i) records |= same_as_[i] == kNoValue && outputs[i]->requires_grad;
    const char* why = records ? "gradients are recorded" : LaunchedProgram::objection(current->graph());
    launch_ = why ? Launch::Impossible : Launch::Possible;
    if (why) why_not_launched_ = why;
  }
  return outputs;
}

// The results of a replayed call, with the objects that it was given in their places.
std::vector<Tensor> Recording::finished(std::vector<Tensor> outputs, const std::vector<Tensor>& inputs) {
  ++replayed_;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const ValueId same = same_as_[i]; same != kNoValue)
      outputs[i] = same < inputs.size() ? inputs[same] : states_[same - inputs.size()].second;
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
  if (thread_state.observed) return program(inputs);
  if (program_must_run()) return run();
  const std::lock_guard lock(*running_);
  for (const auto& [key, recording] : recordings_) {
    if (key != rest || !recording->objection(inputs).empty()) continue;
    Recording& known = *recording;  // the list may grow meanwhile
    const bool audit = known.audit_is_due();
    if (!known.refused().empty()) return run();
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

Difference difference(const Graph& before, const Graph& now) {
  if (before.inputs != now.inputs || before.values.empty() != now.values.empty())
    return {"takes other tensors than before"};
  for (size_t i = 0; i < std::min(before.nodes.size(), now.nodes.size()); ++i) {
    const Node &a = before.nodes[i], &b = now.nodes[i];
    if (std::string d = difference(a, b, before, now); !d.empty()) return {std::move(d)};
    for (const ValueId id : b.results)
      if (id != kNoValue && before.values[id].type != now.values[id].type)
        return {fmt::format("{} returned {}; it returned {} before", place_of(b), to_string(now.values[id].type),
                            to_string(before.values[id].type)),
                true};
  }
  if (before.nodes.size() != now.nodes.size())
    return {fmt::format("makes {} calls; it made {} before", now.nodes.size(), before.nodes.size())};
  if (before.states.size() != now.states.size() || before.outputs != now.outputs || before.writes != now.writes)
    return {"returns or writes other values than before"};
  for (size_t i = 0; i < now.states.size(); ++i) {
    const Graph::State &a = before.states[i], &b = now.states[i];
    if (a.id != b.id || a.named != b.named ||
        (b.named ? a.tensor.get() != b.tensor.get() : !same_bits(a.tensor, b.tensor)))
      return {fmt::format("uses another tensor as {} than before", now.values[b.id].name)};
  }
  return {};
}

}  // namespace strata::graph
