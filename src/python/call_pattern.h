// The tree of a call's arguments or results: where tensors are in it, and what the rest is.
#pragma once
#include <vector>

#include "python/surroundings.h"

namespace strata::python {

class CallPattern {
 public:
  CallPattern() = default;
  CallPattern(CallPattern&& other) noexcept { swap(other); }
  CallPattern& operator=(CallPattern&& other) noexcept {
    swap(other);
    return *this;
  }
  ~CallPattern() { clear(); }
  // Of these arguments; appends their tensors.
  CallPattern(PyObject* args, PyObject* kwargs, std::vector<PyObject*>& tensors);
  // Of a result.
  CallPattern(PyObject* result, std::vector<PyObject*>& tensors);

  // Whether a call is of this pattern: the same containers, numbers and other objects, and a tensor at each place. Appends these.
  // Floats may differ, and are listed.
  bool matches(PyObject* args, PyObject* kwargs, std::vector<PyObject*>& tensors, FloatChanges& floats) const;
  // The result with these tensors, in order; takes the references.
  PyObject* filled(const std::vector<PyObject*>& tensors) const;
  // The objects that are neither tensors, containers nor plain values: compared by identity, what they contain is not.
  const std::vector<PyObject*>& objects() const { return objects_; }
  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  enum class Kind : uint8_t { Tensor, Object, Tuple, List, Dict, NamedTuple };
  struct Part {
    Kind kind = Kind::Object;
    PyObject* held = nullptr;       // the object; of a NamedTuple and a tensor, the type
    std::vector<PyObject*> keys{};  // of a Dict
    std::vector<Part> parts{};
  };

  void swap(CallPattern& other) noexcept {
    std::swap(root_, other.root_);
    std::swap(keywords_, other.keywords_);
    std::swap(held_, other.held_);
    std::swap(objects_, other.objects_);
  }
  Part part_of(PyObject* o, std::vector<PyObject*>& tensors, int depth);
  PyObject* keep(PyObject* o);
  static bool matches(const Part& part, PyObject* o, std::vector<PyObject*>& tensors, FloatChanges& floats);
  static PyObject* filled(const Part& part, const std::vector<PyObject*>& tensors, size_t& next);

  Part root_, keywords_;
  std::vector<PyObject*> held_, objects_;
};

}  // namespace strata::python
