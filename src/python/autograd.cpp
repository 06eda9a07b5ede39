// Autograd from Python: modes, backward, grad, hooks, user-defined functions.
#include <algorithm>

#include "autograd/hooks.h"
#include "autograd/node_hooks.h"
#include "autograd/saved_hooks.h"
#include "cuda/runtime/runtime.h"
#include "python/backward_pass.h"
#include "python/binding.h"
#include "python/trace.h"

// After Python.h, which it needs.
#include <frameobject.h>

namespace strata::python {
std::vector<Tensor> tensors_of(PyObject* o, const char* who) {
  std::vector<Tensor> list;
  if (!o || o == Py_None) return list;
  if (is_tensor(o)) return {tensor_of(o)};
  Object items(PySequence_Fast(o, "expected a Tensor or a sequence of Tensors"));
  need(items.get());
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    list.push_back(item == Py_None ? Tensor() : require_tensor(item, who));
  }
  return list;
}

namespace {

// A Python object that C++ may release from any thread.
class Shared {
 public:
  explicit Shared(PyObject* o)
      : o_(Py_NewRef(o), [](PyObject* p) {
          if (!Py_IsInitialized()) return;
          WithGil gil;
          Py_DECREF(p);
        }) {}
  PyObject* get() const { return o_.get(); }
  bool is_sole() const { return o_.use_count() == 1; }

 private:
  std::shared_ptr<PyObject> o_;
};

std::string innermost_line() {
  const std::string line = python_line(false);
  return line.empty() ? line : "  " + line;
}

template <auto flag> PyObject* set_mode(PyObject*, PyObject* on) {
  const int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  return PyBool_FromLong(std::exchange(thread_state.*flag, value == 1));
}
template <auto flag> PyObject* get_mode(PyObject*, PyObject*) { return PyBool_FromLong(thread_state.*flag); }

PyObject* run_backward(PyObject*, PyObject* args) {
  PyObject *tensors, *grads, *inputs;
  int retain, create;
  if (!PyArg_ParseTuple(args, "OOppO", &tensors, &grads, &retain, &create, &inputs)) return nullptr;
  return guarded([&]() -> PyObject* {
    const auto roots = tensors_of(tensors, "backward"), g = tensors_of(grads, "backward"),
               in = tensors_of(inputs, "backward");
    const PythonSpan span("backward");
    const BackwardPass pass;
    {
      WithoutGil unlock;
      autograd::backward(roots, g, retain, create, in);
    }
    pass.finish();
    Py_RETURN_NONE;
  });
}

PyObject* run_grad(PyObject*, PyObject* args) {
  PyObject *outputs, *inputs, *grads;
  int retain, create, unused;
  if (!PyArg_ParseTuple(args, "OOOppp", &outputs, &inputs, &grads, &retain, &create, &unused)) return nullptr;
  return guarded([&] {
    const auto out = tensors_of(outputs, "grad"), in = tensors_of(inputs, "grad"), g = tensors_of(grads, "grad");
    STRATA_CHECK(!in.empty(), Runtime, "`inputs` argument to `grad()` cannot be empty.");
    std::vector<Tensor> result;
    const PythonSpan span("backward");
    const BackwardPass pass;
    {
      WithoutGil unlock;
      result = autograd::grad(out, in, g, retain, create, unused);
    }
    pass.finish();
    return wrap_list(result);
  });
}

// x.backward(): calls the engine directly.
PyObject* tensor_backward(PyObject* self, PyObject* const* values, Py_ssize_t n, PyObject* names) {
  return guarded([&]() -> PyObject* {
    static constexpr std::string_view kNames[] = {"gradient", "retain_graph", "create_graph", "inputs"};
    PyObject* given[4] = {};
    STRATA_CHECK(n <= 4, Type, "backward() takes at most 4 arguments ({} given)", n);
    std::copy_n(values, n, given);
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k) {
      const std::string name = shown(PyTuple_GET_ITEM(names, k));
      const auto at = std::find(std::begin(kNames), std::end(kNames), name);
      STRATA_CHECK(at != std::end(kNames), Type, "backward() got an unexpected keyword argument '{}'", name);
      given[at - kNames] = values[n + k];
    }
    const auto flag = [](PyObject* o) { return o && truth_of(o); };
    const Tensor root = tensor_of(self),
                 grad = given[0] && given[0] != Py_None ? require_tensor(given[0], "backward") : Tensor();
    const bool create = flag(given[2]), retain = flag(given[1]) || create;
    const auto inputs = tensors_of(given[3], "backward");
    const PythonSpan span("backward");
    const BackwardPass pass;
    {
      WithoutGil unlock;
      autograd::backward({&root, 1}, {&grad, 1}, retain, create, inputs);
    }
    pass.finish();
    Py_RETURN_NONE;
  });
}

