// Arguments of the functions of strata.cuda and strata.vgpu: the name of a device type, and a number.
#pragma once
#include "cuda/runtime/runtime.h"
#include "python/binding.h"

namespace strata::python {

using cuda::Gpu;
using cuda::Runtime;

inline DeviceType type_of(const char* name) {
  const DeviceType type = device_from_name(name).type;
  STRATA_CHECK(type != DeviceType::Meta, Value, "device meta has no memory, streams or graphs");
  return type;
}
inline Gpu& gpu_of(const char* name, int index) {  // a negative number is the current device
  return Runtime::gpu({type_of(name), index < 0 ? int8_t{-1} : device_index(index)});
}

// Calls f(device type, number), from Python arguments (name, number).
template <class F> PyObject* with_device(PyObject* args, const F& f) {
  const char* name = nullptr;
  int index = -1;
  if (!PyArg_ParseTuple(args, "s|i", &name, &index)) return nullptr;
  return guarded([&]() -> PyObject* { return f(type_of(name), index); });
}
template <class F> PyObject* with_gpu(PyObject* args, const F& f) {
  return with_device(args, [&](DeviceType type, int index) -> PyObject* {
    return f(Runtime::get(type)[index < 0 ? cuda::current_index(type) : index]);
  });
}

}  // namespace strata::python
