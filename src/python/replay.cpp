// strata._C.Replay: calls of a function that run the graph of an earlier call. The first call with new arguments is followed, later
// ones run its graph while nothing that the function can see has changed; calls 2, 4, 8, ... are followed again, as an audit.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "compile/rehearsal.h"
#include "dispatch/deferred.h"
#include "python/binding.h"
#include "python/call_pattern.h"
#include "python/overrides.h"
#include "python/surroundings.h"

namespace strata::python {
namespace {

constexpr const char* kAdvice = "replay=True (mode='reduce-overhead')";

// What is fixed for the calls that one graph is for.
struct Variant {
  CallPattern arguments;
  Surroundings around;
  CallPattern result;
  std::optional<graph::Recording> recording;
  bool notes_values = false, asks = false;
  std::string because;  // what differed from the variants before
  // The floats that may differ from call to call: each run of the graph is given them. Those that were equal when that was found must stay
  // equal.
  std::vector<PyObject* const*> numbers;
  std::vector<std::pair<size_t, size_t>> ties;
  std::vector<PyObject* const*> constants;  // floats of which that was tried in vain

  void release() {
    arguments.clear();
    result.clear();
    around.clear();
    recording->release();
  }
};
using Variants = std::vector<std::shared_ptr<Variant>>;

struct PyReplay {
  PyObject_HEAD PyObject* function;
  PyObject* roots;  // more objects that calls depend on
  Variants* variants;
  std::string* gave_up;   // why all calls run the function; empty: they do not
  std::string* mismatch;  // why the last call fitted no variant
  bool fullgraph;
};
PyReplay& self_of(PyObject* o) { return *reinterpret_cast<PyReplay*>(o); }

PyObject* run_deferred(PyReplay& r, PyObject* args, PyObject* kwargs) {
  Deferral deferral;
  Object result(need(PyObject_Call(r.function, args, kwargs)));
  deferral.finish();
  return result.release();
}

std::vector<Tensor> tensors_of(const std::vector<PyObject*>& objects) {
  std::vector<Tensor> tensors;
  tensors.reserve(objects.size());
  for (PyObject* o : objects) tensors.push_back(tensor_of(o));
  return tensors;
}

// What keeps a call from being one of this variant; empty: nothing, but floats may differ, which are listed.
std::string objection(Variant& v, PyObject* args, PyObject* kwargs, std::vector<Tensor>& inputs, FloatChanges& floats) {
  std::vector<PyObject*> given;
  if (!v.arguments.matches(args, kwargs, given, floats)) return "the arguments";
  inputs = tensors_of(given);
  std::string changed = v.recording->objection(inputs);
  return changed.empty() ? v.around.change(&floats) : changed;
}

template <class List, class T> bool among(const List& list, const T& item) {
  return std::ranges::find(list, item) != list.end();
}
// The numbers of these places, of which `floats` have changed.
std::vector<double> numbers_now(const std::vector<PyObject* const*>& places, const FloatChanges& floats) {
  std::vector<double> numbers;
  for (PyObject* const* place : places) {
    const auto changed = std::ranges::find(floats, place, &FloatChange::noted);
    numbers.push_back(PyFloat_AS_DOUBLE(changed == floats.end() ? *place : changed->now));
  }
  return numbers;
}
bool are_parameters(const Variant& v, const FloatChanges& floats, const std::vector<double>& numbers) {
  return std::ranges::all_of(floats, [&](const FloatChange& f) { return among(v.numbers, f.noted); }) &&
         std::ranges::all_of(v.ties, [&](const auto& tie) { return numbers[tie.first] == numbers[tie.second]; });
}
bool may_be_parameters(const Variant& v, const FloatChanges& floats) {
  return std::ranges::none_of(floats, [&](const FloatChange& f) { return among(v.constants, f.noted); });
}

// While it exists, floats of a call are numbers that tell whether the function computes with them.
class AskedNumbers {
 public:
  AskedNumbers(const FloatChanges& floats, PyObject* args, PyObject* kwargs)
      : args_(need(PySequence_List(args))), kwargs_(kwargs ? need(PyDict_Copy(kwargs)) : nullptr) {
    const Object module(need(PyImport_ImportModule("strata._number")));
    const Object type(need(PyObject_GetAttrString(module.get(), "Number")));
    for (const FloatChange& f : floats) {
      Object number(need(PyObject_CallOneArg(type.get(), f.now)));
      found_ &= f.dict || put_into_arguments(f.now, number.get());
      places_.push_back({f, std::move(number)});
    }
    for (const auto& [f, number] : places_)
      if (found_ && f.dict) checked(PyDict_SetItem(f.dict, f.key, number.get()));
    args_ = Object(need(PyList_AsTuple(args_.get())));
  }
  ~AskedNumbers() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    for (const auto& [f, number] : places_)
      if (f.dict && PyDict_GetItem(f.dict, f.key) == number.get() && PyDict_SetItem(f.dict, f.key, f.now) < 0)
        PyErr_Clear();
    PyErr_Restore(type, value, trace);
  }
  AskedNumbers(const AskedNumbers&) = delete;
  AskedNumbers& operator=(const AskedNumbers&) = delete;

