// __torch_function__: finds the handlers of a call, calls them, and the default handler of Tensor's subclasses.
#include "python/overrides.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "strata/ops/movement/views.h"

namespace strata::python {

PyTypeObject* parameter_type = nullptr;
int active_modes = 0;

namespace {

PyObject *protocol_name, *disabled_handler;

// What DisableTorchFunctionSubclass and DisableTorchFunction turn off on this thread.
enum class Handlers : int { All, ModesOnly, None };
STRATA_THREAD_LOCAL Handlers handlers = Handlers::All;
STRATA_THREAD_LOCAL std::vector<PyObject*>* modes = nullptr;  // the stack of this thread; owns references

void collect(PyObject* o, std::vector<PyObject*>& found) {
  if (!overrides(o)) return;
  PyTypeObject* type = Py_TYPE(o);
  auto place = found.end();
  for (auto i = found.begin(); i != found.end(); ++i) {
    if (Py_TYPE(*i) == type) return;
    if (place == found.end() && PyType_IsSubtype(type, Py_TYPE(*i))) place = i;
  }
  found.insert(place, o);
}

// Also the bounds of slices: x[:n] with a handled n.
void collect_item(PyObject* o, std::vector<PyObject*>& found) {
  collect(o, found);
  if (!PySlice_Check(o)) return;
  const auto* s = reinterpret_cast<PySliceObject*>(o);
  for (PyObject* bound : {s->start, s->stop, s->step}) collect(bound, found);
}

// One value per type, in the order in which they are asked.
std::vector<PyObject*> handlers_among(PyObject* const* values, size_t n) {
  std::vector<PyObject*> found;
  for (size_t i = 0; i < n; ++i) {
    collect_item(values[i], found);
    if (!PyTuple_Check(values[i]) && !PyList_Check(values[i])) continue;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(values[i]); ++k)
      collect_item(PySequence_Fast_GET_ITEM(values[i], k), found);
  }
  return found;
}

std::string qualified_name(PyObject* function) {
  const Object name(PyObject_GetAttrString(function, "__name__"));
  if (!name) PyErr_Clear();
  return name && PyUnicode_Check(name.get()) ? shown(name.get()) : Py_TYPE(function)->tp_name;
}

[[noreturn]] void raise_unhandled(PyObject* function, const std::vector<PyObject*>& found) {
  std::string types;
  for (PyObject* o : found) {
    const Object text(need(PyObject_Repr(reinterpret_cast<PyObject*>(Py_TYPE(o)))));
    types += (types.empty() ? "" : ", ") + shown(text.get());
  }
  fail(ErrorKind::Type,
       fmt::format("no implementation found for '{}' on types that implement __torch_function__: [{}]; each handler "
                   "returned NotImplemented",
                   qualified_name(function), types));
}

// Takes the innermost mode off the stack while it handles a call, so that its own calls go to the one below.
class PoppedMode {
 public:
  PoppedMode() : mode_(modes->back()) {
    modes->pop_back();
    --active_modes;
  }
  PoppedMode(const PoppedMode&) = delete;
  PoppedMode& operator=(const PoppedMode&) = delete;
  ~PoppedMode() {
    if (!modes) modes = new std::vector<PyObject*>;  // the handler entered and left a mode, which freed the empty stack
    modes->push_back(mode_);
    ++active_modes;
  }
  PyObject* get() const { return mode_; }