PyObject* queue_callback(PyObject*, PyObject* function) {
  return guarded([&]() -> PyObject* {
    BackwardPass::queue(function);
    Py_RETURN_NONE;
  });
}

struct PythonHook {
  Shared hook;
  Tensor operator()(const Tensor& g) const {
    WithGil gil;
    Object grad(need(wrap(g)));
    PyObject* one[] = {grad.get()};
    Object result(call_python(hook.get(), one, 1));
    return result.get() == Py_None ? Tensor() : require_tensor(result.get(), "a hook's result");
  }
};
struct PythonLeafHook {
  Shared hook;
  void operator()(const Tensor& t) const {
    WithGil gil;
    Object leaf(need(wrap(t)));
    PyObject* one[] = {leaf.get()};
    Object(call_python(hook.get(), one, 1));
  }
};

PyObject* add_hook(PyObject*, PyObject* args) {
  PyObject *tensor, *hook;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &hook)) return nullptr;
  return guarded([&] {
    const int64_t id = autograd::register_hook(require_tensor(tensor, "register_hook"), PythonHook{Shared(hook)});
    track(tensor);
    return PyLong_FromLongLong(id);
  });
}
PyObject* add_leaf_hook(PyObject*, PyObject* args) {
  PyObject *tensor, *hook;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &hook)) return nullptr;
  return guarded([&] {
    const int64_t id = autograd::register_post_accumulate_grad_hook(
      require_tensor(tensor, "register_post_accumulate_grad_hook"), PythonLeafHook{Shared(hook)});
    track(tensor);
    return PyLong_FromLongLong(id);
  });
}
PyObject* drop_hook(PyObject*, PyObject* args) {
  PyObject* tensor;
  long long id;
  if (!PyArg_ParseTuple(args, "OL", &tensor, &id)) return nullptr;
  return guarded([&]() -> PyObject* {
    autograd::remove_hook(require_tensor(tensor, "remove"), id);
    Py_RETURN_NONE;
  });
}

// --- saved-tensor hooks ------------------------------------------------------------------------------------------------

struct PythonPack {
  Shared hook;
  std::shared_ptr<void> operator()(const Tensor& t) const {
    const WithGil gil;
    const Object tensor(need(wrap(t)));
    PyObject* one[] = {tensor.get()};
    const Object packed(call_python(hook.get(), one, 1));
    return std::make_shared<Shared>(packed.get());
  }
};
struct PythonUnpack {
  Shared hook;
  Tensor operator()(const std::shared_ptr<void>& packed) const {
    const WithGil gil;
    PyObject* one[] = {static_cast<Shared*>(packed.get())->get()};
    const Object result(call_python(hook.get(), one, 1));
    STRATA_CHECK(is_tensor(result.get()), Type,
                 "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
                 Py_TYPE(result.get())->tp_name);
    return tensor_of(result.get());
  }
};
PyObject* push_saved_hooks(PyObject*, PyObject* args) {
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
  return guarded([&] {
    autograd::push_saved_hooks({PythonPack{Shared(pack)}, PythonUnpack{Shared(unpack)}});
    return Py_NewRef(Py_None);
  });
}
PyObject* pop_saved_hooks(PyObject*, PyObject*) {
  return guarded([&] {
    autograd::pop_saved_hooks();
    return Py_NewRef(Py_None);
  });
}
// The innermost (pack, unpack) of Python, None if there are no hooks.
PyObject* saved_hooks(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    const auto* hooks = autograd::current_saved_hooks();
    const auto* pack = hooks ? (*hooks)->pack.target<PythonPack>() : nullptr;
    const auto* unpack = hooks ? (*hooks)->unpack.target<PythonUnpack>() : nullptr;
    if (!pack || !unpack) Py_RETURN_NONE;
    return Py_BuildValue("(OO)", pack->hook.get(), unpack->hook.get());
  });
}
// _edge_of(tensor): a capsule with the target of its gradient; _with_edge(tensor, capsule): the tensor with that history.
PyObject* edge_of_tensor(PyObject*, PyObject* tensor) {
  return guarded([&] {
    auto edge = std::make_unique<Node::Edge>(edge_to(*require_tensor(tensor, "save_for_backward")));
    PyObject* capsule = need(PyCapsule_New(edge.get(), "strata.edge", [](PyObject* o) {
      delete static_cast<Node::Edge*>(PyCapsule_GetPointer(o, "strata.edge"));
    }));
    static_cast<void>(edge.release());  // now owned by the capsule
    return capsule;
  });
}
PyObject* with_edge(PyObject*, PyObject* args) {
  PyObject *tensor, *capsule;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &capsule)) return nullptr;
  return guarded([&] {
    const auto* edge = static_cast<Node::Edge*>(PyCapsule_GetPointer(capsule, "strata.edge"));
    need(edge ? capsule : nullptr);
    STRATA_CHECK(is_tensor(tensor), Type,
                 "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
                 Py_TYPE(tensor)->tp_name);
    return wrap(with_history(tensor_of(tensor), *edge));
  });
}
PyObject* forbid_saved_hooks(PyObject*, PyObject* message) {
  return guarded([&] {
    const std::string before = autograd::forbid_saved_hooks(message == Py_None ? "" : shown(message));
    return before.empty() ? Py_NewRef(Py_None) : PyUnicode_FromString(before.c_str());
  });
}

