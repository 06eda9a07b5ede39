// The Tensor type: a heap type with operators in its slots and a free list of objects.
#include "autograd/sparse_grad.h"
#include "python/overrides.h"
#include "python/parse.h"
#include "python/sparse.h"
#include "python/trace.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/views.h"

namespace strata::python {

PyTypeObject* tensor_type = nullptr;

namespace {

// The interpreter lock guards the list. An entry keeps its memory, not its tensor.
constexpr int kKeep = 256;
PyTensor* free_objects[kKeep];
int free_count = 0;

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* object = reinterpret_cast<PyTensor*>(self);
  PyObject_GC_UnTrack(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);  // runs callbacks; wrap() gives them a new object
  if (object->attributes) [[unlikely]]
    Py_CLEAR(object->attributes);
  if (TensorImpl* impl = object->impl) {
    if (impl->python == self) impl->python = nullptr;
    Ref<TensorImpl>::drop(impl);
  }
  if (type == tensor_type && free_count < kKeep) free_objects[free_count++] = object;
  else type->tp_free(self);
  Py_DECREF(type);
}

inline PyObject* wrap_new(Tensor t, PyTypeObject* type) {
  PyTensor* o;
  if (type == tensor_type && free_count) {
    o =
      reinterpret_cast<PyTensor*>(PyObject_Init(reinterpret_cast<PyObject*>(free_objects[--free_count]), tensor_type));
    o->weak_references = nullptr;
    o->attributes = nullptr;
  } else if (!(o = reinterpret_cast<PyTensor*>(type->tp_alloc(type, 0)))) {
    return nullptr;
  } else if (type == tensor_type) {
    PyObject_GC_UnTrack(o);
  }
  t->python = o;
  o->impl = t.release();
  if (o->impl->extra) [[unlikely]]
    track(reinterpret_cast<PyObject*>(o));
  return reinterpret_cast<PyObject*>(o);
}

// --- operators ---------------------------------------------------------------------------------------------------------

enum Operator {
  kAdd,
  kSub,
  kMul,
  kTrueDiv,
  kFloorDiv,
  kRemainder,
  kPow,
  kMatmul,
  kAnd,
  kOr,
  kXor,
  kLshift,
  kRshift,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kOperators
};
struct OperatorName {
  const char* name;
  const char* reflected;       // the method that handlers see for `number - tensor`; null: the op itself
  const char* seen = nullptr;  // the method that they see for `tensor // x`; null: the op itself
  PyObject *plain = nullptr, *inplace = nullptr;  // callables, for everything except the fast path
  const OpRecord* record = nullptr;               // of two tensors, if a fast path exists
};
OperatorName operators[kOperators] = {{"add", nullptr},
                                      {"sub", "__rsub__"},
                                      {"mul", nullptr},
                                      {"div", "__rtruediv__"},
                                      {"floor_divide", "__rfloordiv__", "__floordiv__"},
                                      {"remainder", "__rmod__"},
                                      {"pow", "__rpow__"},
                                      {"matmul", "__rmatmul__"},
                                      {"bitwise_and", nullptr, "__and__"},
                                      {"bitwise_or", nullptr, "__or__"},
                                      {"bitwise_xor", nullptr, "__xor__"},
                                      {"bitwise_left_shift", "__rlshift__", "__lshift__"},
                                      {"bitwise_right_shift", "__rrshift__", "__rshift__"},
                                      {"eq", nullptr, "__eq__"},
                                      {"ne", nullptr},
                                      {"lt", nullptr},
                                      {"le", nullptr},
                                      {"gt", nullptr},
                                      {"ge", nullptr}};

bool is_operand(PyObject* o) {
  return is_tensor(o) || PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) ||
         (PyObject_CheckBuffer(o) && !PyBytes_Check(o) && !PyByteArray_Check(o));
}

// A NumPy array combined with a tensor is converted to a tensor.
Object as_operand(PyObject* o, PyObject* other) {
  int64_t bits;
  if (is_tensor(other) && impl_of(other)->dtype == DType::U64 && upper_half_of_uint64(o, bits))
    return Object(need(wrap(tensor_from_data(o, DType::U64))));  // a Value holds int64_t
  Value v;
  Complex<double> z;
  if (is_tensor(o) || number_value(o, v) || complex_value(o, z)) return Object(Py_NewRef(o));
  return Object(need(wrap(tensor_from_data(o, std::nullopt))));
}

