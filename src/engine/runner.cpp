#include "engine/runner.h"
#include "engine/graph_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "autograd/autograd.h"
#include "base/interrupt.h"
#include "base/trace.h"
#include "compile/sharing.h"
#include "cuda/runtime/event.h"
#include "cuda/runtime/in_stream.h"
#include "cuda/runtime/runtime.h"
#include "dispatch/autocast.h"
#include "dispatch/choose.h"
#include "dispatch/memory.h"
#include "dispatch/settings.h"
#include "engine/step.h"
#include "record/declined.h"
#include "strata/ops/movement/copy.h"

namespace strata::engine {

namespace {

constexpr uintptr_t kGivenAlignment = 16;  // of memory of the caller's that kernels use as it is

Tensor slot_of(const ValueType& type) {
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = type.dtype;
  t->device = type.device;
  t->set_shape(type.shape);
  t->numel = checked_numel(type.shape);
  t->set_contiguous_strides();
  std::ranges::copy(type.strides, t->strides);
  t->update_contiguous();
  return t;
}
size_t bytes_of(const TensorImpl& t) {
  if (t.numel == 0) return 0;
  int64_t last = 0;
  for (int d = 0; d < t.ndim; ++d) last += (t.shape[d] - 1) * t.strides[d];
  return static_cast<size_t>(last + 1) * size_of(t.dtype);
}
Tensor memory_for(const ValueType& type) {
  Tensor t = slot_of(type);
  t->allocate_bytes(bytes_of(*t));
  return t;
}
bool same_strides(const TensorImpl& t, const ValueType& type) {
  for (int d = 0; d < t.ndim; ++d)
    if (t.strides[d] != type.strides[static_cast<size_t>(d)] && !graph::has_any_strides(type, static_cast<size_t>(d)))
      return false;
  return true;
}
bool is_aligned(const TensorImpl& t) { return reinterpret_cast<uintptr_t>(t.data) % kGivenAlignment == 0; }
bool overlap(const TensorImpl& a, const TensorImpl& b) {
  return a.device == b.device && a.data && b.data && a.data < b.data + bytes_of(b) && b.data < a.data + bytes_of(a);
}
void wait_for(Device device) {
  if (device.type != DeviceType::Cpu) cuda::synchronize(device);
}
bool is_gpu(Device d) { return d.type == DeviceType::Cuda || d.type == DeviceType::Vgpu; }

}  // namespace

// Memory that differs from run to run, and the tensors that show it.
struct Runner::Root {
  Tensor slot;
  struct User {
    Tensor tensor;
    ptrdiff_t offset;  // in bytes from the slot's first element
  };
  std::vector<User> users = {};
};

Runner::Runner(std::shared_ptr<const Specialization> what, const Tactics& tactics)
    : what_(std::move(what)), tactics_(tactics) {
  bind();
}
Runner::~Runner() = default;

// --- binding ----------------------------------------------------------------------------------------------------------
void Runner::bind() {
  const Graph& g = what_->graph();
  const autograd::NoGrad off;
  const autocast::Off same_dtypes;
  steps_.clear();
  roots_.clear();
  for (const Graph::Value& v : g.values)
    if (is_gpu(v.type.device)) device_ = v.type.device;
  values_.assign(g.values.size(), {});
  if (what_->arena_bytes && !arena_)
    arena_ = make_tensor(Shape({static_cast<int64_t>(what_->arena_bytes)}), DType::U8, device_);
  const size_t inputs = g.inputs.size(), outputs = g.outputs.size();
  root_of_input_.assign(inputs, nullptr);
  root_of_output_.assign(outputs, nullptr);
  spare_inputs_.resize(inputs);
  spare_outputs_.resize(outputs);
  const auto add_root = [&](ValueId id) {
    auto root = std::make_unique<Root>();
    root->slot = values_[id] = memory_for(g.values[id].type);
    return roots_.emplace_back(std::move(root)).get();
  };
  for (size_t i = 0; i < inputs; ++i) root_of_input_[i] = add_root(g.inputs[i]);
  for (const Graph::State& s : g.states) values_[s.id] = s.tensor;
  for (uint32_t n = 0; n < g.nodes.size(); ++n) {
    if (what_->kinds[n] != StepKind::Kernel) continue;
    for (const ValueId id : g.nodes[n].results)
      for (size_t o = 0; o < outputs; ++o)
        if (g.outputs[o] == id && !values_[id]) root_of_output_[o] = add_root(id);
  }
  for (uint32_t n = 0; n < g.nodes.size(); ++n) bind_step(n);
  size_t workspace = 0;
  for (const auto& step : steps_) workspace = std::max(workspace, step->plan.workspace);
  workspace_ = workspace ? make_tensor(Shape({static_cast<int64_t>(workspace)}), DType::U8, device_) : Tensor();
  find_dead();
  release_given();
  settings_ = Settings::now();
}

Tensor Runner::memory_of(size_t node, size_t result) {
  const Graph& g = what_->graph();
  const ValueId id = g.nodes[node].results[result];
  if (values_[id]) return values_[id];  // an output
  Tensor t = slot_of(g.values[id].type);
  const uint32_t block = what_->out_blocks[node][result];
  // on another device than the arena: integers that are computed on the host
  if (t.device() != device_ || what_->blocks[block].bytes == 0) {
    t->allocate_bytes(bytes_of(*t));
  } else {
    t->storage = arena_->storage;
    t->data = arena_->data + what_->blocks[block].offset;
  }
  return t;
}

void Runner::bind_step(uint32_t n) {
  const Node& node = what_->graph().nodes[n];
  if (what_->kinds[n] == StepKind::View && (bind_view(n) || bind_copy(n))) return;
  auto step = std::make_unique<Step>();
  step->node = n;
  step->op = node.op;
  step->kind = what_->kinds[n] == StepKind::Kernel ? StepKind::Kernel : StepKind::Call;
  step->device = device_;
  if (step->kind == StepKind::Call) {
    step->call.emplace(what_->graph(), node);
  } else {
    step->device = what_->graph().values[node.results[0]].type.device;
    for (size_t k = 0; k < node.results.size(); ++k) step->outs.push_back(values_[node.results[k]] = memory_of(n, k));
    step->bind(what_->graph(), node, values_);
    const auto tactic = std::ranges::find(tactics_, n, &Tactics::value_type::first);
    step->choose(tactic == tactics_.end() ? nullptr : &tactic->second);
  }
  steps_.push_back(std::move(step));
}

// A view of memory that is known now is made once. False if it is of a value that a call makes in each run, or if it is a copy.
bool Runner::bind_view(uint32_t n) {
  const Node& node = what_->graph().nodes[n];
  const auto* of = std::get_if<ValueRef>(&node.args[0]);
  if (!of || !values_[of->id]) return false;
  Step step;
  step.bind(what_->graph(), node, values_);
  Tensor view;
  call_into(*node.op, step.args, &view);
  const Tensor& from = values_[of->id];
  if (view->storage.get() != from->storage.get() ||
      !graph::same_layout(graph::type_of(*view), what_->graph().values[node.results[0]].type))
    return false;
  view->base = {};
  for (const auto& root : roots_)
    if (root->slot->storage.get() == view->storage.get()) root->users.push_back({view, view->data - root->slot->data});
  values_[node.results[0]] = view;
  return true;
}

// A reshape that cannot be a view copies into memory of its own.
bool Runner::bind_copy(uint32_t n) {
  static const OpRecord& copy = find_op("copy");
  const Node& node = what_->graph().nodes[n];
  const auto* of = std::get_if<ValueRef>(&node.args[0]);
  const ValueId id = node.results[0];
  if (node.op->name != "reshape" || !of || !values_[of->id] || values_[id]) return false;
  const Tensor& from = values_[of->id];
  Tensor out = memory_for(what_->graph().values[id].type);
  if (!out->contiguous || out.device() != from.device()) return false;
  const Tensor same_shape = alias(*out);
  same_shape->set_shape(from.shape());
  same_shape->set_contiguous_strides();
  auto step = std::make_unique<Step>();
  step->node = n;
  step->op = &copy;
  step->device = out.device();
  step->bind_copy(same_shape, from);
  values_[id] = out;
  steps_.push_back(std::move(step));
  return true;
}

// Values of calls are released after the last step that uses them, or the memory that they share.
void Runner::find_dead() {
  const Graph& g = what_->graph();
  std::vector<size_t> last(g.values.size(), SIZE_MAX);
  std::set<ValueId> returned(g.outputs.begin(), g.outputs.end());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Node& n = g.nodes[steps_[i]->node];
    graph::for_each_use(n, [&](ValueId id) { last[id] = i; });
    if (steps_[i]->kind == StepKind::Call)
      for (const ValueId id : n.results)
        if (id != kNoValue) last[id] = i;
  }
  for (ValueId id = 0; id < g.values.size(); ++id)
    if (!values_[id] && last[id] != SIZE_MAX && !returned.contains(id)) steps_[last[id]]->dead.push_back(id);
  returned_by_calls_.clear();
  for (const auto& step : steps_)
    if (step->kind == StepKind::Call)
      for (const ValueId id : g.nodes[step->node].results)
        if (returned.contains(id)) returned_by_calls_.push_back(id);
}

