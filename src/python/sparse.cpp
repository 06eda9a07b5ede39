// Sparse tensors by coordinates. Their parts are in the library, so that gradients can be sparse; strata.sparse has the
// class of their Python objects.
#include "python/sparse.h"

#include "autograd/sparse_grad.h"
#include "nn/optim/sparse_steps.h"
#include "ops/linalg/sparse_compressed.h"
#include "python/overrides.h"
#include "python/parse.h"

namespace strata::python {
namespace {

PyTypeObject* sparse_type = nullptr;

PyObject* set_sparse_type(PyObject*, PyObject* type) {
  if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type)) {
    PyErr_SetString(PyExc_TypeError, "_set_sparse_type: expected a subclass of Tensor");
    return nullptr;
  }
  Py_XSETREF(sparse_type, reinterpret_cast<PyTypeObject*>(Py_NewRef(type)));
  Py_RETURN_NONE;
}

std::vector<int64_t> numbers_of_tuple(PyObject* tuple) {
  std::vector<int64_t> numbers(static_cast<size_t>(PyTuple_GET_SIZE(tuple)));
  for (size_t d = 0; d < numbers.size(); ++d)
    numbers[d] = checked(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(d))));
  return numbers;
}
Tensor part(PyObject* o) { return require_tensor(o, "sparse tensor"); }

// (indices, values, size, coalesced) -> a tensor of these parts, which are not checked
PyObject* sparse_tensor(PyObject*, PyObject* args) {
  PyObject *indices, *values, *size;
  int coalesced;
  if (!PyArg_ParseTuple(args, "OOO!p", &indices, &values, &PyTuple_Type, &size, &coalesced)) return nullptr;
  return guarded([&] {
    return wrap(autograd::make_sparse({part(indices), part(values), coalesced != 0}, numbers_of_tuple(size)));
  });
}

autograd::SparseParts& parts_of(PyObject* tensor) {
  autograd::SparseParts* parts = autograd::sparse_parts(*part(tensor));
  STRATA_CHECK(parts, Type, "expected a sparse tensor");
  return *parts;
}
// (indices, values, coalesced)
PyObject* sparse_parts(PyObject*, PyObject* tensor) {
  return guarded([&] {
    const autograd::SparseParts& parts = parts_of(tensor);
    return Py_BuildValue("(NNN)", need(wrap(parts.indices)), need(wrap(parts.values)),
                         PyBool_FromLong(parts.coalesced));
  });
}
PyObject* set_sparse_parts(PyObject*, PyObject* args) {
  PyObject *tensor, *indices, *values;
  int coalesced;
  if (!PyArg_ParseTuple(args, "OOOp", &tensor, &indices, &values, &coalesced)) return nullptr;
  return guarded([&]() -> PyObject* {
    parts_of(tensor) = {part(indices), part(values), coalesced != 0};
    Py_RETURN_NONE;
  });
}

// (starts, plain, values, size, by columns): raises if they do not fit
PyObject* check_compressed_parts(PyObject*, PyObject* args) {
  PyObject *starts, *plain, *values, *size;
  int by_columns;
  if (!PyArg_ParseTuple(args, "OOOO!p", &starts, &plain, &values, &PyTuple_Type, &size, &by_columns)) return nullptr;
  return guarded([&]() -> PyObject* {
    check_compressed({part(starts), part(plain), part(values)}, numbers_of_tuple(size), by_columns != 0);
    Py_RETURN_NONE;
  });
}
// (starts, plain, values, by columns) -> (indices, values)
PyObject* coordinates_of_compressed(PyObject*, PyObject* args) {
  PyObject *starts, *plain, *values;
  int by_columns;
  if (!PyArg_ParseTuple(args, "OOOp", &starts, &plain, &values, &by_columns)) return nullptr;
  return guarded([&] {
    const auto [indices, held] = compressed_to_coo({part(starts), part(plain), part(values)}, by_columns != 0);
    return wrap_list({indices, held});
  });
}
// (indices, values, size, block size, by columns) -> (starts, plain, values)
PyObject* compressed_of_coordinates(PyObject*, PyObject* args) {
  PyObject *indices, *values, *size, *blocksize;
  int by_columns;
  if (!PyArg_ParseTuple(args, "OOO!O!p", &indices, &values, &PyTuple_Type, &size, &PyTuple_Type, &blocksize,
                        &by_columns))
    return nullptr;
  return guarded([&] {
    const CompressedParts parts = coo_to_compressed(part(indices), part(values), numbers_of_tuple(size),
                                                    numbers_of_tuple(blocksize), by_columns != 0);
    return wrap_list({parts.starts, parts.plain, parts.values});
  });
}

