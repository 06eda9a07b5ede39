#include "python/parse.h"

#include <algorithm>

namespace strata::python {

namespace {
// Of one digit (30 bits): read without a call.
bool small_integer(PyObject* o, int64_t& out) {
#if PY_VERSION_HEX >= 0x030C0000
  const auto* number = reinterpret_cast<const PyLongObject*>(o);
  return PyUnstable_Long_IsCompact(number) && assign(out, PyUnstable_Long_CompactValue(number));
#else
  const Py_ssize_t digits = Py_SIZE(o);
  if (digits < -1 || digits > 1) return false;
  return assign(out, digits * int64_t{reinterpret_cast<const PyLongObject*>(o)->ob_digit[0]});
#endif
}
int64_t integer_of(PyObject* o, const char* message) {
  int overflow = 0;
  const int64_t i = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow) fail(ErrorKind::Runtime, message);
  return checked(i);
}

// NumPy's scalars export a buffer. Accepts real numbers; not dates, complex numbers (float() would drop a part), texts,
// records.
bool is_real_scalar(PyObject* o) {
  Py_buffer view;
  if (PyObject_GetBuffer(o, &view, PyBUF_RECORDS_RO) < 0) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw PythonError{};
    PyErr_Clear();
    return false;
  }
  std::string_view format = view.format ? view.format : "";
  if (!format.empty() && std::string_view("@=<|").find(format[0]) != format.npos) format.remove_prefix(1);
  const bool real =
    view.ndim == 0 && format.size() == 1 && std::string_view("?bBhHiIlLqQefdg").find(format[0]) != format.npos;
  PyBuffer_Release(&view);
  return real;
}
}  // namespace

bool upper_half_of_uint64(PyObject* o, int64_t& bits) {
  int overflow = 0;
  if (!PyLong_Check(o)) return false;
  PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow <= 0) return false;
  bits = static_cast<int64_t>(PyLong_AsUnsignedLongLong(o));
  const bool fits = !PyErr_Occurred();
  PyErr_Clear();
  return fits;
}

bool number_value(PyObject* o, Value& v) {
  if (PyFloat_Check(o)) return assign(v, Value(PyFloat_AS_DOUBLE(o)));
  if (PyBool_Check(o)) return assign(v, Value(o == Py_True));
  if (PyLong_Check(o))
    return assign(v, Value(integer_of(o, "value cannot be converted to type int64_t without overflow")));
  if (is_tensor(o)) {
    if (impl_of(o)->numel != 1 || impl_of(o)->requires_grad || is_complex(impl_of(o)->dtype)) return false;
    return assign(v, Value(tensor_of(o).item()));
  }
  // NumPy scalars and other number types.
  const PyNumberMethods* number = Py_TYPE(o)->tp_as_number;
  if (!number || !PyObject_CheckBuffer(o) || PySequence_Check(o) || !is_real_scalar(o)) return false;
  if (number->nb_index) {
    Object i(PyNumber_Index(o));
    if (i) return number_value(i.get(), v);
    forgive_type_error();
  }
  if (number->nb_float) {
    Object f(PyNumber_Float(o));
    if (f) return number_value(f.get(), v);
    forgive_type_error();
  }
  return false;
}

bool has_special_method(PyObject* o, const char* name) {
  return PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), name);
}

bool complex_value(PyObject* o, Complex<double>& z) {
  if (is_tensor(o)) {
    const TensorImpl& t = *impl_of(o);
    if (t.numel != 1 || t.requires_grad || !is_complex(t.dtype)) return false;
    z = tensor_of(o).item().to_complex();
    return true;
  }
  const bool numpy = PyObject_CheckBuffer(o) && !PySequence_Check(o) && Py_TYPE(o)->tp_as_number;
  if (!PyComplex_Check(o) && !(numpy && has_special_method(o, "__complex__"))) return false;
  const Py_complex value = PyComplex_AsCComplex(o);
  if (value.real == -1 && PyErr_Occurred()) {
    forgive_type_error();
    return false;
  }
  z = {value.real, value.imag};
  return true;
}

