// The loops of complex formulas. Arithmetic uses vectors of real and of imaginary parts; elementary functions are computed
// one number at a time.
#include "cpu/pointwise/pointwise.h"

#define STRATA_COMPLEX_LIST "functors/complex.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/complex_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#define STRATA_SIMD_TARGET
#include "device/functors/complex.h"

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class F, class T>
void complex_loop(const void* members, const Complex<T>* const* in, const size_t* mask, Complex<T>* out, size_t n) {
  F f;
  if constexpr (!std::is_empty_v<F>) std::memcpy(static_cast<void*>(&f), members, sizeof f);
  const Complex<T>* p[3];
  size_t m[3];
  for (int k = 0; k < 3; ++k) {
    p[k] = in[k < F::kInputs ? k : 0];
    m[k] = mask[k < F::kInputs ? k : 0];
  }
  const auto apply = [&](auto&& load) HWY_ATTR {
    if constexpr (F::kInputs == 1) return f(load(p[0], m[0]));
    else if constexpr (F::kInputs == 2) return f(load(p[0], m[0]), load(p[1], m[1]));
    else return f(load(p[0], m[0]), load(p[1], m[1]), load(p[2], m[2]));
  };
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (requires { F::kVector; }) {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const size_t lanes = hn::Lanes(d);
    for (; i + lanes <= n; i += lanes) {
      const Complex<V> r = apply([&](const Complex<T>* from, size_t moves) HWY_ATTR -> Complex<V> {
        if (!moves) return {hn::Set(d, from->re), hn::Set(d, from->im)};
        Complex<V> v;
        hn::LoadInterleaved2(d, &from[i].re, v.re, v.im);
        return v;
      });
      hn::StoreInterleaved2(r.re, r.im, d, &out[i].re);
    }
  }
#endif
  for (; i < n; ++i) out[i] = apply([&](const Complex<T>* from, size_t moves) HWY_ATTR { return from[i & moves]; });
}

const ComplexLoops* complex_loops() {
  static constexpr ComplexLoops table[] = {
#define STRATA_FUNCTOR(F) {complex_loop<F<Complex<float>>, float>, complex_loop<F<Complex<double>>, double>, #F},
#include STRATA_COMPLEX_LIST
#undef STRATA_FUNCTOR
  };
  return table;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace fn {
#define STRATA_FUNCTOR(F) template <class T> struct F;
#include STRATA_COMPLEX_LIST
#undef STRATA_FUNCTOR
}  // namespace fn
namespace {
enum {
#define STRATA_FUNCTOR(F) k##F,
#include STRATA_COMPLEX_LIST
#undef STRATA_FUNCTOR
};
HWY_EXPORT(complex_loops);
}  // namespace
#define STRATA_FUNCTOR(F) \
  template <> ComplexLoops cpu::complex_loops<fn::F>() { return HWY_DYNAMIC_DISPATCH(complex_loops)()[k##F]; }
#include STRATA_COMPLEX_LIST
#undef STRATA_FUNCTOR
}  // namespace strata
#endif
