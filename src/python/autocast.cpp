// The state of autocast and the TF32 switch from Python. Device types are given by name; the package makes PyTorch's
// functions of these.
#include "dispatch/autocast.h"

#include "dispatch/settings.h"
#include "nn/amp/fp8.h"
#include "python/binding.h"
#include "record/precision.h"

namespace strata::python {
namespace {

// f(type, further argument) for arguments (name[, value]).
template <class F> PyObject* with_type(PyObject* args, F f) {
  PyObject *name = nullptr, *value = nullptr;
  if (!PyArg_ParseTuple(args, "U|O", &name, &value)) return nullptr;
  return guarded([&]() -> PyObject* { return f(device_of_object(name).type, value); });
}

PyObject* is_available(PyObject*, PyObject* args) {
  return with_type(args, [](DeviceType type, PyObject*) { return PyBool_FromLong(autocast::is_available(type)); });
}
PyObject* is_enabled(PyObject*, PyObject* args) {
  return with_type(args,
                   [](DeviceType type, PyObject*) { return PyBool_FromLong(autocast::is_autocast_enabled(type)); });
}
PyObject* set_enabled(PyObject*, PyObject* args) {
  return with_type(args, [](DeviceType type, PyObject* value) -> PyObject* {
    autocast::set_autocast_enabled(type, value && truth_of(value));
    Py_RETURN_NONE;
  });
}
PyObject* get_dtype(PyObject*, PyObject* args) {
  return with_type(args, [](DeviceType type, PyObject*) { return wrap(autocast::get_autocast_dtype(type)); });
}
PyObject* set_dtype(PyObject*, PyObject* args) {
  return with_type(args, [](DeviceType type, PyObject* value) -> PyObject* {
    autocast::set_autocast_dtype(type, dtype_of_object(value ? value : Py_None));
    Py_RETURN_NONE;
  });
}
PyObject* is_cache_enabled(PyObject*, PyObject*) { return PyBool_FromLong(autocast::is_autocast_cache_enabled()); }
PyObject* set_cache_enabled(PyObject*, PyObject* value) {
  return guarded([&]() -> PyObject* {
    autocast::set_autocast_cache_enabled(truth_of(value));
    Py_RETURN_NONE;
  });
}
PyObject* clear_cache(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    autocast::clear_cache();
    Py_RETURN_NONE;
  });
}
PyObject* increment_nesting(PyObject*, PyObject*) { return PyLong_FromLong(autocast::increment_nesting()); }
PyObject* decrement_nesting(PyObject*, PyObject*) { return PyLong_FromLong(autocast::decrement_nesting()); }

PyObject* tf32_products(PyObject*, PyObject*) { return PyBool_FromLong(allow_tf32_products()); }
PyObject* tf32_convolutions(PyObject*, PyObject*) { return PyBool_FromLong(allow_tf32_convolutions()); }
PyObject* benchmark(PyObject*, PyObject*) { return PyBool_FromLong(benchmark_convolutions()); }
PyObject* deterministic(PyObject*, PyObject*) { return PyBool_FromLong(is_deterministic()); }
template <void (*set)(bool)> PyObject* set_switch(PyObject*, PyObject* value) {
  return guarded([&]() -> PyObject* {
    set(truth_of(value));
    Py_RETURN_NONE;
  });
}
PyObject* matmul_precision(PyObject*, PyObject*) {
  const std::string_view name = float32_matmul_precision();
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}
PyObject* set_matmul_precision(PyObject*, PyObject* args) {
  const char* name = nullptr;
  if (!PyArg_ParseTuple(args, "s", &name)) return nullptr;
  return guarded([&]() -> PyObject* {
    set_float32_matmul_precision(name);
    Py_RETURN_NONE;
  });
}

