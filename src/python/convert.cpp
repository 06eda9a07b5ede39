// Between Python data and tensors: nested lists, the buffer protocol (NumPy without importing it), lists back.
#include <fmt/core.h>

#include <cstring>
#include <deque>

#include "base/host_memory.h"
#include "base/warning.h"
#include "python/binding.h"
#include "record/promotion.h"

namespace strata::python {

// --- element formats of the buffer protocol --------------------------------------------------------------------------

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t itemsize) {
  if (!format) return itemsize == 1 ? std::optional(DType::U8) : std::nullopt;
  if (*format == '@' || *format == '=' || *format == '<' || *format == '|') ++format;
  if ((*format == 'l' || *format == 'L') && format[1] == 0) {  // long: 8 bytes here, 4 elsewhere
    const bool sign = *format == 'l';
    return itemsize == 8 ? (sign ? DType::I64 : DType::U64) : (sign ? DType::I32 : DType::U32);
  }
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].format && std::strcmp(format, kDTypes[i].format) == 0) return static_cast<DType>(i);
  return std::nullopt;
}

namespace {
void release_view(void* p) {
  if (!Py_IsInitialized()) return;
  WithGil gil;
  PyBuffer_Release(static_cast<Py_buffer*>(p));
  delete static_cast<Py_buffer*>(p);
}

// A tensor over the memory of an object with the buffer protocol; over a copy if the elements are not aligned.
Tensor share_buffer(PyObject* source) {
  struct Release {
    void operator()(Py_buffer* view) const {
      PyBuffer_Release(view);
      delete view;
    }
  };
  auto fresh = std::make_unique<Py_buffer>();
  need(PyObject_GetBuffer(source, fresh.get(), PyBUF_RECORDS_RO));
  std::unique_ptr<Py_buffer, Release> view(fresh.release());
  // NumPy's dates are numbers to Python and export their storage bytes.
  const bool bytes_of_number = Py_TYPE(source)->tp_as_number && Py_TYPE(source)->tp_as_number->nb_float &&
                               !PySequence_Check(source) && view->ndim != 0;
  if (bytes_of_number) fail(ErrorKind::Type, fmt::format("can't make a tensor of a {}", Py_TYPE(source)->tp_name));
  const std::optional<DType> dtype = dtype_of_format(view->format, view->itemsize);
  STRATA_CHECK(
    dtype && view->itemsize == static_cast<Py_ssize_t>(size_of(*dtype)), Type,
    "can't convert an array of element format '{}'; the supported types are: complex128, complex64, float64, "
    "float32, float16, int64, int32, int16, int8, uint8 and bool",
    view->format ? view->format : "");
  STRATA_CHECK(view->ndim <= kMaxDims, Value, "the array has {} dimensions; a tensor has at most {}", view->ndim,
               kMaxDims);
  STRATA_CHECK(view->ndim == 0 || view->shape, Type, "can't convert an array that does not tell its shape");
  const auto item = static_cast<int64_t>(view->itemsize);
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = *dtype;
  const std::vector<int64_t> shape(view->shape, view->shape + view->ndim);
  t->set_shape(shape);
  t->set_contiguous_strides();
  const size_t alignment = size_of(real_type(*dtype));
  const bool aligned = reinterpret_cast<uintptr_t>(view->buf) % alignment == 0;
  if (!aligned) {
    t->allocate();
    need(PyBuffer_ToContiguous(t->data, view.get(), view->len, 'C'));
    return t;
  }
  int64_t last = 0;                                     // offset of the last element
  for (int d = 0; view->strides && d < t->ndim; ++d) {  // none: row-major, as ctypes exports arrays
    STRATA_CHECK(view->strides[d] >= 0, Value,
                 "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                 "supported; make a copy with array.copy()");
    STRATA_CHECK(view->strides[d] % item == 0, Value,
                 "stride {} of the given array is not a multiple of its element size {}", view->strides[d], item);
    t->strides[d] = view->strides[d] / item;
  }
  t->update_contiguous();
  for (int d = 0; d < t->ndim; ++d) last += (t->shape[d] - 1) * t->strides[d];
  const int64_t bytes = t->numel ? (last + 1) * item : 0;
  t->storage = adopt_memory(view->buf, static_cast<size_t>(bytes), release_view, view.get());
  t->storage->read_only = view->readonly != 0;
  t->storage->shared = true;  // a read-only array may be a view of one that is written to
  t->data = static_cast<std::byte*>(view->buf);
  static_cast<void>(view.release());  // now owned by the storage
  return t;
}

Tensor copy_as(const Tensor& t, DType dtype) {
  const OpRecord& to = find_op("to", "dtype");
  Args args = to.defaults;
  args[0] = Value(t);
  args[1] = Value(dtype);
  for (uint32_t i = 0; i < to.params.size(); ++i)
    if (to.params[i].name == "copy") args[i] = Value(true);
  Scoped mode(thread_state.grad_mode, false);
  return call(to, args);
}

}  // namespace

bool is_sequence(PyObject* o) {
  if (PyList_Check(o) || PyTuple_Check(o)) return true;
  return PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o) && !PyDict_Check(o);
}

