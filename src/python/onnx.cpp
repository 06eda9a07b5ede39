// ONNX: models are read and run by strata::onnx; a network is a capsule here, and python/strata/onnx gives it a class.
#include <fmt/core.h>

#include "onnx/network.h"
#include "onnx/save.h"
#include "onnx/tensor_data.h"
#include "python/capsule.h"
#include "python/files.h"
#include "python/onnx_values.h"

namespace strata::python {

using onnx::Network;
using LoadedNetwork = std::shared_ptr<const Network>;
template <> constexpr const char* kCapsule<LoadedNetwork> = "strata.onnx.network";

namespace {

// --- values ------------------------------------------------------------------------------------------------------------
std::string text_of(PyObject* o) {
  Py_ssize_t n;
  const char* s = PyUnicode_AsUTF8AndSize(o, &n);
  if (!s) throw PythonError{};
  return {s, static_cast<size_t>(n)};
}
}  // namespace

PyObject* text_object(std::string_view s) {
  return need(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

onnx::Value onnx_value_of(PyObject* o) {
  if (o == Py_None) return {};
  if (is_tensor(o)) return {tensor_of(o)};
  if (PyList_Check(o)) {
    std::vector<onnx::Value> items;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) items.push_back(onnx_value_of(PyList_GET_ITEM(o, i)));
    return onnx::Value::of(std::move(items));
  }
  STRATA_CHECK(PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2, Type,
               "onnx: an input is {}; expected a tensor, a list of tensors, or texts", Py_TYPE(o)->tp_name);
  if (PyTuple_GET_SIZE(o) == 2) {
    const auto type = static_cast<onnx::ElementType>(checked(PyLong_AsLong(PyTuple_GET_ITEM(o, 0))));
    return {require_tensor(PyTuple_GET_ITEM(o, 1), "onnx"), type};
  }
  onnx::Strings strings;
  const Object shape(need(PySequence_Tuple(PyTuple_GET_ITEM(o, 1)))),
    texts(need(PySequence_Tuple(PyTuple_GET_ITEM(o, 2))));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape.get()); ++i)
    strings.shape.push_back(checked(PyLong_AsLongLong(PyTuple_GET_ITEM(shape.get(), i))));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(texts.get()); ++i)
    strings.items.push_back(text_of(PyTuple_GET_ITEM(texts.get(), i)));
  STRATA_CHECK(checked_numel(strings.shape) == static_cast<int64_t>(strings.items.size()), Value,
               "onnx: {} texts for the shape {}", strings.items.size(), to_string(Shape(strings.shape)));
  return onnx::Value::of(std::move(strings));
}
PyObject* object_of(const onnx::Value& v) {
  if (v.sequence) {
    Object list(need(PyList_New(0)));
    for (const onnx::Value& item : *v.sequence) append(list, object_of(item));
    return list.release();
  }
  if (v.strings) {
    Object list(need(PyList_New(0)));
    for (const std::string& item : v.strings->items) append(list, text_object(item));
    return need(
      Py_BuildValue("(iNN)", static_cast<int>(onnx::ElementType::String), make_size(v.strings->shape), list.release()));
  }
  if (!v.tensor) return Py_NewRef(Py_None);
  if (v.carried == onnx::ElementType::Undefined) return need(wrap(v.tensor));
  return need(Py_BuildValue("(iN)", static_cast<int>(v.carried), need(wrap(v.tensor))));
}

onnx::Values onnx_values_of(PyObject* list) {
  onnx::Values values;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    onnx::Value v = onnx_value_of(PyList_GET_ITEM(list, i));
    values.push_back(std::move(v));
  }
  return values;
}
PyObject* list_of(const onnx::Values& values) {
  Object list(need(PyList_New(0)));
  for (const onnx::Value& v : values) append(list, object_of(v));
  return list.release();
}
onnx::Model onnx_model_of(PyObject* source) {
  if (PyBytes_Check(source)) {
    const Bytes data(reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(source)),
                     static_cast<size_t>(PyBytes_GET_SIZE(source)));
    return onnx::read_model(FileBytes::copy(data, "<bytes>"), "");
  }
  Path path;
  if (!PyUnicode_FSConverter(source, &path.bytes)) throw PythonError{};
  const WithoutGil free;
  return onnx::read_model(path.text());
}

LoadedNetwork onnx_network_of(PyObject* o) { return inside<LoadedNetwork>(o); }

