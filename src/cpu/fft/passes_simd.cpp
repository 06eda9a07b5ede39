// The passes of cpu/fft/lines.h, compiled for each SIMD target.
//
// A pass of radix r reads r elements that are n / r apart, transforms them, multiplies them by twiddle factors and writes them
// next to each other (Stockham's order): after the last pass the result is in natural order, without a permutation. Bound by
// the L1 and L2 caches: each pass reads and writes all elements.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/fft/passes_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/fft/lines.h"

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::fft::LongPlan;
using cpu::fft::Parts;
using cpu::fft::Plan;
using cpu::fft::Stage;

template <class V> struct Pair { V re, im; };
template <class V> HWY_INLINE Pair<V> operator+(Pair<V> a, Pair<V> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class V> HWY_INLINE Pair<V> operator-(Pair<V> a, Pair<V> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class V> HWY_INLINE Pair<V> operator*(Pair<V> a, Pair<V> w) {
  return {hn::NegMulAdd(a.im, w.im, hn::Mul(a.re, w.re)), hn::MulAdd(a.re, w.im, hn::Mul(a.im, w.re))};
}
template <class V> HWY_INLINE Pair<V> times(Pair<V> a, V x) { return {hn::Mul(a.re, x), hn::Mul(a.im, x)}; }
template <class V> HWY_INLINE Pair<V> minus_i(Pair<V> a) { return {a.im, hn::Neg(a.re)}; }

// The transforms of a few elements, in place.
template <int kRadix, class D, class V> HWY_INLINE void butterfly(D d, Pair<V>* a) {
  using T = hn::TFromD<D>;
  if constexpr (kRadix == 2) {
    const Pair<V> t = a[0] - a[1];
    a[0] = a[0] + a[1];
    a[1] = t;
  } else if constexpr (kRadix == 3) {
    const Pair<V> t = a[1] + a[2], u = times(a[1] - a[2], hn::Set(d, static_cast<T>(0.86602540378443864676)));
    const Pair<V> m = a[0] - times(t, hn::Set(d, T(0.5)));
    a[0] = a[0] + t;
    a[1] = m + minus_i(u);
    a[2] = m - minus_i(u);
  } else if constexpr (kRadix == 4) {
    const Pair<V> t0 = a[0] + a[2], t1 = a[0] - a[2], t2 = a[1] + a[3], t3 = minus_i(a[1] - a[3]);
    a[0] = t0 + t2;
    a[1] = t1 + t3;
    a[2] = t0 - t2;
    a[3] = t1 - t3;
  } else if constexpr (kRadix == 5) {
    const V c1 = hn::Set(d, static_cast<T>(0.30901699437494742410)),
            c2 = hn::Set(d, static_cast<T>(-0.80901699437494742410)),
            s1 = hn::Set(d, static_cast<T>(0.95105651629515357212)),
            s2 = hn::Set(d, static_cast<T>(0.58778525229247312917));
    const Pair<V> p1 = a[1] + a[4], m1 = minus_i(a[1] - a[4]), p2 = a[2] + a[3], m2 = minus_i(a[2] - a[3]);
    const Pair<V> x = a[0] + times(p1, c1) + times(p2, c2), y = a[0] + times(p1, c2) + times(p2, c1);
    const Pair<V> u = times(m1, s1) + times(m2, s2), v = times(m1, s2) - times(m2, s1);
    a[0] = a[0] + p1 + p2;
    a[1] = x + u;
    a[4] = x - u;
    a[2] = y + v;
    a[3] = y - v;
  } else {
    static_assert(kRadix == 8);
    const V h = hn::Set(d, static_cast<T>(0.70710678118654752440));
    Pair<V> even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};
    butterfly<4>(d, even);
    butterfly<4>(d, odd);
    const Pair<V> o1{hn::Mul(hn::Add(odd[1].re, odd[1].im), h), hn::Mul(hn::Sub(odd[1].im, odd[1].re), h)};
    const Pair<V> o2 = minus_i(odd[2]);
    const Pair<V> o3{hn::Mul(hn::Sub(odd[3].im, odd[3].re), h), hn::Neg(hn::Mul(hn::Add(odd[3].re, odd[3].im), h))};
    a[0] = even[0] + odd[0];
    a[4] = even[0] - odd[0];
    a[1] = even[1] + o1;
    a[5] = even[1] - o1;
    a[2] = even[2] + o2;
    a[6] = even[2] - o2;
    a[3] = even[3] + o3;
    a[7] = even[3] - o3;
  }
}

template <int kRadix, class D, class T = hn::TFromD<D>>
void pass(D d, const Stage<T>& stage, Parts<T> in, Parts<T> out) {
  using V = hn::Vec<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t row = stage.stride * lanes, apart = row * stage.groups;
  const Complex<T>* w = stage.twiddles.data();
  for (int64_t p = 0; p < stage.groups; ++p, w += kRadix - 1) {
    Pair<V> factor[kRadix];
    for (int k = 1; k < kRadix; ++k) factor[k] = {hn::Set(d, w[k - 1].re), hn::Set(d, w[k - 1].im)};
    const T *re = in.re + p * row, *im = in.im + p * row;
    T *to_re = out.re + p * kRadix * row, *to_im = out.im + p * kRadix * row;
    for (int64_t q = 0; q < row; q += lanes) {
      Pair<V> a[kRadix];
      for (int k = 0; k < kRadix; ++k) a[k] = {hn::LoadU(d, re + q + k * apart), hn::LoadU(d, im + q + k * apart)};
      butterfly<kRadix>(d, a);
      hn::StoreU(a[0].re, d, to_re + q);
      hn::StoreU(a[0].im, d, to_im + q);
      for (int k = 1; k < kRadix; ++k) {
        const Pair<V> b = a[k] * factor[k];
        hn::StoreU(b.re, d, to_re + q + k * row);
        hn::StoreU(b.im, d, to_im + q + k * row);
      }
    }
  }
}

// Any odd radix, by direct summation: elements j and r - j have conjugate roots, so that their sum is multiplied by the real
// part and their difference by the imaginary part, for results k and r - k at once.
template <class D, class T = hn::TFromD<D>> void pass_any(D d, const Stage<T>& stage, Parts<T> in, Parts<T> out) {
  using V = hn::Vec<D>;
  constexpr int kMostPairs = cpu::fft::kMaxRadix / 2;
  const int r = stage.radix, pairs = r / 2;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t row = stage.stride * lanes, apart = row * stage.groups;
  const Complex<T>* w = stage.twiddles.data();
  for (int64_t p = 0; p < stage.groups; ++p, w += r - 1) {
    const T *re = in.re + p * row, *im = in.im + p * row;
    T *to_re = out.re + p * r * row, *to_im = out.im + p * r * row;
    const auto put = [&](int64_t at, int k, Pair<V> value) HWY_ATTR {
      if (stage.groups > 1) value = value * Pair<V>{hn::Set(d, w[k - 1].re), hn::Set(d, w[k - 1].im)};
      hn::StoreU(value.re, d, to_re + at + k * row);
      hn::StoreU(value.im, d, to_im + at + k * row);
    };
    for (int64_t q = 0; q < row; q += lanes) {
      alignas(64) T sums[kMostPairs * 4 * HWY_MAX_BYTES / sizeof(T)];
      const Pair<V> first{hn::LoadU(d, re + q), hn::LoadU(d, im + q)};
      Pair<V> total = first;
      for (int j = 1; j <= pairs; ++j) {
        const Pair<V> a{hn::LoadU(d, re + q + j * apart), hn::LoadU(d, im + q + j * apart)},
          b{hn::LoadU(d, re + q + (r - j) * apart), hn::LoadU(d, im + q + (r - j) * apart)};
        const Pair<V> sum = a + b, difference = a - b;
        T* at = sums + (j - 1) * 4 * lanes;
        hn::Store(sum.re, d, at);
        hn::Store(sum.im, d, at + lanes);
        hn::Store(difference.re, d, at + 2 * lanes);
        hn::Store(difference.im, d, at + 3 * lanes);
        total = total + sum;
      }
      hn::StoreU(total.re, d, to_re + q);
      hn::StoreU(total.im, d, to_im + q);
      for (int k = 1; k <= pairs; ++k) {
        Pair<V> even = first;                          // the part with cosines
        V odd_re = hn::Zero(d), odd_im = hn::Zero(d);  // the part with sines, divided by i
        for (int j = 1, e = k; j <= pairs; ++j, e = e + k < r ? e + k : e + k - r) {
          const Complex<T> root = stage.roots[static_cast<size_t>(e)];
          const T* at = sums + (j - 1) * 4 * lanes;
          const V c = hn::Set(d, root.re), s = hn::Set(d, root.im);
          even.re = hn::MulAdd(c, hn::Load(d, at), even.re);
          even.im = hn::MulAdd(c, hn::Load(d, at + lanes), even.im);
          odd_re = hn::MulAdd(s, hn::Load(d, at + 2 * lanes), odd_re);
          odd_im = hn::MulAdd(s, hn::Load(d, at + 3 * lanes), odd_im);
        }
        put(q, k, {hn::Sub(even.re, odd_im), hn::Add(even.im, odd_re)});
        put(q, r - k, {hn::Add(even.re, odd_im), hn::Sub(even.im, odd_re)});
      }
    }
  }
}

template <class T> Parts<T> passes(const Plan<T>& plan, Parts<T> data, Parts<T> work) {
  const hn::ScalableTag<T> d;
  for (const Stage<T>& stage : plan.stages) {
    switch (stage.radix) {
      case 2: pass<2>(d, stage, data, work); break;
      case 3: pass<3>(d, stage, data, work); break;
      case 4: pass<4>(d, stage, data, work); break;
      case 5: pass<5>(d, stage, data, work); break;
      case 8: pass<8>(d, stage, data, work); break;
      default: pass_any(d, stage, data, work);
    }
    std::swap(data, work);
  }
  return data;
}

template <class T> void split(const Complex<T>* in, int64_t stride, int64_t n, int count, bool exchange, Parts<T> out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (exchange) std::swap(out.re, out.im);
  for (int64_t i = 0; i < n; ++i) {
    const Complex<T>* row = in + i * stride;
    T *re = out.re + i * lanes, *im = out.im + i * lanes;
#if HWY_TARGET != HWY_SCALAR
    if (count == lanes) {
      hn::Vec<decltype(d)> a, b;
      hn::LoadInterleaved2(d, &row->re, a, b);
      hn::StoreU(a, d, re);
      hn::StoreU(b, d, im);
      continue;
    }
#endif
    for (int v = 0; v < lanes; ++v) {
      re[v] = v < count ? row[v].re : T(0);
      im[v] = v < count ? row[v].im : T(0);
    }
  }
}

template <class T>
void join(Parts<T> in, int64_t n, Complex<T>* out, int64_t stride, int count, bool exchange, T scale) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (exchange) std::swap(in.re, in.im);
  for (int64_t i = 0; i < n; ++i) {
    Complex<T>* row = out + i * stride;
    const T *re = in.re + i * lanes, *im = in.im + i * lanes;
#if HWY_TARGET != HWY_SCALAR
    if (count == lanes) {
      const auto factor = hn::Set(d, scale);
      hn::StoreInterleaved2(hn::Mul(hn::LoadU(d, re), factor), hn::Mul(hn::LoadU(d, im), factor), d, &row->re);
      continue;
    }
#endif
    for (int v = 0; v < count; ++v) row[v] = {re[v] * scale, im[v] * scale};
  }
}

