// Attributes and methods of Tensor that are not ops.
#include "base/warning.h"
#include "python/overrides.h"
#include "strata/ops/movement/views.h"

namespace strata::python {
namespace {

PyObject* get_shape(PyObject* self, void*) { return make_size(impl_of(self)->sizes()); }
PyObject* get_dtype(PyObject* self, void*) { return wrap(impl_of(self)->dtype); }
PyObject* get_device(PyObject* self, void*) { return wrap(impl_of(self)->device); }
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(impl_of(self)->ndim); }
PyObject* get_itemsize(PyObject* self, void*) { return PyLong_FromSize_t(size_of(impl_of(self)->dtype)); }
PyObject* get_nbytes(PyObject* self, void*) {
  return PyLong_FromLongLong(impl_of(self)->numel * static_cast<int64_t>(size_of(impl_of(self)->dtype)));
}
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* get_is_cpu(PyObject* self, void*) { return PyBool_FromLong(impl_of(self)->device.type == DeviceType::Cpu); }
PyObject* get_is_cuda(PyObject* self, void*) { return PyBool_FromLong(impl_of(self)->device.type == DeviceType::Cuda); }
PyObject* get_is_meta(PyObject* self, void*) { return PyBool_FromLong(impl_of(self)->device.type == DeviceType::Meta); }
PyObject* get_layout(PyObject*, void*) { return PyUnicode_FromString("strided"); }
PyObject* get_version(PyObject* self, void*) { return PyLong_FromUnsignedLong(impl_of(self)->version()); }
PyObject* get_attributes(PyObject* self, void* context) {
  track(self);
  return PyObject_GenericGetDict(self, context);
}
PyObject* get_real(PyObject* self, void*) {
  if (!is_complex(impl_of(self)->dtype)) return Py_NewRef(self);
  return call_op_by_name("real", &self, 1);
}
PyObject* get_imag(PyObject* self, void*) { return call_op_by_name("imag", &self, 1); }
// x.real = y writes into the view.
int write_part(PyObject* part, PyObject* value) {
  if (!part) return -1;
  const Object target(part);
  if (!value) {
    PyErr_SetString(PyExc_RuntimeError, "the parts of a tensor cannot be deleted");
    return -1;
  }
  return set_item(target.get(), Py_Ellipsis, value);
}
int set_real(PyObject* self, PyObject* value, void*) { return write_part(get_real(self, nullptr), value); }
int set_imag(PyObject* self, PyObject* value, void*) { return write_part(get_imag(self, nullptr), value); }

PyObject* get_requires_grad(PyObject* self, void*) {
  const Tensor t = tensor_of(self);
  return PyBool_FromLong(t.requires_grad());
}
int set_requires_grad(PyObject* self, PyObject* value, void*) {
  const int on = value ? PyObject_IsTrue(value) : 0;
  if (on < 0) return -1;
  return guarded([&] {
    tensor_of(self).set_requires_grad(on);
    return 0;
  });
}
PyObject* get_grad(PyObject* self, void*) {
  return guarded([&] {
    const Tensor t = tensor_of(self), grad = t.grad();
    if (grad || (!t->history && !t->base)) [[likely]]
      return wrap_optional(grad);
    if (!autograd::is_leaf(t) && !autograd::retains_grad(t))
      warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, "
        "use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access "
        "the "
        "leaf Tensor instead.");
    return wrap_optional(grad);
  });
}
int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded([&] {
    if (!value || value == Py_None) {
      tensor_of(self).set_grad({});
      return 0;
    }
    const Tensor g = require_tensor(value, "grad");
    STRATA_CHECK(g->same_shape(*impl_of(self)), Runtime, "assigned grad has shape {}, the tensor has {}",
                 to_string(g.shape()), to_string(impl_of(self)->sizes()));
    STRATA_CHECK(g.dtype() == impl_of(self)->dtype, Runtime, "assigned grad has dtype {}, the tensor has {}",
                 name_of(g.dtype()), name_of(impl_of(self)->dtype));
    tensor_of(self).set_grad(g);
    return 0;
  });
}
PyObject* get_data(PyObject* self, void*) {
  return guarded([&] { return wrap(data_of(*impl_of(self))); });
}
int set_data(PyObject* self, PyObject* value, void*) {
  return guarded([&] {
    STRATA_CHECK(value, Runtime, "Deleting tensor data is not allowed. Delete the tensor instead.");
    strata::set_data(tensor_of(self), require_tensor(value, "data"));
    return 0;
  });
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(autograd::is_leaf(tensor_of(self))); });
}
PyObject* get_retains_grad(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(autograd::retains_grad(tensor_of(self))); });
}
PyObject* get_base(PyObject* self, void*) {
  return guarded([&] { return wrap_optional(Tensor(impl_of(self)->base)); });
}
PyObject* transpose_dims(PyObject* self, bool matrix_only) {
  return guarded([&]() -> PyObject* {
    const int n = impl_of(self)->ndim;
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int d = 0; d < n; ++d) order[static_cast<size_t>(d)] = matrix_only ? d : n - 1 - d;
    if (matrix_only && n == 0) return Py_NewRef(self);  // as in PyTorch
    STRATA_CHECK(!matrix_only || n >= 2, Runtime,
                 "tensor.mT is only supported on matrices or batches of matrices. Got {}-D tensor.", n);
    if (matrix_only) std::swap(order[static_cast<size_t>(n - 1)], order[static_cast<size_t>(n - 2)]);
    return wrap(call(find_op("permute"), Args(Value(impl_of(self)), IntList(order))));
  });
}
PyObject* get_T(PyObject* self, void*) { return transpose_dims(self, false); }
PyObject* get_mT(PyObject* self, void*) { return transpose_dims(self, true); }
// The conjugate transposes.
PyObject* conjugate(PyObject* transposed) {
  if (!transposed || !is_complex(impl_of(transposed)->dtype)) return transposed;
  const Object held(transposed);
  return call_op_by_name("conj", &transposed, 1);
}
PyObject* get_H(PyObject* self, void*) { return conjugate(get_T(self, nullptr)); }
PyObject* get_mH(PyObject* self, void*) { return conjugate(get_mT(self, nullptr)); }