namespace {
// --- networks ------------------------------------------------------------------------------------------------------------
// _onnx_load(path or bytes, device, loop iterations, bytes of a value)
PyObject* load(PyObject*, PyObject* args) {
  PyObject *source, *device;
  long long iterations, bytes;
  if (!PyArg_ParseTuple(args, "OOLL", &source, &device, &iterations, &bytes)) return nullptr;
  return guarded([&]() -> PyObject* {
    const Device where = device_of_object(device);
    const onnx::Limits limits{iterations, bytes};
    onnx::Model model = onnx_model_of(source);
    LoadedNetwork network;
    {
      const WithoutGil free;
      network = std::make_shared<const Network>(std::move(model), where, limits);
    }
    return capsule(std::move(network));
  });
}
// _onnx_run(network, inputs): a list of outputs
PyObject* run(PyObject*, PyObject* args) {
  PyObject *o, *list;
  if (!PyArg_ParseTuple(args, "OO!", &o, &PyList_Type, &list)) return nullptr;
  return guarded([&]() -> PyObject* {
    const LoadedNetwork held = onnx_network_of(o);
    const Network& network = *held;
    const onnx::Values inputs = onnx_values_of(list);
    onnx::Values outputs;
    {
      const WithoutGil free;
      outputs = network.run(inputs);
    }
    return list_of(outputs);
  });
}

PyObject* type_object(const onnx::TypeInfo& type) {  // (kind, element type, dims or None, inner or None)
  Object dims(Py_NewRef(Py_None)), inner(Py_NewRef(Py_None));
  if (type.has_shape) {
    dims = Object(need(PyList_New(0)));
    for (const auto& d : type.dims)
      append(dims, d.value >= 0     ? PyLong_FromLongLong(d.value)
                   : d.name.empty() ? Py_NewRef(Py_None)
                                    : text_object(d.name));
  }
  if (!type.inner.empty()) inner = Object(type_object(type.inner[0]));
  return need(Py_BuildValue("(iiNN)", static_cast<int>(type.kind), type.element, dims.release(), inner.release()));
}
PyObject* ports_object(const std::vector<Network::Port>& ports) {
  Object list(need(PyList_New(0)));
  for (const Network::Port& p : ports)
    append(list, Py_BuildValue("(NNO)", text_object(p.name), type_object(p.type), p.optional ? Py_True : Py_False));
  return list.release();
}
// _onnx_describe(network): a dict
PyObject* describe(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    const LoadedNetwork held = onnx_network_of(o);
    const Network& n = *held;
    const onnx::Model& m = n.model();
    Object opsets(need(PyDict_New())), metadata(need(PyDict_New()));
    for (const auto& [domain, version] : m.opsets)
      need(PyDict_SetItemString(opsets.get(), domain.c_str(), Object(need(PyLong_FromLongLong(version))).get()));
    for (const auto& [key, value] : m.metadata)
      need(PyDict_SetItem(metadata.get(), Object(text_object(key)).get(), Object(text_object(value)).get()));
    return need(Py_BuildValue(
      "{sNsNsNsNsNsNsNsNsNsLsLsn}", "inputs", ports_object(n.inputs()), "outputs", ports_object(n.outputs()), "opsets",
      opsets.release(), "metadata", metadata.release(), "producer", text_object(m.producer), "graph",
      text_object(m.graph.name), "domain", text_object(m.domain), "doc", text_object(m.doc), "device", wrap(n.device()),
      "ir_version", static_cast<long long>(m.ir_version), "version", static_cast<long long>(m.model_version), "nodes",
      static_cast<Py_ssize_t>(n.step_count())));
  });
}