bool quick_number_or_parameter(PyObject* o, bool numbers, Value& v) {
  if (Py_TYPE(o) == parameter_type) return assign(v, impl_of(o));
  if (!numbers) return false;
  if (PyFloat_CheckExact(o)) return assign(v, Value(PyFloat_AS_DOUBLE(o)));
  int overflow = 0;
  if (!PyLong_CheckExact(o)) return false;
  v = Value(int64_t{PyLong_AsLongLongAndOverflow(o, &overflow)});
  return !overflow;
}
// Tensors, and plain Python numbers if the op accepts them.
inline bool quick_operand(PyObject* o, bool numbers, Value& v) {
  if (Py_TYPE(o) == tensor_type) [[likely]]
    return assign(v, impl_of(o));
  return quick_number_or_parameter(o, numbers, v);
}

// Out of line, to keep the fast path short.
[[gnu::noinline]] Tensor call_unlocked(const OpRecord& op, const Args& args) {
  const UnlockedArgs held(op, args);
  const WithoutGil unlock;
  return call(op, held.get());
}
// The result of a handler (__torch_function__) of one of the operands, null if there is none. Handlers see the methods
// that they see in PyTorch, with the tensor first.
PyObject* override_operator(const OperatorName& op, PyObject* left, PyObject* right) {
  PyObject* values[] = {left, right};
  if (!any_overrides(values, 2)) return nullptr;
  const bool reflected = !is_tensor(left) && is_tensor(right);
  if (reflected) std::swap(values[0], values[1]);
  const char* method = reflected ? op.reflected : op.seen;
  const Object function(method ? need(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), method))
                               : Py_NewRef(op.plain));
  return call_override(function.get(), values, 2, nullptr, true);
}
[[gnu::noinline]] PyObject* call_plain(const OperatorName& op, PyObject* left, PyObject* right) {
  if (PyObject* result = override_operator(op, left, right)) return result;
  if (!is_operand(left) || !is_operand(right)) Py_RETURN_NOTIMPLEMENTED;
  const Object a = as_operand(left, right), b = as_operand(right, left);
  PyObject* values[] = {a.get(), b.get()};
  return PyObject_Vectorcall(op.plain, values, 2, nullptr);
}

template <Operator k> PyObject* binary(PyObject* left, PyObject* right) {
  const OperatorName& op = operators[k];
  return guarded([&]() __attribute__((always_inline))->PyObject * {
    if (!op.record) [[unlikely]]
      return call_plain(op, left, right);
    const PythonSpan span(op.record->name.c_str());
    const Args& defaults = op.record->defaults;
    Args args;
    args.size = defaults.size;
    for (uint32_t i = 2; i < args.size; ++i) args[i] = defaults[i];
    const bool quick =
      quick_operand(left, op.record->numbers, args[0]) && quick_operand(right, op.record->numbers, args[1]);
    if (!quick || active_modes) [[unlikely]]
      return call_plain(op, left, right);
    constexpr int64_t kLongWork = 1 << 15;
    const auto large = [](const Value& v) { return v.tag == Tag::Tensor && v.tensor->numel > kLongWork; };
    if (large(args[0]) || large(args[1])) return wrap(call_unlocked(*op.record, args));
    return wrap(call(*op.record, args));
  });
}

template <Operator k> PyObject* inplace_binary(PyObject* left, PyObject* right) {
  if (!is_operand(right) && !overrides(right)) Py_RETURN_NOTIMPLEMENTED;
  if (!operators[k].inplace) return binary<k>(left, right);
  return guarded([&] {
    const Object b = overrides(right) ? Object(Py_NewRef(right)) : as_operand(right, left);
    PyObject* values[] = {left, b.get()};
    return PyObject_Vectorcall(operators[k].inplace, values, 2, nullptr);
  });
}

PyObject* power(PyObject* left, PyObject* right, PyObject* modulus) {
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow() of a Tensor takes no modulus");
    return nullptr;
  }
  return binary<kPow>(left, right);
}
PyObject* inplace_power(PyObject* left, PyObject* right, PyObject*) { return inplace_binary<kPow>(left, right); }