  bool found() const { return found_; }  // all of them; those inside of containers are not
  PyObject* args() const { return args_.get(); }
  PyObject* kwargs() const { return kwargs_.get(); }
  bool used() const {
    return std::ranges::any_of(places_, [](const auto& place) {
      const Object flag(need(PyObject_GetAttrString(place.second.get(), "used")));
      return flag.get() == Py_True;
    });
  }

 private:
  bool put_into_arguments(PyObject* value, PyObject* number) {
    bool found = false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args_.get()); ++i)
      if (PyList_GET_ITEM(args_.get(), i) == value) {
        checked(PyList_SetItem(args_.get(), i, Py_NewRef(number)));
        found = true;
      }
    PyObject *key, *item;
    for (Py_ssize_t at = 0; kwargs_ && PyDict_Next(kwargs_.get(), &at, &key, &item);)
      if (item == value) {
        checked(PyDict_SetItem(kwargs_.get(), key, number));
        found = true;
      }
    return found;
  }

  Object args_, kwargs_;
  std::vector<std::pair<FloatChange, Object>> places_;
  bool found_ = true;
};

// Runs the function and notes its ops.
PyObject* follow(const PyReplay& r, Variant& v, PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> given, outputs;
  v.arguments = CallPattern(args, kwargs, given);
  v.around.add(r.function, "");
  v.around.add(r.roots, "");
  for (PyObject* o : v.arguments.objects()) v.around.add(o, "");
  const std::vector<Tensor> inputs = tensors_of(given);
  graph::Recording& recording = v.recording.emplace(inputs, v.around.tensors());
  if (v.notes_values) recording.note_values();
  if (v.around.too_many()) recording.refuse("refers to more than 200000 objects");
  for (PyObject* o : given)
    if (Py_TYPE(o) != tensor_type && Py_TYPE(o) != parameter_type)
      recording.refuse(fmt::format("gets an argument of type {}", Py_TYPE(o)->tp_name));
  Object result;
  const std::vector<Tensor> results = recording.follow(
    [&](const std::vector<Tensor>&) {
      result = Object(need(PyObject_Call(r.function, args, kwargs)));
      v.result = CallPattern(result.get(), outputs);
      return tensors_of(outputs);
    },
    inputs);
  if (!v.result.objects().empty())
    recording.refuse(fmt::format("returns an object of type {}", Py_TYPE(v.result.objects()[0])->tp_name));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto same = [&](const Tensor& t) { return t.get() == results[i].get(); };
    const bool is_given = std::ranges::any_of(inputs, same) || v.around.has(results[i]);
    if (Py_TYPE(outputs[i]) != tensor_type && !is_given)
      recording.refuse(fmt::format("returns a new object of type {}", Py_TYPE(outputs[i])->tp_name));
  }
  if (const std::string changed = v.around.change(); !changed.empty()) recording.refuse("changes " + changed);
  STRATA_CHECK(!r.fullgraph || v.asks || recording.refused().empty(), Runtime,
               "compile: fullgraph=True, but calls cannot be replayed: the function {}", recording.refused());
  return result.release();
}

