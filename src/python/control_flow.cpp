#include "python/control_flow.h"

#include <memory>

#include "compile/control_flow.h"
#include "python/kernels.h"

namespace strata::python {
namespace {

// An exception of a function of the user. Captures may go on without it; one that ends the program is a PythonError as usual.
class Raised : public std::exception {
 public:
  Raised() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (const Object text(PyObject_Str(value)); text && PyUnicode_Check(text.get()))
      if (const char* utf8 = PyUnicode_AsUTF8(text.get())) what_ = utf8;
    PyErr_Clear();
    what_ = std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) + ": " + what_;
    const auto shared = [](PyObject* o) { return std::shared_ptr<PyObject>(o, [](PyObject* p) { Py_XDECREF(p); }); };
    type_ = shared(type);
    value_ = shared(value);
    trace_ = shared(trace);
  }
  void restore() const { PyErr_Restore(Py_XNewRef(type_.get()), Py_XNewRef(value_.get()), Py_XNewRef(trace_.get())); }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::shared_ptr<PyObject> type_, value_, trace_;
  std::string what_;
};

PyObject* from_user(PyObject* result) {
  if (result) return result;
  if (PyErr_ExceptionMatches(PyExc_Exception)) throw Raised();
  throw PythonError{};
}
template <class F> PyObject* with_user_functions(F f) {
  return guarded([&]() -> PyObject* {
    try {
      return f();
    } catch (const Raised& e) {
      e.restore();
      throw PythonError{};
    }
  });
}

std::vector<Tensor> tensors_of(PyObject* list) {
  const Object items(need(PySequence_Fast(list, "expected a list of tensors")));
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    tensors.push_back(require_tensor(PySequence_Fast_GET_ITEM(items.get(), i), "control flow"));
  return tensors;
}
// function: a list of tensors to another one.
PureFunction function_of(PyObject* function) {
  return [function](const std::vector<Tensor>& given) {
    const Object list(wrap_list(given));
    const Object results(from_user(PyObject_CallOneArg(function, list.get())));
    return tensors_of(results.get());
  };
}

}  // namespace

// (pred, true_fn, false_fn, operands, mismatch) -> (whether true_fn was taken, its results). mismatch() is the difference between the
// structures of both results as text.
PyObject* py_cond(PyObject*, PyObject* args) {
  PyObject *pred, *true_fn, *false_fn, *operands, *mismatch;
  if (!PyArg_ParseTuple(args, "OOOOO", &pred, &true_fn, &false_fn, &operands, &mismatch)) return nullptr;
  return with_user_functions([&]() -> PyObject* {
    graph::CondCall call{.pred = require_tensor(pred, "cond"),
                         .true_fn = function_of(true_fn),
                         .false_fn = function_of(false_fn),
                         .operands = tensors_of(operands),
                         .mismatch = [&] {
                           const Object text(from_user(PyObject_CallNoArgs(mismatch)));
                           return text_of(text.get(), "a difference");
                         }};
    const std::vector<Tensor> results = graph::run(call);
    return Py_BuildValue("(NN)", PyBool_FromLong(call.taken), need(wrap_list(results)));
  });
}
// (cond_fn, body_fn, carried, max_trips) -> what is carried at the end
PyObject* py_while_loop(PyObject*, PyObject* args) {
  PyObject *cond_fn, *body_fn, *carried, *max_trips;
  if (!PyArg_ParseTuple(args, "OOOO", &cond_fn, &body_fn, &carried, &max_trips)) return nullptr;
  return with_user_functions([&]() -> PyObject* {
    LoopOptions options;
    if (max_trips != Py_None) options.max_trips = checked(PyLong_AsLongLong(max_trips));
    const auto go_on = [&, condition = function_of(cond_fn)](const std::vector<Tensor>& given) {
      return condition(given).at(0);
    };
    return wrap_list(while_loop(go_on, function_of(body_fn), tensors_of(carried), options));
  });
}
// (combine_fn, init, xs, dim, reverse, length) -> what is carried at the end, then the stacked results
PyObject* py_scan(PyObject*, PyObject* args) {
  PyObject *combine_fn, *init, *xs, *length;
  long long dim;
  int reverse;
  if (!PyArg_ParseTuple(args, "OOOLpO", &combine_fn, &init, &xs, &dim, &reverse, &length)) return nullptr;
  return with_user_functions([&]() -> PyObject* {
    ScanOptions options{.dim = dim, .reverse = reverse != 0};
    if (length != Py_None) options.length = checked(PyLong_AsLongLong(length));
    return wrap_list(scan(function_of(combine_fn), tensors_of(init), tensors_of(xs), options));
  });
}
PyObject* py_makes_graph(PyObject*, PyObject*) { return PyBool_FromLong(graph::is_capturing()); }

}  // namespace strata::python