// --- methods -----------------------------------------------------------------------------------------------------------

PyObject* method_size(PyObject* self, PyObject* args, PyObject* keywords) {
  const char* names[] = {"dim", nullptr};
  PyObject* dim = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O", const_cast<char**>(names), &dim)) return nullptr;
  if (dim == Py_None) return get_shape(self, nullptr);
  return guarded([&] {
    const int64_t d = checked(PyLong_AsLongLong(dim));
    STRATA_CHECK(impl_of(self)->ndim > 0, Index, "Dimension specified as {} but tensor has no dimensions", d);
    return PyLong_FromLongLong(tensor_of(self).size(d));
  });
}
PyObject* method_stride(PyObject* self, PyObject* args, PyObject* keywords) {
  const char* names[] = {"dim", nullptr};
  PyObject* dim = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O", const_cast<char**>(names), &dim)) return nullptr;
  return guarded([&]() -> PyObject* {
    const TensorImpl& t = *impl_of(self);
    if (dim != Py_None) {
      const int64_t d = checked(PyLong_AsLongLong(dim));
      STRATA_CHECK(t.ndim > 0, Index, "Dimension specified as {} but tensor has no dimensions", d);
      return PyLong_FromLongLong(t.strides[normalize_dim(d, t.ndim, "stride")]);
    }
    Object tuple(need(PyTuple_New(t.ndim)));
    for (int d = 0; d < t.ndim; ++d) PyTuple_SET_ITEM(tuple.get(), d, need(PyLong_FromLongLong(t.strides[d])));
    return tuple.release();
  });
}
PyObject* method_dim(PyObject* self, PyObject*) { return PyLong_FromLong(impl_of(self)->ndim); }
PyObject* method_numel(PyObject* self, PyObject*) { return PyLong_FromLongLong(impl_of(self)->numel); }
PyObject* method_element_size(PyObject* self, PyObject*) { return PyLong_FromSize_t(size_of(impl_of(self)->dtype)); }
PyObject* method_data_ptr(PyObject* self, PyObject*) {
  return guarded([&] {
    const TensorImpl& t = *impl_of(self);
    need_values(t.storage.get(), "data_ptr");
    if (t.storage) t.storage->shared = true;
    return PyLong_FromVoidPtr(t.data);
  });
}
PyObject* method_storage_offset(PyObject* self, PyObject*) {
  return PyLong_FromLongLong(impl_of(self)->storage_offset());
}
PyObject* method_is_floating(PyObject* self, PyObject*) { return PyBool_FromLong(is_floating(impl_of(self)->dtype)); }
PyObject* method_is_signed(PyObject* self, PyObject*) { return PyBool_FromLong(is_signed(impl_of(self)->dtype)); }
PyObject* method_is_complex(PyObject* self, PyObject*) { return PyBool_FromLong(is_complex(impl_of(self)->dtype)); }
PyObject* method_false(PyObject*, PyObject*) { Py_RETURN_FALSE; }
PyObject* method_complex(PyObject* self, PyObject*) {
  return guarded([&] {
    const Complex<double> z = tensor_of(self).item().to_complex();
    return PyComplex_FromDoubles(z.re, z.im);
  });
}
PyObject* method_is_inference(PyObject* self, PyObject*) { return PyBool_FromLong(impl_of(self)->inference); }
PyObject* method_get_device(PyObject* self, PyObject*) {
  return PyLong_FromLong(impl_of(self)->device.type == DeviceType::Cpu ? -1 : impl_of(self)->device.index);
}

