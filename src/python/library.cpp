// Custom ops of strata.library, and libraries of ops in C++.
#include "python/library.h"

#include "base/trace.h"
#include "dispatch/library.h"
#include "python/capsule.h"

namespace strata::python {
namespace {

// A Python function that is a kernel of a custom op. Never freed: traces and explanations point to the names.
struct PythonKernel {
  OpRecord op;
  std::string text;
  Kernel kernel;
};
}  // namespace

template <> constexpr const char* kCapsule<PythonKernel*> = "strata.python_kernel";

namespace {

// _load_library(path): the callables of its ops, by name
PyObject* load_library(PyObject*, PyObject* path) {
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(path, &bytes)) return nullptr;
  const Object owned(bytes);
  return guarded([&] {
    const std::string file(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
    std::vector<const OpRecord*> ops;
    {
      const WithoutGil unlock;
      ops = library::load(file);
    }
    return need(callables_of(ops));
  });
}

// _custom_kernel(op's name, kernel's name): a handle for _custom_run
PyObject* custom_kernel(PyObject*, PyObject* args) {
  const char *op, *name;
  if (!PyArg_ParseTuple(args, "ss", &op, &name)) return nullptr;
  return guarded([&] {
    auto* k = new PythonKernel;
    k->op.name = op;
    k->text = name;
    k->kernel.name = k->text.c_str();
    return capsule(k);
  });
}

// _custom_run(handle, function, arguments, keywords): calls the function without recording and without autocast, which
// apply to ops, not to their kernels.
PyObject* custom_run(PyObject*, PyObject* args) {
  PyObject *handle, *function, *values, *keywords;
  if (!PyArg_ParseTuple(args, "OOO!O!", &handle, &function, &PyTuple_Type, &values, &PyDict_Type, &keywords))
    return nullptr;
  return guarded([&] {
    const PythonKernel& k = *inside<PythonKernel*>(handle);
    const tracing::Span op(tracing::Layer::Op, k.op.name.c_str());
    if (thread_state.explain) thread_state.explain->add(k.op, k.kernel);
    const tracing::Span kernel(tracing::Layer::Kernel, k.kernel.name);
    const autograd::NoGrad off;
    const Scoped<uint8_t> no_casts(thread_state.autocast, 0);
    return need(or_sleep_at_exit([&] { return PyObject_Call(function, values, keywords); }));
  });
}

// _storage_id(tensor): equal for tensors that share memory; 0 for a tensor without memory
PyObject* storage_id(PyObject*, PyObject* tensor) {
  return guarded([&] { return PyLong_FromVoidPtr(require_tensor(tensor, "_storage_id")->storage.get()); });
}
}  // namespace

PyMethodDef library_functions[] = {{"_load_library", load_library, METH_O, nullptr},
                                   {"_custom_kernel", custom_kernel, METH_VARARGS, nullptr},
                                   {"_custom_run", custom_run, METH_VARARGS, nullptr},
                                   {"_storage_id", storage_id, METH_O, nullptr},
                                   {}};

}  // namespace strata::python
