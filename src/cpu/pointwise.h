// OpRecord::pointwise<F>(): the shape and dtype rules and the CPU kernels of a pointwise op, all from its functor.
//
// Computation happens in float, double or int64 (compute_type); operands and results of other dtypes, and those that do
// not lie densely, are converted block by block. So a functor is compiled for three types and each SIMD target, no more.
#pragma once
#include <cstring>

#include "device/functors/traits.h"
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
};

// A functor without its type, as the kernels see it.
struct Formula {
  uint8_t inputs, members;
  bool floats, ints;  // which types it computes with
  bool predicate;     // the result is bool
  bool exact_numbers, own_precision;
  int8_t nonzero;             // operand that must not be 0 in integer computation; -1: none
  uint8_t skip;               // mask of operands outside type promotion
  double none[kMaxOperands];  // what stands for an operand given as None
  Loops loops;                // of the best SIMD target of this machine; null where not compiled
  float (*f32)(const float* members, const float* in);  // one element, through the scalar functions
  double (*f64)(const double* members, const double* in);
  int64_t (*i64)(const int64_t* members, const int64_t* in);
};

namespace cpu {
STRATA_API void infer_pointwise(const Call&);
const char* flat_ready(const Call&);  // dense operands of one compute dtype
void run_flat(const Call&);
void run_blocked(const Call&);               // anything
STRATA_API void run_reference(const Call&);  // anything, one element at a time, floats in double

template <template <class> class F> Loops simd_loops();  // specialised for each functor in cpu/simd/*.cpp

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
  static const Formula formula = [] {
    Formula f{};
    f.inputs = A::kInputs, f.members = std::is_empty_v<A> ? 0 : sizeof(A) / sizeof(double);
    f.floats = !std::is_base_of_v<IntOnly, A>, f.ints = !std::is_base_of_v<FloatOnly, A>;
    f.predicate = std::is_base_of_v<Predicate, A>;
    f.nonzero = -1;
    if constexpr (requires { A::kNonzero; }) f.nonzero = A::kNonzero;
    if constexpr (requires { A::kSkip; }) f.skip = A::kSkip;
    if constexpr (requires { A::kExactNumbers; }) f.exact_numbers = true;
    if constexpr (requires { A::kNone; }) std::copy(std::begin(A::kNone), std::end(A::kNone), f.none);
    f.loops = simd_loops<F>();
    if constexpr (!std::is_base_of_v<IntOnly, A>) f.f64 = element<A, double>;
    if constexpr (!std::is_base_of_v<FloatOnly, A>) f.i64 = element<F<int64_t>, int64_t>;
    if constexpr (requires { A::kOwnPrecision; }) f.own_precision = true, f.f32 = element<F<float>, float>;
    return f;
  }();
  return &formula;
}
}  // namespace cpu

template <template <class> class... F> OpRecord& OpRecord::pointwise(int (*choose)(const Args&)) {
  static const Formula* const list[] = {cpu::formula<F>()...};
  broadcasts = true, numbers = true, infer_fn = cpu::infer_pointwise;
  formulas = list, variant = choose;
  STRATA_ASSERT(params.size() >= static_cast<size_t>(list[0]->inputs + list[0]->members));
  if (!list[0]->floats) accepts = kIntegerTypes | kBoolType;
  kernel("flat_simd", cpu::run_flat, cpu::flat_ready);
  kernel("blocked", cpu::run_blocked);
  return kernel("reference", cpu::run_reference);
}

}  // namespace strata
