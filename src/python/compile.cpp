// The bindings of strata.compile(): calls of Python functions whose ops are deferred.
#include "compile/log.h"
#include "compile/rehearsal.h"
#include "compile/tape.h"
#include "cuda/pointwise/fused.h"
#include "dispatch/deferred.h"
#include "python/backward_pass.h"
#include "python/binding.h"
#include "python/overrides.h"

namespace strata::python {
namespace {

PyObject* wrap_texts(const std::vector<std::string>& texts) {
  Object list(need(PyList_New(static_cast<Py_ssize_t>(texts.size()))));
  for (size_t k = 0; k < texts.size(); ++k)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(k), need(PyUnicode_FromString(texts[k].c_str())));
  return list.release();
}

PyObject* wrap_calls(const std::vector<graph::LoggedCall>& calls) {
  Object list(need(PyList_New(0)));
  for (const graph::LoggedCall& c : calls)
    append(list, Py_BuildValue("{s:s,s:s,s:s,s:s,s:N,s:L,s:L}", "text", c.text.c_str(), "op", c.op.c_str(), "line",
                               c.line.c_str(), "scope", c.scope.c_str(), "results", wrap_texts(c.results), "bytes_read",
                               static_cast<long long>(c.bytes_read), "bytes_written",
                               static_cast<long long>(c.bytes_written)));
  return list.release();
}
PyObject* wrap_breaks(const std::vector<graph::LoggedBreak>& breaks) {
  Object list(need(PyList_New(0)));
  for (const graph::LoggedBreak& b : breaks)
    append(list, Py_BuildValue("{s:n,s:s,s:s}", "after", static_cast<Py_ssize_t>(b.after), "reason", b.reason.c_str(),
                               "line", b.line.c_str()));
  return list.release();
}

PyObject* wrap_groups(const std::vector<FusedGroup>& groups) {
  Object list(need(PyList_New(static_cast<Py_ssize_t>(groups.size()))));
  for (size_t i = 0; i < groups.size(); ++i) {
    const FusedGroup& g = groups[i];
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                    need(Py_BuildValue(
                      "{s:N,s:N,s:N,s:n,s:n,s:L,s:L,s:s,s:s,s:s,s:s,s:s}", "ops", wrap_texts(g.ops), "lines",
                      wrap_texts(g.lines), "shape", make_size(Shape(g.shape.data(), g.shape.size())), "stored",
                      g.stored, "dropped", g.dropped, "bytes", static_cast<long long>(g.bytes), "bytes_one_by_one",
                      static_cast<long long>(g.bytes_one_by_one), "ended_by", g.ended_by.c_str(), "reason",
                      g.reason.c_str(), "device", g.device.c_str(), "how", g.how.c_str(), "source", g.source.c_str())));
  }
  return list.release();
}

}  // namespace

// _call_deferred(function, args, kwargs): its result.
PyObject* py_call_deferred(PyObject*, PyObject* const* given, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    STRATA_CHECK(n == 3, Type, "_call_deferred: expected a function, its arguments and its keywords");
    Deferral deferral;
    Object result(need(PyObject_Call(given[0], given[1], given[2] == Py_None ? nullptr : given[2])));
    deferral.finish();
    return result.release();
  });
}
// The same; returns the result, the fused groups, all calls of ops, and where values were asked for.
PyObject* py_call_explained(PyObject*, PyObject* const* given, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    STRATA_CHECK(n == 3, Type, "_call_explained: expected a function, its arguments and its keywords");
    std::vector<FusedGroup> groups;
    graph::ProgramLog log;
    Object result;
    {
      Deferral deferral(&groups);
      std::optional<Observing> observing;
      if (!thread_state.observed) observing.emplace(log);
      result = Object(need(PyObject_Call(given[0], given[1], given[2] == Py_None ? nullptr : given[2])));
      observing.reset();
      deferral.finish();
    }
    return Py_BuildValue("NNNN", result.release(), wrap_groups(groups), wrap_calls(log.calls), wrap_breaks(log.breaks));
  });
}
// For tests. _defer_everywhere(least): from now on, ops of this thread with at least so many elements are deferred.
PyObject* py_defer_everywhere(PyObject*, PyObject* least) {
  return guarded([&]() -> PyObject* {
    set_least_deferred(checked(PyLong_AsLongLong(least)));
    fill_promised(true);
    static thread_local Deferral* const forever = new Deferral;  // never ends
    (void)forever;
    Py_RETURN_NONE;
  });
}
// What STRATA_COMPILE asks for, as one of its texts.
PyObject* py_compile_mode(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    constexpr const char* kTexts[] = {"0", "1", "check", "everywhere"};
    return PyUnicode_FromString(kTexts[static_cast<size_t>(compile_mode())]);
  });
}
// For tests. _follow_backward(function, args, kwargs, roots): its result; the graph of its backward pass from these roots is checked.
PyObject* py_follow_backward(PyObject*, PyObject* const* given, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    STRATA_CHECK(n == 4, Type, "_follow_backward: expected a function, its arguments, its keywords and the roots");
    const auto run = [&] { return need(PyObject_Call(given[0], given[1], given[2] == Py_None ? nullptr : given[2])); };
    if (graph::program_must_run() || active_modes) return run();
    Object result;
    graph::follow_and_check([&] { result = Object(run()); },
                            graph::leaves_of(tensors_of(given[3], "_follow_backward")));
    return result.release();
  });
}
PyObject* py_followed_parts(PyObject*, PyObject*) {
  const graph::FollowedParts parts = graph::followed_parts();
  return Py_BuildValue("KK", static_cast<unsigned long long>(parts.checked),
                       static_cast<unsigned long long>(parts.refused));
}
PyObject* py_check_compiled(PyObject*, PyObject* on) {
  return guarded([&]() -> PyObject* { return PyBool_FromLong(check_compiled(checked(PyObject_IsTrue(on)))); });
}
// For tests. _plant_compile_faults(op of groups, op of graphs): their results are wrong.
PyObject* py_plant_compile_faults(PyObject*, PyObject* const* given, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    STRATA_CHECK(n == 2, Type, "_plant_compile_faults: expected two names of ops");
    plant_group_fault(shown(given[0]));
    graph::plant_graph_fault(shown(given[1]));
    Py_RETURN_NONE;
  });
}
PyObject* py_set_fused_kernels(PyObject*, PyObject* on) {
  return guarded([&]() -> PyObject* { return PyBool_FromLong(cuda::set_fused_kernels(checked(PyObject_IsTrue(on)))); });
}
PyObject* py_set_least_deferred(PyObject*, PyObject* least) {
  return guarded(
    [&]() -> PyObject* { return PyLong_FromLongLong(set_least_deferred(checked(PyLong_AsLongLong(least)))); });
}

}  // namespace strata::python
