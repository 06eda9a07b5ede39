// What the bindings of kernels compiled at run time share: texts, and the exception for sources that do not compile.
#pragma once
#include <string>
#include <vector>

#include "cuda/custom/compile.h"
#include "python/binding.h"

namespace strata::python {

extern PyMethodDef inline_functions[];

std::string text_of(PyObject* o, const char* what);  // TypeError unless a str
std::vector<std::string> texts_of(PyObject* o, const char* what);
PyObject* list_of(const std::vector<std::string>& texts);

[[noreturn]] void raise_compile_error(const cuda::CompileError& e);  // strata.cuda.CompileError, with the log

template <class F> void with_compile_error(F f) {
  try {
    f();
  } catch (const cuda::CompileError& e) { raise_compile_error(e); }
}

}  // namespace strata::python