PyObject* compare(PyObject* left, PyObject* right, int op) {
  switch (op) {
    case Py_EQ: return binary<kEq>(left, right);
    case Py_NE: return binary<kNe>(left, right);
    case Py_LT: return binary<kLt>(left, right);
    case Py_LE: return binary<kLe>(left, right);
    case Py_GT: return binary<kGt>(left, right);
    default: return binary<kGe>(left, right);
  }
}

PyObject *neg_op, *abs_op, *not_op, *positive_op;
template <PyObject*& op> PyObject* unary(PyObject* self) { return PyObject_Vectorcall(op, &self, 1, nullptr); }

// --- numbers and sequences -----------------------------------------------------------------------------------------------

// A Scalar holds int64_t: the upper half of uint64 has to be converted before it is read.
Tensor within_scalar(const Tensor& t, DType to_type) { return t.dtype() == DType::U64 ? to(t, to_type) : t; }
int truth(PyObject* self) {
  if (overrides(self)) [[unlikely]]
    if (PyObject * result; override_method("__bool__", &self, 1, result)) {
      const Object owned(result);
      return result ? PyObject_IsTrue(result) : -1;
    }
  return guarded([&]() -> int {
    const Tensor t = tensor_of(self);
    STRATA_CHECK(t.numel() != 0, Runtime, "Boolean value of Tensor with no values is ambiguous");
    STRATA_CHECK(t.numel() == 1, Runtime,
                 "Boolean value of Tensor with more than one value is ambiguous; use .any() or .all()");
    const Scalar s = within_scalar(t, DType::Bool).item();
    if (s.is_complex()) return s.z.re != 0 || s.z.im != 0;
    return s.is_float() ? s.f != 0 : s.i != 0;
  });
}
// float(x) and int(x) of several elements raise another type of error than item(), as in PyTorch.
void need_one_element(PyObject* self) {
  STRATA_CHECK(impl_of(self)->numel == 1, Value,
               "only one element tensors can be converted to Python scalars; found one of {} elements",
               impl_of(self)->numel);
}
PyObject* to_float(PyObject* self) {
  return guarded([&] {
    need_one_element(self);
    const Scalar s = within_scalar(tensor_of(self), DType::F64).item();
    return PyFloat_FromDouble(s.is_complex() && s.z.im == 0 ? s.z.re : s.to_double());
  });
}
PyObject* to_int(PyObject* self) {
  return guarded([&] {
    need_one_element(self);
    const Tensor t = tensor_of(self);
    if (t.dtype() == DType::U64 && t.numel() == 1) return to_list(reshape(t, {}));  // a Scalar holds int64_t
    const Scalar s = t.item();
    if (s.is_complex()) {
      if (s.z.im != 0) refuse_complex_number();
      return PyLong_FromDouble(s.z.re);
    }
    return s.is_float() ? PyLong_FromDouble(s.f) : PyLong_FromLongLong(s.i);
  });
}
PyObject* to_index(PyObject* self) {
  return guarded([&] {
    const Tensor t = tensor_of(self);
    STRATA_CHECK(t.numel() == 1 && is_integral(t.dtype()), Type,
                 "only integer tensors of a single element can be converted to an index");
    if (t.dtype() == DType::U64) return to_list(reshape(t, {}));  // a Scalar holds int64_t
    return PyLong_FromLongLong(t.item<int64_t>());
  });
}
Py_ssize_t length(PyObject* self) {
  if (overrides(self)) [[unlikely]]
    if (PyObject * result; override_method("__len__", &self, 1, result)) {
      const Object owned(result);
      return result ? PyLong_AsSsize_t(result) : -1;
    }
  return guarded([&]() -> Py_ssize_t {
    STRATA_CHECK(impl_of(self)->ndim > 0, Type, "len() of a 0-d tensor");
    return impl_of(self)->shape[0];
  });
}
PyObject* iterate(PyObject* self) {
  return guarded([&]() -> PyObject* {
    STRATA_CHECK(impl_of(self)->ndim > 0, Type, "iteration over a 0-d tensor");
    Object rows(need(call_op_by_name("unbind", &self, 1)));
    return PyObject_GetIter(rows.get());
  });
}
int contains(PyObject* self, PyObject* value) {
  return guarded([&]() -> int {
    PyObject* values[] = {self, value};
    Object equal(need(call_op_by_name("eq", values, 2)));
    PyObject* one[] = {equal.get()};
    Object any(need(call_op_by_name("any", one, 1)));
    return PyObject_IsTrue(any.get());
  });
}
Py_hash_t hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4); }

