// Python texts of ours, which may have bytes of other programs.
#pragma once
#include <string_view>

#include "python/binding.h"

namespace strata::python {

inline PyObject* text_of(std::string_view s) {
  return need(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

}  // namespace strata::python
