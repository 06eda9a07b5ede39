#include "compile/capture.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "autograd/autograd.h"
#include "cuda/runtime/runtime.h"
#include "dispatch/observer.h"

namespace strata::graph {
namespace {

constexpr std::string_view kHarmlessReads[] = {"print", "data_ptr", "untyped_storage"};

bool covers_its_storage(const TensorImpl& t) {
  return t.data == t.storage->data && t.is_dense() &&
         static_cast<size_t>(t.numel) * size_of(t.dtype) == t.storage->requested;
}
// Of a copy that has no gaps: what a graph gives calls that write.
ValueType type_of_copy(const TensorImpl& t) {
  Tensor copy(Ref<TensorImpl>::adopt(TensorImpl::make()));
  copy->set_shape(t.sizes());
  copy->set_strides_like(t);
  ValueType type = type_of(t);
  type.strides.assign(copy->strides, copy->strides + copy->ndim);
  return type;
}

std::string program_line() {
  const auto line = cuda::program_line.load();
  return line ? line() : std::string();
}
// 'File "a/model.py", line 12, in forward' as "model.py:12".
std::string short_line(const std::string& line) {
  const size_t end = line.rfind("\", line ");
  if (end == std::string::npos) return line;
  const size_t begin = std::max(line.find('"'), std::min(line.rfind('/', end), end)) + 1;
  const size_t number = end + std::string_view("\", line ").size();
  return fmt::format("{}:{}", line.substr(begin, end - begin), line.substr(number, line.find(',', number) - number));
}

// Notes calls as nodes. Memory is written to, values are not: a storage has a current value (its base), and every write makes a
// new one. A tensor that was a view of the old value is, when it is next used, computed from the new one.
class Recorder final : public Observer {
 public:
  explicit Recorder(const CaptureOptions& options) : options_(options) {
    inside_composites = !options.composites;
    for (const auto& [name, tensor] : options.states) names_.insert(name);  // these stay as they are
  }

  ValueId add_input(const Tensor& t, std::string name) {
    const ValueId id = new_value(type_of(*t), std::move(name));
    graph_.inputs.push_back(id);
    define_memory(*t, id);
    return id;
  }
  void add_state(const Tensor& t, std::string name, bool named) {
    if (named) names_.erase(name);
    const ValueId id = new_value(type_of(*t), std::move(name));
    graph_.states.push_back({id, t, named});
    define_memory(*t, id);
  }

  Graph finish(const std::vector<Tensor>& outputs) {
    for (const Tensor& t : outputs) {
      STRATA_CHECK(t, Type, "capture: the program returned an undefined tensor");
      graph_.outputs.push_back(value_of(*t));
    }
    for (const auto& [storage, m] : memories_)
      if (m.writes && m.first_id != kNoValue) graph_.writes.push_back({m.first_id, m.base});
    std::ranges::sort(graph_.writes, {}, &Graph::Write::target);
    verify(graph_);
    return std::move(graph_);
  }

  void before(const OpRecord& op, Form form, const Args& args, const Tensor* outs) override {
    pending_ = {};
    pending_.op = &op;
    pending_.form = form;
    pending_.no_grad = grad_mode_ && !thread_state.grad_mode;
    pending_.scope = capture_scope();
    pending_.source = short_line(program_line());
    for (uint32_t i = 0; i < args.size; ++i) pending_.args.push_back(argument_of(op, i, args[i]));
    targets_.clear();
    const auto add_target = [&](const TensorImpl& t) { targets_.push_back({share(t), alias(t)}); };
    if (form == Form::InPlace) add_target(args.tensor(0));
    if (form == Form::Out)
      for (uint32_t o = 0; o < op.outputs; ++o) {
        if (outs[o]->storage) value_of(*outs[o]);  // memory of the program's own becomes a state, which runs write to
        add_target(*outs[o]);
      }
    if (form == Form::Plain)
      for (uint32_t i = 0, written = written_by(pending_); i < args.size; ++i)
        if (written >> i & 1) {
          STRATA_CHECK(args.is_tensor(i), NotImplemented,
                       "capture: {} writes to a list of tensors, which a graph cannot{}", op.name, at(pending_.source));
          add_target(args.tensor(i));
        }
  }
  void after(const OpRecord&, const Tensor* outs, size_t count) override {
    const bool plain = pending_.form == Form::Plain;
    std::vector<bool> shown(count, false);
    for (size_t k = 0; plain && k < count; ++k) {
      if (!outs[k]) {
        pending_.results.push_back(kNoValue);
        continue;
      }
      const bool written =
        std::ranges::any_of(targets_, [&](const Target& t) { return t.tensor.get() == outs[k].get(); });
      shown[k] = !written;
      pending_.results.push_back(new_value(written ? type_of_copy(*outs[k]) : type_of(*outs[k])));
    }
    const size_t first = pending_.results.size();
    for (const Target& t : targets_) pending_.results.push_back(new_value(type_of_copy(*t.tensor)));
    const std::vector<ValueId> results = pending_.results;
    graph_.nodes.push_back(std::move(pending_));
    for (size_t k = 0; k < targets_.size(); ++k) {
      const TensorImpl& t = *targets_[k].tensor;
      // squeeze_() and resize_() change the shape of the tensor, not its memory
      if (plain && !same_geometry(t, *targets_[k].before)) show(t, results[first + k]);
      else write(t, results[first + k]);
    }
    for (size_t k = 0; k < count; ++k)
      if (shown[k]) show(*outs[k], results[k]);
  }
  void failed() override { pending_ = {}; }

