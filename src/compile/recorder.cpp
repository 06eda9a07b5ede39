#include "compile/recorder.h"

#include <fmt/core.h>

#include <algorithm>

#include "autograd/watch.h"
#include "dispatch/deferred.h"
#include "dispatch/source_line.h"

namespace strata::graph {
namespace {

constexpr std::string_view kHarmlessReads[] = {"print", "data_ptr", "untyped_storage"};

// Of a copy that has no gaps: what a graph gives calls that write.
ValueType type_of_copy(const TensorImpl& t) {
  Tensor copy(Ref<TensorImpl>::adopt(TensorImpl::make()));
  copy->set_shape(t.sizes());
  copy->set_strides_like(t);
  ValueType type = type_of(t);
  type.strides.assign(copy->strides, copy->strides + copy->ndim);
  return type;
}

Tensor share(const TensorImpl& t) { return Ref<TensorImpl>::share(const_cast<TensorImpl*>(&t)); }
bool same_geometry(const TensorImpl& a, const TensorImpl& b) {
  return a.data == b.data && a.dtype == b.dtype && a.same_shape(b) &&
         std::equal(a.strides, a.strides + a.ndim, b.strides);
}

// Whether its next use is recorded. A view gets the history of a later write to its base when it is used.
bool requires_grad(const TensorImpl& t) {
  return t.requires_grad || (t.base && t.base->rebases != t.rebases && t.base->requires_grad);
}

}  // namespace

bool covers_its_storage(const TensorImpl& t) {
  return t.data == t.storage->data && t.is_dense() &&
         static_cast<size_t>(t.numel) * size_of(t.dtype) == t.storage->requested;
}
Recorder::Recorder(const CaptureOptions& options, bool lenient)
    : options_(options), lenient_(lenient), careful_(lenient) {
  inside_composites = !options.composites ? Inside::Always : lenient ? Inside::IfRecorded : Inside::Never;
  autograd::backward_watch = watch;
  autograd::kept_references = count_references;
  for (const auto& [name, tensor] : options.states) names_.insert(name);  // these stay as they are
}
ValueId Recorder::add_input(const Tensor& t, std::string name) {
  const ValueId id = new_value(type_of(*t), t->requires_grad, std::move(name));
  graph_.inputs.push_back(id);
  define_memory(*t, id);
  place_of_given_.try_emplace(t.get(), given_.size());
  given_.push_back({t.get(), id});
  return id;
}

void Recorder::add_state(const Tensor& t, std::string name, bool named) {
  if (named) names_.erase(name);
  const ValueId id = new_value(type_of(*t), t->requires_grad, std::move(name));
  graph_.states.push_back({id, t, named});
  define_memory(*t, id);
  if (!named) return;
  place_of_given_.try_emplace(t.get(), given_.size());
  given_.push_back({t.get(), id});
}

Graph Recorder::finish(const std::vector<Tensor>& outputs) {
  for (const Tensor& t : outputs) {
    STRATA_CHECK(t, Type, "capture: the program returned an undefined tensor");
    graph_.outputs.push_back(value_for_use(*t, true));
  }
  for (const auto& [storage, m] : memories_)
    if (m.writes && m.first_id != kNoValue) graph_.writes.push_back({m.first_id, m.base});
  std::ranges::sort(graph_.writes, {}, &Graph::Write::target);
  verify(graph_);
  return std::move(graph_);
}

Node Recorder::begin(const OpRecord& op) {
  STRATA_CHECK(!careful_ || thread_state.anomaly_mode == modes_.anomaly_mode, NotImplemented, "changes anomaly mode{}",
               at_line(program_line()));
  forget_unreachable();
  Node n;
  n.op = &op;
  n.no_grad = grad_mode_ && !thread_state.grad_mode;
  n.scope = capture_scope();
  n.source = short_program_line();
  return n;
}

void Recorder::note_call(const OpRecord& op, Form form, const Args& args, const Tensor* outs) {
  pending_ = begin(op);
  pending_.form = form;
  for (uint32_t i = 0; i < args.size; ++i) pending_.args.push_back(argument_of(op, i, args[i]));
  targets_.clear();
  const auto add_target = [&](const TensorImpl& t) {
    if (outer_ && is_from_outside(t))
      object(ErrorKind::NotImplemented,
             fmt::format("{} writes to a tensor that it did not compute ({}{}). It must return the new value instead",
                         part_, op.name, at_line(pending_.source)));
    targets_.push_back({share(t), alias(t)});
  };
  if (form == Form::InPlace) add_target(args.tensor(0));
  if (form == Form::Out)
    for (uint32_t o = 0; o < op.outputs; ++o) {
      if (outs[o]->storage && !outer_) value_of(*outs[o]);  // memory of the program's own becomes a state
      add_target(*outs[o]);
    }
  if (form == Form::Plain)
    for (uint32_t i = 0, written = written_by(pending_); i < args.size; ++i)
      if (written >> i & 1) {
        if (args.is_tensor(i)) add_target(args.tensor(i));
        else
          for (const Tensor& t : args[i].tensor_list())
            if (t) add_target(*t);
            else targets_.emplace_back();
      }
}

void Recorder::note_value(ValueId id, const TensorImpl& t) {
  static const OpRecord& clone = find_op("clone");
  if (!t.storage || t.device.type == DeviceType::Meta) return;
  const Unseen unseen;
  notes_->emplace_back(id, call(clone, Args(alias(t), Value())));
}

void Recorder::note_results(const Tensor* outs, size_t count) {
  const bool plain = pending_.form == Form::Plain, grad_mode = thread_state.grad_mode;
  std::vector<bool> shown(count, false);
  for (size_t k = 0; plain && k < count; ++k) {
    if (!outs[k]) {
      pending_.results.push_back(kNoValue);
      continue;
    }
    const bool written =
      std::ranges::any_of(targets_, [&](const Target& t) { return t.tensor.get() == outs[k].get(); });
    shown[k] = !written;
    const ValueId itself = written ? kNoValue : value_of_object(*outs[k]);  // an op may return its argument
    const bool recorded = itself == kNoValue ? outs[k]->requires_grad && grad_mode : recorded_[itself];
    pending_.results.push_back(new_value(written ? type_of_copy(*outs[k]) : type_of(*outs[k]), recorded));
  }
  const size_t first = pending_.results.size();
  for (const Target& t : targets_)
    pending_.results.push_back(t.tensor ? new_value(type_of_copy(*t.tensor), t.tensor->requires_grad && grad_mode)
                                        : kNoValue);
  const std::vector<ValueId> results = pending_.results;
  graph_.nodes.push_back(std::move(pending_));
  for (size_t k = 0; k < targets_.size(); ++k) {
    if (!targets_[k].tensor) continue;
    const TensorImpl& t = *targets_[k].tensor;
    // squeeze_() and resize_() change the shape of the tensor, not its memory
    if (plain && !same_geometry(t, *targets_[k].before)) show(t, results[first + k]);
    else write(t, results[first + k]);
  }
  if (notes_) {
    for (size_t k = 0; k < targets_.size(); ++k)
      if (targets_[k].tensor) note_value(results[first + k], *targets_[k].tensor);
    for (size_t k = 0; k < count; ++k)
      if (shown[k]) note_value(results[k], *outs[k]);
  }
  targets_.clear();
  for (size_t k = 0; k < count; ++k)
    if (shown[k]) show(*outs[k], results[k]);
}

void Recorder::reads(const Storage* memory, const char* why) {
  const bool harmless = std::ranges::find(kHarmlessReads, why) != std::end(kHarmlessReads);
  if (lenient_) return refuse(fmt::format("reads values of a tensor ({}){}", why, at_line(program_line())));
  if (!careful_ && (options_.allow_reads || harmless || (memory && !knows(memory)))) return;
  if (!careful_ && options_.allow_constant_reads && memory && !depends_on_inputs(memory)) return;
  object(
    ErrorKind::Runtime,
    fmt::format("capture: the program reads values of a tensor ({}){}. A graph cannot decide by values: use where() or "
                "ops that stay on tensors, or allow it if the values do not matter",
                why, at_line(program_line())));
}
// Each node is examined once, however often the program reads.
bool Recorder::depends_on_inputs(const Storage* memory) {
  varies_.resize(graph_.values.size(), false);
  for (const ValueId id : graph_.inputs) varies_[id] = true;
  for (const Graph::State& s : graph_.states) varies_[s.id] = varies_[s.id] || s.named;
  for (; examined_ < graph_.nodes.size(); ++examined_) {
    const Node& n = graph_.nodes[examined_];
    bool varies = n.op->random || !n.bodies.empty();
    for_each_use(n, [&](ValueId id) { varies = varies || varies_[id]; });
    for (const ValueId id : n.results)
      if (id != kNoValue) varies_[id] = varies;
  }
  const auto found = memories_.find(memory);
  if (found == memories_.end()) return true;  // of another recorder
  const Memory& m = found->second;
  return varies_[m.base] || std::ranges::any_of(m.views, [&](const View& v) { return varies_[v.id]; });
}
void Recorder::looks_at_grad(const TensorImpl& t) {
  if (outer_ && careful_)
    object(ErrorKind::NotImplemented, part_ + " uses the .grad of a tensor" + at_line(program_line()));
  if (!lenient_ || !refused_.empty()) return;
  const auto found = place_of_given_.find(&t);
  if (found == place_of_given_.end()) {
    if (const ValueId owner = owner_of(t); owner != kNoValue && is_constant(owner))
      refuse("uses the .grad of a tensor that is neither an argument nor a part of what the function refers to");
    return;
  }
  Given& given = given_[found->second];
  if (given.looked_at) return;
  given.looked_at = true;
  const Tensor grad = t.shared_grad();
  if (!grad) return;
  if (!grad->storage || memories_.contains(grad->storage.get()))
    return refuse("uses the .grad of a tensor that it also finds elsewhere, or that has no memory of its own");
  if (!covers_its_storage(*grad)) return refuse("uses the .grad of a tensor that is a part of other memory");
  const ValueId id = new_value(type_of(*grad), grad->requires_grad, graph_.values[given.id].name + ".grad");
  graph_.inputs.push_back(id);
  define_memory(*grad, id);
  given.grad = id;
}
void Recorder::sets_generator() {
  const std::string what = fmt::format("sets the seed or the state of a generator{}", at_line(program_line()));
  if (lenient_) return refuse(what);
  object(ErrorKind::NotImplemented, fmt::format("capture: the program {}, which a graph does not", what));
}

void Recorder::refuse(std::string why) {
  if (refused_.empty()) refused_ = std::move(why);
  memories_.clear();  // the program goes on, and needs its memory
  without_memory_.clear();
  pending_ = {};
  targets_.clear();
}

void Recorder::before(const OpRecord& op, Form form, const Args& args, const Tensor* outs) {
  if (lenient_ && !refused_.empty()) return;
  try {
    note_call(op, form, args, outs);
  } catch (const Error& e) {
    if (lenient_) return refuse(e.what());
    if (refused_.empty()) refused_ = e.what();
    throw;
  }
}
void Recorder::after(const OpRecord&, const Tensor* outs, size_t count) {
  if (lenient_ && !refused_.empty()) return;
  try {
    note_results(outs, count);
  } catch (const Error& e) {
    if (lenient_) return refuse(e.what());
    if (refused_.empty()) refused_ = e.what();
    throw;
  }
}

void Recorder::failed() {
  if (lenient_) return refuse("calls an op that raises");
  pending_ = {};
  targets_.clear();
}

void Recorder::copies(const TensorImpl& from, const TensorImpl& to) {
  if (from.storage && memories_.contains(from.storage.get())) define_memory(to, value_of(from));
}

ValueId Recorder::owner_of(const TensorImpl& t) const {
  const auto found = t.storage ? memories_.find(t.storage.get()) : memories_.end();
  return found == memories_.end() ? kNoValue : found->second.first_id;
}
bool Recorder::has_written(const TensorImpl& t) const {
  const auto found = t.storage ? memories_.find(t.storage.get()) : memories_.end();
  return found != memories_.end() && found->second.writes;
}

// Of one recorder; of outer ones too, if the tensor is not only a part's.
int32_t Recorder::references_to(const TensorImpl& t) const {
  const auto found = t.storage ? memories_.find(t.storage.get()) : memories_.end();
  if (found == memories_.end()) return outer_ ? outer_->references_to(t) : 0;
  std::map<const TensorImpl*, int32_t> own;
  for (const View& v : found->second.views) ++own[v.tensor.get()];
  const auto itself = own.find(&t);
  int32_t count = itself == own.end() ? 0 : itself->second;
  for (const auto& [view, references] : own)
    if (view->base.get() == &t && view->refs.load() == references) ++count;
  return count + (outer_ ? outer_->references_to(t) : 0);
}
int32_t Recorder::count_references(const TensorImpl& t) {
  const auto* recorder = dynamic_cast<const Recorder*>(current_observer());
  return recorder ? recorder->references_to(t) : 0;
}

// Without this, a capture would hold every intermediate result until it ends. Memory that only the recorder refers to cannot be an
// argument again.
void Recorder::forget_unreachable() {
  if (memories_.size() < sweep_at_) return;
  std::erase_if(memories_, [](const auto& entry) {
    const Memory& m = entry.second;
    if (m.first_id != kNoValue) return false;
    std::map<const TensorImpl*, int32_t> own;  // references to each tensor from here
    for (const View& v : m.views) ++own[v.tensor.get()];
    for (auto& [tensor, count] : own) {
      const auto base = own.find(tensor->base.get());
      if (base != own.end()) ++base->second;
    }
    const auto only_ours = [](const auto& o) { return o.first->refs.load() == o.second; };
    const auto of_storage =
      static_cast<int32_t>(2 + own.size() + m.views.size());  // held, shape, tensors, their shapes
    return std::ranges::all_of(own, only_ours) && m.held->refs.load() == of_storage;
  });
  sweep_at_ = std::max<size_t>(64, 2 * memories_.size());
}

ValueId Recorder::new_value(ValueType type, bool recorded, std::string name) {
  recorded_.push_back(recorded);
  const auto id = static_cast<ValueId>(graph_.values.size());
  if (name.empty()) {
    char letter = 'v';  // parts of the program have other names: a0, ...
    for (const Recorder* r = outer_; r; r = r->outer_) letter = letter == 'v' || letter == 'u' ? 'a' : char(letter + 1);
    name = fmt::format("{}{}", letter, id);
  }
  while (!names_.insert(name).second) name += "_";
  graph_.values.push_back({std::move(type), std::move(name)});
  return id;
}

void Recorder::define_memory(const TensorImpl& t, ValueId id) {
  if (!t.storage) {
    without_memory_.push_back(view_of(t, id, 0));
    return;
  }
  Memory& m = memories_[t.storage.get()];
  if (m.held) {  // an alias of an input or a state that is known
    m.views.push_back(view_of(t, id, m.writes));
    return;
  }
  m.held = t.storage;
  m.base = id;
  m.shape = alias(t);
  m.whole = covers_its_storage(t);
  if (std::ranges::find(graph_.inputs, id) != graph_.inputs.end() ||
      std::ranges::find(graph_.states, id, &Graph::State::id) != graph_.states.end())
    m.first_id = id;
  m.views.push_back(view_of(t, id, 0));
}

void Recorder::show(const TensorImpl& t, ValueId id) {
  const auto found = t.storage ? memories_.find(t.storage.get()) : memories_.end();
  if (found == memories_.end()) return define_memory(t, id);
  found->second.views.push_back(view_of(t, id, found->second.writes));
}

// Of this very tensor, if it has been seen with this geometry.
ValueId Recorder::value_of_object(const TensorImpl& t) const {
  const auto found = t.storage ? memories_.find(t.storage.get()) : memories_.end();
  if (found == memories_.end()) return kNoValue;
  const auto& views = found->second.views;
  const auto same = std::find_if(views.rbegin(), views.rend(), [&](const View& v) { return v.tensor.get() == &t; });
  return same == views.rend() ? kNoValue : same->id;
}
ValueId Recorder::add_constant(const TensorImpl& t) {
  if (t.storage && inner_.has(t.storage.get()))
    fail(ErrorKind::NotImplemented,
         fmt::format(
           "capture: the program uses a tensor {} that a function of cond, while_loop or scan has computed{}; it "
           "must return the tensor",
           to_string(type_of(t)), at_line(program_line())));
  add_state(share(t), fmt::format("constant_{}", constants_++), false);
  return graph_.states.back().id;
}

ValueId Recorder::value_of(const TensorImpl& t) {
  if (!t.storage) {
    for (const View& v : without_memory_)
      if (v.tensor.get() == &t) return v.id;
    return outer_ ? from_outside(t) : add_constant(t);
  }
  const auto found = memories_.find(t.storage.get());
  if (found == memories_.end()) return outer_ ? from_outside(t) : add_constant(t);
  Memory& m = found->second;
  const View* same = nullptr;
  for (size_t i = m.views.size(); i-- > 0;) {
    const View& v = m.views[i];
    if (v.writes != m.writes && t.numel > 0) continue;
    if (!same_geometry(*v.shape, t)) continue;
    if (v.tensor.get() == &t) return v.id;
    if (!same || (recorded_[same->id] != requires_grad(t) && recorded_[v.id] == requires_grad(t))) same = &v;
  }
  if (same) return same->id;
  if (outer_ && m.first_id != kNoValue && (outer_->knows(t.storage.get()) || !m.whole)) return from_outside(t);
  if (!m.whole && !m.writes && is_constant(m.first_id))
    return add_constant(t);  // another part of the program's own memory
  return part_of_memory(m, t);
}

// The tensor itself, or the one that it is a view of: those that share a history.
static const TensorImpl* root_of(const TensorImpl& t) { return t.base ? t.base.get() : &t; }
// Whether the gradient of the value of its memory is its own: not if the last recorded write was through a tensor that shares the
// memory only (detach(), .data), or if it got the memory of another tensor (.data = ...).
bool Recorder::has_gradient_of_memory(const TensorImpl& t) const {
  const auto found = t.storage ? memories_.find(t.storage.get()) : memories_.end();
  if (found == memories_.end()) return true;
  const Memory& m = found->second;
  if (m.writer) return m.writer == root_of(t);
  return std::ranges::any_of(m.views, [&](const View& v) {
    const TensorImpl& known = *v.tensor;
    return root_of(known) == root_of(t) || (t.history && known.history.get() == t.history.get());
  });
}
void Recorder::lose_gradient(const TensorImpl& t, bool returned) {
  const bool is_given = place_of_given_.contains(&t);
  Recorder* root = this;
  while (root->outer_) root = root->outer_;
  if (root->lost_.empty() && (returned ? careful_ : is_given || t.history))
    root->lost_ = fmt::format(
      "{} a tensor whose gradient a graph does not have{}: it has written to it without gradients, or set "
      "requires_grad",
      returned ? "returns" : "uses", at_line(program_line()));
}

ValueId Recorder::value_for_use(const TensorImpl& t, bool returned) {
  const ValueId id = value_of(t);
  if (recorded_[id] == requires_grad(t)) {
    if (recorded_[id] && !has_gradient_of_memory(t)) lose_gradient(t, returned);
    return id;
  }
  if (!returned && !thread_state.grad_mode) {
    if (value_of_object(t) == kNoValue) show(t, id);  // for a call that returns it
    return id;
  }
  if (!recorded_[id]) {
    lose_gradient(t, returned);
    return id;
  }
  static const OpRecord& detach = find_op("detach");  // the program did so without an op
  const ValueId without = new_value(type_of(t), false);
  Node& n = graph_.nodes.emplace_back();
  n.op = &detach;
  n.args = {ValueRef{id}};
  n.results = {without};
  show(t, without);
  return without;
}

ValueId Recorder::part_of_memory(Memory& m, const TensorImpl& t) {
  STRATA_CHECK(m.whole && m.shape.dtype() == t.dtype, NotImplemented,
               "capture: a tensor {} shares memory with {}, of which a graph has no view; use a copy",
               to_string(type_of(t)), to_string(graph_.values[m.base].type));
  static const OpRecord& as_strided = find_op("as_strided");
  const ValueId id = new_value(type_of(t), recorded_[m.base] && thread_state.grad_mode);
  add_node(as_strided, {ValueRef{m.base}}, t, id);
  m.views.push_back(view_of(t, id, m.writes));
  return id;
}

void Recorder::add_node(const OpRecord& op, std::vector<Argument> args, const TensorImpl& t, ValueId result) {
  args.insert(args.end(),
              {std::vector(t.shape, t.shape + t.ndim), std::vector(t.strides, t.strides + t.ndim), t.storage_offset()});
  Node& n = graph_.nodes.emplace_back();
  n.op = &op;
  n.args = std::move(args);
  n.results = {result};
  n.no_grad = grad_mode_ && !thread_state.grad_mode;
}

void Recorder::write(const TensorImpl& t, ValueId value) {
  const auto found = t.storage ? memories_.find(t.storage.get()) : memories_.end();
  if (found == memories_.end()) return define_memory(t, value);  // out= has got new memory
  Memory& m = found->second;
  if (t.numel == 0) return m.views.push_back(view_of(t, value, m.writes));
  if (same_geometry(*m.shape, t) && t.is_dense()) {
    m.base = value;
  } else {
    STRATA_CHECK(m.whole && m.shape.dtype() == t.dtype, NotImplemented,
                 "capture: a write to a tensor {}, a part of {} that a graph cannot replace; use a copy",
                 to_string(type_of(t)), to_string(graph_.values[m.base].type));
    static const OpRecord& scatter = find_op("as_strided_scatter");
    const ValueType type = graph_.values[m.base].type;
    // A write through a tensor that is cut off the tape (detach(), .data) changes values, and no gradients: nothing that a run
    // could record.
    const bool cut = recorded_[m.base] && !recorded_[value];
    const ValueId whole = new_value(type, !cut && recorded_[value] && thread_state.grad_mode);
    add_node(scatter, {ValueRef{m.base}, ValueRef{value}}, t, whole);
    graph_.nodes.back().no_grad |= cut;
    m.base = whole;
  }
  ++m.writes;
  m.writer = recorded_[value] ? root_of(t) : nullptr;
  std::erase_if(m.views, [](const View& v) { return v.shape.numel() > 0; });
  m.views.push_back(view_of(*m.shape, m.base, m.writes));
}

Argument Recorder::argument_of(const OpRecord& op, uint32_t i, const Value& v) {
  switch (v.tag) {
    case Tag::None: return {};
    case Tag::Tensor: return ValueRef{value_for_use(*v.tensor)};
    case Tag::Float: return v.f;
    case Tag::Int: return v.i;
    case Tag::Bool: return v.i != 0;
    case Tag::Complex: return ComplexNumber{*v.complex};
    case Tag::Ints: return std::vector<int64_t>(v.int_list().begin(), v.int_list().end());
    case Tag::Floats: return std::vector<double>(v.float_list().begin(), v.float_list().end());
    case Tag::Str: return std::string(v.string());
    case Tag::DType: return v.dtype();
    case Tag::Device: return v.device();
    case Tag::Tensors: {
      ValueList list;
      for (const Tensor& t : v.tensor_list()) list.ids.push_back(t ? value_for_use(*t) : kNoValue);
      return list;
    }
    case Tag::Generator:
      fail(ErrorKind::NotImplemented,
           fmt::format("capture: argument '{}' of {} is a generator, which a graph does not hold; "
                       "use the default one",
                       op.params[i].name, op.name));
  }
  return {};
}

Recorder::View Recorder::view_of(const TensorImpl& t, ValueId id, uint32_t writes) {
  return {share(t), alias(t), id, writes};
}
bool Recorder::is_constant(ValueId id) const {
  return std::ranges::any_of(graph_.states, [&](const Graph::State& s) { return s.id == id && !s.named; });
}

}  // namespace strata::graph
