// Shared parts of the binding. Plain C API: a class of a binding library costs twice as much per operator.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <unistd.h>

#include <string>

#include "autograd/autograd.h"
#include "record/op.h"

namespace strata::python {

struct PyTensor {
  PyObject_HEAD TensorImpl* impl;  // owns one reference
  PyObject* weak_references;
  PyObject* attributes;  // the dict of the user's attributes, created by the first one
};
extern PyTypeObject *tensor_type, *op_type, *dtype_type, *device_type, *size_type, *generator_type;

// Owned reference.
class Object {
 public:
  Object() = default;
  explicit Object(PyObject* o) : o_(o) {}
  Object(Object&& other) noexcept : o_(std::exchange(other.o_, nullptr)) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(o_, other.o_);
    return *this;
  }
  ~Object() { Py_XDECREF(o_); }
  PyObject* get() const { return o_; }
  PyObject* release() { return std::exchange(o_, nullptr); }
  explicit operator bool() const { return o_; }

 private:
  PyObject* o_ = nullptr;
};

// A Python error is set: unwinds C++ frames up to the nearest guarded().
struct PythonError {};
inline PyObject* need(PyObject* o) {
  if (!o) throw PythonError{};
  return o;
}
inline void need(int status) {
  if (status < 0) throw PythonError{};
}
inline void need(bool) = delete;
inline void append(const Object& list, PyObject* item) {  // takes the reference
  const Object owned(need(item));
  need(PyList_Append(list.get(), owned.get()));
}
inline bool truth_of(PyObject* o) {
  const int value = PyObject_IsTrue(o);
  need(value);
  return value == 1;
}
// A number from a C-API call that reports an error as -1.
template <class T> T checked(T value) {
  if (value == static_cast<T>(-1) && PyErr_Occurred()) throw PythonError{};
  return value;
}
// After an attempted conversion: a TypeError means that the object does not fit. Any other exception comes from user
// code (__index__, __float__) and must reach the user.
inline void forgive_type_error() {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError{};
  PyErr_Clear();
}

PyObject* raise_current();  // inside a catch: maps error kinds to Python exceptions with one table
template <class F> [[gnu::always_inline]] inline auto guarded(F f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    raise_current();
    if constexpr (std::is_pointer_v<decltype(f())>) return nullptr;
    else return -1;
  }
}

// Runs f, which takes the interpreter lock or runs Python code. When the interpreter exits, Python stops daemon threads
// there with pthread_exit(). Unwinding our frames would release references without the lock, and unwinding through a
// destructor ends the process; so such a thread sleeps until the process ends.
template <class F> auto or_sleep_at_exit(F f) noexcept -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    for (;;) ::pause();
  }
}
struct WithoutGil {
  PyThreadState* state = PyEval_SaveThread();
  WithoutGil() = default;
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    or_sleep_at_exit([&] { PyEval_RestoreThread(state); });
  }
};
// For a call with these arguments. Holds the tensors meanwhile: the garbage collector only visits what has a single
// owner, and without its lock a tensor must not gain owners during the visit (see visit_owned).
class WithoutGilFor {
 public:
  explicit WithoutGilFor(const Args& args) : held_(args), unlocked_() {}

 private:
  struct Held {
    explicit Held(const Args& args) {
      for (uint32_t i = 0; i < args.size; ++i) tensors[i] = args.share(i);
    }
    Tensor tensors[Args::kMax];
  };
  Held held_;
  WithoutGil unlocked_;
};
struct WithGil {
  PyGILState_STATE state = or_sleep_at_exit([] { return PyGILState_Ensure(); });
  WithGil() = default;
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil() { PyGILState_Release(state); }
};
// Calls back into Python from C++ frames: hooks, user-defined functions, closures.
inline PyObject* call_python(PyObject* callable, PyObject* const* values, size_t n) {
  return need(or_sleep_at_exit([&] { return PyObject_Vectorcall(callable, values, n, nullptr); }));
}

// 'File "train.py", line 7, in step' of the current frame; with `of_the_user`, of the innermost one outside of this
// package.
std::string python_line(bool of_the_user);
int frames_of_package();  // how many of the innermost frames are those of this package