  void reads(const Storage* memory, const char* why) override {
    if (options_.allow_reads || !memories_.contains(memory) ||
        std::ranges::find(kHarmlessReads, why) != std::end(kHarmlessReads))
      return;
    fail(ErrorKind::Runtime,
         fmt::format(
           "capture: the program reads values of a tensor ({}){}. A graph cannot decide by values: use where() or "
           "ops that stay on tensors, or allow it if the values do not matter",
           why, at(program_line())));
  }

 private:
  // A tensor that shows a part of a storage, and its value as of so many writes.
  struct View {
    Tensor tensor;  // held, so that its address stays taken
    Tensor shape;   // as it was: the tensor may get another one
    ValueId id;
    uint32_t writes;
  };
  static View view_of(const TensorImpl& t, ValueId id, uint32_t writes) { return {share(t), alias(t), id, writes}; }
  struct Memory {
    Ref<Storage> held;
    ValueId base = kNoValue;      // of the whole
    Tensor shape;                 // of base
    bool whole = false;           // base is all of the storage, without gaps
    ValueId first_id = kNoValue;  // the input or state that it was at first
    uint32_t writes = 0;
    std::vector<View> views;  // the latest last
  };

  bool is_constant(ValueId id) const {
    return std::ranges::any_of(graph_.states, [&](const Graph::State& s) { return s.id == id && !s.named; });
  }
  // What a call writes to, and its geometry before.
  struct Target {
    Tensor tensor, before;
  };
  static std::string at(const std::string& line) { return line.empty() ? "" : " at " + line; }

