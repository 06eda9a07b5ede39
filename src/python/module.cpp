// The extension module strata._C: types, ops and the functions that are not ops.
#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <typeinfo>

#include "base/host_memory.h"
#include "base/interrupt.h"
#include "base/library.h"
#include "base/parallel.h"
#include "base/warning.h"
#include "dispatch/choose.h"
#include "dispatch/samples.h"
#include "dispatch/tuning.h"
#include "dispatch/tuning_store.h"
#include "python/binding.h"
#include "python/considered.h"
#include "python/kernels.h"
#include "python/library.h"
#include "python/onnx_values.h"
#include "python/overrides.h"
#include "python/sparse.h"
#include "python/system.h"
#include "python/trace.h"
#include "tensor/generator.h"
#include "tensor/package_name.h"

namespace strata::python {

static PyObject* out_of_memory_error = nullptr;
static PyObject* ops_dict = nullptr;

// Messages quote names from files, which need not be UTF-8.
static PyObject* message_of(const std::exception& e) {
  return PyUnicode_DecodeUTF8(e.what(), static_cast<Py_ssize_t>(std::strlen(e.what())), "replace");
}

// The errors of decompositions and solvers that a matrix has none for, in the words of their messages.
static bool is_about_matrix(std::string_view message) {
  for (const std::string_view words :
       {"could not be completed because the input", "failed to converge because the input",
        "failed because the input matrix is singular"})
    if (message.find(words) != std::string_view::npos) return true;
  return false;
}
// strata.linalg.LinAlgError, which is a RuntimeError.
static Object linalg_error() {
  const Object module(PyImport_ImportModule("strata.linalg"));
  return Object(module ? PyObject_GetAttrString(module.get(), "LinAlgError") : nullptr);
}

PyObject* raise_current() {
  try {
    throw;
  } catch (const PythonError&) {  // already set
  } catch (const IoError& e) {    // OSError turns the code into FileNotFoundError and similar exceptions
    const Object error(PyObject_CallFunction(PyExc_OSError, "iN", e.code(), message_of(e)));
    if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  } catch (const Error& e) {
    PyObject* type = PyExc_RuntimeError;
    switch (e.kind()) {
      case ErrorKind::Runtime:
      case ErrorKind::Internal: type = PyExc_RuntimeError; break;
      case ErrorKind::Type: type = PyExc_TypeError; break;
      case ErrorKind::Value: type = PyExc_ValueError; break;
      case ErrorKind::Index: type = PyExc_IndexError; break;
      case ErrorKind::NotImplemented: type = PyExc_NotImplementedError; break;
      case ErrorKind::OutOfMemory: type = out_of_memory_error; break;
      case ErrorKind::Io: type = PyExc_OSError; break;
    }
    const Object message(message_of(e));
    const Object about_matrix = type == PyExc_RuntimeError && is_about_matrix(e.what()) ? linalg_error() : Object();
    if (message && !PyErr_Occurred()) PyErr_SetObject(about_matrix ? about_matrix.get() : type, message.get());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(out_of_memory_error, "not enough memory");
  } catch (const std::length_error&) {
    PyErr_SetString(out_of_memory_error, "a list or text of this call would be longer than memory can be");
  } catch (const std::exception& e) {  // its message is the C++ library's and would not help the user
    PyErr_Format(PyExc_RuntimeError,
                 "internal error: an unexpected C++ exception of type %s; this is a bug in Strata, please report it",
                 typeid(e).name());
  }
  return nullptr;
}

PyObject* call_op_by_name(const char* name, PyObject* const* values, Py_ssize_t n, PyObject* keywords) {
  PyObject* op = PyDict_GetItemString(ops_dict, name);
  if (!op) fail(ErrorKind::Internal, fmt::format("there is no op '{}'", name));
  return PyObject_Vectorcall(op, values, static_cast<size_t>(n), keywords);
}

namespace {

PyObject* op_named(PyObject*, PyObject* name) {
  PyObject* op = PyDict_GetItemWithError(ops_dict, name);
  if (!op && !PyErr_Occurred()) PyErr_Format(PyExc_KeyError, "no op named %R", name);
  return Py_XNewRef(op);
}

PyObject* py_set_num_threads(PyObject*, PyObject* n) {
  return guarded([&]() -> PyObject* {
    int overflow = 0;
    const long long value = checked(PyLong_AsLongLongAndOverflow(n, &overflow));
    set_num_threads(overflow ? INT_MAX : static_cast<int>(std::clamp<long long>(value, INT_MIN, INT_MAX)));
    Py_RETURN_NONE;
  });
}
PyObject* py_get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(num_threads()); }

PyObject* py_memory_stats(PyObject*, PyObject*) {
  const MemoryStats s = memory_stats();
  return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n}", "allocated_bytes", s.allocated_bytes, "peak_allocated_bytes",
                       s.peak_allocated_bytes, "reserved_bytes", s.reserved_bytes, "cached_bytes", s.cached_bytes,
                       "system_allocations", s.system_allocations, "allocations", s.allocations, "limit_bytes",
                       s.limit_bytes);
}
PyObject* py_reset_peak(PyObject*, PyObject*) {
  reset_peak_memory_stats();
  Py_RETURN_NONE;
}
PyObject* py_empty_cache(PyObject*, PyObject*) {
  empty_cache();
  Py_RETURN_NONE;
}
PyObject* py_set_memory_limit(PyObject*, PyObject* bytes) {
  const size_t n = bytes == Py_None ? 0 : PyLong_AsSize_t(bytes);
  if (PyErr_Occurred()) return nullptr;
  set_memory_limit(n);
  Py_RETURN_NONE;
}

