// __torch_function__: calls with arguments of types that handle functions themselves, by PyTorch's protocol.
#pragma once
#include "python/binding.h"

namespace strata::python {

extern PyTypeObject* parameter_type;  // never handles functions itself; null until strata.nn is imported
extern int active_modes;              // function modes on the stacks of all threads

bool type_overrides(PyTypeObject* type);
// Whether calls with this argument go to the __torch_function__ of its type. Types of Python and NumPy are not heap
// types, so tensors, parameters, numbers and lists take only a few comparisons.
inline bool overrides(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == tensor_type) [[likely]]
    return false;
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type != parameter_type && type_overrides(type);
}
inline bool any_overrides(PyObject* const* values, size_t n) {
  if (active_modes) [[unlikely]]
    return true;
  for (size_t i = 0; i < n; ++i)
    if (overrides(values[i])) return true;
  return false;
}

// The result of the first handler that does not return NotImplemented: modes, then arguments (also inside lists and
// tuples) from left to right, subclasses before their bases. Null if there is no handler. `keywords` are the names of
// the last values. If all return NotImplemented: that object for an operator, else a TypeError.
PyObject* call_override(PyObject* function, PyObject* const* values, size_t n, PyObject* keywords,
                        bool is_operator = false);
// The same for a method, special method or property of Tensor with that name, for callers outside of guarded(): false if
// there is no handler, else the result, or null with an error set.
bool override_method(const char* name, PyObject* const* values, size_t n, PyObject*& result);
bool override_call(const char* name, PyObject* self, PyObject* args, PyObject* kwargs, PyObject*& result);
bool override_property(const char* name, PyObject* self, PyObject*& result);

PyObject* wrap_as(Tensor t, PyTypeObject* type);  // a new Python object of a subclass of Tensor
bool init_overrides(PyObject* module);

// A C function as an entry of a method table or a slot of Tensor that subclasses may handle.
template <size_t N> struct FixedName {
  char text[N];
  constexpr FixedName(const char (&s)[N]) {  // NOLINT: implicit, for template arguments
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};
template <FixedName name, PyCFunction f> PyObject* overridable(PyObject* self, PyObject* argument) {
  if (any_overrides(&self, 1)) [[unlikely]] {
    PyObject *values[] = {self, argument}, *result;
    if (override_method(name.text, values, argument ? 2 : 1, result)) return result;
  }
  return f(self, argument);
}
template <FixedName name, PyCFunctionWithKeywords f>
PyObject* overridable_keywords(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (any_overrides(&self, 1)) [[unlikely]]
    if (PyObject * result; override_call(name.text, self, args, kwargs, result)) return result;
  return f(self, args, kwargs);
}
template <FixedName name, unaryfunc f> PyObject* overridable_slot(PyObject* self) {
  if (any_overrides(&self, 1)) [[unlikely]]
    if (PyObject * result; override_method(name.text, &self, 1, result)) return result;
  return f(self);
}
template <getter f> PyObject* overridable_property(PyObject* self, void* name) {
  if (any_overrides(&self, 1)) [[unlikely]]
    if (PyObject * result; override_property(static_cast<const char*>(name), self, result)) return result;
  return f(self, nullptr);
}

}  // namespace strata::python
