// Sparse tensors in Python.
#pragma once
#include "python/binding.h"

namespace strata::python {

PyObject* wrap_sparse(Tensor t);  // a new Python object of a sparse tensor
extern PyMethodDef sparse_functions[];

}  // namespace strata::python