// _fp8_linear(input, weight, bias or None, amax or None, scale)
PyObject* fp8_linear(PyObject*, PyObject* args) {
  PyObject *input, *weight, *bias, *amax, *scale;
  if (!PyArg_ParseTuple(args, "OOOOO", &input, &weight, &bias, &amax, &scale)) return nullptr;
  return guarded([&] {
    const auto given = [](PyObject* o) { return o == Py_None ? Tensor() : require_tensor(o, "fp8_linear"); };
    const Tensor tensors[] = {require_tensor(input, "fp8_linear"), require_tensor(weight, "fp8_linear"), given(bias),
                              given(amax), require_tensor(scale, "fp8_linear")};
    Tensor out;
    {
      const WithoutGil unlock;
      out = amp::fp8_linear(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4]);
    }
    return wrap(std::move(out));
  });
}
// _fp8_update(amax, history, scale, margin)
PyObject* fp8_update(PyObject*, PyObject* args) {
  PyObject *amax, *history, *scale;
  long long margin = 0;
  if (!PyArg_ParseTuple(args, "OOOL", &amax, &history, &scale, &margin)) return nullptr;
  return guarded([&]() -> PyObject* {
    const amp::Fp8State state{require_tensor(amax, "fp8"), require_tensor(history, "fp8"),
                              require_tensor(scale, "fp8")};
    {
      const WithoutGil unlock;
      amp::fp8_update(state, margin);
    }
    Py_RETURN_NONE;
  });
}
// _fp8_state(history length, device): amax, history, scale
PyObject* fp8_state(PyObject*, PyObject* args) {
  PyObject* device;
  long long length = 0;
  if (!PyArg_ParseTuple(args, "LO", &length, &device)) return nullptr;
  return guarded([&] {
    const amp::Fp8State state = amp::make_fp8_state(length, device_of_object(device));
    return wrap_list({state.amax, state.history, state.scale});
  });
}

}  // namespace

PyMethodDef autocast_functions[] = {
  {"_fp8_linear", fp8_linear, METH_VARARGS, nullptr},
  {"_fp8_update", fp8_update, METH_VARARGS, nullptr},
  {"_fp8_state", fp8_state, METH_VARARGS, nullptr},
  {"_is_autocast_available", is_available, METH_VARARGS, "Whether autocast exists for a device type."},
  {"_is_autocast_enabled", is_enabled, METH_VARARGS, nullptr},
  {"_set_autocast_enabled", set_enabled, METH_VARARGS, nullptr},
  {"get_autocast_dtype", get_dtype, METH_VARARGS,
   "get_autocast_dtype($module, device_type, /)\n--\n\nThe dtype of products and convolutions under autocast."},
  {"set_autocast_dtype", set_dtype, METH_VARARGS,
   "set_autocast_dtype($module, device_type, dtype, /)\n--\n\nSets the dtype of products and convolutions under "
   "autocast."},
  {"is_autocast_cache_enabled", is_cache_enabled, METH_NOARGS,
   "is_autocast_cache_enabled($module, /)\n--\n\nWhether autocast keeps the casts of parameters."},
  {"set_autocast_cache_enabled", set_cache_enabled, METH_O,
   "set_autocast_cache_enabled($module, enabled, /)\n--\n\nSets whether autocast keeps the casts of parameters."},
  {"clear_autocast_cache", clear_cache, METH_NOARGS,
   "clear_autocast_cache($module, /)\n--\n\nDrops the casts of parameters that autocast keeps."},
  {"autocast_increment_nesting", increment_nesting, METH_NOARGS,
   "autocast_increment_nesting($module, /)\n--\n\nOpens a scope; returns the number of open scopes."},
  {"autocast_decrement_nesting", decrement_nesting, METH_NOARGS,
   "autocast_decrement_nesting($module, /)\n--\n\nCloses a scope; returns the number of open scopes."},
  {"_allow_tf32_products", tf32_products, METH_NOARGS, nullptr},
  {"_set_allow_tf32_products", set_switch<set_allow_tf32_products>, METH_O, nullptr},
  {"_allow_tf32_convolutions", tf32_convolutions, METH_NOARGS, nullptr},
  {"_benchmark_convolutions", benchmark, METH_NOARGS, nullptr},
  {"_set_benchmark_convolutions", set_switch<set_benchmark_convolutions>, METH_O, nullptr},
  {"_set_allow_tf32_convolutions", set_switch<set_allow_tf32_convolutions>, METH_O, nullptr},
  {"_is_deterministic", deterministic, METH_NOARGS, nullptr},
  {"_set_deterministic", set_switch<set_deterministic>, METH_O, nullptr},
  {"get_float32_matmul_precision", matmul_precision, METH_NOARGS,
   "get_float32_matmul_precision($module, /)\n--\n\nThe precision of float32 products on GPUs: 'highest', 'high' or "
   "'medium'."},
  {"_set_float32_matmul_precision", set_matmul_precision, METH_VARARGS, nullptr},
  {}};

}  // namespace strata::python