// Follows a call that differs from those of the variant in floats only, which become parameters of its graph if the function only
// passes them to ops. Null: it cannot be followed so.
PyObject* follow_numbers(const PyReplay& r, Variant& v, PyObject* args, PyObject* kwargs, const FloatChanges& floats) {
  Variant again;
  again.asks = true;
  std::vector<Object> held;  // other numbers take their places in dicts
  for (const FloatChange& f : floats) held.emplace_back(Py_NewRef(f.now));
  Object result;
  bool passed_on = false;
  {
    const AskedNumbers asked(floats, args, kwargs);
    if (asked.found()) {
      result = Object(follow(r, again, asked.args(), asked.kwargs()));
      passed_on = !asked.used() && again.recording->refused().empty();
    }
  }
  std::vector<PyObject* const*> places = v.numbers;
  for (const FloatChange& f : floats)
    if (!among(places, f.noted)) places.push_back(f.noted);
  const std::vector<double> before = numbers_now(places, {}), now = numbers_now(places, floats);
  if (passed_on && v.recording->generalize(*again.recording, before, now)) {
    v.numbers = places;
    v.ties.clear();
    for (size_t i = 0; i < now.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        if (before[i] == before[k] && now[i] == now[k]) v.ties.emplace_back(k, i);
  } else {
    for (const FloatChange& f : floats) v.constants.push_back(f.noted);
  }
  return result.release();
}

PyObject* replay(PyReplay& r, Variant& v, PyObject* args, PyObject* kwargs, const std::vector<Tensor>& inputs,
                 const std::vector<double>& numbers) {
  std::optional<std::vector<Tensor>> outputs;
  {
    const WithoutGil unlocked;
    outputs = v.recording->replay(inputs, numbers);
  }
  if (!outputs) return run_deferred(r, args, kwargs);
  std::vector<Object> held;
  std::vector<PyObject*> results;
  for (Tensor& t : *outputs) results.push_back(held.emplace_back(need(wrap(std::move(t)))).get());
  return v.result.filled(results);
}

PyObject* replay_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyReplay& r = self_of(self);
    if (thread_state.observed || active_modes) return need(PyObject_Call(r.function, args, kwargs));
    if (!r.gave_up->empty() || graph::program_must_run()) return run_deferred(r, args, kwargs);
    std::shared_ptr<Variant> but_for_numbers;
    FloatChanges other_numbers;
    for (size_t i = 0; i < r.variants->size(); ++i) {
      const std::shared_ptr<Variant> v = (*r.variants)[i];  // the list may grow meanwhile
      std::vector<Tensor> inputs;
      FloatChanges floats;
      if (*r.mismatch = objection(*v, args, kwargs, inputs, floats); !r.mismatch->empty()) continue;
      const std::vector<double> numbers = numbers_now(v->numbers, floats);
      if (!are_parameters(*v, floats, numbers)) {
        *r.mismatch = "a number";
        if (but_for_numbers || !may_be_parameters(*v, floats) || !v->recording->refused().empty()) continue;
        but_for_numbers = v;
        other_numbers = floats;
        continue;
      }
      const bool audit = v->recording->audit_is_due();
      if (!v->recording->refused().empty()) return run_deferred(r, args, kwargs);
      std::optional<graph::Rehearsal> rehearsal;
      if (checks_compiled()) {
        const WithoutGil unlocked;
        rehearsal.emplace(*v->recording, inputs, numbers);
      } else if (!audit) {
        return replay(r, *v, args, kwargs, inputs, numbers);
      }
      Variant again;
      again.notes_values = rehearsal.has_value();
      Object result(follow(r, again, args, kwargs));
      v->recording->compare(*again.recording, kAdvice, numbers);
      if (rehearsal) rehearsal->compare(*again.recording);
      return result.release();
    }
    if (but_for_numbers)
      if (PyObject* result = follow_numbers(r, *but_for_numbers, args, kwargs, other_numbers)) return result;
    if (r.variants->size() == graph::kMostRecordings) {
      *r.gave_up =
        fmt::format("there are {} variants already; what changed last: {}", graph::kMostRecordings, *r.mismatch);
      return run_deferred(r, args, kwargs);
    }
    const auto v = std::make_shared<Variant>();
    v->because = *r.mismatch;
    Object result(follow(r, *v, args, kwargs));
    r.variants->push_back(v);
    return result.release();
  });
}