 private:
  PyObject* mode_;
};

Object ask(PyObject* handler, PyObject* function, PyObject* types, PyObject* args, PyObject* kwargs) {
  const Object method(need(PyObject_GetAttr(handler, protocol_name)));
  PyObject* values[] = {function, types, args, kwargs};
  return Object(call_python(method.get(), values, 4));
}

PyObject* dispatch(PyObject* function, PyObject* const* values, size_t n, PyObject* args, PyObject* kwargs,
                   bool is_operator) {
  const bool has_mode = modes && !modes->empty() && handlers != Handlers::None;
  const std::vector<PyObject*> found = handlers_among(values, n);
  if (!has_mode && found.empty()) return nullptr;
  const Object types(need(PyTuple_New(std::ssize(found))));
  for (size_t i = 0; i < found.size(); ++i)
    PyTuple_SET_ITEM(types.get(), i, Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(found[i]))));
  if (has_mode) {
    const PoppedMode mode;
    Object result = ask(mode.get(), function, types.get(), args, kwargs);
    if (result.get() != Py_NotImplemented) return result.release();
  }
  for (PyObject* o : found) {
    Object result = ask(o, function, types.get(), args, kwargs);
    if (result.get() != Py_NotImplemented) return result.release();
  }
  if (is_operator) return Py_NewRef(Py_NotImplemented);
  raise_unhandled(function, found);
}

// --- the default handler ---------------------------------------------------------------------------------------------

// An object of a subclass for a tensor. A result that nobody else holds gives its tensor to the new object; any other
// one gets a view, which autograd knows.
PyObject* as_subclass(Object tensor, PyTypeObject* type) {
  auto* object = reinterpret_cast<PyTensor*>(tensor.get());
  const bool fresh = Py_REFCNT(tensor.get()) == 1 && Py_TYPE(tensor.get()) == tensor_type && !object->attributes &&
                     !object->weak_references;
  if (!fresh) {
    const Tensor t = tensor_of(tensor.get());
    return wrap_as(view_as(t, t), type);
  }
  Tensor t = Ref<TensorImpl>::adopt(object->impl);
  object->impl = nullptr;
  t->python = nullptr;
  return wrap_as(std::move(t), type);
}

PyObject* converted(Object result, PyTypeObject* type) {
  if (is_tensor(result.get()))
    return PyType_IsSubtype(Py_TYPE(result.get()), type) ? result.release() : as_subclass(std::move(result), type);
  if (!PyTuple_Check(result.get()) && !PyList_Check(result.get())) return result.release();
  if (Py_TYPE(result.get()) == size_type) return result.release();
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(result.get());
  Object items(need(PyTuple_New(n)));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(items.get(), i,
                     need(converted(Object(Py_NewRef(PySequence_Fast_GET_ITEM(result.get(), i))), type)));
  if (PyTuple_CheckExact(result.get())) return items.release();
  return need(PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(result.get())), items.get()));
}

// Gradients and bases are returned as they are: they are not results of the subclass's functions.
bool returns_stored_tensor(PyObject* function) {
  const Object descriptor(PyObject_GetAttrString(function, "__self__"));
  if (!descriptor) PyErr_Clear();
  if (!descriptor || !PyObject_TypeCheck(descriptor.get(), &PyGetSetDescr_Type)) return false;
  const std::string name = shown(reinterpret_cast<PyDescrObject*>(descriptor.get())->d_name);
  return name == "grad" || name == "_base";
}

PyObject* default_torch_function(PyObject* cls, PyObject* args, PyObject* keywords) {
  const char* names[] = {"func", "types", "args", "kwargs", nullptr};
  PyObject *function, *types, *values = nullptr, *named = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|OO", const_cast<char**>(names), &function, &types, &values,
                                   &named))
    return nullptr;
  return guarded([&]() -> PyObject* {
    const Object all(need(PySequence_Tuple(types)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i) {
      const int is_base = PyObject_IsSubclass(cls, PyTuple_GET_ITEM(all.get(), i));
      need(is_base);
      if (!is_base) Py_RETURN_NOTIMPLEMENTED;
    }
    const Object positional(need(values ? PySequence_Tuple(values) : PyTuple_New(0)));
    Object result;
    {
      const Scoped<Handlers> off(handlers, std::max(handlers, Handlers::ModesOnly));
      result = Object(need(PyObject_Call(function, positional.get(), named == Py_None ? nullptr : named)));
    }
    if (returns_stored_tensor(function)) return result.release();
    return converted(std::move(result), reinterpret_cast<PyTypeObject*>(cls));
  });
}
PyMethodDef default_method = {"__torch_function__", method(default_torch_function),
                              METH_VARARGS | METH_KEYWORDS | METH_CLASS,
                              "Runs func and returns its tensors as objects of the subclass."};

