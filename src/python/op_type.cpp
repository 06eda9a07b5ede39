// One callable per op name. It holds the overloads and tries them in order of definition.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "python/library.h"
#include "python/op_arguments.h"
#include "python/overrides.h"
#include "python/trace.h"
#include "tensor/package_name.h"

namespace strata::python {

PyTypeObject* op_type = nullptr;

namespace {

struct PyOp {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::vector<Overload>* overloads;
  std::string* name;
  bool inplace, inplace_keyword, several;  // whether it is add_; takes inplace=; has more than one overload
  PyObject* attributes;                    // what programs set on a function; made when it is needed
};
PyOp& op_at(PyObject* o) { return *reinterpret_cast<PyOp*>(o); }

// The functions of nn.functional that take inplace=, as in PyTorch.
constexpr std::string_view kInplaceNames[] = {
  "alpha_dropout", "celu",      "dropout",  "dropout1d",  "dropout2d", "dropout3d", "elu",   "feature_alpha_dropout",
  "hardsigmoid",   "hardswish", "hardtanh", "leaky_relu", "mish",      "relu",      "relu6", "rrelu",
  "selu",          "silu",      "threshold"};
bool takes_inplace(std::string_view name) {
  constexpr std::string_view kSpace = "nn.functional.";
  return name.starts_with(kSpace) && std::find(std::begin(kInplaceNames), std::end(kInplaceNames),
                                               name.substr(kSpace.size())) != std::end(kInplaceNames);
}

PyObject* tuple_of(const Overload& o, const Tensor* outs) {
  const auto n = static_cast<Py_ssize_t>(o.op->outputs);
  Object tuple(need(o.result ? PyStructSequence_New(o.result) : PyTuple_New(n)));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = need(wrap_optional(outs[i]));
    if (o.result) PyStructSequence_SetItem(tuple.get(), i, item);
    else PyTuple_SET_ITEM(tuple.get(), i, item);
  }
  return tuple.release();
}

PyObject* run_out(const Overload& o, const Attempt& a) {
  std::vector<Tensor> outs;
  if (is_tensor(a.out)) {
    outs.push_back(tensor_of(a.out));
  } else {
    if (!PyTuple_Check(a.out) && !PyList_Check(a.out))
      fail(ErrorKind::Type, fmt::format("{}(): out must be a Tensor or a tuple of Tensors", o.op->name));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(a.out); ++i)
      outs.push_back(require_tensor(PySequence_Fast_GET_ITEM(a.out, i), "out"));
  }
  STRATA_CHECK(outs.size() == o.op->outputs && !o.op->returns_list, Type, "{}(): out needs {} tensors, got {}",
               o.op->name, o.op->outputs, outs.size());
  // Other threads may give the same tensor other memory while the op runs: it works on another object with the same
  // memory.
  std::vector<Tensor> targets;
  for (const Tensor& out : outs) {
    Tensor& target = targets.emplace_back(alias(*out));
    target->base = out->base;
    target->requires_grad = out.requires_grad();
  }
  {
    const WithoutGilFor unlock(a.parser.args);
    call_out(*o.op, a.parser.args, targets.data());
  }
  for (size_t i = 0; i < outs.size(); ++i)
    if (targets[i]->storage.get() != outs[i]->storage.get() || !targets[i]->same_shape(*outs[i]))
      set_data(outs[i], targets[i]);  // it was resized
  return o.op->outputs == 1 ? wrap(outs[0]) : tuple_of(o, outs.data());
}

