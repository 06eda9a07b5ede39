// The library interface of strata.optim: the table of optimizers, checks of their options, the step of L-BFGS.
#include "nn/optim/lbfgs.h"
#include "nn/optim/rules.h"
#include "nn/optim/schedules.h"
#include "python/parse.h"

namespace strata::python {
namespace {

PyObject* text_or_none(const char* s) { return s ? need(PyUnicode_FromString(s)) : Py_NewRef(Py_None); }
void set(const Object& dict, const char* key, PyObject* value) {
  const Object owned(need(value));
  need(PyDict_SetItemString(dict.get(), key, owned.get()));
}
int64_t to_count(PyObject* o) {
  const Object number(need(PyNumber_Index(o)));
  return checked(PyLong_AsLongLong(number.get()));
}
double to_double(PyObject* o) {
  const Object number(need(PyNumber_Float(o)));
  return PyFloat_AS_DOUBLE(number.get());
}

// {name: {"op", "options", "state": [(name, is a number, start, option to start from, option needed)], ...}}
PyObject* optimizer_rules(PyObject*, PyObject*) {
  return guarded([] {
    Object all(need(PyDict_New()));
    for (const optim::Rule& rule : optim::all_rules()) {
      const Object entry(need(PyDict_New())), states(need(PyList_New(0))), options(need(PyList_New(0)));
      for (const optim::StateKind& s : rule.state) {
        const Object one(need(Py_BuildValue("(sNdNN)", s.name.c_str(), PyBool_FromLong(s.number), s.start,
                                            text_or_none(s.option), text_or_none(s.needs))));
        need(PyList_Append(states.get(), one.get()));
      }
      bool first = false;  // the op needs to know whether the state is new
      for (const Param& p : rule.op->params) {
        first |= p.name == "first";
        if (p.type == ParamType::Tensors || p.name == "first") continue;
        const Object name(need(PyUnicode_FromStringAndSize(p.name.data(), static_cast<Py_ssize_t>(p.name.size()))));
        need(PyList_Append(options.get(), name.get()));
      }
      set(entry, "op", PyUnicode_FromString(rule.op->name.c_str()));
      set(entry, "options", Py_NewRef(options.get()));
      set(entry, "state", Py_NewRef(states.get()));
      set(entry, "first", PyBool_FromLong(first));
      set(entry, "matrices_only", PyBool_FromLong(rule.matrices_only));
      need(PyDict_SetItemString(all.get(), rule.name, entry.get()));
    }
    return all.release();
  });
}

// Numbers by name. Reading a number may run user code, which may change the dict, so the names are copied first.
struct OptionsOf {
  Object items;
  optim::Options options;
  explicit OptionsOf(PyObject* dict) : items(need(PyDict_Items(dict))) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      PyObject* pair = PyList_GET_ITEM(items.get(), i);
      const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(pair, 0));
      if (!name) throw PythonError{};
      options.push_back({name, to_double(PyTuple_GET_ITEM(pair, 1))});
    }
  }
};

PyObject* check_options(PyObject*, PyObject* args) {
  const char* name;
  PyObject* options;
  if (!PyArg_ParseTuple(args, "sO!", &name, &PyDict_Type, &options)) return nullptr;
  return guarded([&]() -> PyObject* {
    optim::check_options(name, OptionsOf(options).options);
    Py_RETURN_NONE;
  });
}

PyObject* check_new_state(PyObject*, PyObject* args) {
  const char* name;
  PyObject* device;
  if (!PyArg_ParseTuple(args, "sO", &name, &device)) return nullptr;
  return guarded([&]() -> PyObject* {
    optim::check_new_state(name, device_of_object(device));
    Py_RETURN_NONE;
  });
}

std::vector<Tensor> tensors_of(PyObject* list, const char* who) {
  const Object items(need(PySequence_Fast(list, "expected a list of tensors")));
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    tensors.push_back(require_tensor(PySequence_Fast_GET_ITEM(items.get(), i), who));
  return tensors;
}

std::vector<double> numbers_of(PyObject* list) {
  const Object items(need(PySequence_Tuple(list)));  // a copy: to_double() may run user code
  std::vector<double> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
    numbers.push_back(to_double(PyTuple_GET_ITEM(items.get(), i)));
  return numbers;
}