namespace {
// --- nested lists ------------------------------------------------------------------------------------------------------

// An element of the data that is one number: its value and its dtype. A tensor of one element is a number, as in
// PyTorch.
struct Element {
  Value value;
  DType dtype;
};
DType dtype_of_number(PyObject* o, const Value& v) {
  const bool plain = PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o);
  if (!plain && PyObject_CheckBuffer(o)) {  // a NumPy number, of a dtype that tensors may lack
    Py_buffer view;
    need(PyObject_GetBuffer(o, &view, PyBUF_RECORDS_RO));
    const std::optional<DType> dtype = dtype_of_format(view.format, view.itemsize);
    PyBuffer_Release(&view);
    if (dtype) return *dtype;
  }
  return v.tag == Tag::Int       ? DType::I64
         : v.tag == Tag::Bool    ? DType::Bool
         : v.tag == Tag::Complex ? complex_type(default_dtype())
                                 : default_dtype();
}
// A value refers to a complex number, which `complex` keeps.
Element element_of(PyObject* o, std::deque<Complex<double>>& complex) {
  if (is_tensor(o)) {
    const Tensor t = tensor_of(o);
    STRATA_CHECK(
      t.numel() == 1, Value,
      "only one element tensors can be converted to Python scalars; found one of shape {}. Join tensors with "
      "stack() or cat()",
      to_string(t.shape()));
    const Scalar s = t.item();
    return {s.is_complex() ? Value(&complex.emplace_back(s.z)) : Value(s), t.dtype()};
  }
  Value v;
  if (Complex<double> z; !number_value(o, v) && complex_value(o, z)) v = Value(&complex.emplace_back(z));
  if (!v)
    fail(ErrorKind::Type,
         fmt::format("tensor: cannot make an element of a {}; expected a number", Py_TYPE(o)->tp_name));
  return {v, dtype_of_number(o, v)};
}

struct ListReader {
  std::vector<int64_t> shape;
  bool uint64 = false;         // the elements are read as uint64: an int64_t holds the bits of one
  std::optional<DType> dtype;  // promoted from all elements
  std::vector<Value> values;
  std::deque<Complex<double>> complex;  // that values refer to