// --- memory of a run ----------------------------------------------------------------------------------------------------
void Runner::attach(Root& root, const Tensor& t) {
  root.slot->storage = t->storage;
  root.slot->data = t->data;
  for (const Root::User& u : root.users) {
    u.tensor->storage = t->storage;
    u.tensor->data = t->data + u.offset;
  }
}
void Runner::release_given() {
  for (const auto& root : roots_) {
    root->slot->storage = {};
    root->slot->data = nullptr;
    for (const Root::User& u : root->users) {
      u.tensor->storage = {};
      u.tensor->data = nullptr;
    }
  }
  targets_.clear();
}

// The given tensor, or a copy of it with the layout and on the device that the steps expect.
Tensor Runner::staged_input(size_t i, const Tensor& given, bool at_fixed_place) {
  const Graph& g = what_->graph();
  const Graph::Value& want = g.values[g.inputs[i]];
  STRATA_CHECK(given && given.dtype() == want.type.dtype && std::ranges::equal(given->sizes(), want.type.shape), Value,
               "engine: the input '{}' is {}; expected {}", want.name,
               given ? graph::to_string(graph::type_of(*given)) : "undefined", graph::to_string(want.type));
  need_values(given->storage.get(), "engine");
  if (!at_fixed_place && given.device() == want.type.device && same_strides(*given, want.type) && is_aligned(*given))
    return given;
  Tensor& spare = spare_inputs_[i];
  if (!spare) spare = memory_for(want.type);
  copy_(spare, given);
  return spare;
}

