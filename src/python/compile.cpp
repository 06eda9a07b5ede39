// The bindings of strata.compile(): calls of Python functions whose ops are deferred.
#include "compile/rehearsal.h"
#include "cuda/pointwise/fused.h"
#include "dispatch/deferred.h"
#include "python/binding.h"

namespace strata::python {
namespace {

PyObject* wrap_groups(const std::vector<FusedGroup>& groups) {
  Object list(need(PyList_New(static_cast<Py_ssize_t>(groups.size()))));
  for (size_t i = 0; i < groups.size(); ++i) {
    const FusedGroup& g = groups[i];
    Object ops(need(PyList_New(static_cast<Py_ssize_t>(g.ops.size()))));
    for (size_t k = 0; k < g.ops.size(); ++k)
      PyList_SET_ITEM(ops.get(), static_cast<Py_ssize_t>(k), need(PyUnicode_FromString(g.ops[k].c_str())));
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                    need(Py_BuildValue("{s:N,s:N,s:n,s:n,s:L,s:L,s:s,s:s,s:s,s:s}", "ops", ops.release(), "shape",
                                       make_size(Shape(g.shape.data(), g.shape.size())), "stored", g.stored, "dropped",
                                       g.dropped, "bytes", static_cast<long long>(g.bytes), "bytes_one_by_one",
                                       static_cast<long long>(g.bytes_one_by_one), "ended_by", g.ended_by.c_str(),
                                       "device", g.device.c_str(), "how", g.how.c_str(), "source", g.source.c_str())));
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
// The same; returns the result and the list of fused groups.
PyObject* py_call_explained(PyObject*, PyObject* const* given, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    STRATA_CHECK(n == 3, Type, "_call_explained: expected a function, its arguments and its keywords");
    std::vector<FusedGroup> groups;
    Object result;
    {
      const Deferral deferral(&groups);
      result = Object(need(PyObject_Call(given[0], given[1], given[2] == Py_None ? nullptr : given[2])));
    }
    return Py_BuildValue("NN", result.release(), wrap_groups(groups));
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