  void measure(PyObject* data) {
    Object at(Py_NewRef(data));
    for (int depth = 0; is_sequence(at.get()); ++depth) {
      STRATA_CHECK(depth < kMaxDims, Value, "tensor: the data are nested deeper than {} levels", kMaxDims);
      if (is_array(at.get())) {
        const Tensor array = share_buffer(at.get());  // named: a temporary would be gone in the loop
        for (int64_t n : array.shape()) shape.push_back(n);
        return;
      }
      const Object items = elements_of(at.get());
      shape.push_back(PySequence_Fast_GET_SIZE(items.get()));
      if (!shape.back()) return;
      at = Object(Py_NewRef(PySequence_Fast_GET_ITEM(items.get(), 0)));
    }
  }
  void add(const Value& v, DType type) {
    dtype = dtype && *dtype != type ? promote(*dtype, type) : type;
    values.push_back(v);
  }
  // `typed`: the dtype of an array around o, whose elements have it too
  void fill(PyObject* o, size_t depth, std::optional<DType> typed = {}) {
    if (depth == shape.size()) {
      STRATA_CHECK(!is_sequence(o), Value,
                   "tensor: the data are nested unevenly: expected a number at depth {}, found a sequence", depth);
      int64_t bits;
      if (uint64 && upper_half_of_uint64(o, bits)) return values.push_back(Value(bits));
      const Element e = element_of(o, complex);
      return add(e.value, typed.value_or(e.dtype));
    }
    if (is_array(o)) {
      const Tensor array = share_buffer(o);
      const Object list(need(to_list(array)));
      return fill(list.get(), depth, array.dtype());
    }
    if (!is_sequence(o))
      fail(ErrorKind::Value, fmt::format("tensor: expected a sequence of length {} at dim {}, found {}", shape[depth],
                                         depth, Py_TYPE(o)->tp_name));
    const Object items = elements_of(o);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
    STRATA_CHECK(n == shape[depth], Value, "expected sequence of length {} at dim {} (got {})", shape[depth], depth, n);
    for (Py_ssize_t i = 0; i < n; ++i) {  // reading an element may run user code, which may change the list
      STRATA_CHECK(i < PySequence_Fast_GET_SIZE(items.get()), Value,
                   "tensor: a list was changed while its elements were read");
      const Object element(Py_NewRef(PySequence_Fast_GET_ITEM(items.get(), i)));
      fill(element.get(), depth + 1, typed);
    }
  }

 private:
  static bool is_array(PyObject* o) {
    return !PyList_Check(o) && !PyTuple_Check(o) && !is_tensor(o) && PyObject_CheckBuffer(o);
  }
  // A list or tuple as it is, the elements of another sequence (a range, a deque) as a list.
  static Object elements_of(PyObject* o) {
    if (PyList_Check(o) || PyTuple_Check(o)) return Object(Py_NewRef(o));
    const Py_ssize_t n = checked(PySequence_Size(o));
    check_host_memory(n, sizeof(PyObject*), "tensor");
    Object list(need(PyList_New(0)));
    for (Py_ssize_t i = 0; i < n; ++i) append(list, PySequence_GetItem(o, i));
    return list;
  }
};
}  // namespace

Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype) {
  if (is_tensor(data)) return copy_as(autograd::detach(tensor_of(data)), dtype.value_or(impl_of(data)->dtype));
  Value number;
  Complex<double> z;
  const bool list = PyList_Check(data) || PyTuple_Check(data);
  ListReader reader;
  reader.uint64 = dtype == DType::U64;
  int64_t bits;
  const bool scalar = !list && ((reader.uint64 && upper_half_of_uint64(data, bits)) || number_value(data, number) ||
                                complex_value(data, z));
  if (!scalar && !list && PyObject_CheckBuffer(data)) {
    const Tensor shared = share_buffer(data);
    return copy_as(shared, dtype.value_or(shared.dtype()));
  }
  if (!scalar) reader.measure(data);
  reader.fill(data, 0);
  if (!dtype) dtype = reader.dtype.value_or(default_dtype());
  STRATA_CHECK(reader.complex.empty() || is_complex(*dtype), Type,
               "tensor: a complex number cannot be an element of a {} tensor", name_of(*dtype));
  Tensor t = make_tensor(reader.shape, *dtype);
  dispatch_dtype(*dtype, [&]<class T> {
    for (size_t i = 0; i < reader.values.size(); ++i) {
      const Value& v = reader.values[i];
      if (is_integral(*dtype)) check_in_range(v.scalar(), *dtype, "tensor");
      t.data<T>()[i] = v.tag == Tag::Complex ? convert<T>(*v.complex)
                       : v.tag == Tag::Float ? convert<T>(v.f)
                                             : convert<T>(v.i);
    }
  });
  return t;
}

constexpr int64_t kSignalsEach = 1024;  // rows with at least this many elements check for Ctrl-C

