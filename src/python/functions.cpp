// Module functions about values: bytes for pickling, printing options, promotion, gains.
#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "dispatch/settings.h"
#include "ops/nn/init.h"
#include "python/parse.h"
#include "record/promotion.h"

namespace strata::python {
namespace {

PyObject* to_bytes(PyObject*, PyObject* tensor) {
  return guarded([&] {
    Tensor t = require_tensor(tensor, "_to_bytes");
    STRATA_CHECK(t.is_contiguous(), Value, "_to_bytes: expected a contiguous tensor");
    if (t.device().type != DeviceType::Cpu) t = to_host(*t);
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(t.bytes()),
                                     static_cast<Py_ssize_t>(t.numel() * static_cast<int64_t>(size_of(t.dtype()))));
  });
}

PyObject* from_bytes(PyObject*, PyObject* args) {
  Py_buffer data;
  PyObject *dtype, *shape;
  if (!PyArg_ParseTuple(args, "y*OO!", &data, &dtype, &PyTuple_Type, &shape)) return nullptr;
  PyObject* result = guarded([&] {
    std::vector<int64_t> sizes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i)
      sizes.push_back(checked(PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i))));
    const DType type = dtype_of_object(dtype);
    for (int64_t n : sizes) STRATA_CHECK(n >= 0, Value, "a size cannot be negative, got shape {}", to_string(sizes));
    int64_t bytes = 0;
    const bool wraps = __builtin_mul_overflow(checked_numel(sizes), static_cast<int64_t>(size_of(type)), &bytes);
    STRATA_CHECK(!wraps && bytes == data.len, Value, "a tensor of shape {} and dtype {} needs {} bytes, got {}",
                 to_string(sizes), name_of(type), bytes, data.len);
    Tensor t = make_tensor(sizes, type);
    if (bytes) std::memcpy(t.bytes(), data.buf, static_cast<size_t>(bytes));
    return wrap(std::move(t));
  });
  PyBuffer_Release(&data);
  return result;
}

PyObject* result_type(PyObject*, PyObject* args) {
  return guarded([&] {
    Args values;
    Tensor wrapped[2];  // complex numbers
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args) && i < 2; ++i) {
      PyObject* o = PyTuple_GET_ITEM(args, i);
      Value v;
      Complex<double> z;
      if (is_tensor(o)) v = Value(impl_of(o));
      else if (!number_value(o, v) && complex_value(o, z)) v = Value(wrapped[i] = tensor_from_data(o, DType::C128));
      else if (!v)
        fail(ErrorKind::Type, fmt::format("result_type: expected a Tensor or a number, got {}", Py_TYPE(o)->tp_name));
      if (wrapped[i]) wrapped[i]->wrapped_number = true;
      values[values.size++] = v;
    }
    return wrap(strata::result_type(values, values.size));
  });
}

PyObject* calculate_gain(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* param = Py_None;
  if (!PyArg_ParseTuple(args, "s|O", &name, &param)) return nullptr;
  return guarded([&] {
    std::optional<double> slope;
    if (param != Py_None) {
      STRATA_CHECK(PyNumber_Check(param) && !PyBool_Check(param), Value, "negative_slope {} not a valid number",
                   Py_TYPE(param)->tp_name);
      slope = checked(PyFloat_AsDouble(param));
    }
    return PyFloat_FromDouble(nn::init::calculate_gain(name, slope));
  });
}

PyObject* get_printoptions(PyObject*, PyObject*) {
  const PrintOptions& o = print_options;
  return Py_BuildValue("{s:i,s:L,s:L,s:L,s:N}", "precision", o.precision, "threshold",
                       static_cast<long long>(o.threshold), "edgeitems", static_cast<long long>(o.edge_items),
                       "linewidth", static_cast<long long>(o.line_width), "sci_mode",
                       o.scientific ? PyBool_FromLong(*o.scientific) : Py_NewRef(Py_None));
}
PyObject* set_printoptions(PyObject*, PyObject* args, PyObject* keywords) {
  const char* names[] = {"precision", "threshold", "edgeitems", "linewidth", "sci_mode", nullptr};
  PrintOptions o;
  long long threshold, edge, width;
  PyObject* scientific;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "iLLLO", const_cast<char**>(names), &o.precision, &threshold, &edge,
                                   &width, &scientific))
    return nullptr;
  return guarded([&]() -> PyObject* {
    o.threshold = threshold;
    o.edge_items = edge;
    o.line_width = width;
    if (scientific != Py_None) o.scientific = truth_of(scientific);
    strata::set_printoptions(o);
    Py_RETURN_NONE;
  });
}
}  // namespace

PyMethodDef value_functions[] = {{"_to_bytes", to_bytes, METH_O, nullptr},
                                 {"_from_bytes", from_bytes, METH_VARARGS, nullptr},
                                 {"_result_type", result_type, METH_VARARGS, nullptr},
                                 {"_calculate_gain", calculate_gain, METH_VARARGS, nullptr},
                                 {"_get_printoptions", get_printoptions, METH_NOARGS, nullptr},
                                 {"_set_printoptions", method(set_printoptions), METH_VARARGS | METH_KEYWORDS, nullptr},
                                 {}};

}  // namespace strata::python