// (dense, indices, values, alpha)
PyObject* add_rows(PyObject*, PyObject* args) {
  PyObject *dense, *indices, *values;
  double alpha;
  if (!PyArg_ParseTuple(args, "OOOd", &dense, &indices, &values, &alpha)) return nullptr;
  return guarded([&] {
    optim::add_sparse_rows(part(dense), part(indices), part(values), alpha);
    return Py_NewRef(dense);
  });
}
// (param, indices, values, maximize, sum, step, lr, lr_decay, eps)
PyObject* adagrad_step(PyObject*, PyObject* args) {
  PyObject *param, *indices, *values, *sum;
  int maximize;
  double step, lr, lr_decay, eps;
  if (!PyArg_ParseTuple(args, "OOOpOdddd", &param, &indices, &values, &maximize, &sum, &step, &lr, &lr_decay, &eps))
    return nullptr;
  return guarded([&]() -> PyObject* {
    optim::sparse_adagrad(part(param), {part(indices), part(values), maximize != 0}, part(sum), step, lr, lr_decay,
                          eps);
    Py_RETURN_NONE;
  });
}
// (param, indices, values, maximize, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps)
PyObject* adam_step(PyObject*, PyObject* args) {
  PyObject *param, *indices, *values, *mean, *square;
  int maximize;
  double step, lr, beta1, beta2, eps;
  if (!PyArg_ParseTuple(args, "OOOpOOddddd", &param, &indices, &values, &maximize, &mean, &square, &step, &lr, &beta1,
                        &beta2, &eps))
    return nullptr;
  return guarded([&]() -> PyObject* {
    optim::sparse_adam(part(param), {part(indices), part(values), maximize != 0}, part(mean), part(square), step, lr,
                       beta1, beta2, eps);
    Py_RETURN_NONE;
  });
}

}  // namespace

PyObject* wrap_sparse(Tensor t) {
  if (!sparse_type) {  // importing the module sets it
    const Object module(need(PyImport_ImportModule("strata.sparse")));
    STRATA_ASSERT(sparse_type);
  }
  return wrap_as(std::move(t), sparse_type);
}

PyMethodDef sparse_functions[] = {{"_set_sparse_type", set_sparse_type, METH_O, nullptr},
                                  {"_sparse_tensor", sparse_tensor, METH_VARARGS, nullptr},
                                  {"_sparse_parts", sparse_parts, METH_O, nullptr},
                                  {"_set_sparse_parts", set_sparse_parts, METH_VARARGS, nullptr},
                                  {"_check_compressed", check_compressed_parts, METH_VARARGS, nullptr},
                                  {"_compressed_to_coo", coordinates_of_compressed, METH_VARARGS, nullptr},
                                  {"_coo_to_compressed", compressed_of_coordinates, METH_VARARGS, nullptr},
                                  {"_sparse_add_rows", add_rows, METH_VARARGS, nullptr},
                                  {"_sparse_adagrad", adagrad_step, METH_VARARGS, nullptr},
                                  {"_sparse_adam", adam_step, METH_VARARGS, nullptr},
                                  {}};

}  // namespace strata::python