  ValueId new_value(ValueType type, std::string name = {}) {
    const auto id = static_cast<ValueId>(graph_.values.size());
    if (name.empty()) name = fmt::format("v{}", id);
    while (!names_.insert(name).second) name += "_";
    graph_.values.push_back({std::move(type), std::move(name)});
    return id;
  }
  void define_memory(const TensorImpl& t, ValueId id) {
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
  static Tensor share(const TensorImpl& t) { return Ref<TensorImpl>::share(const_cast<TensorImpl*>(&t)); }
  static bool same_geometry(const TensorImpl& a, const TensorImpl& b) {
    return a.data == b.data && a.dtype == b.dtype && a.same_shape(b) &&
           std::equal(a.strides, a.strides + a.ndim, b.strides);
  }

  // The result of a node: new memory, or a view of memory that is known.
  void show(const TensorImpl& t, ValueId id) {
    const auto found = t.storage ? memories_.find(t.storage.get()) : memories_.end();
    if (found == memories_.end()) return define_memory(t, id);
    found->second.views.push_back(view_of(t, id, found->second.writes));
  }

  ValueId add_constant(const TensorImpl& t) {
    add_state(share(t), fmt::format("constant_{}", constants_++), false);
    return graph_.states.back().id;
  }

  ValueId value_of(const TensorImpl& t) {
    if (!t.storage) {
      for (const View& v : without_memory_)
        if (v.tensor.get() == &t) return v.id;
      return add_constant(t);
    }
    const auto found = memories_.find(t.storage.get());
    if (found == memories_.end()) return add_constant(t);
    Memory& m = found->second;
    const View* same = nullptr;
    for (size_t i = m.views.size(); i-- > 0;) {
      const View& v = m.views[i];
      if (v.writes != m.writes && t.numel > 0) continue;
      if (!same_geometry(*v.shape, t)) continue;
      if (v.tensor.get() == &t) return v.id;
      if (!same) same = &v;
    }
    if (same) return same->id;
    if (!m.whole && !m.writes && is_constant(m.first_id))
      return add_constant(t);  // another part of the program's own memory
    return part_of_memory(m, t);
  }

  // A part of the current value of a storage.
  ValueId part_of_memory(Memory& m, const TensorImpl& t) {
    STRATA_CHECK(m.whole && m.shape.dtype() == t.dtype, NotImplemented,
                 "capture: a tensor {} shares memory with {}, of which a graph has no view; use a copy",
                 to_string(type_of(t)), to_string(graph_.values[m.base].type));
    static const OpRecord& as_strided = find_op("as_strided");
    const ValueId id = new_value(type_of(t));
    add_node(as_strided, {ValueRef{m.base}}, t, id);
    m.views.push_back(view_of(t, id, m.writes));
    return id;
  }
  // A call of as_strided or as_strided_scatter; `t` has the geometry of the part.
  void add_node(const OpRecord& op, std::vector<Argument> args, const TensorImpl& t, ValueId result) {
    args.insert(args.end(), {std::vector(t.shape, t.shape + t.ndim), std::vector(t.strides, t.strides + t.ndim),
                             t.storage_offset()});
    Node& n = graph_.nodes.emplace_back();
    n.op = &op;
    n.args = std::move(args);
    n.results = {result};
  }

  // The memory of `t` has got this value.
  void write(const TensorImpl& t, ValueId value) {
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
      const ValueId whole = new_value(type);
      add_node(scatter, {ValueRef{m.base}, ValueRef{value}}, t, whole);
      m.base = whole;
    }
    ++m.writes;
    std::erase_if(m.views, [](const View& v) { return v.shape.numel() > 0; });
    m.views.push_back(view_of(*m.shape, m.base, m.writes));
  }

  Argument argument_of(const OpRecord& op, uint32_t i, const Value& v) {
    switch (v.tag) {
      case Tag::None: return {};
      case Tag::Tensor: return ValueRef{value_of(*v.tensor)};
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
        for (const Tensor& t : v.tensor_list()) list.ids.push_back(t ? value_of(*t) : kNoValue);
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

  const CaptureOptions& options_;
  const bool grad_mode_ = thread_state.grad_mode;
  Graph graph_;
  std::map<const Storage*, Memory> memories_;
  std::vector<View> without_memory_;
  Node pending_;
  std::vector<Target> targets_;  // of the pending call
  std::set<std::string> names_;  // of values
  int constants_ = 0;
};

// A tensor that owns all of its memory: as_strided nodes would need the rest of it.
Tensor with_own_memory(const Tensor& t) {
  if (!t->storage || covers_its_storage(*t)) return t;
  static const OpRecord& clone = find_op("clone");
  return call(clone, Args(t, Value()));
}

}  // namespace

std::string& capture_scope() {
  static thread_local std::string scope;
  return scope;
}

Graph capture(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
              const std::vector<Tensor>& inputs, const CaptureOptions& options) {
  Recorder recorder(options);
  std::vector<Tensor> own;
  for (size_t i = 0; i < inputs.size(); ++i) {
    STRATA_CHECK(inputs[i], Type, "capture: input {} is an undefined tensor", i);
    own.push_back(with_own_memory(inputs[i]));
  }
  for (size_t i = 0; i < own.size(); ++i)
    recorder.add_input(own[i], i < options.input_names.size() ? options.input_names[i] : fmt::format("input_{}", i));
  for (const auto& [name, tensor] : options.states) {
    STRATA_CHECK(tensor, Type, "capture: state '{}' is an undefined tensor", name);
    recorder.add_state(tensor, name, true);
  }
  std::vector<Tensor> outputs;
  {
    const Observing observing(recorder);
    outputs = f(own);
  }
  return recorder.finish(outputs);
}

}  // namespace strata::graph
