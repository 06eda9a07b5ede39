// What a Python function can see besides its arguments: closures, globals by name, attributes of objects and classes, the contents of
// lists and dicts, and from there on. A replayed call must find all of it as it was.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "python/binding.h"

namespace strata::python {

// A float that was noted, and another one that is in its place now.
struct FloatChange {
  PyObject* const* noted;  // where the noted one is kept: the identity of the place
  PyObject* now;
  PyObject *dict, *key;  // of a value in a dict
};
using FloatChanges = std::vector<FloatChange>;
bool both_floats(PyObject* a, PyObject* b);

class Surroundings {
 public:
  Surroundings() = default;
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;
  ~Surroundings() { clear(); }

  // Notes this object and what it refers to. Not seen: memory of tensors and arrays, sets, __slots__, objects of extension types,
  // modules of the standard library, functions of this package.
  void add(PyObject* root, const std::string& path);
  // The path of something that is not as it was noted, or an empty text.
  std::string change() { return change(nullptr); }
  // The same, but floats in dicts may differ, and are listed.
  std::string change(FloatChanges* floats);
  // The tensors that were found, in a fixed order, with their paths.
  const std::vector<std::pair<std::string, Tensor>>& tensors() const { return tensors_; }
  bool has(const Tensor& t) const;
  std::string described() const;  // "12 tensors (net.weight, ...), 30 dicts, 2 lists, 4 functions"
  bool too_many() const { return visited_.size() > kMost; }

  int traverse(visitproc visit, void* arg) const;
  void clear();  // releases everything

 private:
  static constexpr size_t kMost = 200000;
  // A dict: all of its items, or those of some names (of globals). A null value: there is no such item.
  struct Dict {
    PyObject* dict;
    uint64_t version;
    bool all;
    std::vector<std::pair<PyObject*, PyObject*>> items;
    std::string path;
  };
  struct List {
    PyObject* list;
    std::vector<PyObject*> items;
    std::string path;
  };
  struct Function {
    PyObject* function;
    PyObject *code, *defaults, *keyword_defaults;          // may be null
    std::vector<std::pair<PyObject*, PyObject*>> closure;  // cells and contents, which may be null
    std::string path;
  };

  void visit(PyObject* o, const std::string& path);
  void visit_dict(PyObject* dict, const std::string& path);
  void visit_list(PyObject* list, const std::string& path);
  void visit_class(PyTypeObject* type);
  void visit_function(PyObject* function, const std::string& path);
  void visit_names(PyObject* globals, PyObject* code, const std::string& path);
  void visit_attributes(PyObject* o, const std::string& path);
  std::string changed_dict(FloatChanges* floats);
  std::string step(const std::string& path, PyObject* key) const;
  PyObject* keep(PyObject* o);  // holds a reference; null stays null

  std::vector<Dict> dicts_;
  uint64_t compared_ = 0;  // after so many changes of dicts they were as noted
  std::vector<List> lists_;
  std::vector<Function> functions_;
  std::unordered_map<PyObject*, size_t> names_of_;  // the entry of a dict of globals
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::vector<PyObject*> held_;
  std::unordered_set<PyObject*> visited_;
  std::vector<std::pair<PyObject*, std::string>> open_;  // still to be visited
};

// Equal numbers and texts, else the same object.
bool same_value(PyObject* a, PyObject* b);

}  // namespace strata::python
