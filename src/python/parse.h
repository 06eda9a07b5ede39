// Parses Python arguments directly from the vectorcall array into Args.
#pragma once
#include <bit>
#include <deque>

#include "python/binding.h"

namespace strata::python {

// Assigns and returns true: the last step of a successful conversion.
template <class T, class V> bool assign(T& to, V value) {
  to = value;
  return true;
}

// Holds the data that views inside Args point to, for the duration of one call. The common cases use the inline space.
class Parser {
 public:
  Args args;
  bool subclasses = false;  // whether a list of tensors has objects of subclasses, which may handle the call
  bool strict = false;      // no conversion between tensors and numbers: tried first if a name has several overloads

  bool value(const OpRecord& op, const Param& p, PyObject* o,
             Value& v);  // false: the object does not fit (no Python error set)
  bool ints_from(PyObject* const* items, Py_ssize_t n, Value& v);  // separate integer arguments as one list
  bool tensors_from(const Param& p, PyObject* const* items, Py_ssize_t n, Value& v);  // the same for tensors
  // Whether to release the interpreter lock. `measured` is a mask of the parameters that are tensors or sizes.
  bool long_work(uint32_t measured) const {
    for (; measured; measured &= measured - 1) {
      const Value& v = args[static_cast<uint32_t>(std::countr_zero(measured))];
      if (v.tag == Tag::Tensor ? v.tensor->numel > kLongWork : v && is_long(v)) return true;
    }
    return false;
  }

 private:
  static constexpr int64_t kLongWork = 1 << 15;
  static bool is_long(const Value& list);  // of sizes or tensors
  bool integer(PyObject* o, int64_t& out);
  bool number(PyObject* o, Value& v, bool complex_too);
  bool int_list(PyObject* o, Value& v);
  bool int_or_none(PyObject* o, int64_t& out);
  bool float_list(PyObject* o, Value& v);
  bool tensor_list(const Param& p, PyObject* o, Value& v);

  uint32_t used_ints_ = 0;
  int64_t ints_[3 * kInlineDims];  // few, so that the object takes few cache lines
  struct Rare {                    // deques: elements must not move
    std::deque<std::vector<int64_t>> ints;
    std::deque<std::vector<double>> floats;
    std::deque<Complex<double>> complex;
    std::deque<std::vector<Tensor>> lists;
    std::deque<Tensor> made;
  };
  Rare& rare() {
    if (!rare_) rare_ = std::make_unique<Rare>();
    return *rare_;
  }
  std::unique_ptr<Rare> rare_;
};

// The arguments of an op that runs without the interpreter lock. Other threads may give a tensor other memory meanwhile
// (resize_(), .data =, out=), so a kernel gets its own objects with the current state of the tensors. Composites, views
// and recorded calls need the tensors themselves, which are held as in WithoutGilFor.
class UnlockedArgs {
 public:
  UnlockedArgs(const OpRecord& op, const Args& args);
  const Args& get() const { return args_; }

 private:
  Args args_;
  Tensor own_[Args::kMax];
};

}  // namespace strata::python
