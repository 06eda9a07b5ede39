// cond, while_loop and scan with functions of Python.
#pragma once
#include "python/binding.h"

namespace strata::python {

PyObject* py_cond(PyObject*, PyObject* args);
PyObject* py_while_loop(PyObject*, PyObject* args);
PyObject* py_scan(PyObject*, PyObject* args);
PyObject* py_makes_graph(PyObject*, PyObject*);

}  // namespace strata::python