// [{inputs, ops, calls, replayed, launched, not_launched, refused, graph}], why there will be no more variants, and what changed last
PyObject* replay_variants(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const PyReplay& r = self_of(self);
    Object list(need(PyList_New(0)));
    for (const auto& v : *r.variants) {
      const graph::Recording& c = *v->recording;
      const std::shared_ptr<const graph::Program> program = c.program();
      const std::string text = program ? graph::to_string(program->graph()) : "";
      append(list, Py_BuildValue("{s:s,s:n,s:K,s:K,s:K,s:s,s:s,s:s,s:s,s:s,s:n}", "inputs", c.input_types().c_str(),
                                 "ops", static_cast<Py_ssize_t>(program ? program->graph().nodes.size() : 0), "calls",
                                 static_cast<unsigned long long>(c.calls()), "replayed",
                                 static_cast<unsigned long long>(c.replayed()), "launched",
                                 static_cast<unsigned long long>(c.launched()), "not_launched",
                                 c.why_not_launched().c_str(), "refused", c.refused().c_str(), "because",
                                 v->because.c_str(), "guards", v->around.described().c_str(), "graph", text.c_str(),
                                 "numbers", static_cast<Py_ssize_t>(v->numbers.size())));
    }
    return Py_BuildValue("(Nss)", list.release(), r.gave_up->c_str(), r.mismatch->c_str());
  });
}

PyObject* replay_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  const char* names[] = {"function", "roots", "fullgraph", nullptr};
  PyObject *function, *roots = Py_None;
  int fullgraph = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|Op:Replay", const_cast<char**>(names), &function, &roots,
                                   &fullgraph))
    return nullptr;
  return guarded([&]() -> PyObject* {
    Object o(need(type->tp_alloc(type, 0)));
    PyReplay& r = self_of(o.get());
    r.variants = new Variants;
    r.gave_up = new std::string;
    r.mismatch = new std::string;
    r.function = Py_NewRef(function);
    r.roots = Py_NewRef(roots);
    r.fullgraph = fullgraph != 0;
    return o.release();
  });
}
int replay_traverse(PyObject* self, visitproc visit, void* arg) {
  const PyReplay& r = self_of(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(r.function);
  Py_VISIT(r.roots);
  if (!r.variants) return 0;
  for (const auto& v : *r.variants) {
    if (v.use_count() > 1) continue;  // a call that runs holds it
    for (const CallPattern* p : {&v->arguments, &v->result})
      if (const int stop = p->traverse(visit, arg)) return stop;
    if (const int stop = v->around.traverse(visit, arg)) return stop;
  }
  return 0;
}
int replay_clear(PyObject* self) {
  PyReplay& r = self_of(self);
  if (r.variants) {
    const Variants old = std::exchange(*r.variants, {});
    for (const auto& v : old)
      if (v.use_count() == 1) v->release();
  }
  Py_CLEAR(r.function);
  Py_CLEAR(r.roots);
  return 0;
}
void replay_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  replay_clear(self);
  PyReplay& r = self_of(self);
  delete r.variants;
  delete r.gave_up;
  delete r.mismatch;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

}  // namespace

bool init_replay(PyObject* module) {
  static PyMethodDef methods[] = {
    {"variants", replay_variants, METH_NOARGS,
     "variants($self, /)\n--\n\nThe graphs that were made, why no more will be, and what changed last."},
    {}};
  PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Replay(function, roots=None, fullgraph=False)\n--\n\nCalls of a "
                                  "function that run the graph of an earlier call.")},
    {Py_tp_new, reinterpret_cast<void*>(replay_new)},
    {Py_tp_call, reinterpret_cast<void*>(replay_call)},
    {Py_tp_methods, methods},
    {Py_tp_traverse, reinterpret_cast<void*>(replay_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(replay_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(replay_dealloc)},
    {}};
  PyType_Spec spec = {"strata._C.Replay", sizeof(PyReplay), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  const Object type(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, "Replay", type.get()) == 0;
}

}  // namespace strata::python