// The handler of types that handle nothing, such as Parameter: Tensor's functions run as on a Tensor.
PyObject* disabled_torch_function(PyObject*, PyObject* args, PyObject* keywords) {
  const char* names[] = {"func", "types", "args", "kwargs", nullptr};
  PyObject *function, *types, *values = nullptr, *named = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|OO", const_cast<char**>(names), &function, &types, &values,
                                   &named))
    return nullptr;
  return guarded([&] {
    const Object positional(need(values ? PySequence_Tuple(values) : PyTuple_New(0)));
    const Scoped<Handlers> off(handlers, std::max(handlers, Handlers::ModesOnly));
    return need(PyObject_Call(function, positional.get(), named == Py_None ? nullptr : named));
  });
}

// --- functions of the module -----------------------------------------------------------------------------------------

PyObject* py_as_subclass(PyObject*, PyObject* args) {
  PyObject *tensor, *type;
  if (!PyArg_ParseTuple(args, "OO!", &tensor, &PyType_Type, &type)) return nullptr;
  return guarded([&] {
    require_tensor(tensor, "as_subclass");
    auto* subclass = reinterpret_cast<PyTypeObject*>(type);
    STRATA_CHECK(PyType_IsSubtype(subclass, tensor_type), Type, "as_subclass: expected a subclass of Tensor, got {}",
                 subclass->tp_name);
    const Tensor t = tensor_of(tensor);
    return wrap_as(view_as(t, t), subclass);
  });
}
PyObject* py_has_override(PyObject*, PyObject* values) {
  return guarded([&] {
    const Object items(need(PySequence_Tuple(values)));
    PyObject** all = PySequence_Fast_ITEMS(items.get());
    const bool mode = modes && !modes->empty() && handlers != Handlers::None;
    return PyBool_FromLong(mode || std::any_of(all, all + PyTuple_GET_SIZE(items.get()), overrides));
  });
}
// _handle_override(function, relevant, args, kwargs): the handlers' result.
PyObject* py_handle_override(PyObject*, PyObject* args) {
  PyObject *function, *relevant, *values, *named;
  if (!PyArg_ParseTuple(args, "OOO!O!", &function, &relevant, &PyTuple_Type, &values, &PyDict_Type, &named))
    return nullptr;
  return guarded([&] {
    const Object items(need(PySequence_Tuple(relevant)));
    PyObject* result = dispatch(function, PySequence_Fast_ITEMS(items.get()),
                                static_cast<size_t>(PyTuple_GET_SIZE(items.get())), values, named, false);
    if (!result) raise_unhandled(function, {});
    return result;
  });
}
PyObject* py_set_handlers(PyObject*, PyObject* level) {
  const long value = PyLong_AsLong(level);
  if (PyErr_Occurred()) return nullptr;
  const auto wanted = static_cast<Handlers>(std::clamp(value, 0L, 2L));
  return PyLong_FromLong(static_cast<int>(std::exchange(handlers, wanted)));
}
PyObject* py_push_mode(PyObject*, PyObject* mode) {
  return guarded([&] {
    if (!modes) modes = new std::vector<PyObject*>;  // lives as long as the thread's stack is in use
    modes->push_back(Py_NewRef(mode));
    ++active_modes;
    return Py_NewRef(Py_None);
  });
}
PyObject* py_pop_mode(PyObject*, PyObject*) {
  return guarded([&] {
    STRATA_CHECK(modes && !modes->empty(), Runtime, "no function mode is active on this thread");
    --active_modes;
    PyObject* mode = modes->back();
    modes->pop_back();
    if (modes->empty()) delete std::exchange(modes, nullptr);
    return mode;
  });
}
PyObject* py_modes(PyObject*, PyObject*) {
  return guarded([&] {
    Object list(need(PyList_New(0)));
    for (PyObject* mode : modes ? *modes : std::vector<PyObject*>()) append(list, Py_NewRef(mode));
    return list.release();
  });
}
PyObject* py_set_parameter_type(PyObject*, PyObject* type) {
  parameter_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));  // kept for the life of the process
  Py_RETURN_NONE;
}

