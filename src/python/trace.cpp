// strata.trace: starts and ends recordings, and gives their contents to Python.
#include "python/trace.h"

#include "base/trace_memory.h"
#include "python/capsule.h"
#include "python/texts.h"
#include "system/trace/trace.h"

namespace strata::python {

using tracing::Fact, tracing::Key, tracing::Layer;
using OwnedSpan = std::shared_ptr<tracing::Span>;
template <> constexpr const char* kCapsule<tracing::Trace> = "strata.trace";
template <> constexpr const char* kCapsule<OwnedSpan> = "strata.span";

namespace {

PyObject* start(PyObject*, PyObject* bytes) {
  return guarded([&] {
    const auto most = checked(PyLong_AsSsize_t(bytes));
    STRATA_CHECK(most > 0, Value, "trace: memory is {}, expected a number of bytes above 0", most);
    tracing::start(static_cast<size_t>(most));
    return Py_NewRef(Py_None);
  });
}

PyObject* stop(PyObject*, PyObject*) {
  return guarded([&] {
    tracing::Recording recording;
    {
      const WithoutGil unlock;  // it waits for devices
      recording = tracing::stop();
    }
    return capsule(tracing::Trace(std::move(recording)));
  });
}

PyObject* is_on(PyObject*, PyObject*) { return PyBool_FromLong(tracing::enabled.load(std::memory_order_relaxed)); }

// The value of a fact, or None.
PyObject* value_of(const Fact& f) {
  switch (f.key->kind) {
    case Key::Kind::Integer: return PyLong_FromLongLong(f.integer);
    case Key::Kind::Number: return PyFloat_FromDouble(f.number);
    case Key::Kind::Text:
    case Key::Kind::Copied: return text_of(f.text);
    case Key::Kind::Tensor: break;
  }
  Object sizes(need(PyTuple_New(static_cast<Py_ssize_t>(f.sizes.size()))));
  for (size_t i = 0; i < f.sizes.size(); ++i)
    PyTuple_SET_ITEM(sizes.get(), static_cast<Py_ssize_t>(i), need(PyLong_FromLongLong(f.sizes[i])));
  return Py_BuildValue("(NN)", text_of(f.text), sizes.release());
}

// _trace_events(trace): a dict per span, in the order of their ends; facts are a list of pairs, since keys may repeat. `parent` is
// the number of an event, or -1; `flops` is 0 if it is not known.
PyObject* events(PyObject*, PyObject* handle) {
  return guarded([&] {
    const tracing::Trace& t = inside<tracing::Trace>(handle);
    Object list(need(PyList_New(0)));
    for (size_t i = 0; i < t.recording().events.size(); ++i) {
      const tracing::Event& e = t.recording().events[i];
      Object facts(need(PyList_New(0)));
      for (const Fact& f : t.recording().facts(e)) append(facts, Py_BuildValue("(sN)", f.key->name, need(value_of(f))));
      append(list,
             Py_BuildValue("{s:s,s:N,s:N,s:N,s:K,s:L,s:L,s:I,s:i,s:L}", "layer", tracing::name_of(e.layer), "name",
                           text_of(e.name), "detail", text_of(t.recording().detail(e)), "facts", facts.release(), "id",
                           static_cast<unsigned long long>(e.id), "begin_ns", static_cast<long long>(e.begin_ns),
                           "end_ns", static_cast<long long>(e.end_ns), "thread", e.thread, "parent", t.parent(i),
                           "flops", static_cast<long long>(t.flops(i))));
    }
    return list.release();
  });
}

// _trace_work(trace): a dict for each kernel that is not inside another one, in the order in which they began
PyObject* work(PyObject*, PyObject* handle) {
  return guarded([&] {
    Object list(need(PyList_New(0)));
    for (const tracing::Work& w : inside<tracing::Trace>(handle).work()) {
      Object rejected(need(PyList_New(0)));
      for (const std::string& reason : w.rejected) append(rejected, text_of(reason));
      append(list,
             Py_BuildValue("{s:N,s:N,s:N,s:L,s:L,s:L,s:L,s:I,s:N}", "module", text_of(w.module), "op", text_of(w.op),
                           "kernel", text_of(w.kernel), "host_ns", static_cast<long long>(w.host_ns), "device_ns",
                           static_cast<long long>(w.device_ns), "bytes", static_cast<long long>(w.bytes), "flops",
                           static_cast<long long>(w.flops), "launches", w.launches, "rejected", rejected.release()));
    }
    return list.release();
  });
}

PyObject* rows(PyObject*, PyObject* args) {
  PyObject* handle;
  const char* by;
  if (!PyArg_ParseTuple(args, "Os", &handle, &by)) return nullptr;
  return guarded([&] {
    Object list(need(PyList_New(0)));
    for (const tracing::Row& r : inside<tracing::Trace>(handle).rows(by))
      append(list, Py_BuildValue("{s:N,s:K,s:L,s:L,s:L,s:L,s:L}", "key", text_of(r.key), "calls",
                                 static_cast<unsigned long long>(r.calls), "total_ns",
                                 static_cast<long long>(r.total_ns), "self_ns", static_cast<long long>(r.self_ns),
                                 "device_ns", static_cast<long long>(r.device_ns), "bytes",
                                 static_cast<long long>(r.bytes), "flops", static_cast<long long>(r.flops)));
    return list.release();
  });
}

// _trace_text(trace, "table" | "tree" | "html" | "svg", by, most, peak bytes per second=0, peak operations per second=0)
PyObject* text(PyObject*, PyObject* args) {
  PyObject* handle;
  const char *what, *by;
  Py_ssize_t most;
  tracing::Peaks peaks;
  if (!PyArg_ParseTuple(args, "Ossn|dd", &handle, &what, &by, &most, &peaks.bytes, &peaks.flops)) return nullptr;
  return guarded([&] {
    STRATA_CHECK(most >= 0, Value, "trace: the number of lines is {}, expected 0 or more", most);
    const tracing::Trace& t = inside<tracing::Trace>(handle);
    const std::string_view form = what;
    const auto lines = static_cast<size_t>(most);
    return text_of(form == "table"  ? t.table(by, lines, peaks)
                   : form == "tree" ? t.tree(lines)
                   : form == "html" ? t.to_html()
                                    : t.flame_svg());
  });
}

PyObject* save(PyObject*, PyObject* args) {
  PyObject *handle, *path;
  if (!PyArg_ParseTuple(args, "OO&", &handle, PyUnicode_FSConverter, &path)) return nullptr;
  const Object owned(path);
  return guarded([&] {
    const tracing::Trace t = inside<tracing::Trace>(handle);
    const std::string file(PyBytes_AS_STRING(path), static_cast<size_t>(PyBytes_GET_SIZE(path)));
    const WithoutGil unlock;
    t.save(file);
    return Py_NewRef(Py_None);
  });
}

PyObject* count(PyObject*, PyObject* handle) {  // spans, and those that were dropped
  return guarded([&] {
    const tracing::Recording& r = inside<tracing::Trace>(handle).recording();
    return Py_BuildValue("KK", static_cast<unsigned long long>(r.events.size()),
                         static_cast<unsigned long long>(r.dropped));
  });
}

// _trace_open("user" | "module", name): a span that _trace_close ends; None while nothing is recorded
PyObject* open_span(PyObject*, PyObject* args) {
  const char *layer, *name;
  if (!PyArg_ParseTuple(args, "ss", &layer, &name)) return nullptr;
  return guarded([&] {
    if (!tracing::enabled.load(std::memory_order_relaxed)) return Py_NewRef(Py_None);
    return capsule(std::make_shared<tracing::Span>(*layer == 'm' ? Layer::Module : Layer::User, tracing::intern(name)));
  });
}
// _trace_ranges(on): whether spans are sent to NVTX
PyObject* ranges(PyObject*, PyObject* on) {
  return guarded([&] {
    tracing::send_ranges(checked(PyObject_IsTrue(on)) != 0);
    return Py_NewRef(Py_None);
  });
}
// _trace_memory(on): whether recordings have the memory that is given back
PyObject* watch_memory(PyObject*, PyObject* on) {
  return guarded([&] {
    tracing::watches_memory.store(checked(PyObject_IsTrue(on)) != 0);
    return Py_NewRef(Py_None);
  });
}
PyObject* push_range(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  return guarded([&] { return need(PyLong_FromLong(tracing::push_range(text))); });
}
PyObject* pop_range(PyObject*, PyObject*) {
  return guarded([&] { return need(PyLong_FromLong(tracing::pop_range())); });
}

PyObject* close_span(PyObject*, PyObject* handle) {
  return guarded([&] {
    if (handle != Py_None) inside<OwnedSpan>(handle).reset();
    return Py_NewRef(Py_None);
  });
}

}  // namespace

PyMethodDef trace_functions[] = {
  {"_trace_start", start, METH_O, nullptr},       {"_trace_stop", stop, METH_NOARGS, nullptr},
  {"_trace_is_on", is_on, METH_NOARGS, nullptr},  {"_trace_events", events, METH_O, nullptr},
  {"_trace_work", work, METH_O, nullptr},         {"_trace_rows", rows, METH_VARARGS, nullptr},
  {"_trace_text", text, METH_VARARGS, nullptr},   {"_trace_save", save, METH_VARARGS, nullptr},
  {"_trace_count", count, METH_O, nullptr},       {"_trace_memory", watch_memory, METH_O, nullptr},
  {"_trace_ranges", ranges, METH_O, nullptr},     {"_nvtx_push", push_range, METH_O, nullptr},
  {"_nvtx_pop", pop_range, METH_NOARGS, nullptr}, {"_trace_open", open_span, METH_VARARGS, nullptr},
  {"_trace_close", close_span, METH_O, nullptr},  {}};

}  // namespace strata::python