// The legacy constructor Tensor(...): sizes, or data as default floats.
PyObject* new_tensor(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    Tensor t;
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n == 1 && !PyLong_Check(PyTuple_GET_ITEM(args, 0))) {
      PyObject* data = PyTuple_GET_ITEM(args, 0);
      t = is_tensor(data) ? autograd::detach(tensor_of(data)) : tensor_from_data(data, default_dtype());
    } else {
      std::vector<int64_t> shape;
      for (Py_ssize_t i = 0; i < n; ++i) shape.push_back(checked(PyLong_AsLongLong(PyTuple_GET_ITEM(args, i))));
      if (n == 0) shape.push_back(0);
      t = make_tensor(shape, default_dtype());
    }
    return wrap_new(t, type);
  });
}

PyObject* make_subclass(PyObject*, PyObject* args) {
  PyTypeObject* type;
  PyObject* data;
  int requires_grad = 0;
  if (!PyArg_ParseTuple(args, "O!O|p", &PyType_Type, &type, &data, &requires_grad)) return nullptr;
  return guarded([&] {
    STRATA_CHECK(PyType_IsSubtype(type, tensor_type), Type, "_make_subclass: expected a subclass of Tensor, got {}",
                 type->tp_name);
    Tensor t = autograd::detach(require_tensor(data, "_make_subclass"));
    if (requires_grad) t.set_requires_grad(true);
    return wrap_new(t, type);
  });
}
PyMethodDef subclass_method = {"_make_subclass", make_subclass, METH_VARARGS | METH_STATIC,
                               "The same memory as an object of a subclass."};
PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weak_references), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, attributes), READONLY, nullptr},
                         {}};
// x.name = value on any tensor. Attributes may form reference cycles, so the garbage collector must see the tensor.
int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  const int status = PyObject_GenericSetAttr(self, name, value);
  if (reinterpret_cast<PyTensor*>(self)->attributes) [[unlikely]]
    track(self);
  return status;
}
}  // namespace

PyObject* wrap(Tensor t) {
  STRATA_ASSERT(t);
  // While an object without references is deallocated, user code may run.
  if (t->python && Py_REFCNT(static_cast<PyObject*>(t->python)) > 0)
    return Py_NewRef(static_cast<PyObject*>(t->python));
  if (t->extra && autograd::sparse_parts(*t)) [[unlikely]]
    return wrap_sparse(std::move(t));
  return wrap_new(std::move(t), tensor_type);
}

PyObject* wrap_as(Tensor t, PyTypeObject* type) { return wrap_new(std::move(t), type); }

Tensor require_tensor(PyObject* o, const char* who) {
  STRATA_CHECK(is_tensor(o), Type, "{}: expected a Tensor, got {}", who, Py_TYPE(o)->tp_name);
  return tensor_of(o);
}

PyObject* wrap_list(const std::vector<Tensor>& list) {
  Object tuple(need(PyTuple_New(static_cast<Py_ssize_t>(list.size()))));
  for (size_t i = 0; i < list.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, need(wrap_optional(list[i])));
  return tuple.release();
}