void Runner::check_output(size_t i, const Tensor& t) const {
  const Graph& g = what_->graph();
  const Graph::Value& want = g.values[g.outputs[i]];
  STRATA_CHECK(t.dtype() == want.type.dtype && std::ranges::equal(t->sizes(), want.type.shape), Value,
               "engine: the tensor given for output {} is {}; the output is {}", i,
               graph::to_string(graph::type_of(*t)), graph::to_string(want.type));
  STRATA_CHECK(!t.requires_grad(), Value,
               "engine: the tensor given for output {} requires a gradient; engines record none", i);
  check_writable(*t, "engine");
  need_values(t->storage.get(), "engine");
}

void Runner::prepare(std::span<const Tensor> inputs, std::span<Tensor> outputs, bool fixed) {
  const Graph& g = what_->graph();
  STRATA_CHECK(inputs.size() == g.inputs.size() && outputs.size() == g.outputs.size(), Value,
               "engine: {} inputs and {} outputs were given; the network has {} and {}", inputs.size(), outputs.size(),
               g.inputs.size(), g.outputs.size());
  if (settings_ != Settings::now()) {  // other kernels may be chosen
    bind();
    recorded_.reset();
  }
  for (size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o]) check_output(o, outputs[o]);
  std::vector<Tensor> staged;
  staged.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    staged.push_back(staged_input(i, inputs[i], fixed));
    attach(*root_of_input_[i], staged.back());
  }
  targets_.assign(outputs.size(), {});
  for (size_t o = 0; o < outputs.size(); ++o) {
    Root* root = root_of_output_[o];
    if (!root) continue;
    const ValueType& type = g.values[g.outputs[o]].type;
    bool direct = !fixed;
    if (outputs[o]) {
      const auto shares = [&](const Tensor& t) { return overlap(*t, *outputs[o]); };
      direct = direct && outputs[o].device() == type.device && same_strides(*outputs[o], type) &&
               is_aligned(*outputs[o]) && std::ranges::none_of(staged, shares) &&
               std::ranges::none_of(targets_, [&](const Tensor& t) { return t && shares(t); });
    } else if (direct) {
      outputs[o] = memory_for(type);
    }
    if (!direct && !spare_outputs_[o]) spare_outputs_[o] = memory_for(type);
    targets_[o] = direct ? outputs[o] : spare_outputs_[o];
    attach(*root, targets_[o]);
  }
}