static PyObject* list_level(const TensorImpl& t, int d, const std::byte* at) {
  if (d == t.ndim)
    return dispatch_dtype(t.dtype, [&]<class T>() -> PyObject* {
      const T v = *reinterpret_cast<const T*>(at);
      if constexpr (kIsComplex<T>) return PyComplex_FromDoubles(static_cast<double>(v.re), static_cast<double>(v.im));
      else if constexpr (std::is_same_v<T, BoolByte>) return PyBool_FromLong(v);
      else if constexpr (std::is_same_v<T, uint64_t>) return PyLong_FromUnsignedLongLong(v);
      else if constexpr (std::is_integral_v<T>) return PyLong_FromLongLong(v);
      else if constexpr (std::is_same_v<T, double>) return PyFloat_FromDouble(v);
      else return PyFloat_FromDouble(static_cast<double>(static_cast<float>(v)));
    });
  Object list(need(PyList_New(t.shape[d])));
  if (t.shape[d] >= kSignalsEach) need(PyErr_CheckSignals());
  for (int64_t i = 0; i < t.shape[d]; ++i)
    PyList_SET_ITEM(list.get(), i,
                    need(list_level(t, d + 1, at + i * t.strides[d] * static_cast<int64_t>(size_of(t.dtype)))));
  return list.release();
}
PyObject* to_list(const Tensor& t) {
  if (t.device().type == DeviceType::Cpu) return list_level(*t, 0, t.bytes());
  const Tensor host = to_host(*t);
  return list_level(*host, 0, host.bytes());
}