PyObject* py_set_workspace_limit(PyObject*, PyObject* bytes) {
  const size_t n = bytes == Py_None ? SIZE_MAX : PyLong_AsSize_t(bytes);
  if (PyErr_Occurred()) return nullptr;
  set_workspace_limit(n);
  Py_RETURN_NONE;
}
PyObject* py_prefer_kernel(PyObject*, PyObject* name) {
  static thread_local std::string kept;
  const char* text = name == Py_None ? "" : PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  kept = text;
  prefer_kernel(kept.empty() ? nullptr : kept.c_str());
  Py_RETURN_NONE;
}
PyObject* py_forget_tuning(PyObject*, PyObject*) {
  return guarded([] {
    forget_tuning();
    return Py_NewRef(Py_None);
  });
}

PyObject* py_save_tuning(PyObject*, PyObject*) {
  return guarded([] {
    save_tuning();
    return Py_NewRef(Py_None);
  });
}
PyObject* py_tuning_file(PyObject*, PyObject* device) {
  const char* name = PyUnicode_AsUTF8(device);
  if (!name) return nullptr;
  return guarded([&] { return PyUnicode_FromString(tuning_file(require_available(device_from_name(name))).c_str()); });
}

PyObject* py_manual_seed(PyObject* module, PyObject* args, PyObject* keywords) {
  const char* names[] = {"seed", nullptr};
  PyObject* seed;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:manual_seed", const_cast<char**>(names), &seed)) return nullptr;
  return guarded([&] {
    manual_seed(seed_of(seed));
    return PyObject_GetAttrString(module, "default_generator");
  });
}

PyObject* py_set_package_name(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  package_name = text;
  Py_RETURN_NONE;
}
PyObject* py_default_dtype(PyObject*, PyObject*) { return wrap(default_dtype()); }
PyObject* py_set_default_dtype(PyObject*, PyObject* t) {
  return guarded([&]() -> PyObject* {
    set_default_dtype(dtype_of_object(t));
    Py_RETURN_NONE;
  });
}
PyObject* py_promote_types(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO", &a, &b)) return nullptr;
  return guarded([&] { return wrap(promote(dtype_of_object(a), dtype_of_object(b))); });
}

// explain(op, *args, **kw): runs the call and lists the kernels that were considered, with reasons.
PyObject* explain(PyObject*, PyObject* const* values, Py_ssize_t n, PyObject* keywords) {
  return guarded([&] {
    STRATA_CHECK(n >= 1, Type, "explain(op, *args) needs an op");
    Explanation seen;
    const Scoped<Explanation*> look(thread_state.explain, &seen);
    const Object result(need(PyObject_Vectorcall(values[0], values + 1, static_cast<size_t>(n - 1), keywords)));
    return considered_lines(seen.lines);
  });
}

// --- the registry, for tests, docs and tools -----------------------------------------------------------------------------

