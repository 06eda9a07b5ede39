// Softmax of rows and columns. Each function here runs on one thread; callers partition the work. Sums have a fixed order
// per row or column, so results do not depend on the partition.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/softmax_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/nn/row_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// e^x for x <= 0 (a difference to a maximum), within 1 ulp; NaN stays NaN, below -87.3 the result is 0 (no subnormals).
HWY_INLINE V exp_negative(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V low = hn::Set(d, -87.33f);
  const auto under = hn::Lt(x, low);
  const V z = hn::IfThenElse(under, low, x);
  const V rounder = hn::Set(d, 12582912.f);  // 1.5 * 2^23: adding it rounds to an integer held in the low bits
  const V shifted = hn::MulAdd(z, hn::Set(d, 1.44269504f), rounder), count = hn::Sub(shifted, rounder);
  V r = hn::NegMulAdd(count, hn::Set(d, 0.693145752f), z);
  r = hn::NegMulAdd(count, hn::Set(d, 1.42860677e-6f), r);
  V p = hn::Set(d, 1.37805939e-3f);
  p = hn::MulAdd(p, r, hn::Set(d, 8.37312452e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.16695364e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.66664720e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.99999851e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127)));
  return hn::IfThenZeroElse(under, hn::Mul(p, hn::BitCast(d, power)));
}

// Maximum, NaN if there is one (then every comparison below is false, and NaN reaches the sum through exp).
HWY_INLINE float row_max(D d, const float* x, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float lowest = -std::numeric_limits<float>::infinity();
  V a = hn::Set(d, lowest), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Max(a, hn::LoadU(d, x + i));
    b = hn::Max(b, hn::LoadU(d, x + i + lanes));
    c = hn::Max(c, hn::LoadU(d, x + i + 2 * lanes));
    e = hn::Max(e, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a = hn::Max(a, hn::LoadU(d, x + i));
  float m = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(c, e))));
  for (; i < n; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

// Sum of e^(x - m); also writes the terms when y is given.
HWY_INLINE float exp_sum(D d, const float* x, float m, float* y, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V vm = hn::Set(d, m);
  V a = hn::Zero(d), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V p = exp_negative(d, hn::Sub(hn::LoadU(d, x + i), vm)),
            q = exp_negative(d, hn::Sub(hn::LoadU(d, x + i + lanes), vm));
    if (y) {
      hn::StoreU(p, d, y + i);
      hn::StoreU(q, d, y + i + lanes);
    }
    a = hn::Add(a, p);
    b = hn::Add(b, q);
  }
  for (; i < n; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
    const V p =
      hn::IfThenElseZero(mask, exp_negative(d, hn::Sub(hn::IfThenElse(mask, hn::MaskedLoad(mask, d, x + i), vm), vm)));
    if (y) hn::BlendedStore(p, mask, d, y + i);
    a = hn::Add(a, p);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
}

HWY_INLINE void scale_shift(D d, const float* x, float scale, float shift, float* y, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V a = hn::Set(d, scale), b = hn::Set(d, shift);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), a, b), d, y + i);
  for (; i < n; ++i) y[i] = x[i] * scale + shift;
}

void SoftmaxLast(const SoftmaxRows& s, const float* x, float* y) {
  const D d;
  for (int64_t r = 0; r < s.rows; ++r, x += s.n, y += s.n) {
    const float m = row_max(d, x, s.n);
    const float sum = exp_sum(d, x, m, s.log ? nullptr : y, s.n);
    if (s.log) {
      const float shift = std::log(sum);
      const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
      const V vm = hn::Set(d, m), vs = hn::Set(d, shift);
      int64_t i = 0;
      for (; i + lanes <= s.n; i += lanes) hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + i), vm), vs), d, y + i);
      for (; i < s.n; ++i) y[i] = x[i] - m - shift;
    } else {
      scale_shift(d, y, 1.f / sum, 0.f, y, s.n);
    }
  }
}

