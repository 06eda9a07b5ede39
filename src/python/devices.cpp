// Devices from Python: the functions of strata.cuda and strata.vgpu. The first argument of each is the device type's
// name.
#include "python/devices.h"
#include "cuda/driver/vgpu.h"
#include "cuda/libs/libraries.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/event.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/images.h"
#include "cuda/runtime/peer.h"
#include "cuda/vgpu/summary.h"
#include "python/capsule.h"

namespace strata::python {

using cuda::Event;
using cuda::Graph;
using cuda::Stream;
template <> constexpr const char* kCapsule<Stream> = "strata.stream";
template <> constexpr const char* kCapsule<Event> = "strata.event";
template <> constexpr const char* kCapsule<Graph> = "strata.graph";

namespace {

PyObject* why_not(PyObject*, PyObject* args) {
  return with_device(args, [](DeviceType type, int) -> PyObject* {
    const std::string why = Runtime::why_not(type);
    return why.empty() ? Py_NewRef(Py_None) : PyUnicode_FromString(why.c_str());
  });
}
PyObject* device_count(PyObject*, PyObject* args) {
  return with_device(args, [](DeviceType type, int) -> PyObject* {
    return PyLong_FromLong(Runtime::why_not(type).empty() ? Runtime::get(type).count() : 0);
  });
}
PyObject* is_initialized(PyObject*, PyObject* args) {
  return with_device(args, [](DeviceType type, int) { return PyBool_FromLong(Runtime::opened(type) != nullptr); });
}
PyObject* current_device(PyObject*, PyObject* args) {
  return with_device(args, [](DeviceType type, int) { return PyLong_FromLong(cuda::current_index(type)); });
}
PyObject* set_device(PyObject*, PyObject* args) {
  return with_device(args, [](DeviceType type, int index) -> PyObject* {
    cuda::set_current_index(type, index);
    Py_RETURN_NONE;
  });
}
PyObject* properties(PyObject*, PyObject* args) {
  return with_gpu(args, [](const Gpu& g) -> PyObject* {
    const cuda::Properties& p = g.properties;
    return Py_BuildValue("{s:s,s:i,s:i,s:n,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "name", p.name.c_str(), "major",
                         p.major, "minor", p.minor, "total_memory", static_cast<Py_ssize_t>(p.total_memory),
                         "multi_processor_count", p.multiprocessors, "warp_size", p.warp_size, "max_threads_per_block",
                         p.max_threads_per_block, "max_threads_per_multi_processor", p.max_threads_per_multiprocessor,
                         "regs_per_multiprocessor", p.registers_per_multiprocessor, "shared_memory_per_block",
                         p.shared_per_block, "shared_memory_per_block_optin", p.shared_per_block_optin, "L2_cache_size",
                         p.l2_bytes, "clock_rate", p.clock_khz);
  });
}
PyObject* can_access_peer(PyObject*, PyObject* args) {
  const char* name = nullptr;
  int index = 0, peer = 0;
  if (!PyArg_ParseTuple(args, "sii", &name, &index, &peer)) return nullptr;
  return guarded([&] {
    Runtime& r = Runtime::get(type_of(name));
    return PyBool_FromLong(index != peer && cuda::can_access_peer(r[index], r[peer]));
  });
}
PyObject* synchronize(PyObject*, PyObject* args) {
  return with_gpu(args, [](const Gpu& g) -> PyObject* {
    {
      WithoutGil unlock;
      device_hooks.synchronize(g.device());
    }
    Py_RETURN_NONE;
  });
}

// --- streams, events, graphs: capsules --------------------------------------------------------------------------------

PyObject* stream_create(PyObject*, PyObject* args) {
  const char* name = nullptr;
  int index = -1, priority = 0;
  if (!PyArg_ParseTuple(args, "sii", &name, &index, &priority)) return nullptr;
  return guarded([&] { return capsule(Stream::create(gpu_of(name, index), priority)); });
}
PyObject* stream_current(PyObject*, PyObject* args) {
  return with_gpu(args, [](Gpu& g) { return capsule(Stream::current(g)); });
}
PyObject* stream_default(PyObject*, PyObject* args) {
  return with_gpu(args, [](Gpu& g) { return capsule(Stream::standard(g)); });
}
PyObject* stream_set(PyObject*, PyObject* s) {
  return guarded([&]() -> PyObject* {
    Stream::set_current(inside<Stream>(s));
    Py_RETURN_NONE;
  });
}
PyObject* stream_synchronize(PyObject*, PyObject* s) {
  return guarded([&]() -> PyObject* {
    const Stream& stream = inside<Stream>(s);
    {
      WithoutGil unlock;
      stream.synchronize();
    }
    Py_RETURN_NONE;
  });
}
PyObject* stream_query(PyObject*, PyObject* s) {
  return guarded([&] { return PyBool_FromLong(inside<Stream>(s).query()); });
}
PyObject* stream_info(PyObject*, PyObject* s) {  // device number, handle
  return guarded([&] {
    const Stream& stream = inside<Stream>(s);
    return Py_BuildValue("iK", stream.gpu().index, reinterpret_cast<unsigned long long>(stream.handle()));
  });
}
PyObject* event_create(PyObject*, PyObject* args) {
  const char* name = nullptr;
  int index = -1, timing = 0;
  if (!PyArg_ParseTuple(args, "sip", &name, &index, &timing)) return nullptr;
  return guarded([&] { return capsule(Event(gpu_of(name, index), timing != 0)); });
}
template <void (Event::*f)(const Stream&) const> PyObject* event_and_stream(PyObject*, PyObject* args) {
  PyObject *e, *s;
  if (!PyArg_ParseTuple(args, "OO", &e, &s)) return nullptr;
  return guarded([&]() -> PyObject* {
    (inside<Event>(e).*f)(inside<Stream>(s));
    Py_RETURN_NONE;
  });
}
PyObject* event_synchronize(PyObject*, PyObject* e) {
  return guarded([&]() -> PyObject* {
    const Event& event = inside<Event>(e);
    {
      WithoutGil unlock;
      event.synchronize();
    }
    Py_RETURN_NONE;
  });
}
PyObject* event_query(PyObject*, PyObject* e) {
  return guarded([&] { return PyBool_FromLong(inside<Event>(e).query()); });
}
PyObject* event_elapsed(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO", &a, &b)) return nullptr;
  return guarded([&] { return PyFloat_FromDouble(inside<Event>(a).elapsed_ms(inside<Event>(b))); });
}
PyObject* record_stream(PyObject*, PyObject* args) {
  PyObject *t, *s;
  if (!PyArg_ParseTuple(args, "OO", &t, &s)) return nullptr;
  return guarded([&]() -> PyObject* {
    const Tensor tensor = require_tensor(t, "record_stream");
    const Stream& stream = inside<Stream>(s);
    STRATA_CHECK(tensor.device() == stream.gpu().device(), Runtime,
                 "record_stream: the tensor is on {}, the stream of {}", to_string(tensor.device()),
                 to_string(stream.gpu().device()));
    stream.gpu().allocator->record_stream(*tensor->storage, stream.handle());
    Py_RETURN_NONE;
  });
}
PyObject* graph_begin(PyObject*, PyObject* s) {
  return guarded([&] { return capsule(Graph::begin(inside<Stream>(s))); });
}
PyObject* is_capturing(PyObject*, PyObject* device) {
  return guarded([&] { return PyBool_FromLong(cuda::is_capturing(device_of_object(device))); });
}
PyObject* graph_end(PyObject*, PyObject* g) {
  return guarded([&]() -> PyObject* {
    inside<Graph>(g).end();
    Py_RETURN_NONE;
  });
}
PyObject* graph_update(PyObject*, PyObject* args) {
  PyObject *g, *other;
  if (!PyArg_ParseTuple(args, "OO", &g, &other)) return nullptr;
  return guarded([&]() -> PyObject* {
    inside<Graph>(g).update(inside<Graph>(other));
    Py_RETURN_NONE;
  });
}
PyObject* graph_replay(PyObject*, PyObject* args) {
  PyObject *g, *s;
  if (!PyArg_ParseTuple(args, "OO", &g, &s)) return nullptr;
  return guarded([&]() -> PyObject* {
    inside<Graph>(g).replay(inside<Stream>(s));
    Py_RETURN_NONE;
  });
}

// --- virtual GPU -----------------------------------------------------------------------------------------------------

PyObject* vgpu_counters(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    Object list(need(PyList_New(0)));
    if (!Runtime::opened(DeviceType::Vgpu)) return list.release();
    for (const cuda::vgpu::Counters& c : cuda::driver::take_vgpu_counters()) {
      const auto n = [](uint64_t v) { return static_cast<unsigned long long>(v); };
      const Object item(need(Py_BuildValue(
        "{s:s,s:s,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:d,s:d,s:s,s:d,s:s}", "kernel", c.kernel.c_str(),
        "op", c.op.c_str(), "blocks", n(c.blocks), "warps", n(c.warps), "warp_instructions", n(c.warp_instructions),
        "thread_instructions", n(c.thread_instructions), "branches", n(c.branches), "divergent_branches",
        n(c.divergent_branches), "barriers", n(c.barriers), "atomics", n(c.atomics), "global_requests",
        n(c.global_requests), "global_sectors", n(c.global_sectors), "shared_requests", n(c.shared_requests),
        "shared_passes", n(c.shared_passes), "simt_efficiency", c.simt_efficiency(), "occupancy", c.occupancy.fraction,
        "limiter", c.occupancy.limiter, "estimated_seconds", c.estimated.seconds, "bound", c.estimated.bound)));
      need(PyList_Append(list.get(), item.get()));
    }
    return list.release();
  });
}