PyObject* value_object(const Value& v) {
  switch (v.tag) {
    case Tag::None:
    case Tag::Generator: return Py_NewRef(Py_None);
    case Tag::Tensor: return wrap(Tensor(Ref<TensorImpl>::share(v.tensor)));
    case Tag::Float: return PyFloat_FromDouble(v.f);
    case Tag::Int: return PyLong_FromLongLong(v.i);
    case Tag::Complex: return PyComplex_FromDoubles(v.complex->re, v.complex->im);
    case Tag::Bool: return PyBool_FromLong(v.i != 0);
    case Tag::Str: return PyUnicode_FromStringAndSize(v.str, v.size);
    case Tag::DType: return wrap(v.dtype());
    case Tag::Device: return wrap(v.device());
    case Tag::Tensors: {
      Object list(need(PyList_New(v.size)));
      for (uint32_t i = 0; i < v.size; ++i) PyList_SET_ITEM(list.get(), i, need(wrap_optional(v.tensors[i])));
      return list.release();
    }
    case Tag::Ints: {
      Object list(need(PyList_New(v.size)));
      for (uint32_t i = 0; i < v.size; ++i) PyList_SET_ITEM(list.get(), i, need(PyLong_FromLongLong(v.ints[i])));
      return list.release();
    }
    case Tag::Floats: {
      Object list(need(PyList_New(v.size)));
      for (uint32_t i = 0; i < v.size; ++i) PyList_SET_ITEM(list.get(), i, need(PyFloat_FromDouble(v.floats[i])));
      return list.release();
    }
  }
  return nullptr;
}

PyObject* text_of(std::string_view s) {
  return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}

// A sample's arguments as a dict by parameter name, in the given order.
PyObject* sample_object(const OpRecord& op, const char* text, DType dtype, uint64_t seed) {
  const Sample sample(op, text, dtype, seed);
  Object dict(need(PyDict_New()));
  for (uint32_t i : sample.given) {
    Object value(need(value_object(sample.args[i])));
    const Object name(need(text_of(op.params[i].name)));
    need(PyDict_SetItem(dict.get(), name.get(), value.get()));
  }
  return dict.release();
}
const OpRecord& record_at(Py_ssize_t index) {
  STRATA_CHECK(index >= 0 && index < std::ssize(all_ops()), Index, "there are {} records, no number {}",
               all_ops().size(), index);
  return *all_ops()[static_cast<size_t>(index)];
}
PyObject* make_sample(PyObject*, PyObject* args) {
  Py_ssize_t index;
  const char* text;
  PyObject* dtype;
  unsigned long long seed = 0;
  if (!PyArg_ParseTuple(args, "nsO|K", &index, &text, &dtype, &seed)) return nullptr;
  return guarded([&] { return sample_object(record_at(index), text, dtype_of_object(dtype), seed); });
}

PyObject* text_list(const std::vector<const char*>& texts) {
  Object list(need(PyList_New(0)));
  for (const char* t : texts) append(list, PyUnicode_FromString(t));
  return list.release();
}

PyObject* record_object(const OpRecord* op, Py_ssize_t index) {
  Object dtypes(need(PyList_New(0))), constants(need(PyList_New(0))), errors(need(PyList_New(0))),
    kernels(need(PyList_New(0))), cuda_kernels(need(PyList_New(0))), outputs(need(PyList_New(0)));
  for (int t = 0; t < kDTypeCount; ++t)
    if (op->accepts.has(static_cast<DType>(t))) append(dtypes, wrap(static_cast<DType>(t)));
  for (const ErrorSample& e : op->error_samples)
    append(errors, Py_BuildValue("(sis)", e.args, static_cast<int>(e.kind), e.message));
  for (const Kernel& k : op->kernels(Backend::Cpu)) append(kernels, PyUnicode_FromString(k.name));
  for (const Kernel& k : op->kernels(Backend::Cuda)) append(cuda_kernels, PyUnicode_FromString(k.name));
  for (const std::string& n : op->output_names) append(outputs, text_of(n));
  for (uint32_t i = 0; i < op->params.size(); ++i)
    if (op->constant_inputs >> i & 1) append(constants, text_of(op->params[i].name));
  const char* kind = op->composite_fn ? "composite" : op->view_fn ? "view" : op->broadcasts ? "pointwise" : "kernel";
  const auto flag = [](bool on) { return on ? Py_True : Py_False; };
  return Py_BuildValue(
    "{s:n,s:s,s:s,s:s,s:s,s:s,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:O,s:O,s:O,s:O,s:O,s:O,s:s,s:s}", "index", index, "name",
    op->name.c_str(), "overload", op->overload.c_str(), "schema", op->schema, "doc", op->text, "kind", kind, "samples",
    text_list(op->sample_texts), "errors", errors.release(), "dtypes", dtypes.release(), "kernels", kernels.release(),
    "cuda_kernels", cuda_kernels.release(), "constants", constants.release(), "outputs", outputs.release(), "aliases",
    text_list(op->aliases), "differentiable", flag((op->grad_fn && op->grad_fn != no_derivative) || op->composite_fn),
    "inplace", flag(op->has_inplace), "out", flag(op->has_out), "method", flag(op->method), "random", flag(op->random),
    "internal", flag(op->internal), "autocast_cpu", name_of(op->autocast_policy[0]), "autocast_cuda",
    name_of(op->autocast_policy[1]));
}