PyMethodDef disabled_definition = {"_disabled_torch_function_impl", method(disabled_torch_function),
                                   METH_VARARGS | METH_KEYWORDS,
                                   "The __torch_function__ of types that handle nothing."};
PyMethodDef override_functions[] = {
  {"_as_subclass", py_as_subclass, METH_VARARGS, nullptr},
  {"_has_override", py_has_override, METH_O, "Whether one of the values handles functions itself."},
  {"_handle_override", py_handle_override, METH_VARARGS, nullptr},
  {"_set_override_handlers", py_set_handlers, METH_O,
   "0: all handlers, 1: modes only, 2: none; returns the state before."},
  {"_push_function_mode", py_push_mode, METH_O, nullptr},
  {"_pop_function_mode", py_pop_mode, METH_NOARGS, nullptr},
  {"_function_modes", py_modes, METH_NOARGS, nullptr},
  {"_set_parameter_type", py_set_parameter_type, METH_O, nullptr},
  {}};

// --- Python functions that handlers may take over --------------------------------------------------------------------

// A function of the package with vectorcall: tensors, numbers and parameters go straight to it.
struct Overridable {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function, *attributes;
};
Overridable& overridable_at(PyObject* o) { return *reinterpret_cast<Overridable*>(o); }

bool any_in_lists(PyObject* const* values, size_t n) {
  return std::any_of(values, values + n, [](PyObject* o) {
    return (PyTuple_Check(o) || PyList_Check(o)) &&
           std::any_of(PySequence_Fast_ITEMS(o), PySequence_Fast_ITEMS(o) + PySequence_Fast_GET_SIZE(o), overrides);
  });
}
PyObject* call_overridable(PyObject* self, PyObject* const* values, size_t flagged, PyObject* keywords) {
  const auto n = static_cast<size_t>(PyVectorcall_NARGS(flagged));
  const size_t all = n + static_cast<size_t>(keywords ? PyTuple_GET_SIZE(keywords) : 0);
  if (any_overrides(values, all) || any_in_lists(values, all)) [[unlikely]] {
    PyObject* result = guarded([&] { return call_override(self, values, n, keywords); });
    if (result || PyErr_Occurred()) return result;
  }
  return PyObject_Vectorcall(overridable_at(self).function, values, flagged, keywords);
}
PyObject* new_overridable(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* function;
  if (!PyArg_ParseTuple(args, "O", &function)) return nullptr;
  return guarded([&] {
    Object o(need(type->tp_alloc(type, 0)));
    Overridable& made = overridable_at(o.get());
    made.vectorcall = call_overridable;
    made.function = Py_NewRef(function);
    made.attributes = need(PyDict_New());
    need(PyDict_SetItemString(made.attributes, "__wrapped__", function));
    for (const char* name : {"__name__", "__qualname__", "__module__", "__doc__"}) {
      const Object value(need(PyObject_GetAttrString(function, name)));
      need(PyDict_SetItemString(made.attributes, name, value.get()));
    }
    return o.release();
  });
}
void free_overridable(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(overridable_at(self).function);
  Py_CLEAR(overridable_at(self).attributes);
  type->tp_free(self);
  Py_DECREF(type);
}
int visit_overridable(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(overridable_at(self).function);
  Py_VISIT(overridable_at(self).attributes);
  return 0;
}
PyObject* bind_overridable(PyObject* self, PyObject* object, PyObject*) {
  return object ? PyMethod_New(self, object) : Py_NewRef(self);
}
PyObject* repr_overridable(PyObject* self) {
  const Object name(PyObject_GetAttrString(self, "__qualname__"));
  return name ? PyUnicode_FromFormat("<function %U>", name.get()) : nullptr;
}
PyObject* reduce_overridable(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }
PyMemberDef overridable_members[] = {
  {"__vectorcalloffset__", T_PYSSIZET, offsetof(Overridable, vectorcall), READONLY, nullptr},
  {"__dictoffset__", T_PYSSIZET, offsetof(Overridable, attributes), READONLY, nullptr},
  {}};