bool init_tensor_type(PyObject* module) {
  PyType_Slot slots[] = {doc_slot("Tensor(*args, **kwargs)\n--\n\nA strided array of one dtype that remembers how it "
                                  "was computed when it requires a "
                                  "gradient. Made by tensor(), zeros(), from_numpy() and other functions."),
                         slot(Py_tp_new, new_tensor),
                         slot(Py_tp_dealloc, dealloc),
                         slot(Py_tp_traverse, visit_owned),
                         slot(Py_tp_clear, clear_owned),
                         slot(Py_tp_repr, tensor_repr),
                         slot(Py_tp_hash, hash),
                         slot(Py_tp_richcompare, compare),
                         slot(Py_tp_iter, iterate),
                         slot(Py_tp_setattro, set_attribute),
                         slot(Py_tp_getset, tensor_properties),
                         slot(Py_tp_methods, tensor_methods),
                         slot(Py_tp_members, members),
                         slot(Py_nb_add, binary<kAdd>),
                         slot(Py_nb_subtract, binary<kSub>),
                         slot(Py_nb_multiply, binary<kMul>),
                         slot(Py_nb_true_divide, binary<kTrueDiv>),
                         slot(Py_nb_floor_divide, binary<kFloorDiv>),
                         slot(Py_nb_remainder, binary<kRemainder>),
                         slot(Py_nb_power, power),
                         slot(Py_nb_matrix_multiply, binary<kMatmul>),
                         slot(Py_nb_and, binary<kAnd>),
                         slot(Py_nb_or, binary<kOr>),
                         slot(Py_nb_xor, binary<kXor>),
                         slot(Py_nb_lshift, binary<kLshift>),
                         slot(Py_nb_rshift, binary<kRshift>),
                         slot(Py_nb_inplace_add, inplace_binary<kAdd>),
                         slot(Py_nb_inplace_subtract, inplace_binary<kSub>),
                         slot(Py_nb_inplace_multiply, inplace_binary<kMul>),
                         slot(Py_nb_inplace_true_divide, inplace_binary<kTrueDiv>),
                         slot(Py_nb_inplace_floor_divide, inplace_binary<kFloorDiv>),
                         slot(Py_nb_inplace_remainder, inplace_binary<kRemainder>),
                         slot(Py_nb_inplace_power, inplace_power),
                         slot(Py_nb_inplace_and, inplace_binary<kAnd>),
                         slot(Py_nb_inplace_or, inplace_binary<kOr>),
                         slot(Py_nb_inplace_xor, inplace_binary<kXor>),
                         slot(Py_nb_inplace_lshift, inplace_binary<kLshift>),
                         slot(Py_nb_inplace_rshift, inplace_binary<kRshift>),
                         slot(Py_nb_negative, unary<neg_op>),
                         slot(Py_nb_absolute, unary<abs_op>),
                         slot(Py_nb_invert, unary<not_op>),
                         slot(Py_nb_positive, unary<positive_op>),
                         slot(Py_nb_bool, truth),
                         slot(Py_nb_float, overridable_slot<"__float__", to_float>),
                         slot(Py_nb_int, overridable_slot<"__int__", to_int>),
                         slot(Py_nb_index, to_index),
                         slot(Py_mp_length, length),
                         slot(Py_mp_subscript, get_item),
                         slot(Py_mp_ass_subscript, set_item),
                         slot(Py_sq_length, length),
                         slot(Py_sq_contains, contains),
                         slot(Py_bf_getbuffer, get_buffer),
                         slot(Py_bf_releasebuffer, release_buffer),
                         {}};
  PyType_Spec spec = {"strata.Tensor", sizeof(PyTensor), 0,
                      static_cast<unsigned>(Py_TPFLAGS_DEFAULT) | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!tensor_type || PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)) < 0)
    return false;
  const Object subclass(need(PyCFunction_New(&subclass_method, nullptr)));
  const Object as_static(need(PyStaticMethod_New(subclass.get())));
  return PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), "_make_subclass", as_static.get()) == 0;
}

// Called after the ops exist: sets the callables of the operators.
bool bind_operators(PyObject* ops) {
  for (OperatorName& op : operators) {
    op.plain = PyDict_GetItemString(ops, op.name);
    op.inplace = PyDict_GetItemString(ops, (std::string(op.name) + "_").c_str());
    if (!op.plain) continue;
    const OpRecord& record = find_op(op.name);
    const bool two_tensors = record.params.size() >= 2 && record.params[0].type == ParamType::Tensor &&
                             record.params[1].type == ParamType::Tensor && record.required == 2 && record.outputs == 1;
    if (two_tensors && (!record.composite_fn || &op == &operators[kMatmul])) op.record = &record;
  }
  neg_op = PyDict_GetItemString(ops, "neg");
  abs_op = PyDict_GetItemString(ops, "abs");
  not_op = PyDict_GetItemString(ops, "bitwise_not");
  positive_op = PyDict_GetItemString(ops, "positive");
  return true;
}

}  // namespace strata::python