// Neighbouring columns: kVectors whole vectors, or one with a mask. Their maxima and sums stay in registers.
template <int kVectors> struct Columns {
  D d;
  hn::Mask<D> mask;  // of a single vector
  HWY_INLINE explicit Columns(hn::Mask<D> m) : mask(m) {}
  HWY_INLINE V load(const float* p, int i) const {
    if constexpr (kVectors > 1) return hn::LoadU(d, p + static_cast<size_t>(i) * hn::Lanes(d));
    else return hn::MaskedLoad(mask, d, p);
  }
  HWY_INLINE void store(V v, float* p, int i) const {
    if constexpr (kVectors > 1) hn::StoreU(v, d, p + static_cast<size_t>(i) * hn::Lanes(d));
    else hn::BlendedStore(v, mask, d, p);
  }

  HWY_INLINE void forward(const SoftmaxRows& s, const float* x, float* y) const {
    V largest[kVectors], total[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      largest[i] = hn::Set(d, -std::numeric_limits<float>::infinity());
      total[i] = hn::Zero(d);
    }
    for (int64_t k = 0; k < s.n; ++k)
      for (int i = 0; i < kVectors; ++i) largest[i] = hn::Max(largest[i], load(x + k * s.columns, i));
    for (int64_t k = 0; k < s.n; ++k)
      for (int i = 0; i < kVectors; ++i) {
        const V e = exp_negative(d, hn::Sub(load(x + k * s.columns, i), largest[i]));
        if (!s.log) store(e, y + k * s.columns, i);
        total[i] = hn::Add(total[i], e);
      }
    for (int i = 0; i < kVectors; ++i) {
      HWY_ALIGN float parts[HWY_MAX_BYTES / 4];
      hn::Store(total[i], d, parts);
      for (size_t l = 0; l < hn::Lanes(d); ++l) parts[l] = s.log ? std::log(parts[l]) : 1.f / parts[l];
      total[i] = hn::Load(d, parts);
    }
    for (int64_t k = 0; k < s.n; ++k)
      for (int i = 0; i < kVectors; ++i) {
        const V v = load((s.log ? x : y) + k * s.columns, i);
        store(s.log ? hn::Sub(hn::Sub(v, largest[i]), total[i]) : hn::Mul(v, total[i]), y + k * s.columns, i);
      }
  }
  HWY_INLINE void backward(const SoftmaxRows& s, const float* g, const float* y, float* out) const {
    V total[kVectors];
    for (int i = 0; i < kVectors; ++i) total[i] = hn::Zero(d);
    for (int64_t k = 0; k < s.n; ++k)
      for (int i = 0; i < kVectors; ++i) {
        const V gv = load(g + k * s.columns, i);
        total[i] = s.log ? hn::Add(total[i], gv) : hn::MulAdd(gv, load(y + k * s.columns, i), total[i]);
      }
    for (int64_t k = 0; k < s.n; ++k)
      for (int i = 0; i < kVectors; ++i) {
        const V gv = load(g + k * s.columns, i), yv = load(y + k * s.columns, i);
        const V result = s.log ? hn::NegMulAdd(exp_negative(d, yv), total[i], gv) : hn::Mul(hn::Sub(gv, total[i]), yv);
        store(result, out + k * s.columns, i);
      }
  }
};

// Calls f(columns, offset) for groups of columns of all blocks.
template <class F> HWY_INLINE void each_group(const SoftmaxRows& s, F f) {
  constexpr int kVectors = 4;  // rows of a group are whole cache lines
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < s.rows; ++r) {
    int64_t j = 0;
    const auto all = hn::FirstN(d, hn::Lanes(d));
    for (; j + kVectors * lanes <= s.width; j += kVectors * lanes) f(Columns<kVectors>(all), r * s.n * s.columns + j);
    for (; j < s.width; j += lanes) {
      const auto some = hn::FirstN(d, static_cast<size_t>(std::min(lanes, s.width - j)));
      f(Columns<1>(some), r * s.n * s.columns + j);
    }
  }
}

// The softmax is along columns.
void SoftmaxColumns(const SoftmaxRows& s, const float* x, float* y) {
  each_group(s, [&](const auto& columns, int64_t at) HWY_ATTR { columns.forward(s, x + at, y + at); });
}

void SoftmaxForward(const SoftmaxRows& s, const float* x, float* y) {
  s.columns == 1 ? SoftmaxLast(s, x, y) : SoftmaxColumns(s, x, y);
}

// softmax: (g - sum(g y)) y.  log_softmax: g - e^y sum(g).
void SoftmaxLastBackward(const SoftmaxRows& s, const float* g, const float* y, float* out) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), n = s.n;
  for (int64_t r = 0; r < s.rows; ++r, g += n, y += n, out += n) {
    V sum = hn::Zero(d);
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
      sum = s.log ? hn::Add(sum, hn::LoadU(d, g + i)) : hn::MulAdd(hn::LoadU(d, g + i), hn::LoadU(d, y + i), sum);
    const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
    if (i < n) {
      const V gv = hn::MaskedLoad(rest, d, g + i);
      sum = s.log ? hn::Add(sum, gv) : hn::MulAdd(gv, hn::MaskedLoad(rest, d, y + i), sum);
    }
    const V total = hn::SumOfLanes(d, sum);
    for (i = 0; i < n; i += lanes) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
      const V gv = hn::MaskedLoad(mask, d, g + i), yv = hn::MaskedLoad(mask, d, y + i);
      hn::BlendedStore(s.log ? hn::NegMulAdd(exp_negative(d, yv), total, gv) : hn::Mul(hn::Sub(gv, total), yv), mask, d,
                       out + i);
    }
  }
}