// Converts the state of L-BFGS between a Python dict with PyTorch's keys and the struct of the same names.
class StateDict {
 public:
  explicit StateDict(PyObject* dict) : dict_(dict) {}
  template <class F> void get(const char* key, F take) const {
    const Object name(need(PyUnicode_FromString(key)));
    PyObject* found = PyDict_GetItemWithError(dict_, name.get());
    if (!found && PyErr_Occurred()) throw PythonError{};
    const Object value(Py_XNewRef(found));  // reading it may change the dict
    if (found && found != Py_None) take(found);
  }
  void put(const char* key, PyObject* value) const {
    const Object owned(need(value));
    need(PyDict_SetItemString(dict_, key, owned.get()));
  }
  optim::LBFGSState read() const {
    optim::LBFGSState s;
    get("func_evals", [&](PyObject* o) { s.func_evals = to_count(o); });
    get("n_iter", [&](PyObject* o) { s.n_iter = to_count(o); });
    get("d", [&](PyObject* o) { s.d = require_tensor(o, "LBFGS"); });
    get("t", [&](PyObject* o) { s.t = to_double(o); });
    get("old_dirs", [&](PyObject* o) { s.old_dirs = tensors_of(o, "LBFGS"); });
    get("old_stps", [&](PyObject* o) { s.old_stps = tensors_of(o, "LBFGS"); });
    get("ro", [&](PyObject* o) { s.ro = numbers_of(o); });
    get("H_diag", [&](PyObject* o) { s.H_diag = to_double(o); });
    get("prev_flat_grad", [&](PyObject* o) { s.prev_flat_grad = require_tensor(o, "LBFGS"); });
    get("prev_loss", [&](PyObject* o) { s.prev_loss = to_double(o); });
    return s;
  }
  void write(const optim::LBFGSState& s) const {
    put("func_evals", PyLong_FromLongLong(s.func_evals));
    put("n_iter", PyLong_FromLongLong(s.n_iter));
    if (!s.d) return;
    put("d", wrap(s.d));
    put("t", PyFloat_FromDouble(s.t));
    put("old_dirs", list_of(s.old_dirs, [](const Tensor& t) { return wrap(t); }));
    put("old_stps", list_of(s.old_stps, [](const Tensor& t) { return wrap(t); }));
    put("ro", list_of(s.ro, PyFloat_FromDouble));
    put("H_diag", PyFloat_FromDouble(s.H_diag));
    put("prev_flat_grad", wrap(s.prev_flat_grad));
    put("prev_loss", PyFloat_FromDouble(s.prev_loss));
  }

 private:
  template <class T, class F> static PyObject* list_of(const std::vector<T>& values, F convert) {
    Object list(need(PyList_New(0)));
    for (const T& v : values) {
      const Object item(need(convert(v)));
      need(PyList_Append(list.get(), item.get()));
    }
    return list.release();
  }
  PyObject* dict_;
};

PyObject* lbfgs_step(PyObject*, PyObject* args) {
  PyObject *params, *options, *state, *closure;
  if (!PyArg_ParseTuple(args, "OO!O!O", &params, &PyDict_Type, &options, &PyDict_Type, &state, &closure))
    return nullptr;
  return guarded([&] {
    const StateDict dict(state);
    optim::LBFGSState s = dict.read();
    Object first;  // the closure's first result, unchanged
    const auto evaluate = [&] {
      Object result(call_python(closure, nullptr, 0));
      Tensor loss = is_tensor(result.get()) ? tensor_of(result.get()) : tensor_from_data(result.get(), DType::F64);
      if (!first) first = std::move(result);
      return loss;
    };
    optim::lbfgs_step(tensors_of(params, "LBFGS"), OptionsOf(options).options, s, evaluate);
    dict.write(s);
    return first ? first.release() : Py_NewRef(Py_None);
  });
}

std::vector<double> schedule_numbers(const optim::Schedule& schedule, PyObject* list, size_t least) {
  std::vector<double> numbers = numbers_of(list);
  STRATA_CHECK(numbers.size() >= least, Value, "{} needs {} numbers, got {}", schedule.name, least, numbers.size());
  return numbers;
}

// (name, numbers, epoch, lr, base, initial, from the epoch only) -> the rate
PyObject* scheduled_lr(PyObject*, PyObject* args) {
  const char* name;
  PyObject *list, *lr, *base;
  double epoch;
  int initial, alone;
  if (!PyArg_ParseTuple(args, "sOdOOpp", &name, &list, &epoch, &lr, &base, &initial, &alone)) return nullptr;
  return guarded([&] {
    const optim::Schedule& schedule = optim::find_schedule(name);
    const std::vector<double> numbers = schedule_numbers(schedule, list, schedule.options + schedule.given);
    const optim::Moment moment{epoch, to_double(lr), to_double(base), initial != 0};
    const auto formula = alone ? schedule.at : schedule.next;
    STRATA_CHECK(formula, Value, "{} has no formula of the epoch", name);
    return PyFloat_FromDouble(formula(moment, numbers));
  });
}
PyObject* check_schedule(PyObject*, PyObject* args) {
  const char* name;
  PyObject* list;
  if (!PyArg_ParseTuple(args, "sO", &name, &list)) return nullptr;
  return guarded([&]() -> PyObject* {
    const optim::Schedule& schedule = optim::find_schedule(name);
    schedule.check(schedule_numbers(schedule, list, schedule.options));
    Py_RETURN_NONE;
  });
}

}  // namespace

PyMethodDef optim_functions[] = {{"_optimizer_rules", optimizer_rules, METH_NOARGS, nullptr},
                                 {"_check_options", check_options, METH_VARARGS, nullptr},
                                 {"_lbfgs_step", lbfgs_step, METH_VARARGS, nullptr},
                                 {"_scheduled_lr", scheduled_lr, METH_VARARGS, nullptr},
                                 {"_check_schedule", check_schedule, METH_VARARGS, nullptr},
                                 {"_check_new_state", check_new_state, METH_VARARGS, nullptr},
                                 {}};

}  // namespace strata::python
