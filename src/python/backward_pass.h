// A call of backward() or grad() from Python: its tensors, and the functions to call when the outermost one ends.
#pragma once
#include <utility>
#include <vector>

#include "python/binding.h"

namespace strata::python {

// Of a tensor, or of a sequence of tensors, of which some may be None; nothing for None.
std::vector<Tensor> tensors_of(PyObject* o, const char* who);

// Counts nested calls on this thread; an error drops the functions that have not been called.
class BackwardPass {
 public:
  BackwardPass() { ++depth; }
  ~BackwardPass() {
    if (--depth == 0) pending.clear();
  }
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  // Calls the functions, which may add others. Needs the GIL.
  void finish() const {
    if (depth > 1) return;
    for (size_t k = 0; k < pending.size(); ++k) {
      const Object function = std::move(pending[k]);
      const Object result(call_python(function.get(), nullptr, 0));
    }
    pending.clear();
  }

  // Adds a function to call at the end of the pass that runs on this thread.
  static void queue(PyObject* function) {
    STRATA_CHECK(depth > 0, Runtime, "Final callbacks can only be installed during backward pass.");
    pending.emplace_back(Py_NewRef(function));
  }

 private:
  static inline thread_local int depth = 0;
  static inline thread_local std::vector<Object> pending;
};

}  // namespace strata::python
