#include "python/surroundings.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

namespace strata::python {
namespace {

bool is_plain_value(PyObject* o) {
  return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) ||
         PyComplex_CheckExact(o);
}

#if PY_VERSION_HEX < 0x030C0000
// Changes with every change of a dict.
uint64_t version_of(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
uint64_t watch(PyObject* dict) { return version_of(dict); }
uint64_t changes_of_dicts() { return 0; }
#else
// Python 3.12 has no such number any more, but tells of changes. Guarded by its lock.
struct Watched {
  uint64_t changes = 1;  // of all dicts
  std::unordered_map<PyObject*, uint64_t> versions;
  int id = PyDict_AddWatcher([](PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
    Watched& w = watched();
    if (event == PyDict_EVENT_DEALLOCATED) w.versions.erase(dict);
    else if (const auto found = w.versions.find(dict); found != w.versions.end()) found->second = ++w.changes;
    return 0;
  });
  Watched() {
    if (id < 0) PyErr_Clear();  // others have all watchers
  }
  static Watched& watched() {
    static auto* all = new Watched;
    return *all;
  }
};
// 0: it is not watched, so its items must be compared.
uint64_t version_of(PyObject* dict) {
  const auto& versions = Watched::watched().versions;
  const auto found = versions.find(dict);
  return found == versions.end() ? 0 : found->second;
}
uint64_t watch(PyObject* dict) {
  Watched& w = Watched::watched();
  if (w.id < 0) return 0;
  if (const uint64_t known = version_of(dict)) return known;
  if (PyDict_Watch(w.id, dict) < 0) {
    PyErr_Clear();
    return 0;
  }
  return w.versions[dict] = w.changes;
}
// 0: unknown.
uint64_t changes_of_dicts() { return Watched::watched().id < 0 ? 0 : Watched::watched().changes; }
#endif

std::string text_or(PyObject* text, const char* otherwise) {
  return text && PyUnicode_Check(text) ? shown(text) : otherwise;
}
bool starts_with_package(PyObject* name) {
  const std::string text = text_or(name, "");
  return text == "strata" || text.starts_with("strata.");
}
// Of the package or the standard library: what these modules contain is taken as fixed.
bool is_fixed_module(PyObject* name) {
  if (!name || !PyUnicode_Check(name) || starts_with_package(name)) return true;
  PyObject* fixed = PySys_GetObject("stdlib_module_names");  // borrowed
  const std::string text = shown(name);
  const Object top(need(PyUnicode_FromString(text.substr(0, text.find('.')).c_str())));
  if (text == "__main__" || !fixed) return false;
  return checked(PySequence_Contains(fixed, top.get())) == 1;
}

}  // namespace

bool same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a))  // -0.0 == 0.0
    return std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(a)) == std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(b));
  if (!is_plain_value(a) && Py_TYPE(a) != device_type && Py_TYPE(a) != size_type) return false;
  return checked(PyObject_RichCompareBool(a, b, Py_EQ)) == 1;
}

// "model.0.weight" for the weight in the tables of a module's tables.
std::string Surroundings::step(const std::string& path, PyObject* key) const {
  if (PyUnicode_Check(key)) {
    const std::string name = shown(key);
    if (name == "_parameters" || name == "_buffers" || name == "_modules") return path;
    return path.empty() ? name : path + "." + name;
  }
  if (is_tensor(key)) {  // state of an optimizer
    const auto found = std::ranges::find(tensors_, tensor_of(key).get(), [](const auto& t) { return t.second.get(); });
    return fmt::format("{}[{}]", path, found == tensors_.end() ? "a tensor" : found->first);
  }
  const Object text(PyObject_Repr(key));
  if (!text) PyErr_Clear();
  return path + "[" + text_or(text.get(), "?") + "]";
}

PyObject* Surroundings::keep(PyObject* o) {
  if (o) held_.push_back(Py_NewRef(o));
  return o;
}

void Surroundings::add(PyObject* root, const std::string& path) {
  open_.emplace_back(root, path);
  while (!open_.empty() && !too_many()) {  // a list, not recursion: objects may be linked in long chains
    const auto [o, at] = std::move(open_.back());
    open_.pop_back();
    visit(o, at);
  }
  open_.clear();
}

