// Memory of devices from Python, and pinned memory of the host.
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/host_memory.h"
#include "ops/transfer.h"
#include "python/devices.h"

namespace strata::python {
namespace {

PyObject* memory_stats(PyObject*, PyObject* args) {
  return with_gpu(args, [](const Gpu& g) -> PyObject* {
    const cuda::DeviceMemoryStats s = g.allocator->stats();
    const auto n = [](size_t v) { return static_cast<Py_ssize_t>(v); };
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n}", "allocated", n(s.allocated), "active", n(s.active),
                         "reserved", n(s.reserved), "peak_allocated", n(s.peak_allocated), "peak_reserved",
                         n(s.peak_reserved), "allocations", n(s.allocations), "segments", n(s.segments), "retries",
                         n(s.retries), "failures", n(s.failures));
  });
}
PyObject* memory_snapshot(PyObject*, PyObject* args) {
  return with_gpu(args, [](const Gpu& g) -> PyObject* {
    Object list(need(PyList_New(0)));
    for (const cuda::Allocator::BlockInfo& b : g.allocator->snapshot()) {
      const Object item(need(Py_BuildValue(
        "{s:K,s:K,s:n,s:n,s:s,s:s,s:s,s:O}", "address", static_cast<unsigned long long>(b.address), "segment",
        static_cast<unsigned long long>(b.segment), "size", static_cast<Py_ssize_t>(b.size), "requested_size",
        static_cast<Py_ssize_t>(b.requested), "state", b.free ? "inactive" : "active_allocated", "op", b.op.c_str(),
        "line", b.line.c_str(), "is_expandable", b.expandable ? Py_True : Py_False)));
      need(PyList_Append(list.get(), item.get()));
    }
    return list.release();
  });
}
PyObject* empty_device_cache(PyObject*, PyObject* args) {
  return with_device(args, [](DeviceType type, int) -> PyObject* {
    if (Runtime* r = Runtime::opened(type)) {
      for (int i = 0; i < r->count(); ++i) (*r)[i].allocator->empty_cache();
      cuda::HostMemory::of(type).empty_cache();
    }
    Py_RETURN_NONE;
  });
}
PyObject* reset_peak(PyObject*, PyObject* args) {
  return with_gpu(args, [](const Gpu& g) -> PyObject* {
    g.allocator->reset_peak();
    Py_RETURN_NONE;
  });
}
PyObject* mem_get_info(PyObject*, PyObject* args) {
  return with_gpu(args, [](const Gpu& g) -> PyObject* {
    size_t free = 0, total = 0;
    g.activate();
    g.check(g.table().cuMemGetInfo(&free, &total), "tell its memory");
    return Py_BuildValue("nn", static_cast<Py_ssize_t>(free), static_cast<Py_ssize_t>(total));
  });
}
PyObject* set_limit(PyObject*, PyObject* args) {
  const char* name = nullptr;
  int index = 0;
  Py_ssize_t bytes = 0;
  if (!PyArg_ParseTuple(args, "sin", &name, &index, &bytes)) return nullptr;
  return guarded([&]() -> PyObject* {
    Runtime::get(type_of(name))[index].allocator->set_limit(static_cast<size_t>(bytes));
    Py_RETURN_NONE;
  });
}
PyObject* pin_memory(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* tensor = nullptr;
  if (!PyArg_ParseTuple(args, "sO", &name, &tensor)) return nullptr;
  return guarded([&]() -> PyObject* {
    const Tensor t = require_tensor(tensor, "pin_memory");
    Tensor pinned = strata::pin_memory(t, type_of(name));
    if (pinned.get() == t.get()) return Py_NewRef(tensor);
    return wrap(std::move(pinned));
  });
}
PyObject* is_pinned(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    const Tensor t = require_tensor(tensor, "is_pinned");
    return PyBool_FromLong(t->storage && t->storage->pinned);
  });
}
PyObject* configure(PyObject*, PyObject* settings) {
  const char* text = PyUnicode_AsUTF8(settings);
  if (!text) return nullptr;
  return guarded([&]() -> PyObject* {
    cuda::Allocator::configure(text);
    Py_RETURN_NONE;
  });
}
PyObject* record_history(PyObject*, PyObject* on) {
  const int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  cuda::Allocator::history = value == 1;
  Py_RETURN_NONE;
}
}  // namespace

PyMethodDef device_memory_functions[] = {{"_device_memory_stats", memory_stats, METH_VARARGS, nullptr},
                                         {"_device_memory_snapshot", memory_snapshot, METH_VARARGS, nullptr},
                                         {"_device_empty_cache", empty_device_cache, METH_VARARGS, nullptr},
                                         {"_device_reset_peak", reset_peak, METH_VARARGS, nullptr},
                                         {"_device_mem_get_info", mem_get_info, METH_VARARGS, nullptr},
                                         {"_device_set_limit", set_limit, METH_VARARGS, nullptr},
                                         {"_pin_memory", pin_memory, METH_VARARGS, nullptr},
                                         {"_is_pinned", is_pinned, METH_O, nullptr},
                                         {"_device_record_history", record_history, METH_O, nullptr},
                                         {"_device_configure_memory", configure, METH_O, nullptr},
                                         {}};

}  // namespace strata::python
