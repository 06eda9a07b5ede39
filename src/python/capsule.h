// Capsules: Python objects that own a C++ object. kCapsule<T> is specialized with a name for each type.
#pragma once
#include <memory>

#include "python/binding.h"

namespace strata::python {

template <class T> constexpr const char* kCapsule = nullptr;

template <class T> PyObject* capsule(T value) {
  auto held = std::make_unique<T>(std::move(value));
  PyObject* o = need(PyCapsule_New(held.get(), kCapsule<T>,
                                   [](PyObject* c) { delete static_cast<T*>(PyCapsule_GetPointer(c, kCapsule<T>)); }));
  static_cast<void>(held.release());  // now owned by the capsule
  return o;
}
template <class T> T& inside(PyObject* o) {
  auto* p = static_cast<T*>(PyCapsule_GetPointer(o, kCapsule<T>));
  if (!p) throw PythonError{};
  return *p;
}

}  // namespace strata::python