template <class T> void pair_row(Parts<T> in, int64_t k, int64_t n, T scale, Complex<T>* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t a = k * lanes, b = (k == 0 ? 0 : n - k) * lanes;
  const auto half = hn::Set(d, scale / 2);
  const auto x = hn::LoadU(d, in.re + a), y = hn::LoadU(d, in.im + a), u = hn::LoadU(d, in.re + b),
             v = hn::LoadU(d, in.im + b);
  const auto first_re = hn::Mul(half, hn::Add(x, u)), first_im = hn::Mul(half, hn::Sub(y, v)),
             second_re = hn::Mul(half, hn::Add(y, v)), second_im = hn::Mul(half, hn::Sub(u, x));
#if HWY_TARGET != HWY_SCALAR
  hn::StoreInterleaved2(first_re, first_im, d, &out->re);
  hn::StoreInterleaved2(second_re, second_im, d, &out[lanes].re);
#else
  out[0] = {hn::GetLane(first_re), hn::GetLane(first_im)};
  out[1] = {hn::GetLane(second_re), hn::GetLane(second_im)};
#endif
}

template <class T> void twiddles(const LongPlan<T>& plan, int64_t first, int count, Parts<T> data) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kBlock = cpu::fft::kTwiddleBlock;
  const int64_t rows = plan.columns->n, coarse = (rows + kBlock - 1) / kBlock;
  // The fine factors of these columns, with the lanes adjacent.
  alignas(64) T fine_re[kBlock * 64], fine_im[kBlock * 64], re[64] = {}, im[64] = {};
  for (int64_t k = 0; k < kBlock; ++k)
    for (int64_t v = 0; v < lanes; ++v) {
      const Complex<T> w = plan.fine[static_cast<size_t>((first + (v < count ? v : 0)) * kBlock + k)];
      fine_re[k * lanes + v] = w.re;
      fine_im[k * lanes + v] = w.im;
    }
  for (int64_t block = 0; block < coarse; ++block) {
    for (int64_t v = 0; v < lanes; ++v) {
      const Complex<T> w = plan.coarse[static_cast<size_t>((first + (v < count ? v : 0)) * coarse + block)];
      re[v] = w.re;
      im[v] = w.im;
    }
    const Pair<V> c{hn::LoadU(d, re), hn::LoadU(d, im)};
    const int64_t end = HWY_MIN(rows, (block + 1) * kBlock);
    for (int64_t k = block * kBlock; k < end; ++k) {
      const int64_t f = k % kBlock * lanes;
      const Pair<V> w = c * Pair<V>{hn::LoadU(d, fine_re + f), hn::LoadU(d, fine_im + f)};
      T *x = data.re + k * lanes, *y = data.im + k * lanes;
      const Pair<V> z = Pair<V>{hn::LoadU(d, x), hn::LoadU(d, y)} * w;
      hn::StoreU(z.re, d, x);
      hn::StoreU(z.im, d, y);
    }
  }
}