PyObject* vgpu_summary(PyObject*, PyObject* args) {
  Py_ssize_t most;
  if (!PyArg_ParseTuple(args, "n", &most)) return nullptr;
  return guarded([&] {
    STRATA_CHECK(most >= 0, Value, "summary: most is {}, expected 0 or more kernels", most);
    cuda::vgpu::Summary summary;
    if (Runtime::opened(DeviceType::Vgpu))
      for (const cuda::vgpu::Counters& c : cuda::driver::take_vgpu_counters()) summary.add(c);
    const std::string text = summary.to_text(static_cast<size_t>(most));
    return need(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  });
}

PyObject* vgpu_ptx(PyObject*, PyObject* args) {
  const char* kernel;
  if (!PyArg_ParseTuple(args, "s", &kernel)) return nullptr;
  return guarded([&] { return need(PyUnicode_FromString(cuda::ptx_of(kernel).c_str())); });
}

PyObject* get_default_device(PyObject*, PyObject*) { return wrap(thread_state.default_device); }
PyObject* set_default_device(PyObject*, PyObject* device) {
  return guarded([&]() -> PyObject* {
    thread_state.default_device = device == Py_None ? Device{} : require_available(device_of_object(device));
    Py_RETURN_NONE;
  });
}
}  // namespace