// Tensors.
PyObject* wrap(Tensor t);  // its Python object, a new one if it has none
inline PyObject* wrap_optional(const Tensor& t) { return t ? wrap(t) : Py_NewRef(Py_None); }
inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type); }
inline TensorImpl* impl_of(PyObject* o) { return reinterpret_cast<PyTensor*>(o)->impl; }
inline Tensor tensor_of(PyObject* o) { return Ref<TensorImpl>::share(impl_of(o)); }
Tensor require_tensor(PyObject* o, const char* who);
PyObject* wrap_list(const std::vector<Tensor>& list);  // a tuple
// The garbage collector's view of a Tensor object: hooks, and contexts of user-defined functions, that only its tensor
// owns. Few tensors have any, so an object is not tracked until it gets one.
void track(PyObject* tensor);
int visit_owned(PyObject* tensor, visitproc visit, void* arg);
int clear_owned(PyObject* tensor);
PyObject* make_size(Shape shape);

// Ops.
PyObject* make_ops();  // dict: dotted name -> callable; also sets the methods of Tensor
PyObject* call_op_by_name(const char* name, PyObject* const* values, Py_ssize_t n, PyObject* keywords = nullptr);

// Other values.
PyObject* wrap(DType t);
PyObject* wrap(Device d);
DType dtype_of_object(PyObject* o);  // a dtype object, or the Python types bool, int, float
bool is_dtype(PyObject* o);
std::optional<DType> dtype_of_format(const char* format, Py_ssize_t itemsize);  // of the buffer protocol
Device device_of_object(PyObject* o);                                           // a device object or its name
Generator* generator_of(PyObject* o);                                           // null if it is not a Generator
uint64_t seed_of(PyObject* seed);                                               // an int of 64 bits, signed or not
// Asks the type, as Python does for special methods: __getattr__ of the object may raise, which a test of the object hides.
bool has_special_method(PyObject* o, const char* name);
bool number_value(PyObject* o, Value& v);               // a real Python or NumPy number
bool upper_half_of_uint64(PyObject* o, int64_t& bits);  // an int from 2**63 to 2**64 - 1
bool complex_value(PyObject* o, Complex<double>& z);    // a complex one, or a tensor of one
std::string shown(PyObject* text);                      // of a str, also an invalid UTF-8 one
bool is_sequence(PyObject* o);  // lists, tuples, ranges, arrays and the like; not texts, tensors and dicts
Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype);  // nested lists, numbers, buffers, tensors: copies
PyObject* to_list(const Tensor& t);

bool init_types(PyObject* module);
bool init_tensor_type(PyObject* module);
bool init_op_type(PyObject* module);
bool init_replay(PyObject* module);
bool bind_operators(PyObject* ops);
bool init_autograd(PyObject* module);
bool init_kernels(PyObject* module);

extern PyGetSetDef tensor_properties[];
Tensor tensor_of_capsule(PyObject* capsule);  // over the memory of a fresh DLPack capsule
extern PyMethodDef tensor_methods[], conversion_functions[], autograd_functions[], dlpack_functions[], file_functions[],
  optim_functions[], value_functions[], device_functions[], device_memory_functions[], autocast_functions[],
  kernel_functions[], gemm_functions[], graph_functions[], onnx_functions[];
int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);
PyObject* get_item(PyObject* self, PyObject* key);
int set_item(PyObject* self, PyObject* key, PyObject* value);
PyObject* tensor_repr(PyObject* self);

template <class F> PyType_Slot slot(int id, F* f) { return {id, reinterpret_cast<void*>(f)}; }
inline PyType_Slot doc_slot(const char* text) { return {Py_tp_doc, const_cast<char*>(text)}; }
template <class F> PyCFunction method(F* f) { return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f)); }

// compile.cpp: calls of functions whose ops are deferred.
PyObject* py_call_deferred(PyObject*, PyObject* const* given, Py_ssize_t n);
PyObject* py_call_explained(PyObject*, PyObject* const* given, Py_ssize_t n);
PyObject* py_defer_everywhere(PyObject*, PyObject* least);
PyObject* py_compile_mode(PyObject*, PyObject*);
PyObject* py_follow_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* py_followed_parts(PyObject*, PyObject*);
PyObject* py_check_compiled(PyObject*, PyObject* on);
PyObject* py_plant_compile_faults(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* py_set_fused_kernels(PyObject*, PyObject* on);
PyObject* py_set_least_deferred(PyObject*, PyObject* least);

}  // namespace strata::python
