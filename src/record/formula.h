// Formula: a pointwise op's functor for the back ends, and the conversion of its arguments to operands.
#pragma once
#include <atomic>
#include <cmath>

#include "record/op.h"

namespace strata {

constexpr int kMaxOperands = 4;      // tensors or numbers that a formula takes
constexpr int kMaxMembers = 4;       // number parameters of a formula
constexpr size_t kVectorBytes = 64;  // of the widest SIMD target

// Computes out[i] = f(in[0][i & mask[0]], …) for i < n. mask is ~0, or 0 for an operand with the same value everywhere:
// in[k] then points to kVectorBytes of copies of it. `members` are the functor's, as T.
template <class T> using Loop = void (*)(const void* members, const T* const* in, const size_t* mask, T* out, size_t n);
// A loop over int8, uint8, int16 or int32 operands and members. The results of a predicate are bytes.
using SmallLoop = void (*)(const void* members, const void* const* in, const size_t* mask, void* out, size_t n);
constexpr int small_int(DType t) {  // -1: another dtype
  return t == DType::I8 ? 0 : t == DType::U8 ? 1 : t == DType::I16 ? 2 : t == DType::I32 ? 3 : -1;
}

struct Loops {
  Loop<float> f32;
  Loop<double> f64;
  Loop<int64_t> i64;
  Loop<uint64_t> u64;         // null if the results have the same bits as those of i64
  Loop<uint8_t> bools;        // operands and results are 0 or 1; null if not compiled
  SmallLoop small[4];         // by small_int(); null if not compiled
  const char *header, *name;  // of the functor: "device/functors/unary_math.h", "Exp"
};

// The complex version of a formula: a functor of device/functors/complex.h with the same operands and members.
struct ComplexLoops {
  Loop<Complex<float>> c64;
  Loop<Complex<double>> c128;
  const char* name;  // of the functor
};
struct ComplexFormula {
  ComplexLoops loops;  // of the best SIMD target of this machine
  bool real_result;    // the result has the real dtype
  Complex<double> (*element)(const Complex<double>* members, const Complex<double>* in);
  mutable std::atomic<void*> device{nullptr};  // its kernels, cached here by the device back end
};

// A type-erased functor.
struct Formula {
  uint8_t inputs, members;
  bool floats, ints;  // types it computes with
  bool predicate;     // the result is bool
  bool exact_numbers, own_precision;
  bool moves;                 // results are unchanged operands: a number operand must fit the result's dtype
  int8_t nonzero;             // operand that must not be 0 in integer computation; -1: none
  uint8_t skip;               // mask of operands excluded from type promotion
  double none[kMaxOperands];  // the value of an operand given as None
  Loops loops;                // of the best SIMD target of this machine; null if not compiled
  float (*f32)(const float* members, const float* in);  // one element, through the scalar functions
  double (*f64)(const double* members, const double* in);
  int64_t (*i64)(const int64_t* members, const int64_t* in);
  uint64_t (*u64)(const uint64_t* members, const uint64_t* in);  // null, as in loops
  mutable std::atomic<void*> device{nullptr};                    // its kernels, cached here by the device back end
};

// Whether all elements of t, which has some, are the same one in memory: an expanded single value.
inline bool repeats_one(const TensorImpl& t) {
  for (int d = 0; d < t.ndim; ++d)
    if (t.strides[d] != 0 && t.shape[d] != 1) return false;
  return t.numel > 0;
}
inline const Formula& formula_of(const Call& c) { return *c.op.formulas[c.op.variant ? c.op.variant(c.args) : 0]; }
// Throws: the op does not compute with this dtype; names those it does.
[[noreturn, gnu::cold]] void refuse_dtype(const OpRecord& op, DType found);
// The promoted dtype of the operands; the result has it too, unless the op is a predicate.
STRATA_API DType common_type(const Formula& f, const Args& args);
// The dtype that a call computes with: the same, or the complex one of a result that is made of real operands.
inline DType computed_type(const Formula& f, const Call& c) {
  return is_complex(c.out()->dtype) ? c.out()->dtype : common_type(f, c.args);
}
// A plain number (or None) as an operand of compute type T. Comparisons round it to the operands' dtype, as if it were
// in a tensor. An integer that does not fit that dtype wraps, except in comparisons: 1 > -3 also for uint8.
template <class T> T number_operand(const Formula& f, const Value& v, int k, DType common) {
  if (!v) {
    if constexpr (kIsComplex<T>) return {static_cast<decltype(T::re)>(f.none[k]), 0};
    else if constexpr (std::is_same_v<T, int64_t>) {
      if (common == DType::U64) return f.none[k] > 0 ? -1 : 0;  // all bits set: the largest
      return f.none[k] > 0 ? INT64_MAX : f.none[k] < 0 ? INT64_MIN : 0;
    } else return static_cast<T>(f.none[k]);
  }
  if constexpr (kIsComplex<T>) {
    return {number_operand<decltype(T::re)>(f, v, k, real_type(common)), 0};
  } else if constexpr (std::is_same_v<T, int64_t>) {
    if (common == DType::Bool) return v.number() != 0;
    const bool bound = f.none[k] != 0;  // of clamp: outside the dtype's range, it bounds nothing
    if (common == DType::U64 && bound) return std::max<int64_t>(v.integer(), 0);
    if (common == DType::I64 || !is_integral(common) || f.predicate || bound) return v.integer();
    return dispatch_real(common, [&]<class S>() { return convert<int64_t>(convert<S>(v.integer())); });
  } else {
    if (f.predicate && is_floating(common))
      return dispatch_real(common, [&]<class S>() { return convert<T>(convert<S>(v.number())); });
    return static_cast<T>(v.number());
  }
}
// A tensor with one element in host memory as an operand of compute type T, with the value of its own dtype.
template <class T> T host_number(const TensorImpl& t) {
  if (t.dtype == DType::U64) return convert<T>(*reinterpret_cast<const uint64_t*>(t.data));  // a Scalar holds int64_t
  return Tensor(Ref<TensorImpl>::share(const_cast<TensorImpl*>(&t))).item().to<T>();
}
// The functor's members. None becomes NaN (0 for integers), which the formula handles.
template <class T> void read_members(const Formula& f, const Args& args, T* members) {
  for (int k = 0; k < f.members; ++k) {
    const Value& v = args[f.inputs + k];
    if constexpr (kIsComplex<T>) members[k] = convert<T>(v ? v.scalar().to_complex() : Complex<double>{NAN, 0});
    else if constexpr (std::is_same_v<T, int64_t>) members[k] = v.integer();
    else members[k] = v ? static_cast<T>(v.number()) : static_cast<T>(NAN);
  }
}

// The shape and dtype rule of every pointwise op.
STRATA_API void infer_pointwise(const Call& c);

}  // namespace strata
