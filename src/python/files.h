// Paths from Python.
#pragma once
#include <string>

#include "python/binding.h"

namespace strata::python {

// A path argument: str, bytes or os.PathLike.
struct Path {
  PyObject* bytes = nullptr;
  ~Path() { Py_XDECREF(bytes); }
  std::string text() const { return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))}; }
};

}  // namespace strata::python