// The view of an exported buffer. It holds the storage: the tensor itself may get another by resize_() or .data =.
struct ExportedView {
  Ref<Storage> storage;
  Py_ssize_t shape[kMaxDims], strides[kMaxDims];
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return guarded([&]() -> int {
    const TensorImpl& t = *impl_of(self);
    // int64 is a long here: NumPy's own int64 is exported so, and printed without its name.
    const char* format = t.dtype == DType::I64 && sizeof(long) == 8 ? "l" : info_of(t.dtype).format;
    STRATA_CHECK(!t.requires_grad || !thread_state.grad_mode, Runtime,
                 "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
    require_host(t, "numpy");
    if (!format)
      fail(ErrorKind::Type,
           fmt::format("Got unsupported ScalarType {}; convert with .to(strata.float32) first", name_of(t.dtype)));
    const bool writable = t.storage && !t.storage->read_only;
    if (((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !t.contiguous) || ((flags & PyBUF_WRITABLE) && !writable)) {
      PyErr_SetString(PyExc_BufferError,
                      t.contiguous ? "the tensor's memory is read-only" : "the tensor is not contiguous");
      return -1;
    }
    const auto item = static_cast<Py_ssize_t>(size_of(t.dtype));
    auto held = std::make_unique<ExportedView>(ExportedView{t.storage, {}, {}});
    for (int d = 0; d < t.ndim; ++d) {
      held->shape[d] = t.shape[d];
      held->strides[d] = t.strides[d] * item;
    }
    need_values(t.storage.get(), "numpy");
    if (writable) t.storage->shared = true;
    *view = {t.data,
             Py_NewRef(self),
             t.numel * item,
             item,
             !writable,
             t.ndim,
             const_cast<char*>(flags & PyBUF_FORMAT ? format : nullptr),
             held->shape,
             held->strides,
             nullptr,
             held.get()};
    static_cast<void>(held.release());  // until release_buffer()
    return 0;
  });
}
void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<ExportedView*>(view->internal); }

namespace {
Tensor on_device(const Tensor& t, Device device) {
  if (t.device() == device) return t;
  const OpRecord& to = find_op("to", "device");
  Args args = to.defaults;
  args[0] = Value(t);
  args[1] = Value(device);
  Scoped mode(thread_state.grad_mode, false);
  return call(to, args);
}

PyObject* make_with(PyObject* args, PyObject* keywords, bool copy) {
  const char* names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", "copy", nullptr};
  PyObject *data, *dtype = Py_None, *device = Py_None, *ignored = nullptr;
  int requires_grad = 0;
  PyObject* want_copy = nullptr;
  const char* format = copy ? "O|$OOpOO" : "O|OO$pOO";  // as_tensor(data, dtype, device) needs no names
  if (!PyArg_ParseTupleAndKeywords(args, keywords, format, const_cast<char**>(names), &data, &dtype, &device,
                                   &requires_grad, &ignored, &want_copy))
    return nullptr;
  return guarded([&]() -> PyObject* {
    const Device target = device == Py_None ? thread_state.default_device : require_available(device_of_object(device));
    const std::optional<DType> type = dtype == Py_None ? std::nullopt : std::optional(dtype_of_object(dtype));
    Tensor t;
    if (copy || (want_copy && truth_of(want_copy))) {
      t = tensor_from_data(data, type);
    } else if (is_tensor(data)) {
      if ((!type || *type == impl_of(data)->dtype) && (device == Py_None || target == impl_of(data)->device))
        return Py_NewRef(data);
      t = type ? copy_as(tensor_of(data), *type) : tensor_of(data);
    } else if (!PyList_Check(data) && !PyTuple_Check(data) && PyObject_CheckBuffer(data)) {
      t = share_buffer(data);
      if (type && *type != t.dtype()) t = copy_as(t, *type);
    } else if (has_special_method(data, "__dlpack__")) {
      const Object capsule(need(PyObject_CallMethod(data, "__dlpack__", nullptr)));
      t = tensor_of_capsule(capsule.get());
      if (type && *type != t.dtype()) t = copy_as(t, *type);
    } else {
      t = tensor_from_data(data, type);
    }
    if (is_tensor(data) && device == Py_None) t = on_device(t, impl_of(data)->device);
    else t = on_device(t, target);
    if (requires_grad) t.set_requires_grad(true);
    return wrap(std::move(t));
  });
}
PyObject* tensor(PyObject*, PyObject* args, PyObject* keywords) {
  if (PyTuple_GET_SIZE(args) == 1 && is_tensor(PyTuple_GET_ITEM(args, 0))) [[unlikely]] {
    const int raised = guarded([] {
      warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        "sourceTensor.detach().clone().requires_grad_(True), rather than tensor(sourceTensor).");
      return 0;
    });
    if (raised) return nullptr;
  }
  return make_with(args, keywords, true);
}
PyObject* asarray(PyObject*, PyObject* args, PyObject* keywords) { return make_with(args, keywords, false); }
// The object whose buffer a tensor uses (an array, a memory map), or None.
PyObject* buffer_owner(PyObject*, PyObject* object) {
  return guarded([&] {
    const Tensor t = require_tensor(object, "_buffer_owner");
    const Storage* s = t->storage.get();
    if (!s || !s->external || s->release != release_view) return Py_NewRef(Py_None);
    return Py_NewRef(static_cast<Py_buffer*>(s->owner)->obj);
  });
}
PyObject* from_numpy(PyObject*, PyObject* array) {
  return guarded([&] {
    if (is_tensor(array) || !PyObject_CheckBuffer(array))
      fail(ErrorKind::Type, fmt::format("expected np.ndarray (got {})", Py_TYPE(array)->tp_name));
    Tensor t = share_buffer(array);
    STRATA_CHECK(t->storage->external, Value,
                 "from_numpy: the array's elements are not aligned to their size; make a copy with array.copy()");
    return wrap(std::move(t));
  });
}
}  // namespace

PyMethodDef conversion_functions[] = {
  {"tensor", method(tensor), METH_VARARGS | METH_KEYWORDS,
   "tensor($module, /, data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n--\n\n"
   "A copy of nested lists, numbers, arrays or tensors."},
  {"asarray", method(asarray), METH_VARARGS | METH_KEYWORDS,
   "asarray($module, /, data, dtype=None, device=None, *, requires_grad=False, copy=None)\n--\n\n"
   "Like tensor(), but shares memory where it can."},
  {"as_tensor", method(asarray), METH_VARARGS | METH_KEYWORDS,
   "as_tensor($module, /, data, dtype=None, device=None)\n--\n\nLike tensor(), but shares memory where it can."},
  {"_buffer_owner", buffer_owner, METH_O, "The object whose buffer the tensor uses, or None."},
  {"from_numpy", from_numpy, METH_O,
   "from_numpy($module, array, /)\n--\n\nA tensor over the array's memory, without a copy."},
  {}};

}  // namespace strata::python
