#include "python/call_pattern.h"

namespace strata::python {
namespace {

constexpr int kMostLevels = 100;  // of containers in containers

bool is_named_tuple(PyObject* o) {
  if (!PyTuple_Check(o) || PyTuple_CheckExact(o)) return false;
  const int has = PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), "_fields");
  return has == 1;
}
bool is_plain(PyObject* o) {
  return o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) ||
         PyBytes_CheckExact(o) || PyComplex_CheckExact(o) || is_dtype(o) || Py_TYPE(o) == device_type ||
         Py_TYPE(o) == size_type;
}

}  // namespace

CallPattern::CallPattern(PyObject* args, PyObject* kwargs, std::vector<PyObject*>& tensors) {
  root_ = part_of(args, tensors, 0);
  if (kwargs && PyDict_GET_SIZE(kwargs)) keywords_ = part_of(kwargs, tensors, 0);
}
CallPattern::CallPattern(PyObject* result, std::vector<PyObject*>& tensors) { root_ = part_of(result, tensors, 0); }

PyObject* CallPattern::keep(PyObject* o) {
  held_.push_back(Py_NewRef(o));
  return o;
}

CallPattern::Part CallPattern::part_of(PyObject* o, std::vector<PyObject*>& tensors, int depth) {
  STRATA_CHECK(depth < kMostLevels, Value, "compile: arguments or results have more than {} levels of containers",
               kMostLevels);
  Part part;
  const auto add = [&](PyObject* item) { part.parts.push_back(part_of(item, tensors, depth + 1)); };
  if (is_tensor(o)) {
    part.kind = Kind::Tensor;
    part.held = keep(reinterpret_cast<PyObject*>(Py_TYPE(o)));
    tensors.push_back(o);
  } else if (PyTuple_CheckExact(o) || is_named_tuple(o)) {
    part.kind = PyTuple_CheckExact(o) ? Kind::Tuple : Kind::NamedTuple;
    part.held = keep(reinterpret_cast<PyObject*>(Py_TYPE(o)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) add(PyTuple_GET_ITEM(o, i));
  } else if (PyList_CheckExact(o)) {
    part.kind = Kind::List;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) add(PyList_GET_ITEM(o, i));
  } else if (PyDict_CheckExact(o)) {
    part.kind = Kind::Dict;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) {
      part.keys.push_back(keep(key));
      add(value);
    }
  } else {
    part.held = keep(o);
    if (!is_plain(o)) objects_.push_back(o);
  }
  return part;
}

bool CallPattern::matches(const Part& part, PyObject* o, std::vector<PyObject*>& tensors, FloatChanges& floats) {
  switch (part.kind) {
    case Kind::Tensor:
      if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != part.held) return false;
      tensors.push_back(o);
      return true;
    case Kind::Object:
      if (same_value(o, part.held)) return true;
      if (both_floats(o, part.held)) floats.push_back({&part.held, o, nullptr, nullptr});
      return both_floats(o, part.held);
    case Kind::Tuple:
    case Kind::NamedTuple: {
      if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != part.held ||
          static_cast<size_t>(PyTuple_GET_SIZE(o)) != part.parts.size())
        return false;
      for (size_t i = 0; i < part.parts.size(); ++i)
        if (!matches(part.parts[i], PyTuple_GET_ITEM(o, static_cast<Py_ssize_t>(i)), tensors, floats)) return false;
      return true;
    }
    case Kind::List: {
      if (!PyList_CheckExact(o) || static_cast<size_t>(PyList_GET_SIZE(o)) != part.parts.size()) return false;
      for (size_t i = 0; i < part.parts.size(); ++i)
        if (!matches(part.parts[i], PyList_GET_ITEM(o, static_cast<Py_ssize_t>(i)), tensors, floats)) return false;
      return true;
    }
    case Kind::Dict: {
      if (!PyDict_CheckExact(o) || static_cast<size_t>(PyDict_GET_SIZE(o)) != part.parts.size()) return false;
      PyObject *key, *value;
      size_t i = 0;
      for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value); ++i)
        if (!same_value(key, part.keys[i]) || !matches(part.parts[i], value, tensors, floats)) return false;
      return true;
    }
  }
  return false;
}
bool CallPattern::matches(PyObject* args, PyObject* kwargs, std::vector<PyObject*>& tensors,
                          FloatChanges& floats) const {
  if (!matches(root_, args, tensors, floats)) return false;
  const bool given = kwargs && PyDict_GET_SIZE(kwargs);
  if (keywords_.kind != Kind::Dict) return !given;
  return given && matches(keywords_, kwargs, tensors, floats);
}

PyObject* CallPattern::filled(const Part& part, const std::vector<PyObject*>& tensors, size_t& next) {
  const auto size = static_cast<Py_ssize_t>(part.parts.size());
  switch (part.kind) {
    case Kind::Tensor: return Py_NewRef(tensors[next++]);
    case Kind::Object: return Py_NewRef(part.held);
    case Kind::Tuple:
    case Kind::NamedTuple: {
      Object tuple(need(PyTuple_New(size)));
      for (Py_ssize_t i = 0; i < size; ++i)
        PyTuple_SET_ITEM(tuple.get(), i, filled(part.parts[static_cast<size_t>(i)], tensors, next));
      if (part.kind == Kind::Tuple) return tuple.release();
      return need(PyObject_CallMethod(part.held, "_make", "(O)", tuple.get()));
    }
    case Kind::List: {
      Object list(need(PyList_New(size)));
      for (Py_ssize_t i = 0; i < size; ++i)
        PyList_SET_ITEM(list.get(), i, filled(part.parts[static_cast<size_t>(i)], tensors, next));
      return list.release();
    }
    case Kind::Dict: {
      Object dict(need(PyDict_New()));
      for (size_t i = 0; i < part.parts.size(); ++i) {
        const Object value(filled(part.parts[i], tensors, next));
        need(PyDict_SetItem(dict.get(), part.keys[i], value.get()));
      }
      return dict.release();
    }
  }
  return nullptr;
}
PyObject* CallPattern::filled(const std::vector<PyObject*>& tensors) const {
  size_t next = 0;
  return filled(root_, tensors, next);
}

int CallPattern::traverse(visitproc visit, void* arg) const {
  for (PyObject* o : held_) Py_VISIT(o);
  return 0;
}
void CallPattern::clear() {
  root_ = keywords_ = {};
  objects_.clear();
  for (PyObject* o : std::exchange(held_, {})) Py_DECREF(o);
}

}  // namespace strata::python