bool Parser::number(PyObject* o, Value& v, bool complex_too) {
  if (strict && is_tensor(o)) return false;
  if (number_value(o, v)) return true;
  Complex<double> z;
  if (!complex_too || !complex_value(o, z)) return false;
  return assign(v, Value(&rare().complex.emplace_back(z)));
}

bool Parser::integer(PyObject* o, int64_t& out) {
  if (PyLong_CheckExact(o) && small_integer(o, out)) [[likely]]
    return true;
  if (PyLong_Check(o) && !PyBool_Check(o))
    return assign(out, integer_of(o, "an integer argument does not fit into 64 bits"));
  if (PyBool_Check(o)) return assign(out, o == Py_True);
  if (is_tensor(o)) {
    if (strict || impl_of(o)->numel != 1 || !is_integral(impl_of(o)->dtype)) return false;
    return assign(out, tensor_of(o).item<int64_t>());
  }
  if (!PyIndex_Check(o)) return false;
  Object i(PyNumber_Index(o));
  if (!i) {
    forgive_type_error();
    return false;
  }
  return integer(i.get(), out);
}

// None in a list of sizes, as in adaptive_avg_pool2d(x, (None, 7)), means "unchanged": -1.
bool Parser::int_or_none(PyObject* o, int64_t& out) { return o == Py_None ? assign(out, -1) : integer(o, out); }

bool Parser::ints_from(PyObject* const* items, Py_ssize_t n, Value& v) {
  int64_t* space = ints_ + used_ints_;
  if (used_ints_ + n > std::ssize(ints_)) space = rare().ints.emplace_back(static_cast<size_t>(n)).data();
  else used_ints_ += static_cast<uint32_t>(n);
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!int_or_none(items[i], space[i])) return false;
  return assign(v, Value(IntList(Shape(space, static_cast<size_t>(n)))));
}

bool Parser::int_list(PyObject* o, Value& v) {
  if (PyTuple_Check(o)) return ints_from(PySequence_Fast_ITEMS(o), PyTuple_GET_SIZE(o), v);
  if (PyList_Check(o)) {
    PyObject** items = PySequence_Fast_ITEMS(o);
    const bool plain = std::all_of(items, items + PyList_GET_SIZE(o), [](PyObject* i) { return PyLong_CheckExact(i); });
    if (plain) return ints_from(items, PyList_GET_SIZE(o), v);
    const Object copy(need(PyList_AsTuple(o)));  // __index__ of an element may change the list
    return ints_from(PySequence_Fast_ITEMS(copy.get()), PyTuple_GET_SIZE(copy.get()), v);
  }
  if (PyFloat_Check(o) || PyUnicode_Check(o) || PyBool_Check(o)) return false;
  if (is_tensor(o) && impl_of(o)->ndim == 1) {
    const Object list(need(to_list(tensor_of(o))));
    return int_list(list.get(), v);
  }
  return ints_from(&o, 1, v);
}

bool Parser::float_list(PyObject* o, Value& v) {
  auto& space = rare().floats.emplace_back();
  const auto one = [&](PyObject* item) {
    Value n;
    if (!number_value(item, n)) return false;
    space.push_back(n.number());
    return true;
  };
  if (PyTuple_Check(o) || PyList_Check(o)) {
    const Object items(need(PySequence_Tuple(o)));  // __float__ of an element may change a list
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
      if (!one(PyTuple_GET_ITEM(items.get(), i))) return false;
  } else if (!one(o)) {
    return false;
  }
  return assign(v, Value(std::span<const double>(space)));
}

bool Parser::tensor_list(const Param& p, PyObject* o, Value& v) {
  return (PyTuple_Check(o) || PyList_Check(o)) &&
         tensors_from(p, PySequence_Fast_ITEMS(o), PySequence_Fast_GET_SIZE(o), v);
}

