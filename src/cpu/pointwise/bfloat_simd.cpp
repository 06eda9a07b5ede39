// The loops of bfloat.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/bfloat_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu/pointwise/bfloat.h"
#include "tensor/float_types.h"

#define STRATA_SIMD_TARGET
#include "device/functors/activations.h"
#include "device/functors/activations_backward.h"
#include "device/functors/arithmetic.h"
#include "device/functors/ternary.h"
#include "device/functors/unary_math.h"

#ifndef STRATA_BFLOAT_FUNCTORS
#define STRATA_BFLOAT_FUNCTORS(F) \
  F(Add)                          \
  F(Sub)                          \
  F(Rsub)                         \
  F(Mul)                          \
  F(Div)                          \
  F(Maximum)                      \
  F(Minimum)                      \
  F(Clamp)                        \
  F(Square)                       \
  F(Reciprocal)                   \
  F(Sqrt)                         \
  F(Rsqrt)                        \
  F(Floor)                        \
  F(Ceil)                         \
  F(Trunc)                        \
  F(Round)                        \
  F(Addcmul)                      \
  F(Addcdiv)                      \
  F(Lerp)                         \
  F(Relu)                         \
  F(LeakyRelu)                    \
  F(Threshold)                    \
  F(Hardtanh) F(Hardsigmoid) F(Hardswish) F(ThresholdBackward) F(LeakyReluBackward) F(HardtanhBackward) F(ClampBackward)
#endif

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/movement/bfloat_vectors.inl"

#if HWY_TARGET != HWY_SCALAR
template <class F>
void loop_of_bfloats(const void* members, const void* const* in, const size_t* mask, void* out, size_t n) {
  constexpr int kInputs = F::kInputs;
  F f;
  if constexpr (!std::is_empty_v<F>) std::memcpy(static_cast<void*>(&f), members, sizeof f);
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto* to = static_cast<BFloat16*>(out);
  const BFloat16* from[kInputs] = {};
  hn::Vec<decltype(d)> a = hn::Zero(d), b = a, c = a, e = a;  // the operands that are numbers
  bool fixed[4] = {};
  const auto number = [&](int k, auto& v) HWY_ATTR {
    if (k >= kInputs) return;
    fixed[k] = mask[k] == 0;
    if (fixed[k]) v = hn::LoadU(d, static_cast<const float*>(in[k]));
    else from[k] = static_cast<const BFloat16*>(in[k]);
  };
  number(0, a);
  number(1, b);
  number(2, c);
  number(3, e);
  const auto at = [&](const BFloat16* const* p, size_t i) HWY_ATTR {
    const auto load = [&](int k, auto v) HWY_ATTR { return fixed[k] ? v : load_bfloats(p[k] + i); };
    if constexpr (kInputs == 1) return f(load(0, a));
    else if constexpr (kInputs == 2) return f(load(0, a), load(1, b));
    else if constexpr (kInputs == 3) return f(load(0, a), load(1, b), load(2, c));
    else return f(load(0, a), load(1, b), load(2, c), load(3, e));
  };
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) store_bfloats(at(from, i), at(from, i + lanes), to + i);
  if (i == n) return;
  BFloat16 rest[kInputs][2 * hn::MaxLanes(d)], results[2 * hn::MaxLanes(d)];
  const BFloat16* copies[kInputs];
  for (int k = 0; k < kInputs; ++k) {
    copies[k] = rest[k];
    if (fixed[k]) continue;
    std::fill_n(rest[k], 2 * lanes, BFloat16(1.0F));
    std::copy_n(from[k] + i, n - i, rest[k]);
  }
  store_bfloats(at(copies, 0), at(copies, lanes), results);
  std::copy_n(results, n - i, to + i);
}
#endif

SmallLoop LoopOf([[maybe_unused]] std::string_view functor) {
#if HWY_TARGET != HWY_SCALAR
#define STRATA_LOOP(F) \
  if (functor == #F) return loop_of_bfloats<F<float>>;
  STRATA_BFLOAT_FUNCTORS(STRATA_LOOP)
#undef STRATA_LOOP
#endif
  return nullptr;
}

}  // namespace
}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
HWY_EXPORT(LoopOf);
SmallLoop cpu::bfloat_loop(std::string_view functor) { return HWY_DYNAMIC_DISPATCH(LoopOf)(functor); }
}  // namespace strata
#endif