PyMethodDef overridable_methods[] = {{"__reduce__", reduce_overridable, METH_NOARGS, nullptr}, {}};

bool add_overridable_type(PyObject* module) {
  PyType_Slot slots[] = {doc_slot("A Python function whose calls the __torch_function__ of an argument may handle."),
                         slot(Py_tp_new, new_overridable),
                         slot(Py_tp_dealloc, free_overridable),
                         slot(Py_tp_traverse, visit_overridable),
                         slot(Py_tp_call, PyVectorcall_Call),
                         slot(Py_tp_descr_get, bind_overridable),
                         slot(Py_tp_repr, repr_overridable),
                         slot(Py_tp_members, overridable_members),
                         slot(Py_tp_methods, overridable_methods),
                         {}};
  constexpr auto flags = static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC |
                                               Py_TPFLAGS_METHOD_DESCRIPTOR);
  PyType_Spec spec = {"strata._C._overridable", sizeof(Overridable), 0, flags, slots};
  const Object type(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, "_overridable", type.get()) == 0;
}
}  // namespace

bool type_overrides(PyTypeObject* type) {
  if (handlers != Handlers::All) return false;
  PyObject* handler = _PyType_Lookup(type, protocol_name);  // borrowed
  return handler && handler != disabled_handler;
}

PyObject* call_override(PyObject* function, PyObject* const* values, size_t n, PyObject* keywords, bool is_operator) {
  const size_t named = static_cast<size_t>(keywords ? PyTuple_GET_SIZE(keywords) : 0);
  const Object args(need(PyTuple_New(static_cast<Py_ssize_t>(n)))), kwargs(need(PyDict_New()));
  for (size_t i = 0; i < n; ++i) PyTuple_SET_ITEM(args.get(), i, Py_NewRef(values[i]));
  for (size_t k = 0; k < named; ++k) need(PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(keywords, k), values[n + k]));
  return dispatch(function, values, n + named, args.get(), kwargs.get(), is_operator);
}

bool override_method(const char* name, PyObject* const* values, size_t n, PyObject*& result) {
  result = guarded([&] {
    const Object function(need(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name)));
    return call_override(function.get(), values, n, nullptr);
  });
  return result || PyErr_Occurred();
}

bool override_call(const char* name, PyObject* self, PyObject* args, PyObject* kwargs, PyObject*& result) {
  result = guarded([&] {
    const Object function(need(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name)));
    const Object one(need(PyTuple_Pack(1, self))), all(need(PySequence_Concat(one.get(), args)));
    const Object named(kwargs ? Py_NewRef(kwargs) : need(PyDict_New()));
    return dispatch(function.get(), PySequence_Fast_ITEMS(all.get()), static_cast<size_t>(PyTuple_GET_SIZE(all.get())),
                    all.get(), named.get(), false);
  });
  return result || PyErr_Occurred();
}

bool override_property(const char* name, PyObject* self, PyObject*& result) {
  result = guarded([&] {
    const Object property(need(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name)));
    const Object function(need(PyObject_GetAttrString(property.get(), "__get__")));
    return call_override(function.get(), &self, 1, nullptr);
  });
  return result || PyErr_Occurred();
}

bool init_overrides(PyObject* module) {
  protocol_name = PyUnicode_InternFromString("__torch_function__");
  const Object default_handler(PyDescr_NewClassMethod(tensor_type, &default_method));
  disabled_handler = PyCFunction_New(&disabled_definition, nullptr);
  return protocol_name && default_handler && disabled_handler && add_overridable_type(module) &&
         PyObject_SetAttr(reinterpret_cast<PyObject*>(tensor_type), protocol_name, default_handler.get()) == 0 &&
         PyModule_AddObjectRef(module, "_disabled_torch_function_impl", disabled_handler) == 0 &&
         PyModule_AddFunctions(module, override_functions) == 0;
}

}  // namespace strata::python