bool Parser::tensors_from(const Param& p, PyObject* const* items, Py_ssize_t n, Value& v) {
  auto& space = rare().lists.emplace_back();
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = items[i];
    if (item == Py_None && p.optional_items) space.emplace_back();
    else if (is_tensor(item)) space.push_back(tensor_of(item));
    else return false;
    subclasses |= Py_TYPE(item) != tensor_type;
  }
  return assign(v, Value(TensorList(std::span<const Tensor>(space))));
}

bool Parser::value(const OpRecord& op, const Param& p, PyObject* o, Value& v) {
  if (o == Py_None) return p.optional && assign(v, Value());
  switch (p.type) {
    case ParamType::Tensor: {
      if (is_tensor(o)) [[likely]]
        return assign(v, impl_of(o));
      Value number;
      if ((strict && !op.numbers) || PyUnicode_Check(o)) return false;
      if (!number_value(o, number)) {
        Complex<double> z;
        if (!op.accepts.has(DType::C128) || !complex_value(o, z)) return false;
        Tensor t = make_tensor({}, DType::C128);  // also for pointwise ops: an operand is a real number or a tensor
        *t.data<Complex<double>>() = z;
        t->wrapped_number = true;
        return assign(v, Value(rare().made.emplace_back(std::move(t))));
      }
      if (op.numbers) return assign(v, number);
      Tensor t = make_tensor({}, number.tag == Tag::Float ? default_dtype()
                                 : number.tag == Tag::Int ? DType::I64
                                                          : DType::Bool);
      dispatch_dtype(t.dtype(), [&]<class T> {
        *t.data<T>() = number.tag == Tag::Float ? convert<T>(number.f) : convert<T>(number.i);
      });
      t->wrapped_number = true;
      return assign(v, Value(rare().made.emplace_back(std::move(t))));
    }
    case ParamType::Tensors: return tensor_list(p, o, v);
    case ParamType::Scalar: return number(o, v, op.accepts.has(DType::C128));
    case ParamType::Float: return number(o, v, false) && assign(v, Value(v.number()));
    case ParamType::Int: {
      int64_t i;
      return !PyBool_Check(o) && integer(o, i) && assign(v, Value(i));
    }
    case ParamType::Bool:
      if (PyBool_Check(o)) [[likely]]
        return assign(v, Value(o == Py_True));
      return PyLong_Check(o) && assign(v, Value(truth_of(o)));
    case ParamType::Ints: return int_list(o, v);
    case ParamType::Floats: return float_list(o, v);
    case ParamType::Str: {
      if (!PyUnicode_Check(o)) return false;
      Py_ssize_t n;
      const char* s = PyUnicode_AsUTF8AndSize(o, &n);
      if (!s) throw PythonError{};
      return assign(v, Value(std::string_view(s, static_cast<size_t>(n))));
    }
    case ParamType::DType: return is_dtype(o) && assign(v, Value(dtype_of_object(o)));
    case ParamType::Device:
      return (Py_TYPE(o) == device_type || PyUnicode_Check(o)) && assign(v, Value(device_of_object(o)));
    case ParamType::Generator: return generator_of(o) && assign(v, Value(generator_of(o)));
  }
  return false;
}

bool Parser::is_long(const Value& list) {
  int64_t n = 1;
  if (list.tag == Tag::Ints)  // the sizes of a result; stops before the product overflows
    for (uint32_t i = 0; i < list.size && n <= kLongWork; ++i) n *= std::clamp<int64_t>(list.ints[i], 1, kLongWork + 1);
  if (list.tag == Tag::Tensors)
    for (uint32_t i = 0; i < list.size; ++i) n += list.tensors[i] ? list.tensors[i].numel() : 0;
  return n > kLongWork;
}

UnlockedArgs::UnlockedArgs(const OpRecord& op, const Args& args) : args_(args) {
  const bool as_they_are = op.composite_fn || op.view_fn || (thread_state.grad_mode && wants_grad(args));
  for (uint32_t i = 0; i < args.size; ++i) {
    if (!args.is_tensor(i)) continue;
    own_[i] = as_they_are ? args.share(i) : alias(args.tensor(i));
    args_[i] = Value(own_[i]);
  }
}

}  // namespace strata::python