// NVIDIA's libraries: name, version, path, other copies, the reason if unusable.
PyObject* libraries(PyObject*, PyObject*) {
  return guarded([&] {
    Object list(need(PyList_New(0)));
    for (size_t i = 0; i < cuda::kVendors; ++i) {
      const cuda::VendorLibrary& v = cuda::vendor_library(static_cast<cuda::Vendor>(i));
      Object copies(need(PyList_New(0)));
      for (const std::string& path : v.library.shadowed()) append(copies, PyUnicode_FromString(path.c_str()));
      append(list, Py_BuildValue("{s:s,s:s,s:s,s:N,s:s}", "name", v.library.name().c_str(), "version",
                                 v.version.c_str(), "path", v.library.path().c_str(), "other_copies", copies.release(),
                                 "why_not", v.library.why().c_str()));
    }
    return list.release();
  });
}

PyMethodDef device_functions[] = {{"_device_why_not", why_not, METH_VARARGS, nullptr},
                                  {"_cuda_libraries", libraries, METH_NOARGS, nullptr},
                                  {"_device_count", device_count, METH_VARARGS, nullptr},
                                  {"_device_is_initialized", is_initialized, METH_VARARGS, nullptr},
                                  {"_device_current", current_device, METH_VARARGS, nullptr},
                                  {"_device_set", set_device, METH_VARARGS, nullptr},
                                  {"_device_properties", properties, METH_VARARGS, nullptr},
                                  {"_device_can_access_peer", can_access_peer, METH_VARARGS, nullptr},
                                  {"_device_synchronize", synchronize, METH_VARARGS, nullptr},
                                  {"_stream_create", stream_create, METH_VARARGS, nullptr},
                                  {"_stream_current", stream_current, METH_VARARGS, nullptr},
                                  {"_stream_default", stream_default, METH_VARARGS, nullptr},
                                  {"_stream_set", stream_set, METH_O, nullptr},
                                  {"_stream_synchronize", stream_synchronize, METH_O, nullptr},
                                  {"_stream_query", stream_query, METH_O, nullptr},
                                  {"_stream_info", stream_info, METH_O, nullptr},
                                  {"_event_create", event_create, METH_VARARGS, nullptr},
                                  {"_event_record", event_and_stream<&Event::record>, METH_VARARGS, nullptr},
                                  {"_event_wait", event_and_stream<&Event::wait_in>, METH_VARARGS, nullptr},
                                  {"_event_synchronize", event_synchronize, METH_O, nullptr},
                                  {"_event_query", event_query, METH_O, nullptr},
                                  {"_event_elapsed", event_elapsed, METH_VARARGS, nullptr},
                                  {"_record_stream", record_stream, METH_VARARGS, nullptr},
                                  {"_graph_begin", graph_begin, METH_O, nullptr},
                                  {"_is_capturing", is_capturing, METH_O, nullptr},
                                  {"_graph_end", graph_end, METH_O, nullptr},
                                  {"_graph_update", graph_update, METH_VARARGS, nullptr},
                                  {"_graph_replay", graph_replay, METH_VARARGS, nullptr},
                                  {"_vgpu_counters", vgpu_counters, METH_NOARGS, nullptr},
                                  {"_vgpu_ptx", vgpu_ptx, METH_VARARGS, nullptr},
                                  {"_vgpu_summary", vgpu_summary, METH_VARARGS, nullptr},
                                  {"_get_default_device", get_default_device, METH_NOARGS, nullptr},
                                  {"_set_default_device", set_default_device, METH_O, nullptr},
                                  {}};

}  // namespace strata::python