void Surroundings::visit(PyObject* o, const std::string& path) {
  if (!o || o == Py_None || PyBool_Check(o) || is_plain_value(o)) return;
  if (!visited_.insert(o).second) return;
  keep(o);
  if (is_tensor(o)) {
    tensors_.emplace_back(path, tensor_of(o));
  } else if (PyDict_Check(o)) {
    visit_dict(o, path);
  } else if (PyList_Check(o)) {
    visit_list(o, path);
  } else if (PyTuple_Check(o)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      open_.emplace_back(PyTuple_GET_ITEM(o, i), path + "[" + std::to_string(i) + "]");
  } else if (PyFunction_Check(o)) {
    visit_function(o, path);
  } else if (PyMethod_Check(o)) {
    open_.emplace_back(PyMethod_GET_SELF(o), path);
    open_.emplace_back(PyMethod_GET_FUNCTION(o), path);
  } else if (PyType_Check(o)) {
    visit_class(reinterpret_cast<PyTypeObject*>(o));
  } else if (!PyModule_Check(o)) {
    visit_attributes(o, path);
  }
}

void Surroundings::visit_dict(PyObject* dict, const std::string& path) {
  Dict entry{keep(dict), watch(dict), true, {}, path};
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    entry.items.emplace_back(keep(key), keep(value));
    open_.emplace_back(value, step(path, key));
  }
  dicts_.push_back(std::move(entry));
}

void Surroundings::visit_list(PyObject* list, const std::string& path) {
  List entry{keep(list), {}, path};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    entry.items.push_back(keep(PyList_GET_ITEM(list, i)));
    open_.emplace_back(PyList_GET_ITEM(list, i), path + "[" + std::to_string(i) + "]");
  }
  lists_.push_back(std::move(entry));
}

void Surroundings::visit_class(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !type->tp_dict) return;
  const std::string name = type->tp_name;
  visited_.insert(reinterpret_cast<PyObject*>(type));
  if (PyTuple_Check(type->tp_mro))
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(type->tp_mro); ++i)
      open_.emplace_back(PyTuple_GET_ITEM(type->tp_mro, i), name);
  PyObject* module = PyDict_GetItemString(type->tp_dict, "__module__");
  if (!is_fixed_module(module)) return visit_dict(type->tp_dict, name);
  if (!starts_with_package(module)) return;  // of the standard library
  Dict entry{keep(type->tp_dict), watch(type->tp_dict), true, {}, name};
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(type->tp_dict, &at, &key, &value);)
    entry.items.emplace_back(keep(key), keep(value));
  dicts_.push_back(std::move(entry));
}

void Surroundings::visit_function(PyObject* function, const std::string& path) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function);
  if (is_fixed_module(PyDict_GetItemString(f->func_globals, "__name__"))) {
    // A decorator of the package or of functools has the user's function in its closure or its __dict__.
    if (!f->func_closure && !f->func_dict) return;
  }
  Function entry{function, keep(f->func_code), keep(f->func_defaults), keep(f->func_kwdefaults), {}, path};
  open_.emplace_back(f->func_defaults, path);
  open_.emplace_back(f->func_kwdefaults, path);
  open_.emplace_back(f->func_dict, path);
  for (Py_ssize_t i = 0; f->func_closure && i < PyTuple_GET_SIZE(f->func_closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(f->func_closure, i);
    PyObject* content = PyCell_GET(cell);
    entry.closure.emplace_back(keep(cell), keep(content));
    const Object names(PyObject_GetAttrString(f->func_code, "co_freevars"));
    if (!names) PyErr_Clear();
    const bool named = names && PyTuple_Check(names.get()) && i < PyTuple_GET_SIZE(names.get());
    open_.emplace_back(content, named ? shown(PyTuple_GET_ITEM(names.get(), i)) : path);
  }
  functions_.push_back(std::move(entry));
  if (!is_fixed_module(PyDict_GetItemString(f->func_globals, "__name__")))
    visit_names(f->func_globals, f->func_code, path);
}

// The globals that the code names, also those of modules that it names.
void Surroundings::visit_names(PyObject* globals, PyObject* code, const std::string& path) {
  const auto [found, is_new] = names_of_.try_emplace(globals, dicts_.size());
  if (is_new) dicts_.push_back({keep(globals), watch(globals), false, {}, ""});
  const size_t entry = found->second;
  const auto note = [&](size_t e, PyObject* dict, PyObject* name) {
    PyObject* value = PyDict_GetItemWithError(dict, name);
    if (!value && PyErr_Occurred()) throw PythonError{};
    dicts_[e].items.emplace_back(keep(name), keep(value));
    open_.emplace_back(value, step(dicts_[e].path, name));
    return value;
  };
  const Object names(need(PyObject_GetAttrString(code, "co_names")));
  const Py_ssize_t count = PyTuple_GET_SIZE(names.get());
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* value = note(entry, globals, PyTuple_GET_ITEM(names.get(), i));
    if (!value || !PyModule_Check(value)) continue;
    const Object module_name(PyModule_GetNameObject(value));
    if (!module_name) PyErr_Clear();
    if (is_fixed_module(module_name.get())) continue;
    PyObject* dict = PyModule_GetDict(value);  // borrowed
    const auto [at, fresh] = names_of_.try_emplace(dict, dicts_.size());
    if (fresh) dicts_.push_back({keep(dict), watch(dict), false, {}, shown(module_name.get())});
    const size_t of_module = at->second;
    for (Py_ssize_t k = 0; k < count; ++k)
      if (PyDict_Contains(dict, PyTuple_GET_ITEM(names.get(), k)) == 1)
        note(of_module, dict, PyTuple_GET_ITEM(names.get(), k));
  }
  const Object constants(need(PyObject_GetAttrString(code, "co_consts")));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants.get()); ++i)  // functions and comprehensions inside
    if (PyCode_Check(PyTuple_GET_ITEM(constants.get(), i)))
      visit_names(globals, PyTuple_GET_ITEM(constants.get(), i), path);
}