bool is_channels_last(const TensorImpl& t, int spatial) {
  if (t.ndim != spatial + 2) return false;
  int64_t expected = 1;
  for (int k = 0; k < t.ndim;
       ++k) {  // innermost first: channels, then the spatial dimensions in reverse, then the batch
    const int d = k == 0 ? 1 : k == t.ndim - 1 ? 0 : t.ndim - k;
    if (t.shape[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.shape[d];
  }
  return true;
}
PyObject* method_is_contiguous(PyObject* self, PyObject* args, PyObject* keywords) {
  const char* names[] = {"memory_format", nullptr};
  const char* format = "contiguous_format";
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s", const_cast<char**>(names), &format)) return nullptr;
  const std::string_view f = format;
  const TensorImpl& t = *impl_of(self);
  return PyBool_FromLong(f == "channels_last"      ? is_channels_last(t, 2)
                         : f == "channels_last_3d" ? is_channels_last(t, 3)
                                                   : t.contiguous);
}
PyObject* method_item(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor t = tensor_of(self);
    if (t.dtype() == DType::U64 && t.numel() == 1) return to_list(reshape(t, {}));  // a Scalar holds int64_t
    const Scalar s = t.item();
    if (s.kind == Scalar::Kind::Float) return PyFloat_FromDouble(s.f);
    if (s.is_complex()) return PyComplex_FromDoubles(s.z.re, s.z.im);
    if (s.kind == Scalar::Kind::Bool) return PyBool_FromLong(s.i != 0);
    return PyLong_FromLongLong(s.i);
  });
}
PyObject* method_tolist(PyObject* self, PyObject*) {
  return guarded([&] { return to_list(tensor_of(self)); });
}
PyObject* method_requires_grad_(PyObject* self, PyObject* args, PyObject* keywords) {
  const char* names[] = {"requires_grad", nullptr};
  int on = 1;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p", const_cast<char**>(names), &on)) return nullptr;
  return guarded([&] {
    tensor_of(self).set_requires_grad(on);
    return Py_NewRef(self);
  });
}
PyObject* method_detach_(PyObject* self, PyObject*) {
  return guarded([&] {
    TensorImpl& t = *impl_of(self);
    STRATA_CHECK(!t.base, Runtime, "Can't detach views in-place. Use detach() instead.");
    t.history = {};
    t.requires_grad = false;
    return Py_NewRef(self);
  });
}
PyObject* method_retain_grad(PyObject* self, PyObject*) {
  return guarded([&] {
    autograd::retain_grad(tensor_of(self));
    return Py_NewRef(Py_None);
  });
}
// The whole storage as a tensor of bytes, which holds it.
PyObject* method_storage_bytes(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor t = tensor_of(self);
    Tensor bytes(Ref<TensorImpl>::adopt(TensorImpl::make()));
    bytes->dtype = DType::U8;
    bytes->device = t.device();
    const auto n = t->storage ? static_cast<int64_t>(t->storage->requested) : int64_t{0};
    bytes->set_shape({&n, 1});
    bytes->set_contiguous_strides();
    bytes->storage = t->storage;
    need_values(t->storage.get(), "untyped_storage");
    bytes->data = t->storage ? t->storage->data : nullptr;
    return wrap(std::move(bytes));
  });
}
PyObject* method_is_set_to(PyObject* self, PyObject* other) {
  return guarded([&] {
    const Tensor a = tensor_of(self), b = require_tensor(other, "is_set_to");
    return PyBool_FromLong(a->data == b->data && a->same_shape(*b) &&
                           (!a.is_meta() || a->storage.get() == b->storage.get()) &&
                           std::equal(a.strides().begin(), a.strides().end(), b.strides().begin()));
  });
}
}  // namespace