// The node whose Python backward runs on this thread: its saved outputs are attached to it.
STRATA_THREAD_LOCAL Node* running = nullptr;

// The gradient of a user-defined function: calls apply(*grads) of a Python object.
struct PythonGrad : CustomGrad {
  Shared apply_fn;
  std::string text;
  Node* node = nullptr;  // owns this
  PythonGrad(PyObject* apply, std::string name) : apply_fn(apply), text(std::move(name)) {}
  const char* name() const override { return text.c_str(); }
  std::vector<Tensor> apply(const std::vector<Tensor>& grads, bool create_graph) override {
    WithGil gil;
    const Scoped<Node*> scope(running, node);
    Object args(need(wrap_list(grads)));
    Object create(PyBool_FromLong(create_graph));
    PyObject* values[] = {args.get(), create.get()};
    Object result(call_python(apply_fn.get(), values, 2));
    return tensors_of(result.get(), "backward of a Function");
  }
  void release() override {  // may run while another exception is being handled
    WithGil gil;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!Object(PyObject_CallMethod(apply_fn.get(), "release", nullptr))) PyErr_WriteUnraisable(apply_fn.get());
    PyErr_Restore(type, value, trace);
  }
};

// Visits what only a tensor owns, for the garbage collector. An object that a running backward pass has copied is
// skipped.
struct Collector : autograd::OwnedVisitor {
  visitproc visit;
  void* arg;
  int status = 0;
  Collector(visitproc v, void* a) : visit(v), arg(a) {}
  void show(const Shared& object) {
    if (status == 0 && object.is_sole()) status = visit(object.get(), arg);
  }
  void hook(const Hook& h) override {
    if (const auto* python = h.target<PythonHook>()) show(python->hook);
  }
  void leaf_hook(const LeafHook& h) override {
    if (const auto* python = h.target<PythonLeafHook>()) show(python->hook);
  }
  void custom(const CustomGrad& grad) override {
    if (const auto* python = dynamic_cast<const PythonGrad*>(&grad)) show(python->apply_fn);
  }
};

// _as_output(saved, place): a saved output as returned by the function, so that double backward finds its history.
PyObject* as_output(PyObject*, PyObject* args) {
  PyObject* saved;
  int place;
  if (!PyArg_ParseTuple(args, "Oi", &saved, &place)) return nullptr;
  return guarded([&] {
    const Tensor t = require_tensor(saved, "saved_tensors");
    if (!running || !thread_state.grad_mode) return wrap(t);
    Tensor out = alias(*t);
    out->history = Ref<History>::share(running);
    out->output = static_cast<uint32_t>(place);
    out->requires_grad = true;
    return wrap(out);
  });
}
// _count_writes(tensors): they were written to, perhaps without ops.
PyObject* count_writes(PyObject*, PyObject* tensors) {
  return guarded([&]() -> PyObject* {
    for (const Tensor& t : tensors_of(tensors, "mark_dirty"))
      if (t && t->storage) t->count_write();
    Py_RETURN_NONE;
  });
}
// _record_function(apply, name, inputs, outputs, dirty): returns the outputs, some of them as new objects.
PyObject* record_function(PyObject*, PyObject* args) {
  PyObject *apply, *inputs, *outputs, *dirty;
  const char* name;
  if (!PyArg_ParseTuple(args, "OsOOO", &apply, &name, &inputs, &outputs, &dirty)) return nullptr;
  return guarded([&] {
    const auto in = tensors_of(inputs, "Function"), written = tensors_of(dirty, "mark_dirty");
    auto out = tensors_of(outputs, "Function");
    auto grad = std::make_unique<PythonGrad>(apply, name);
    PythonGrad& recorded = *grad;
    if (Node* node = autograd::record_custom(std::move(grad), in, out, written)) recorded.node = node;
    Object list(wrap_list(out));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i)
      if (PyObject* o = PyTuple_GET_ITEM(list.get(), i); o != Py_None) track(o);
    return list.release();
  });
}