// Puts results that were not written to the caller's tensors there.
void Runner::finish(std::span<Tensor> outputs) {
  const Graph& g = what_->graph();
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Tensor& value = targets_[o] ? targets_[o] : values_[g.outputs[o]];
    if (!outputs[o]) outputs[o] = clone(value);
    else if (outputs[o].get() != value.get()) copy_(outputs[o], value);
    else outputs[o]->count_write();
  }
  release_given();
  for (const ValueId id : returned_by_calls_) values_[id] = {};
}

// --- running ----------------------------------------------------------------------------------------------------------
void Runner::run_step(Step& step) {
  if (step.kind == StepKind::Call) {
    step.call->run(values_);
  } else {
    step.refresh(values_);
    thread_state.op = step.op;
    thread_state.default_device = step.device;
    step.run(workspace_.get());
  }
  for (const ValueId id : step.dead) values_[id] = {};
}

void Runner::run_steps() {
  const Scoped op(thread_state.op, thread_state.op);
  const OnDeviceOf there(device_);
  for (const auto& step : steps_) {
    poll_interrupt();
    run_step(*step);
  }
}

void Runner::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const autograd::NoGrad off;
  const autocast::Off same_dtypes;
  given_outputs_.assign(outputs.begin(), outputs.end());
  try {
    prepare(inputs, outputs, false);
    run_steps();
    finish(outputs);
  } catch (...) {
    release_given();
    std::ranges::copy(given_outputs_, outputs.begin());  // none are made
    given_outputs_.clear();
    throw;
  }
  given_outputs_.clear();
}

bool Runner::run_as_graph(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const Graph& g = what_->graph();
  if (!graph_objection_.empty()) return false;
  if (!is_gpu(device_)) graph_objection_ = "it is not on a GPU";
  for (const Graph::Value& v : g.values)
    if (v.type.device != device_) graph_objection_ = "it has tensors on several devices";
  if (g.nodes.empty()) graph_objection_ = "it has no work";
  if (!graph_objection_.empty() || cuda::is_capturing(device_)) return false;
  if (runs_as_graph_++ == 0) {  // compiles kernels
    run(inputs, outputs);
    return true;
  }
  const autograd::NoGrad off;
  const autocast::Off same_dtypes;
  try {
    prepare(inputs, outputs, true);
    const cuda::Stream stream = cuda::stream_of(device_);
    if (!recorded_) record(stream);
    recorded_->replay(stream);
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (!outputs[o]) outputs[o] = clone(spare_outputs_[o]);
      else copy_(outputs[o], spare_outputs_[o]);
    }
    release_given();
  } catch (const Error& e) {
    release_given();
    if (recorded_) throw;
    graph_objection_ = e.what();
    return false;
  }
  return true;
}