void SoftmaxColumnsBackward(const SoftmaxRows& s, const float* g, const float* y, float* out) {
  each_group(s, [&](const auto& columns, int64_t at) HWY_ATTR { columns.backward(s, g + at, y + at, out + at); });
}
void SoftmaxBackward(const SoftmaxRows& s, const float* g, const float* y, float* out) {
  s.columns == 1 ? SoftmaxLastBackward(s, g, y, out) : SoftmaxColumnsBackward(s, g, y, out);
}

void ExpStatistics(const float* x, int64_t n, RowExp<float>& s) {
  const D d;
  s.most = row_max(d, x, n);
  s.log_sum = std::log(exp_sum(d, x, s.most, nullptr, n));
}

void ExpScaled(const float* x, int64_t n, const RowExp<float>& s, float scale, float* y) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V most = hn::Set(d, s.most), log_sum = hn::Set(d, s.log_sum), factor = hn::Set(d, scale);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
    const V e = exp_negative(d, hn::Sub(hn::Sub(hn::MaskedLoad(mask, d, x + i), most), log_sum));
    hn::BlendedStore(hn::Mul(e, factor), mask, d, y + i);
  }
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {

HWY_EXPORT(SoftmaxForward);
HWY_EXPORT(SoftmaxBackward);
HWY_EXPORT(ExpStatistics);
HWY_EXPORT(ExpScaled);

namespace {
template <class T> void softmax_plain(const SoftmaxRows& s, const T* x, T* y) {
  const int64_t block = s.n * s.columns;
  for (int64_t r = 0; r < s.rows * s.width; ++r) {
    const int64_t at = r / s.width * block + r % s.width;
    T m = -std::numeric_limits<T>::infinity(), sum = 0;
    for (int64_t k = 0; k < s.n; ++k) m = std::max(m, x[at + k * s.columns]);
    for (int64_t k = 0; k < s.n; ++k) {
      const T e = std::exp(x[at + k * s.columns] - m);
      if (!s.log) y[at + k * s.columns] = e;
      sum += e;
    }
    const T shift = std::log(sum);
    for (int64_t k = 0; k < s.n; ++k) {
      const int64_t i = at + k * s.columns;
      y[i] = s.log ? x[i] - m - shift : y[i] / sum;
    }
  }
}
template <class T> void softmax_plain_backward(const SoftmaxRows& s, const T* g, const T* y, T* out) {
  const int64_t block = s.n * s.columns;
  for (int64_t r = 0; r < s.rows * s.width; ++r) {
    const int64_t at = r / s.width * block + r % s.width;
    T sum = 0;
    for (int64_t k = 0; k < s.n; ++k)
      sum += s.log ? g[at + k * s.columns] : g[at + k * s.columns] * y[at + k * s.columns];
    for (int64_t k = 0; k < s.n; ++k) {
      const int64_t i = at + k * s.columns;
      out[i] = s.log ? g[i] - std::exp(y[i]) * sum : (g[i] - sum) * y[i];
    }
  }
}
}  // namespace

void softmax_forward(const SoftmaxRows& s, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(SoftmaxForward)(s, x, y); }
void softmax_forward(const SoftmaxRows& s, const double* x, double* y) { softmax_plain(s, x, y); }
void softmax_backward(const SoftmaxRows& s, const float* g, const float* y, float* out) {
  HWY_DYNAMIC_DISPATCH(SoftmaxBackward)(s, g, y, out);
}
void softmax_backward(const SoftmaxRows& s, const double* g, const double* y, double* out) {
  softmax_plain_backward(s, g, y, out);
}

RowExp<float> exp_statistics(const float* x, int64_t n) {
  RowExp<float> s;
  HWY_DYNAMIC_DISPATCH(ExpStatistics)(x, n, s);
  return s;
}
RowExp<double> exp_statistics(const double* x, int64_t n) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, x[i]);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - most);
  return {most, std::log(sum)};
}
void exp_scaled(const float* x, int64_t n, RowExp<float> s, float scale, float* y) {
  HWY_DYNAMIC_DISPATCH(ExpScaled)(x, n, s, scale, y);
}
void exp_scaled(const double* x, int64_t n, RowExp<double> s, double scale, double* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = std::exp(x[i] - s.most - s.log_sum) * scale;
}

}  // namespace strata::cpu
#endif