// Everything about every record, for docs, stubs and tests.
PyObject* records(PyObject*, PyObject*) {
  return guarded([&] {
    Object list(need(PyList_New(0)));
    Py_ssize_t index = 0;
    for (const OpRecord* op : all_ops()) append(list, record_object(op, index++));
    return list.release();
  });
}

PyObject* py_check_host_memory(PyObject*, PyObject* args) {
  PyObject* count = nullptr;
  Py_ssize_t bytes = 0;
  const char* what = nullptr;
  if (!PyArg_ParseTuple(args, "O!ns", &PyLong_Type, &count, &bytes, &what)) return nullptr;
  int overflow = 0;
  const long long n = PyLong_AsLongLongAndOverflow(count, &overflow);
  return guarded([&] {
    check_host_memory(overflow > 0 ? INT64_MAX : n, static_cast<size_t>(bytes), what);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
  {"_check_host_memory", py_check_host_memory, METH_VARARGS,
   "_check_host_memory(count, bytes, what): OutOfMemoryError when that many items cannot fit."},
  {"_op", op_named, METH_O, "The callable of this name."},
  {"_records", records, METH_NOARGS, "Every op record as a dict."},
  {"_sample", make_sample, METH_VARARGS,
   "_sample(record index, text, dtype, seed=0): the arguments of a sample, by name."},
  {"set_num_threads", py_set_num_threads, METH_O, "set_num_threads($module, n, /)\n--\n\nThreads that one op may use."},
  {"get_num_threads", py_get_num_threads, METH_NOARGS,
   "get_num_threads($module, /)\n--\n\nThreads that one op may use."},
  {"memory_stats", py_memory_stats, METH_NOARGS,
   "memory_stats($module, /)\n--\n\nWhat the CPU allocator holds, in bytes and calls."},
  {"reset_peak_memory_stats", py_reset_peak, METH_NOARGS,
   "reset_peak_memory_stats($module, /)\n--\n\nStarts the peak anew from what is allocated now."},
  {"empty_cache", py_empty_cache, METH_NOARGS,
   "empty_cache($module, /)\n--\n\nGives cached memory back to the system."},
  {"set_memory_limit", py_set_memory_limit, METH_O,
   "set_memory_limit($module, bytes, /)\n--\n\nBytes the CPU allocator may take from the system; None lifts the "
   "limit."},
  {"set_workspace_limit", py_set_workspace_limit, METH_O,
   "set_workspace_limit($module, bytes, /)\n--\n\nBytes that a kernel may take besides its results; those that need "
   "more are passed over. None lifts the limit."},
  {"_prefer_kernel", py_prefer_kernel, METH_O, "For tests: the kernel that explained calls take where it is ready."},
  {"_call_deferred", method(py_call_deferred), METH_FASTCALL,
   "_call_deferred(function, args, kwargs): calls it; its pointwise ops are fused."},
  {"_call_explained", method(py_call_explained), METH_FASTCALL,
   "_call_explained(function, args, kwargs): the same; returns the result and the groups of fused ops."},
  {"_defer_everywhere", py_defer_everywhere, METH_O,
   "From now on, ops of this thread with at least so many elements are fused."},
  {"_compile_mode", py_compile_mode, METH_NOARGS,
   "_compile_mode($module, /)\n--\n\nWhat STRATA_COMPILE asks for: '0', '1', 'check' or 'everywhere'."},
  {"_follow_backward", method(py_follow_backward), METH_FASTCALL,
   "_follow_backward($module, function, args, kwargs, roots, /)\n--\n\nFor tests: checks the graph of a backward "
   "pass."},
  {"_followed_parts", py_followed_parts, METH_NOARGS,
   "_followed_parts($module, /)\n--\n\nHow many of those had a graph, and how many had none."},
  {"_check_compiled", py_check_compiled, METH_O,
   "_check_compiled($module, on, /)\n--\n\nRuns compiled functions both ways; returns whether it did before."},
  {"_plant_compile_faults", method(py_plant_compile_faults), METH_FASTCALL,
   "_plant_compile_faults($module, op_of_groups, op_of_graphs, /)\n--\n\nFor tests of these checks."},
  {"_set_fused_kernels", py_set_fused_kernels, METH_O,
   "Whether groups of ops on GPUs get a kernel; otherwise they run one by one. Returns the previous setting."},
  {"_set_least_deferred", py_set_least_deferred, METH_O,
   "Sets the least number of elements of a fused op on the CPU; returns the previous one."},
  {"_forget_tuning", py_forget_tuning, METH_NOARGS, "Forgets the times that tune() measured."},
  {"_save_tuning", py_save_tuning, METH_NOARGS, "Adds the times that tune() measured on GPUs to their files."},
  {"_tuning_file", py_tuning_file, METH_O, "The file of a device's times; empty if nothing is kept."},
  {"manual_seed", method(py_manual_seed), METH_VARARGS | METH_KEYWORDS,
   "manual_seed($module, seed)\n--\n\nSeeds the default generator and returns it."},
  {"_set_package_name", py_set_package_name, METH_O, "The name before the dot in printed types: 'strata' or 'torch'."},
  {"get_default_dtype", py_default_dtype, METH_NOARGS,
   "get_default_dtype($module, /)\n--\n\nThe dtype of floating-point results made from nothing."},
  {"set_default_dtype", py_set_default_dtype, METH_O, "set_default_dtype($module, dtype, /)\n--\n\nSets it."},
  {"promote_types", py_promote_types, METH_VARARGS,
   "promote_types($module, type1, type2, /)\n--\n\nThe dtype that an op on tensors of both dtypes computes in."},
  {"explain", method(explain), METH_FASTCALL | METH_KEYWORDS,
   "explain($module, op, /, *args, **kwargs)\n--\n\nWhich kernel runs, and why not the others."},
  {}};

PyModuleDef definition = {
  PyModuleDef_HEAD_INIT, "strata._C", "The C++ part of strata.", -1, functions, nullptr, nullptr, nullptr, nullptr};

// Runs Python's signal handlers; a KeyboardInterrupt unwinds the loop that polled.
void check_signals() {
  const WithGil gil;
  if (PyErr_CheckSignals() < 0) throw PythonError{};
}

// A UserWarning at the line of the user's call; an error, if the program made warnings errors.
void raise_warning(const std::string& text) {
  const WithGil gil;
  need(PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1 + frames_of_package()));
}

bool init(PyObject* module) {
  set_interrupt_hook(check_signals);
  set_warning_hook(raise_warning);
  out_of_memory_error = PyErr_NewExceptionWithDoc(
    "strata.OutOfMemoryError", "No memory for a tensor; the message says who holds what.", PyExc_RuntimeError, nullptr);
  if (!out_of_memory_error || PyModule_AddObjectRef(module, "OutOfMemoryError", out_of_memory_error) < 0) return false;
  if (!init_types(module) || !init_tensor_type(module) || !init_op_type(module) || !init_overrides(module) ||
      !init_replay(module) || !init_autograd(module) || !init_kernels(module))
    return false;
  for (PyMethodDef* table :
       {conversion_functions,     autograd_functions, dlpack_functions,        file_functions,     optim_functions,
        value_functions,          device_functions,   device_memory_functions, autocast_functions, kernel_functions,
        gemm_functions,           library_functions,  inline_functions,        sparse_functions,   graph_functions,
        system_functions,         trace_functions,    explain_functions,       onnx_functions,     engine_functions,
        engine_quantize_functions})
    if (PyModule_AddFunctions(module, table) < 0) return false;
  ops_dict = make_ops();
  return ops_dict && PyModule_AddObjectRef(module, "ops", ops_dict) == 0 && bind_operators(ops_dict) &&
         PyModule_AddStringConstant(module, "__version__", STRATA_VERSION) == 0 &&
         PyModule_AddObject(module, "inf", PyFloat_FromDouble(Py_HUGE_VAL)) == 0 &&
         PyModule_AddObject(module, "nan", PyFloat_FromDouble(Py_NAN)) == 0;
}
}  // namespace
}  // namespace strata::python

// Tells the library where NVIDIA's wheels are.
static void name_package_folders() {
  std::vector<std::string> folders;
  PyObject* path = PySys_GetObject("path");  // borrowed
  for (Py_ssize_t i = 0; path && PyList_Check(path) && i < PyList_GET_SIZE(path); ++i) {
    PyObject* entry = PyList_GET_ITEM(path, i);
    const char* text = PyUnicode_Check(entry) ? PyUnicode_AsUTF8(entry) : nullptr;
    if (text && std::string_view(text).ends_with("-packages")) folders.emplace_back(text);
    PyErr_Clear();  // of a name that is not UTF-8
  }
  strata::set_package_folders(std::move(folders));
}

PyMODINIT_FUNC PyInit__C() {
  PyObject* module = PyModule_Create(&strata::python::definition);
  try {
    if (module && strata::python::init(module)) {
      name_package_folders();
      return module;
    }
  } catch (...) { strata::python::raise_current(); }
  Py_XDECREF(module);
  return nullptr;
}