[[gnu::always_inline]] inline PyObject* run(const Overload& o, const Attempt& a, bool inplace) {
  const OpRecord& op = *o.op;
  const Args& args = a.parser.args;
  if (a.out) [[unlikely]]
    return run_out(o, a);
  const bool unlock = a.parser.long_work(o.measured);
  if (inplace) {
    if (!args.is_tensor(0)) fail(ErrorKind::Type, fmt::format("{}_(): the first argument must be a Tensor", op.name));
    if (unlock) {
      const WithoutGilFor without(args);
      call_inplace(op, args);
    } else {
      call_inplace(op, args);
    }
    // The caller holds the object: no need to count a reference to the tensor.
    if (void* object = args.tensor(0).python) return Py_NewRef(static_cast<PyObject*>(object));
    return wrap(args.share(0));
  }
  if (op.returns_list) {
    std::vector<Tensor> list;
    if (unlock) {
      const WithoutGilFor without(args);
      list = call_list(op, args);
    } else {
      list = call_list(op, args);
    }
    return wrap_list(list);
  }
  if (op.outputs == 1) {
    Tensor out;
    if (unlock) {
      const UnlockedArgs held(op, args);
      const WithoutGil without;
      out = call(op, held.get());
    } else {
      out = call(op, args);
    }
    return wrap(std::move(out));
  }
  Tensor outs[kMaxOutputs];
  if (unlock) {
    const UnlockedArgs held(op, args);
    const WithoutGil without;
    call_into(op, held.get(), outs);
  } else {
    call_into(op, args, outs);
  }
  if (op.outputs == 0) Py_RETURN_NONE;
  return tuple_of(o, outs);
}

[[gnu::cold]] PyObject* no_match(const PyOp& me, const std::vector<std::string>& reasons) {
  std::string text = fmt::format("{}{}(): ", *me.name, me.inplace ? "_" : "");
  if (reasons.size() == 1) {
    text += fmt::format("{}\n  {}", reasons[0], (*me.overloads)[0].op->schema);
  } else {
    text += "the arguments fit none of its forms:";
    for (size_t i = 0; i < reasons.size(); ++i)
      text += fmt::format("\n  {}\n    {}", (*me.overloads)[i].op->schema, reasons[i]);
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  return nullptr;
}

// After the first overload has rejected the arguments because of `why`: tries the others, and then all of them with
// conversions between tensors and numbers.
[[gnu::noinline]] PyObject* call_another(PyObject* self, PyObject* const* values, uint32_t given, PyObject* keywords,
                                         std::string why) {
  const PyOp& me = op_at(self);
  const std::vector<Overload>& overloads = *me.overloads;
  std::vector<std::string> reasons{std::move(why)};
  const auto attempt = [&](const Overload& o, bool strict) -> PyObject* {
    Attempt a;
    a.parser.strict = strict;
    a.inplace_keyword = me.inplace_keyword;
    if (!a.read(o, values, given, keywords)) {
      reasons.push_back(std::move(a.why));
      return nullptr;
    }
    if (a.parser.subclasses) [[unlikely]]
      if (PyObject* result = call_override(self, values, given, keywords)) return result;
    return need(run(o, a, me.inplace || a.inplace));
  };
  for (size_t k = 1; k < overloads.size(); ++k)
    if (PyObject* result = attempt(overloads[k], true)) return result;
  if (overloads.size() > 1) {
    reasons.clear();
    for (const Overload& o : overloads)
      if (PyObject* result = attempt(o, false)) return result;
  }
  PyObject* result = call_override(self, values, given, keywords);  // of an element of a list
  return result ? result : no_match(me, reasons);
}

PyObject* call_op(PyObject* self, PyObject* const* values, size_t flagged, PyObject* keywords) {
  const PyOp& me = op_at(self);
  const auto given = static_cast<uint32_t>(PyVectorcall_NARGS(flagged));
  const size_t all = given + static_cast<size_t>(keywords ? PyTuple_GET_SIZE(keywords) : 0);
  return guarded([&]() __attribute__((always_inline))->PyObject * {
    if (any_overrides(values, all)) [[unlikely]]
      if (PyObject* result = call_override(self, values, given, keywords)) return result;
    const Overload& first = me.overloads->front();
    const PythonSpan span(first.op->name.c_str());
    Attempt a;
    a.parser.strict = me.several;
    a.inplace_keyword = me.inplace_keyword;
    if (!a.read(first, values, given, keywords)) return call_another(self, values, given, keywords, std::move(a.why));
    if (a.parser.subclasses) [[unlikely]]
      if (PyObject* result = call_override(self, values, given, keywords)) return result;
    return run(first, a, me.inplace || a.inplace);
  });
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  return object ? PyMethod_New(self, object) : Py_NewRef(self);
}
PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("<op %s%s>", op_at(self).name->c_str(), op_at(self).inplace ? "_" : "");
}
PyObject* get_name(PyObject* self, void*) {
  return guarded([&] {
    const std::string& name = *op_at(self).name;
    return PyUnicode_FromFormat("%s%s", name.substr(name.rfind('.') + 1).c_str(), op_at(self).inplace ? "_" : "");
  });
}
PyObject* get_doc(PyObject* self, void*) {
  return guarded([&] {
    std::string text;
    for (const Overload& o : *op_at(self).overloads) text += fmt::format("{}\n\n{}\n\n", o.op->schema, o.op->text);
    return PyUnicode_FromString(text.c_str());
  });
}
PyObject* get_schemas(PyObject* self, void*) {
  return guarded([&] {
    Object list(need(PyList_New(0)));
    for (const Overload& o : *op_at(self).overloads) {
      const Object schema(need(PyUnicode_FromString(o.op->schema)));
      need(PyList_Append(list.get(), schema.get()));
    }
    return list.release();
  });
}
// For inspect.signature(), help() and editors. Computed each time: a program rarely asks.
PyObject* get_signature(PyObject* self, void*) {
  return guarded([&] {
    const PyOp& me = op_at(self);
    const Object module(need(PyImport_ImportModule("strata._signatures")));
    const Object schemas(need(get_schemas(self, nullptr)));
    const bool out = !me.inplace && me.overloads->front().op->has_out;
    return need(PyObject_CallMethod(module.get(), "signature_of", "OOO", schemas.get(), out ? Py_True : Py_False,
                                    me.inplace_keyword ? Py_True : Py_False));
  });
}
PyObject* get_internal(PyObject* self, void*) {
  const auto& all = *op_at(self).overloads;
  return PyBool_FromLong(std::all_of(all.begin(), all.end(), [](const Overload& o) { return o.op->internal; }));
}
PyObject* get_module(PyObject*, void*) { return PyUnicode_FromString("strata"); }
PyObject* reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    const Object module(need(PyImport_ImportModule("strata._C")));
    Object finder(need(PyObject_GetAttrString(module.get(), "_op")));
    return Py_BuildValue("(N(s))", finder.release(), (*op_at(self).name + (op_at(self).inplace ? "_" : "")).c_str());
  });
}
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(PyOp, vectorcall), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(PyOp, attributes), READONLY, nullptr},
                         {}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {}};