// A node as (its op's name, a capsule that keeps it alive), a leaf as the tensor; with the output index.
PyObject* wrap_edge(const Node::Edge& edge) {
  if (edge.leaf) return Py_BuildValue("(Ni)", need(wrap(edge.leaf)), 0);
  if (!edge.node) return Py_BuildValue("(Oi)", Py_None, 0);
  auto owned = std::make_unique<Ref<Node>>(edge.node);
  Object capsule(need(PyCapsule_New(owned.get(), "strata.node", [](PyObject* o) {
    delete static_cast<Ref<Node>*>(PyCapsule_GetPointer(o, "strata.node"));
  })));
  static_cast<void>(owned.release());  // now owned by the capsule
  return Py_BuildValue("((sO)i)", edge.node->name(), capsule.get(), static_cast<int>(edge.output));
}
PyObject* grad_fn(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    const Node::Edge edge = edge_to(*require_tensor(tensor, "grad_fn"));
    if (!edge.node) Py_RETURN_NONE;
    Object both(need(wrap_edge(edge)));
    return Py_NewRef(PyTuple_GET_ITEM(both.get(), 0));
  });
}
PyObject* next_functions(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const auto* held = static_cast<Ref<Node>*>(PyCapsule_GetPointer(capsule, "strata.node"));
    need(held ? capsule : nullptr);
    const Node& node = **held;
    Object list(need(PyList_New(0)));
    const auto add = [&](const Node::Edge& edge) {
      Object item(need(wrap_edge(edge)));
      if (PyList_Append(list.get(), item.get()) != 0) need(nullptr);
    };
    const auto& args = node.args.view();
    for (uint32_t i = 0; i < kMaxInputs; ++i)
      if (node.edges[i] || (i < args.size && args[i].tag == Tag::Tensor)) add(node.edges[i]);
    for (const Node::Edge& edge : node.list_edges) add(edge);
    return PyList_AsTuple(list.get());
  });
}
}  // namespace

// --- hooks of nodes ------------------------------------------------------------------------------------------------

namespace {
Node& node_at(PyObject* capsule) {
  const auto* held = static_cast<Ref<Node>*>(PyCapsule_GetPointer(capsule, "strata.node"));
  need(held ? capsule : nullptr);
  return **held;
}
struct PythonNodeHook {
  Shared hook;
  std::optional<autograd::GradTuple> operator()(const autograd::GradTuple& grads) const {
    const WithGil gil;
    const Object outputs(need(wrap_list(grads)));
    PyObject* one[] = {outputs.get()};
    return replacement(Object(call_python(hook.get(), one, 1)));
  }
  std::optional<autograd::GradTuple> operator()(const autograd::GradTuple& inputs,
                                                const autograd::GradTuple& outputs) const {
    const WithGil gil;
    const Object in(need(wrap_list(inputs))), out(need(wrap_list(outputs)));
    PyObject* both[] = {in.get(), out.get()};
    return replacement(Object(call_python(hook.get(), both, 2)));
  }

 private:
  static std::optional<autograd::GradTuple> replacement(Object result) {
    if (result.get() == Py_None) return std::nullopt;
    return tensors_of(result.get(), "a hook's result");
  }
};
// _node_hook(node, hook, before): the id of the hook.
PyObject* node_hook(PyObject*, PyObject* args) {
  PyObject *capsule, *hook;
  int before;
  if (!PyArg_ParseTuple(args, "OOp", &capsule, &hook, &before)) return nullptr;
  return guarded([&] {
    Node& node = node_at(capsule);
    const PythonNodeHook python{Shared(hook)};
    return PyLong_FromLongLong(before ? autograd::register_node_prehook(node, python)
                                      : autograd::register_node_hook(node, python));
  });
}
PyObject* drop_node_hook(PyObject*, PyObject* args) {
  PyObject* capsule;
  long long id;
  if (!PyArg_ParseTuple(args, "OL", &capsule, &id)) return nullptr;
  return guarded([&] {
    autograd::remove_node_hook(node_at(capsule), id);
    return Py_NewRef(Py_None);
  });
}
PyObject* node_metadata(PyObject*, PyObject* capsule) {
  return guarded([&] {
    std::shared_ptr<void>& held = autograd::node_metadata(node_at(capsule));
    if (!held) held = std::make_shared<Shared>(Object(need(PyDict_New())).get());
    return Py_NewRef(static_cast<Shared*>(held.get())->get());
  });
}
PyObject* node_id(PyObject*, PyObject* capsule) {
  return guarded([&] { return PyLong_FromVoidPtr(&node_at(capsule)); });
}
}  // namespace