// --- ops of the user -------------------------------------------------------------------------------------------------------
struct Callable {
  explicit Callable(PyObject* f) : function(Py_NewRef(f)) {}
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;
  ~Callable() {
    const WithGil lock;
    Py_DECREF(function);
  }
  PyObject* function;
};
PyObject* attribute_object(const onnx::StepAttribute& a) {
  using onnx::AttributeKind;
  const onnx::Attribute& v = *a.attribute;
  const auto list = [](const auto& items, auto make) {
    Object out(need(PyList_New(0)));
    for (const auto& item : items) append(out, make(item));
    return out.release();
  };
  switch (v.kind) {
    case AttributeKind::Int: return need(PyLong_FromLongLong(v.i));
    case AttributeKind::Float: return need(PyFloat_FromDouble(static_cast<double>(v.f)));
    case AttributeKind::String: return text_object(v.s);
    case AttributeKind::Ints: return list(v.ints, [](int64_t i) { return PyLong_FromLongLong(i); });
    case AttributeKind::Floats:
      return list(v.floats, [](float f) { return PyFloat_FromDouble(static_cast<double>(f)); });
    case AttributeKind::Strings: return list(v.strings, [](std::string_view s) { return text_object(s); });
    case AttributeKind::Tensor: return object_of(a.tensors.at(0));
    default:
      fail(ErrorKind::NotImplemented, fmt::format("attribute '{}' cannot be given to a Python function", a.name));
  }
}
onnx::Values call_user(const Callable& f, onnx::NodeCall& c) {
  const WithGil lock;
  Object inputs(need(PyTuple_New(static_cast<Py_ssize_t>(c.inputs())))), attributes(need(PyDict_New()));
  for (size_t i = 0; i < c.inputs(); ++i)
    PyTuple_SET_ITEM(inputs.get(), static_cast<Py_ssize_t>(i), c.has(i) ? object_of(c.value(i)) : Py_NewRef(Py_None));
  for (const onnx::StepAttribute& a : c.step().attributes)
    need(PyDict_SetItem(attributes.get(), Object(text_object(a.name)).get(), Object(attribute_object(a)).get()));
  const Object result(
    need(or_sleep_at_exit([&] { return PyObject_Call(f.function, inputs.get(), attributes.get()); })));
  onnx::Values out;
  if (!PyTuple_Check(result.get()) || c.outputs() == 1) {
    out.push_back(onnx_value_of(result.get()));
    return out;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result.get()); ++i)
    out.push_back(onnx_value_of(PyTuple_GET_ITEM(result.get(), i)));
  return out;
}
// _onnx_register(domain, op, function)
PyObject* register_function(PyObject*, PyObject* args) {
  const char *domain, *op;
  PyObject* function;
  if (!PyArg_ParseTuple(args, "ssO", &domain, &op, &function)) return nullptr;
  return guarded([&]() -> PyObject* {
    STRATA_CHECK(PyCallable_Check(function), Type, "onnx.register: {} is not a function", Py_TYPE(function)->tp_name);
    const auto held = std::make_shared<const Callable>(function);
    {
      const WithoutGil free;  // an op that this replaces may be released
      onnx::register_op(domain, op, [held](onnx::NodeCall& c) { return call_user(*held, c); });
    }
    Py_RETURN_NONE;
  });
}
// _onnx_ops(): (domain, name, since) of all ops
PyObject* list_ops(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    Object list(need(PyList_New(0)));
    for (const onnx::OpEntry& e : onnx::all_ops()) append(list, Py_BuildValue("(ssi)", e.domain, e.name, e.since));
    return list.release();
  });
}
// _onnx_exported(): the names of records that can be written
PyObject* list_exported(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    Object list(need(PyList_New(0)));
    for (const std::string& name : onnx::exported_records()) append(list, text_object(name));
    return list.release();
  });
}
// _onnx_tensor(bytes of a TensorProto): a value
PyObject* tensor_from_proto(PyObject*, PyObject* data) {
  return guarded([&]() -> PyObject* {
    STRATA_CHECK(PyBytes_Check(data), Type, "onnx: expected the bytes of a TensorProto");
    onnx::Model model;
    model.file = FileBytes::copy(
      {reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(data)), static_cast<size_t>(PyBytes_GET_SIZE(data))},
      "<bytes>");
    const std::string_view message(reinterpret_cast<const char*>(model.file->data()), model.file->size());
    onnx::ExternalFiles files(model);
    return object_of(onnx::make_value(onnx::read_tensor(message, "<bytes>"), files));
  });
}
}  // namespace

PyMethodDef onnx_functions[] = {
  {"_onnx_load", load, METH_VARARGS, nullptr},          {"_onnx_run", run, METH_VARARGS, nullptr},
  {"_onnx_describe", describe, METH_O, nullptr},        {"_onnx_register", register_function, METH_VARARGS, nullptr},
  {"_onnx_ops", list_ops, METH_NOARGS, nullptr},        {"_onnx_exported", list_exported, METH_NOARGS, nullptr},
  {"_onnx_tensor", tensor_from_proto, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};

}  // namespace strata::python
