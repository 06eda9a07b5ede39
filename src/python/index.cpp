// x[...] and x[...] = value.
#include <fmt/core.h>

#include <algorithm>

#include "ops/indexing/expression.h"
#include "python/overrides.h"
#include "strata/ops/movement/copy.h"

namespace strata::python {
namespace {

std::optional<int64_t> bound(PyObject* o) {
  if (o == Py_None) return std::nullopt;
  Object i(need(PyNumber_Index(o)));
  int overflow = 0;  // beyond 64 bits: clamped
  const int64_t v = checked(PyLong_AsLongLongAndOverflow(i.get(), &overflow));
  return overflow < 0 ? INT64_MIN : overflow > 0 ? INT64_MAX : v;
}

Index item_of(PyObject* o) {
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_Check(o)) return int64_t{checked(PyLong_AsLongLong(o))};
  if (PySlice_Check(o)) {
    const auto* s = reinterpret_cast<PySliceObject*>(o);
    return Slice{bound(s->start), bound(s->stop), bound(s->step).value_or(1)};
  }
  if (o == Py_None) return NewAxis{};
  if (o == Py_Ellipsis) return Ellipsis{};
  if (is_tensor(o)) return tensor_of(o);
  if (PyIndex_Check(o) && !PyObject_CheckBuffer(o)) return *bound(o);
  if (is_sequence(o) || PyObject_CheckBuffer(o)) {
    Tensor t = tensor_from_data(o, std::nullopt);
    if (t.numel() == 0 && is_floating(t.dtype())) t = make_tensor(t.shape(), DType::I64);  // x[[]]
    return t;
  }
  fail(ErrorKind::Index,
       fmt::format(
         "only integers, slices (`:`), ellipsis (`...`), None and long or byte tensors are valid indices (got {})",
         Py_TYPE(o)->tp_name));
}

std::vector<Index> items_of(PyObject* key) {
  std::vector<Index> items;
  if (!PyTuple_Check(key)) {
    items.push_back(item_of(key));
    return items;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) items.push_back(item_of(PyTuple_GET_ITEM(key, i)));
  return items;
}

// Whether the __torch_function__ of a part of the key, such as a bound of a slice, may handle the access.
bool key_overrides(PyObject* key) {
  if (PyTuple_Check(key)) {
    PyObject** items = PySequence_Fast_ITEMS(key);
    return std::any_of(items, items + PyTuple_GET_SIZE(key), key_overrides);
  }
  if (!PySlice_Check(key)) return overrides(key);
  const auto* s = reinterpret_cast<PySliceObject*>(key);
  return overrides(s->start) || overrides(s->stop) || overrides(s->step);
}
PyObject* override_item(const char* name, PyObject* self, PyObject* key, PyObject* value) {
  PyObject* values[] = {self, key, value};
  const Object function(need(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name)));
  return call_override(function.get(), values, value ? 3 : 2, nullptr);
}
}  // namespace

PyObject* get_item(PyObject* self, PyObject* key) {
  return guarded([&] {
    if (any_overrides(&self, 1) || (!PyLong_CheckExact(key) && key_overrides(key))) [[unlikely]]
      if (PyObject* result = override_item("__getitem__", self, key, nullptr)) return result;
    const Tensor t = tensor_of(self);
    if (PyLong_CheckExact(key)) {  // x[3]
      const Index item = item_of(key);
      STRATA_CHECK(t.dim() > 0, Index,
                   "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number");
      return wrap(strata::get_item(t, {&item, 1}));
    }
    return wrap(strata::get_item(t, items_of(key)));
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded([&] {
    STRATA_CHECK(value, Type, "Tensor does not support deleting items");
    if (any_overrides(&self, 1) || overrides(value) || key_overrides(key)) [[unlikely]]
      if (const Object result(override_item("__setitem__", self, key, value)); result) return 0;
    const Tensor t = tensor_of(self);
    const std::vector<Index> items = items_of(key);
    Value number;
    if (int64_t bits; t.dtype() == DType::U64 && upper_half_of_uint64(value, bits)) {
      strata::set_item(t, items, strata::to(tensor_from_data(value, t.dtype()), std::optional(t.device())));
      return 0;
    }
    if (!is_tensor(value) && !is_sequence(value) && number_value(value, number)) {
      strata::set_item(t, items, Operand(number));
      return 0;
    }
    if (Complex<double> z; !is_tensor(value) && complex_value(value, z)) {
      STRATA_CHECK(is_complex(t.dtype()), Runtime,
                   "value cannot be converted to type {} without overflow: it is complex", name_of(t.dtype()));
      strata::set_item(t, items, strata::to(tensor_from_data(value, t.dtype()), std::optional(t.device())));
      return 0;
    }
    const Tensor source = is_tensor(value)
                            ? tensor_of(value)
                            : strata::to(tensor_from_data(value, std::nullopt), std::optional(t.device()));
    strata::set_item(t, items, source);
    return 0;
  });
}

}  // namespace strata::python