PyGetSetDef properties[] = {{"__name__", get_name, nullptr, nullptr, nullptr},
                            {"__qualname__", get_name, nullptr, nullptr, nullptr},
                            {"__doc__", get_doc, nullptr, nullptr, nullptr},
                            {"__dict__", PyObject_GenericGetDict, nullptr, nullptr, nullptr},
                            {"schemas", get_schemas, nullptr, nullptr, nullptr},
                            {"__signature__", get_signature, nullptr, nullptr, nullptr},
                            {"__module__", get_module, nullptr, nullptr, nullptr},
                            {"internal", get_internal, nullptr, nullptr, nullptr},
                            {}};

// Printed as PyTorch does: strata.return_types.max(, then a line per field.
PyObject* result_repr(PyObject* self) {
  return guarded([&] {
    const std::string_view full = Py_TYPE(self)->tp_name;
    std::string text = package_name + std::string(full.substr(full.find('.'))) + "(";
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
      const Object item(need(PyObject_Repr(PyTuple_GET_ITEM(self, i))));
      text += fmt::format("{}\n{}={}", i ? "," : "", Py_TYPE(self)->tp_members[i].name, shown(item.get()));
    }
    return PyUnicode_FromString((text + ")").c_str());
  });
}

// values and indices of max(dim=0): a tuple with names, one type per op name.
PyTypeObject* result_type_of(const OpRecord& op) {
  if (op.output_names.size() != op.outputs || op.outputs < 2) return nullptr;
  auto* fields = new std::vector<PyStructSequence_Field>;  // never freed: the type points to the names
  for (const std::string& n : op.output_names) fields->push_back({n.c_str(), nullptr});
  fields->push_back({nullptr, nullptr});
  const bool is_linalg = op.name.starts_with("linalg.");  // PyTorch's linalg.eigh returns a return_types.linalg_eigh
  auto* name = new std::string("strata.return_types." + std::string(is_linalg ? "linalg_" : "") +
                               op.name.substr(op.name.rfind('.') + 1));
  PyStructSequence_Desc description = {name->c_str(), nullptr, fields->data(), static_cast<int>(op.outputs)};
  PyTypeObject* type = PyStructSequence_NewType(&description);
  if (type) type->tp_repr = result_repr;
  return type;
}