void Surroundings::visit_attributes(PyObject* o, const std::string& path) {
  PyTypeObject* type = Py_TYPE(o);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !type->tp_dictoffset) return;
  visit(reinterpret_cast<PyObject*>(type), path);
  const Object dict(PyObject_GenericGetDict(o, nullptr));
  if (!dict) return PyErr_Clear();
  if (PyDict_Check(dict.get()) && visited_.insert(dict.get()).second) visit_dict(dict.get(), path);
}

bool both_floats(PyObject* a, PyObject* b) { return a && b && PyFloat_CheckExact(a) && PyFloat_CheckExact(b); }

std::string Surroundings::changed_dict(FloatChanges* floats) {
  const uint64_t changes = changes_of_dicts();
  if (changes && changes == compared_) return {};
  bool all_watched = true;
  for (Dict& d : dicts_) {
    const uint64_t version = version_of(d.dict);
    if (version && version == d.version) continue;
    if (d.all && static_cast<size_t>(PyDict_GET_SIZE(d.dict)) != d.items.size())
      return d.path + " (names were added or removed)";
    const size_t before = floats ? floats->size() : 0;
    for (const auto& [key, value] : d.items) {
      PyObject* now = PyDict_GetItemWithError(d.dict, key);
      if (!now && PyErr_Occurred()) throw PythonError{};
      if (same_value(now, value)) continue;
      if (!floats || !both_floats(now, value)) return step(d.path, key);
      floats->push_back({&value, now, d.dict, key});
    }
    if (floats && floats->size() > before) {  // to be compared again
      all_watched = false;
      continue;
    }
    d.version = version;
    all_watched &= version != 0;
  }
  compared_ = all_watched ? changes : 0;
  return {};
}

std::string Surroundings::change(FloatChanges* floats) {
  if (std::string changed = changed_dict(floats); !changed.empty()) return changed;
  for (const List& l : lists_) {
    if (static_cast<size_t>(PyList_GET_SIZE(l.list)) != l.items.size()) return l.path + " (its length)";
    for (size_t i = 0; i < l.items.size(); ++i)
      if (!same_value(PyList_GET_ITEM(l.list, static_cast<Py_ssize_t>(i)), l.items[i]))
        return l.path + "[" + std::to_string(i) + "]";
  }
  for (const Function& f : functions_) {
    const auto* now = reinterpret_cast<PyFunctionObject*>(f.function);
    if (now->func_code != f.code || now->func_defaults != f.defaults || now->func_kwdefaults != f.keyword_defaults)
      return f.path + " (the code or the defaults of a function)";
    for (const auto& [cell, content] : f.closure)
      if (!same_value(PyCell_GET(cell), content)) return f.path + " (a variable of its closure)";
  }
  return {};
}

std::string Surroundings::described() const {
  constexpr size_t kMostNames = 8;
  std::string names;
  for (size_t i = 0; i < std::min(tensors_.size(), kMostNames); ++i) names += (i ? ", " : "") + tensors_[i].first;
  if (tensors_.size() > kMostNames) names += ", ...";
  return fmt::format("the arguments; {} tensors{}, {} dicts, {} lists, {} functions; modes", tensors_.size(),
                     names.empty() ? "" : " (" + names + ")", dicts_.size(), lists_.size(), functions_.size());
}

bool Surroundings::has(const Tensor& t) const {
  return std::ranges::any_of(tensors_, [&](const auto& found) { return found.second.get() == t.get(); });
}

int Surroundings::traverse(visitproc visit, void* arg) const {
  for (PyObject* o : held_) Py_VISIT(o);
  return 0;
}
void Surroundings::clear() {
  dicts_.clear();
  lists_.clear();
  functions_.clear();
  names_of_.clear();
  tensors_.clear();
  visited_.clear();
  for (PyObject* o : std::exchange(held_, {})) Py_DECREF(o);
}

}  // namespace strata::python