PyObject* tensor_repr(PyObject* self) {
  return guarded([&] {
    std::string text = tensor_of(self).to_string();
    if (Py_TYPE(self) == tensor_type || !type_overrides(Py_TYPE(self))) return PyUnicode_FromString(text.c_str());
    // A subclass prints its own name in the place of "tensor"; later lines move with the bracket.
    constexpr std::string_view kPlain = "tensor";
    const std::string_view full = Py_TYPE(self)->tp_name;
    const std::string name(full.substr(full.rfind('.') + 1));
    if (!text.starts_with(kPlain)) return PyUnicode_FromString(text.c_str());
    const std::string indent = "\n" + std::string(kPlain.size() + 1, ' ');
    for (size_t at = text.find(indent); at != text.npos; at = text.find(indent, at + 1))
      text.replace(at, indent.size(), "\n" + std::string(name.size() + 1, ' '));
    return PyUnicode_FromString((name + text.substr(kPlain.size())).c_str());
  });
}

// The closure is the name, which handlers of subclasses are found by.
#define STRATA_GET(name, get) \
  { name, overridable_property<get>, nullptr, nullptr, const_cast<char*>(name) }
#define STRATA_GET_SET(name) \
  { #name, overridable_property < get_##name>, set_##name, nullptr, const_cast < char*>(#name) }
#define STRATA_METHOD(name, f, flags, doc) \
  { name, overridable<name, f>, flags, doc }
PyGetSetDef tensor_properties[] = {STRATA_GET("shape", get_shape),
                                   STRATA_GET("dtype", get_dtype),
                                   STRATA_GET("device", get_device),
                                   STRATA_GET("ndim", get_ndim),
                                   STRATA_GET("itemsize", get_itemsize),
                                   STRATA_GET("nbytes", get_nbytes),
                                   STRATA_GET("is_cpu", get_is_cpu),
                                   STRATA_GET("is_cuda", get_is_cuda),
                                   STRATA_GET("is_mps", get_false),
                                   STRATA_GET("is_sparse", get_false),
                                   STRATA_GET("is_quantized", get_false),
                                   STRATA_GET("is_nested", get_false),
                                   STRATA_GET("is_meta", get_is_meta),
                                   STRATA_GET("layout", get_layout),
                                   STRATA_GET("_version", get_version),
                                   STRATA_GET_SET(real),
                                   STRATA_GET_SET(imag),
                                   STRATA_GET("is_leaf", get_is_leaf),
                                   STRATA_GET("retains_grad", get_retains_grad),
                                   STRATA_GET("_base", get_base),
                                   STRATA_GET("T", get_T),
                                   STRATA_GET("mT", get_mT),
                                   STRATA_GET("H", get_H),
                                   STRATA_GET("mH", get_mH),
                                   {"__dict__", get_attributes, PyObject_GenericSetDict, nullptr, nullptr},
                                   STRATA_GET_SET(requires_grad),
                                   STRATA_GET_SET(grad),
                                   STRATA_GET_SET(data),
                                   {}};
PyMethodDef tensor_methods[] = {
  {"size", method(overridable_keywords<"size", method_size>), METH_VARARGS | METH_KEYWORDS,
   "size($self, /, dim=None)\n--\n\nThe sizes, or one of them."},
  {"stride", method(overridable_keywords<"stride", method_stride>), METH_VARARGS | METH_KEYWORDS,
   "stride($self, /, dim=None)\n--\n\nThe strides in elements, or one of them."},
  STRATA_METHOD("dim", method_dim, METH_NOARGS, "dim($self, /)\n--\n\nThe number of dimensions."),
  STRATA_METHOD("ndimension", method_dim, METH_NOARGS, "ndimension($self, /)\n--\n\nThe number of dimensions."),
  STRATA_METHOD("numel", method_numel, METH_NOARGS, "numel($self, /)\n--\n\nThe number of elements."),
  STRATA_METHOD("nelement", method_numel, METH_NOARGS, "nelement($self, /)\n--\n\nThe number of elements."),
  STRATA_METHOD("element_size", method_element_size, METH_NOARGS, "element_size($self, /)\n--\n\nBytes per element."),
  STRATA_METHOD("data_ptr", method_data_ptr, METH_NOARGS,
                "data_ptr($self, /)\n--\n\nThe address of the first element."),
  STRATA_METHOD("storage_offset", method_storage_offset, METH_NOARGS,
                "storage_offset($self, /)\n--\n\nElements between the start of the memory and the first element."),
  STRATA_METHOD("is_floating_point", method_is_floating, METH_NOARGS,
                "is_floating_point($self, /)\n--\n\nWhether the dtype is a floating one."),
  STRATA_METHOD("is_signed", method_is_signed, METH_NOARGS, "is_signed($self, /)\n--\n\nWhether the dtype is signed."),
  STRATA_METHOD("is_complex", method_is_complex, METH_NOARGS,
                "is_complex($self, /)\n--\n\nWhether the dtype is a complex one."),
  STRATA_METHOD("is_conj", method_false, METH_NOARGS,
                "is_conj($self, /)\n--\n\nFalse: conj() computes its result at once."),
  STRATA_METHOD("is_neg", method_false, METH_NOARGS, "is_neg($self, /)\n--\n\nFalse: there is no lazy negation."),
  STRATA_METHOD("__complex__", method_complex, METH_NOARGS, "The only element as a complex number."),
  STRATA_METHOD("is_inference", method_is_inference, METH_NOARGS,
                "is_inference($self, /)\n--\n\nWhether it was made under inference_mode()."),
  STRATA_METHOD("get_device", method_get_device, METH_NOARGS,
                "get_device($self, /)\n--\n\nThe device number, -1 on the CPU."),
  {"is_contiguous", method(overridable_keywords<"is_contiguous", method_is_contiguous>), METH_VARARGS | METH_KEYWORDS,
   "is_contiguous($self, /, memory_format='contiguous_format')\n--\n\nWhether the elements are contiguous."},
  STRATA_METHOD("item", method_item, METH_NOARGS, "item($self, /)\n--\n\nThe only element as a Python number."),
  STRATA_METHOD("tolist", method_tolist, METH_NOARGS, "tolist($self, /)\n--\n\nThe elements as nested lists."),
  {"requires_grad_", method(overridable_keywords<"requires_grad_", method_requires_grad_>),
   METH_VARARGS | METH_KEYWORDS, "requires_grad_($self, /, requires_grad=True)\n--\n\nAsks for a gradient, in place."},
  STRATA_METHOD("detach_", method_detach_, METH_NOARGS, "detach_($self, /)\n--\n\nForgets the history, in place."),
  STRATA_METHOD("retain_grad", method_retain_grad, METH_NOARGS,
                "retain_grad($self, /)\n--\n\nKeeps .grad of a computed tensor after backward()."),
  {"_storage_bytes", method_storage_bytes, METH_NOARGS,
   "The whole storage, as a tensor of bytes over the same memory."},
  STRATA_METHOD("is_set_to", method_is_set_to, METH_O,
                "is_set_to($self, tensor, /)\n--\n\nWhether both are the same view of the same memory."),
  {}};
#undef STRATA_METHOD
#undef STRATA_GET_SET
#undef STRATA_GET

}  // namespace strata::python