PyObject* make_op(const std::string& name, const std::vector<const OpRecord*>& records, bool inplace) {
  auto* o = PyObject_New(PyOp, op_type);
  if (!o) return nullptr;
  o->vectorcall = call_op;
  o->attributes = nullptr;
  o->inplace = inplace;
  o->name = new std::string(name);
  o->inplace_keyword = !inplace && takes_inplace(name);
  o->overloads = new std::vector<Overload>;
  for (const OpRecord* op : records) {
    if (inplace && !op->has_inplace) continue;
    Overload overload(*op);
    if (!inplace) overload.result = result_type_of(*op);
    o->overloads->push_back(overload);
  }
  o->several = o->overloads->size() > 1;
  return reinterpret_cast<PyObject*>(o);
}

bool add_op(PyObject* dict, const std::string& name, const std::vector<const OpRecord*>& records, bool inplace) {
  const std::string public_name = name + (inplace ? "_" : "");
  Object callable(make_op(name, records, inplace));
  if (!callable || PyDict_SetItemString(dict, public_name.c_str(), callable.get()) < 0) return false;
  const bool method = std::any_of(records.begin(), records.end(), [](const OpRecord* op) { return op->method; });
  const bool taken =
    PyDict_GetItemString(tensor_type->tp_dict, public_name.c_str());  // a property of the same name, such as mT
  if (method && !taken && name.find('.') == name.npos)
    return PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), public_name.c_str(), callable.get()) == 0;
  return true;
}
}  // namespace

PyObject* make_ops() {
  const auto& all = all_ops();
  return callables_of({all.begin(), all.end()});
}

PyObject* callables_of(const std::vector<const OpRecord*>& ops) {
  std::map<std::string, std::vector<const OpRecord*>> by_name;
  for (const OpRecord* op : ops) {
    by_name[op->name].push_back(op);
    for (const char* alias : op->aliases) by_name[alias].push_back(op);
  }
  Object dict(PyDict_New());
  for (const auto& [name, records] : by_name) {
    if (!add_op(dict.get(), name, records, false)) return nullptr;
    const bool inplace =
      std::any_of(records.begin(), records.end(), [](const OpRecord* op) { return op->has_inplace; });
    if (inplace && !add_op(dict.get(), name, records, true)) return nullptr;
  }
  return dict.release();
}

bool init_op_type(PyObject* module) {
  if (!init_op_arguments()) return false;
  PyType_Slot slots[] = {slot(Py_tp_call, PyVectorcall_Call),
                         slot(Py_tp_descr_get, bind),
                         slot(Py_tp_repr, repr),
                         slot(Py_tp_members, members),
                         slot(Py_tp_methods, methods),
                         slot(Py_tp_getset, properties),
                         {}};
  // METHOD_DESCRIPTOR: x.relu() passes x as the first argument and builds no bound method.
  constexpr unsigned flags =
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  PyType_Spec spec = {"strata.Op", sizeof(PyOp), 0, flags, slots};
  op_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return op_type && PyModule_AddObjectRef(module, "Op", reinterpret_cast<PyObject*>(op_type)) == 0;
}

}  // namespace strata::python