// The work of a run that reads spare_inputs_ and writes spare_outputs_.
void Runner::record(const cuda::Stream& stream) {
  cuda::Gpu& gpu = stream.gpu();
  const cuda::Stream aside = cuda::Stream::create(gpu);  // the default stream records no graphs
  const cuda::Event before(gpu);
  before.record(stream);
  before.wait_in(aside);
  const cuda::InStream there(aside);
  const Graph& g = what_->graph();
  for (size_t o = 0; o < g.outputs.size(); ++o)
    if (!spare_outputs_[o]) spare_outputs_[o] = memory_for(g.values[g.outputs[o]].type);
  cuda::Graph work = cuda::Graph::begin(aside);
  run_steps();
  for (size_t o = 0; o < g.outputs.size(); ++o)
    if (!targets_[o]) copy_(spare_outputs_[o], values_[g.outputs[o]]);
  work.end();
  recorded_ = std::move(work);
}

size_t Runner::bytes() const {
  size_t sum = 0;
  const auto add = [&](const Tensor& t) { sum += t && t->storage ? t->storage->requested : 0; };
  add(arena_);
  add(workspace_);
  for (const Tensor& t : spare_inputs_) add(t);
  for (const Tensor& t : spare_outputs_) add(t);
  return sum;
}

// --- measuring --------------------------------------------------------------------------------------------------------
std::vector<LayerProfile> Runner::profile(std::span<const Tensor> inputs, int times) {
  std::vector<LayerProfile> layers;
  const autograd::NoGrad off;
  const autocast::Off same_dtypes;
  for (int round = 0; round <= times; ++round) {  // the first warms up
    std::vector<Tensor> outputs(what_->graph().outputs.size());
    prepare(inputs, outputs, false);
    const Scoped op(thread_state.op, thread_state.op);
    const OnDeviceOf there(device_);
    for (size_t i = 0; i < steps_.size(); ++i) {
      wait_for(device_);
      const auto begin = std::chrono::steady_clock::now();
      run_step(*steps_[i]);
      wait_for(device_);
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      if (round == 0) layers.push_back(steps_[i]->describe(what_->graph()));
      else layers[i].milliseconds = round == 1 ? ms : std::min(layers[i].milliseconds, ms);
    }
    finish(outputs);
  }
  return layers;
}

Runner::Tuned Runner::tune(std::span<const Tensor> inputs, double seconds, TimingCache& cache) {
  Tuned tuned;
  const autograd::NoGrad off;
  const autocast::Off same_dtypes;
  std::vector<Tensor> outputs(what_->graph().outputs.size());
  prepare(inputs, outputs, false);
  const auto begin = std::chrono::steady_clock::now();
  const auto is_late = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds;
  };
  {
    const Scoped op(thread_state.op, thread_state.op);
    const OnDeviceOf there(device_);
    for (const auto& step : steps_) {
      poll_interrupt();
      if (step->kind == StepKind::Kernel && step->direct) {
        thread_state.op = step->op;
        thread_state.default_device = step->device;
        step->refresh(values_);
        if (step->tune(cache, is_late())) {
          ++tuned.measured;
          tuned.tactics.emplace_back(step->node, step->kernel->name);
        }
        if (step->plan.workspace > (workspace_ ? static_cast<size_t>(workspace_.numel()) : 0))
          workspace_ = make_tensor(Shape({static_cast<int64_t>(step->plan.workspace)}), DType::U8, device_);
      }
      run_step(*step);
    }
  }
  finish(outputs);
  tactics_ = tuned.tactics;
  recorded_.reset();
  return tuned;
}

void Runner::inspect(std::span<const Tensor> inputs, const graph::Program::Inspect& look) const {
  const autograd::NoGrad off;
  const autocast::Off same_dtypes;
  what_->program->inspect({inputs.begin(), inputs.end()}, look);
}

}  // namespace strata::engine