Parts<float> PassesF32(const Plan<float>& plan, Parts<float> data, Parts<float> work) {
  return passes(plan, data, work);
}
Parts<double> PassesF64(const Plan<double>& plan, Parts<double> data, Parts<double> work) {
  return passes(plan, data, work);
}
void SplitF32(const Complex<float>* in, int64_t stride, int64_t n, int count, bool exchange, Parts<float> out) {
  split(in, stride, n, count, exchange, out);
}
void SplitF64(const Complex<double>* in, int64_t stride, int64_t n, int count, bool exchange, Parts<double> out) {
  split(in, stride, n, count, exchange, out);
}
void JoinF32(Parts<float> in, int64_t n, Complex<float>* out, int64_t stride, int count, bool exchange, float scale) {
  join(in, n, out, stride, count, exchange, scale);
}
void JoinF64(Parts<double> in, int64_t n, Complex<double>* out, int64_t stride, int count, bool exchange,
             double scale) {
  join(in, n, out, stride, count, exchange, scale);
}
void TwiddlesF32(const LongPlan<float>& plan, int64_t first, int count, Parts<float> data) {
  twiddles(plan, first, count, data);
}
void TwiddlesF64(const LongPlan<double>& plan, int64_t first, int count, Parts<double> data) {
  twiddles(plan, first, count, data);
}
void PairRowF32(Parts<float> in, int64_t k, int64_t n, float scale, Complex<float>* out) {
  pair_row(in, k, n, scale, out);
}
void PairRowF64(Parts<double> in, int64_t k, int64_t n, double scale, Complex<double>* out) {
  pair_row(in, k, n, scale, out);
}
int LanesF32() { return static_cast<int>(hn::Lanes(hn::ScalableTag<float>())); }
int LanesF64() { return static_cast<int>(hn::Lanes(hn::ScalableTag<double>())); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {
HWY_EXPORT(PassesF32);
HWY_EXPORT(PassesF64);
HWY_EXPORT(SplitF32);
HWY_EXPORT(SplitF64);
HWY_EXPORT(JoinF32);
HWY_EXPORT(JoinF64);
HWY_EXPORT(TwiddlesF32);
HWY_EXPORT(TwiddlesF64);
HWY_EXPORT(PairRowF32);
HWY_EXPORT(PairRowF64);
HWY_EXPORT(LanesF32);
HWY_EXPORT(LanesF64);
}  // namespace
namespace cpu::fft {
template <> Parts<float> run_passes(const Plan<float>& plan, Parts<float> data, Parts<float> work) {
  return HWY_DYNAMIC_DISPATCH(PassesF32)(plan, data, work);
}
template <> Parts<double> run_passes(const Plan<double>& plan, Parts<double> data, Parts<double> work) {
  return HWY_DYNAMIC_DISPATCH(PassesF64)(plan, data, work);
}
template <>
void split_rows(const Complex<float>* in, int64_t stride, int64_t n, int count, bool exchange, Parts<float> out) {
  HWY_DYNAMIC_DISPATCH(SplitF32)(in, stride, n, count, exchange, out);
}
template <>
void split_rows(const Complex<double>* in, int64_t stride, int64_t n, int count, bool exchange, Parts<double> out) {
  HWY_DYNAMIC_DISPATCH(SplitF64)(in, stride, n, count, exchange, out);
}
template <>
void join_rows(Parts<float> in, int64_t n, Complex<float>* out, int64_t stride, int count, bool exchange, float scale) {
  HWY_DYNAMIC_DISPATCH(JoinF32)(in, n, out, stride, count, exchange, scale);
}
template <>
void join_rows(Parts<double> in, int64_t n, Complex<double>* out, int64_t stride, int count, bool exchange,
               double scale) {
  HWY_DYNAMIC_DISPATCH(JoinF64)(in, n, out, stride, count, exchange, scale);
}
template <> void multiply_twiddles(const LongPlan<float>& plan, int64_t first, int count, Parts<float> data) {
  HWY_DYNAMIC_DISPATCH(TwiddlesF32)(plan, first, count, data);
}
template <> void multiply_twiddles(const LongPlan<double>& plan, int64_t first, int count, Parts<double> data) {
  HWY_DYNAMIC_DISPATCH(TwiddlesF64)(plan, first, count, data);
}
template <> void split_pair(Parts<float> in, int64_t k, int64_t n, float scale, Complex<float>* out) {
  HWY_DYNAMIC_DISPATCH(PairRowF32)(in, k, n, scale, out);
}
template <> void split_pair(Parts<double> in, int64_t k, int64_t n, double scale, Complex<double>* out) {
  HWY_DYNAMIC_DISPATCH(PairRowF64)(in, k, n, scale, out);
}
template <> int lanes<float>() { return HWY_DYNAMIC_DISPATCH(LanesF32)(); }
template <> int lanes<double>() { return HWY_DYNAMIC_DISPATCH(LanesF64)(); }
}  // namespace cpu::fft
}  // namespace strata
#endif
