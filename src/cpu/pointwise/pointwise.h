// The CPU kernels of pointwise ops, all from a functor.
//
// Computation uses float, double or int64 (compute_type); operands and results of other dtypes, and those that are not
// contiguous, are converted block by block. So a functor is compiled only for three types and each SIMD target; the common
// ones of integers are compiled for small integers too (small_ints.cpp), and those in which the sign matters for uint64,
// which is otherwise computed as int64.
#pragma once
#include <cstring>

#include "device/complex.h"
#include "device/functors/traits.h"
#include "record/formula.h"

namespace strata {

namespace cpu {
const char* flat_ready(const Call&);  // dense operands of one compute dtype
void run_flat(const Call&);
const char* small_ints_ready(const Call&);  // int8, uint8, int16 or int32 operands of one dtype
void run_small_ints(const Call&);
void run_blocked(const Call&);               // any operands
STRATA_API void run_reference(const Call&);  // any operands, one element at a time, floats in double

template <template <class> class F> Loops simd_loops();  // specialised for each functor in cpu/pointwise/*_simd.cpp
template <template <class> class F> ComplexLoops complex_loops();  // the same, in cpu/pointwise/complex_simd.cpp

template <class F, class T> T element(const T* members, const T* in) {
  F f;
  if constexpr (!std::is_empty_v<F>) std::memcpy(static_cast<void*>(&f), members, sizeof f);
  if constexpr (F::kInputs == 1) return f(in[0]);
  else if constexpr (F::kInputs == 2) return f(in[0], in[1]);
  else if constexpr (F::kInputs == 3) return f(in[0], in[1], in[2]);
  else return f(in[0], in[1], in[2], in[3]);
}

template <template <class> class F> const Formula* formula() {
  using A = F<double>;
  static_assert(A::kInputs <= kMaxOperands && sizeof(A) <= sizeof(double) * kMaxMembers);
  static const Formula& formula = *[] {
    auto* made = new Formula{};  // lives as long as the records
    Formula& f = *made;
    f.inputs = A::kInputs;
    if constexpr (!std::is_empty_v<A>) f.members = sizeof(A) / sizeof(double);
    f.floats = !std::is_base_of_v<IntOnly, A>;
    f.ints = !std::is_base_of_v<FloatOnly, A>;
    f.predicate = std::is_base_of_v<Predicate, A>;
    f.nonzero = -1;
    if constexpr (requires { A::kNonzero; }) f.nonzero = A::kNonzero;
    if constexpr (requires { A::kSkip; }) f.skip = A::kSkip;
    if constexpr (requires { A::kExactNumbers; }) f.exact_numbers = true;
    if constexpr (requires { A::kMoves; }) f.moves = true;
    if constexpr (requires { A::kNone; }) std::copy(std::begin(A::kNone), std::end(A::kNone), f.none);
    f.loops = simd_loops<F>();
    if constexpr (!std::is_base_of_v<IntOnly, A>) f.f64 = element<A, double>;
    if constexpr (!std::is_base_of_v<FloatOnly, A>) f.i64 = element<F<int64_t>, int64_t>;
    if constexpr (requires { A::kUnsigned; }) f.u64 = element<F<uint64_t>, uint64_t>;
    if constexpr (requires { A::kOwnPrecision; }) {
      f.own_precision = true;
      f.f32 = element<F<float>, float>;
    }
    return made;
  }();
  return &formula;
}

template <template <class> class F> const ComplexFormula* complex_formula() {
  using A = F<Complex<double>>;
  static const ComplexFormula& formula = *[] {
    auto* made = new ComplexFormula{};  // lives as long as the records
    made->loops = complex_loops<F>();
    made->real_result = requires { A::kRealResult; };
    made->element = element<A, Complex<double>>;
    return made;
  }();
  return &formula;
}
}  // namespace cpu

}  // namespace strata
