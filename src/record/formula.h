// Formula: what back ends know of a pointwise op's functor, and how its arguments become operands.
#pragma once
#include <atomic>
#include <cmath>

#include "record/op.h"

namespace strata {

constexpr int kMaxOperands = 4;      // tensors (or numbers) a formula takes
constexpr int kMaxMembers = 4;       // number parameters of a formula
constexpr size_t kVectorBytes = 64;  // of the widest SIMD target

// Computes out[i] = f(in[0][i & mask[0]], …) for i < n. mask is ~0, or 0 for an operand that is the same everywhere: then
// kVectorBytes of copies of it stand at in[k]. `members` are the functor's, as T.
template <class T> using Loop = void (*)(const void* members, const T* const* in, const size_t* mask, T* out, size_t n);
struct Loops {
  Loop<float> f32;
  Loop<double> f64;
  Loop<int64_t> i64;
  const char *header, *name;  // of the functor: "device/functors/unary_math.h", "Exp"
};

// A functor without its type, as the kernels see it.
struct Formula {
  uint8_t inputs, members;
  bool floats, ints;  // which types it computes with
  bool predicate;     // the result is bool
  bool exact_numbers, own_precision;
  bool moves;      // results are operands as they are: the result's dtype must hold a number that is one of them
  int8_t nonzero;  // operand that must not be 0 in integer computation; -1: none
  uint8_t skip;    // mask of operands outside type promotion
  double none[kMaxOperands];  // what stands for an operand given as None
  Loops loops;                // of the best SIMD target of this machine; null where not compiled
  float (*f32)(const float* members, const float* in);  // one element, through the scalar functions
  double (*f64)(const double* members, const double* in);
  int64_t (*i64)(const int64_t* members, const int64_t* in);
  mutable std::atomic<void*> device{nullptr};  // its kernels, kept here by the device back end
};

inline const Formula& formula_of(const Call& c) { return *c.op.formulas[c.op.variant ? c.op.variant(c.args) : 0]; }
// Throws: the op does not compute with this dtype; names those it does.
[[noreturn, gnu::cold]] void refuse_dtype(const OpRecord& op, DType found);
// The dtype that operands are promoted to; the result has it too, unless the op is a predicate.
STRATA_API DType common_type(const Formula& f, const Args& args);
// A plain number (or None) as an operand of compute type T. Comparisons see it rounded to the operands' dtype, as if it stood
// in a tensor.
template <class T> T number_operand(const Formula& f, const Value& v, int k, DType common) {
  if (!v) {
    if constexpr (std::is_same_v<T, int64_t>) return f.none[k] > 0 ? INT64_MAX : f.none[k] < 0 ? INT64_MIN : 0;
    else return static_cast<T>(f.none[k]);
  }
  if constexpr (std::is_same_v<T, int64_t>) {
    return common == DType::Bool ? v.number() != 0 : v.integer();
  } else {
    if (f.predicate && is_floating(common))
      return dispatch_dtype(common, [&]<class S>() { return convert<T>(convert<S>(v.number())); });
    return static_cast<T>(v.number());
  }
}
// The functor's members. One that was given as None is NaN (0 for integers): the formula knows what to do.
template <class T> void read_members(const Formula& f, const Args& args, T* members) {
  for (int k = 0; k < f.members; ++k) {
    const Value& v = args[f.inputs + k];
    if constexpr (std::is_same_v<T, int64_t>) members[k] = v.integer();
    else members[k] = v ? static_cast<T>(v.number()) : static_cast<T>(NAN);
  }
}

// The shape and dtype rule of every pointwise op.
STRATA_API void infer_pointwise(const Call& c);

}  // namespace strata
