// strata.explain of a function: one call, followed through every layer.
#include "python/capsule.h"
#include "python/considered.h"
#include "python/system.h"
#include "python/texts.h"
#include "system/devices/devices.h"
#include "system/explain/journey.h"

namespace strata::python {

template <> constexpr const char* kCapsule<journey::Journey> = "strata.journey";

namespace {

// Tensors of a result: itself, or those in tuples, lists and dicts.
void collect(PyObject* o, std::vector<Tensor>& out, int depth = 0) {
  if (is_tensor(o)) {
    out.push_back(tensor_of(o));
  } else if (depth < 8 && (PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o))) {
    const Object values(PyDict_Check(o) ? need(PyDict_Values(o)) : Py_NewRef(o));
    const Object items(need(PySequence_Fast(values.get(), "expected a sequence")));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
      collect(PySequence_Fast_GET_ITEM(items.get(), i), out, depth + 1);
  }
}

// _explain_call(function, title, warm_up): the journey of one call
PyObject* explain_call(PyObject*, PyObject* args) {
  PyObject* function;
  const char* title;
  int warm_up;
  if (!PyArg_ParseTuple(args, "Osp", &function, &title, &warm_up)) return nullptr;
  return guarded([&] {
    return capsule(journey::follow(
      [&] {
        const Object result(need(PyObject_CallNoArgs(function)));
        std::vector<Tensor> tensors;
        collect(result.get(), tensors);
        return tensors;
      },
      title, warm_up != 0));
  });
}

// _explain_considered(journey): [(op, kernel, reason)]
PyObject* explain_considered(PyObject*, PyObject* handle) {
  return guarded([&] { return considered_lines(inside<journey::Journey>(handle).considered); });
}

// _explain_text(journey, "text" | "json" | "html")
PyObject* explain_text(PyObject*, PyObject* args) {
  PyObject* handle;
  const char* form;
  if (!PyArg_ParseTuple(args, "Os", &handle, &form)) return nullptr;
  return guarded([&] {
    const auto& j = inside<journey::Journey>(handle);
    return text_of(*form == 't' ? j.to_text() : *form == 'j' ? j.to_json() : j.to_html());
  });
}

PyObject* explain_list(PyObject*, PyObject*) {
  return guarded([&] { return text_of(journey::list_kernels(true)); });
}

// _measured_rate(device, bytes): bytes per second of a copy; with 0 bytes, operations per second of a large float32 product
PyObject* measured_rate(PyObject*, PyObject* args) {
  const char* device;
  long long bytes;
  if (!PyArg_ParseTuple(args, "sL", &device, &bytes)) return nullptr;
  return guarded([&] {
    double rate = 0;
    {
      const WithoutGil unlock;
      const Device d = device_from_name(device);
      rate = bytes > 0 ? devices::copy_rate(d, bytes) : devices::product_rate(d, DType::F32);
    }
    return need(PyFloat_FromDouble(rate));
  });
}

}  // namespace

PyMethodDef explain_functions[] = {
  {"_explain_call", explain_call, METH_VARARGS, nullptr}, {"_explain_considered", explain_considered, METH_O, nullptr},
  {"_explain_text", explain_text, METH_VARARGS, nullptr}, {"_measured_rate", measured_rate, METH_VARARGS, nullptr},
  {"_explain_list", explain_list, METH_NOARGS, nullptr},  {}};

}  // namespace strata::python