void track(PyObject* tensor) {
  if (!PyObject_GC_IsTracked(tensor)) PyObject_GC_Track(tensor);
}

int visit_owned(PyObject* tensor, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(tensor));
  Py_VISIT(reinterpret_cast<PyTensor*>(tensor)->attributes);
  if (!impl_of(tensor)) return 0;
  Collector collector(visit, arg);
  autograd::visit_owned(*impl_of(tensor), collector);
  return collector.status;
}

int clear_owned(PyObject* tensor) {
  Py_CLEAR(reinterpret_cast<PyTensor*>(tensor)->attributes);
  TensorImpl* t = impl_of(tensor);
  if (t && t->refs.load(std::memory_order_relaxed) == 1) autograd::drop_owned(*t);
  return 0;
}

PyMethodDef autograd_functions[] = {
  {"_set_grad_enabled", set_mode<&ThreadState::grad_mode>, METH_O,
   "Turns recording on or off; returns the state before."},
  {"is_grad_enabled", get_mode<&ThreadState::grad_mode>, METH_NOARGS,
   "is_grad_enabled($module, /)\n--\n\nWhether ops are recorded."},
  {"_set_inference_mode", set_mode<&ThreadState::inference_mode>, METH_O, "Returns the state before."},
  {"is_inference_mode_enabled", get_mode<&ThreadState::inference_mode>, METH_NOARGS,
   "is_inference_mode_enabled($module, /)\n--\n\nWhether inference_mode() is on."},
  {"_set_anomaly_enabled", set_mode<&ThreadState::anomaly_mode>, METH_O, "Returns the state before."},
  {"is_anomaly_enabled", get_mode<&ThreadState::anomaly_mode>, METH_NOARGS,
   "is_anomaly_enabled($module, /)\n--\n\nWhether anomaly mode is on."},
  {"_set_tuning", set_mode<&ThreadState::tuning>, METH_O, "Returns the state before."},
  {"_set_reference_only", set_mode<&ThreadState::reference_only>, METH_O,
   "For tests: run the last kernel of each list."},
  {"_backward", run_backward, METH_VARARGS, nullptr},
  {"_grad", run_grad, METH_VARARGS, nullptr},
  {"_queue_callback", queue_callback, METH_O,
   "Calls a function at the end of the backward pass that runs on this thread."},
  {"_register_hook", add_hook, METH_VARARGS, nullptr},
  {"_register_post_accumulate_grad_hook", add_leaf_hook, METH_VARARGS, nullptr},
  {"_remove_hook", drop_hook, METH_VARARGS, nullptr},
  {"_count_writes", count_writes, METH_O, nullptr},
  {"_record_function", record_function, METH_VARARGS, nullptr},
  {"_as_output", as_output, METH_VARARGS, nullptr},
  {"_push_saved_hooks", push_saved_hooks, METH_VARARGS, nullptr},
  {"_pop_saved_hooks", pop_saved_hooks, METH_NOARGS, nullptr},
  {"_saved_hooks", saved_hooks, METH_NOARGS, "The innermost (pack, unpack), or None."},
  {"_edge_of", edge_of_tensor, METH_O, nullptr},
  {"_with_edge", with_edge, METH_VARARGS, nullptr},
  {"_forbid_saved_hooks", forbid_saved_hooks, METH_O, "Returns the message before."},
  {"_grad_fn", grad_fn, METH_O, nullptr},
  {"_next_functions", next_functions, METH_O, nullptr},
  {"_node_hook", node_hook, METH_VARARGS, nullptr},
  {"_remove_node_hook", drop_node_hook, METH_VARARGS, nullptr},
  {"_node_metadata", node_metadata, METH_O, nullptr},
  {"_node_id", node_id, METH_O, nullptr},
  {}};

static PyMethodDef backward_method = {
  "backward", method(tensor_backward), METH_FASTCALL | METH_KEYWORDS,
  "backward($self, /, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
  "Adds to the leaves' .grad."};

bool init_autograd(PyObject*) {
  autograd::current_line = innermost_line;
  cuda::program_line = [] { return python_line(true); };
  Object descriptor(PyDescr_NewMethod(tensor_type, &backward_method));
  return descriptor &&
         PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), "backward", descriptor.get()) == 0;
}

}  // namespace strata::python
