// Each function here runs on one thread; callers partition the rows. Sums have a fixed order per row, so results do not
// depend on the partition.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/row_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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

// The softmax is along columns: processes a vector of neighbouring columns at a time.
void SoftmaxColumns(const SoftmaxRows& s, const float* x, float* y) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), block = s.n * s.columns;
  for (int64_t r = 0; r < s.rows; ++r, x += block, y += block)
    for (int64_t j = 0; j < s.columns; j += lanes) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, s.columns - j)));
      V m = hn::Set(d, -std::numeric_limits<float>::infinity()), sum = hn::Zero(d);
      for (int64_t k = 0; k < s.n; ++k) m = hn::Max(m, hn::MaskedLoad(mask, d, x + k * s.columns + j));
      for (int64_t k = 0; k < s.n; ++k) {
        const V e = exp_negative(d, hn::Sub(hn::MaskedLoad(mask, d, x + k * s.columns + j), m));
        if (!s.log) hn::BlendedStore(e, mask, d, y + k * s.columns + j);
        sum = hn::Add(sum, e);
      }
      if (s.log) {
        alignas(64) float logs[HWY_MAX_BYTES / 4];
        hn::StoreU(sum, d, logs);
        for (int64_t l = 0; l < lanes; ++l) logs[l] = std::log(logs[l]);
        const V shift = hn::LoadU(d, logs);
        for (int64_t k = 0; k < s.n; ++k)
          hn::BlendedStore(hn::Sub(hn::Sub(hn::MaskedLoad(mask, d, x + k * s.columns + j), m), shift), mask, d,
                           y + k * s.columns + j);
      } else {
        const V inverse = hn::Div(hn::Set(d, 1.f), sum);
        for (int64_t k = 0; k < s.n; ++k)
          hn::BlendedStore(hn::Mul(hn::MaskedLoad(mask, d, y + k * s.columns + j), inverse), mask, d,
                           y + k * s.columns + j);
      }
    }
}

void SoftmaxForward(const SoftmaxRows& s, const float* x, float* y) {
  s.columns == 1 ? SoftmaxLast(s, x, y) : SoftmaxColumns(s, x, y);
}

// softmax: (g - sum(g y)) y.  log_softmax: g - e^y sum(g).
void SoftmaxBackward(const SoftmaxRows& s, const float* g, const float* y, float* out) {
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

// Calls f(first element, mask) for each vector of [begin, end); whole vectors have all lanes set.
template <class F> HWY_INLINE void each_vector(D d, int64_t begin, int64_t end, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = begin; i < end; i += lanes) f(i, hn::FirstN(d, static_cast<size_t>(std::min(lanes, end - i))));
}

constexpr int64_t kSumBlock = 2048;  // elements added in float before they are added to a double

HWY_INLINE double row_sum(D d, const float* x, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  double total = 0;
  for (int64_t at = 0; at < n; at += kSumBlock) {
    const int64_t end = std::min(n, at + kSumBlock);
    V a = hn::Zero(d), b = a;
    int64_t i = at;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      a = hn::Add(a, hn::LoadU(d, x + i));
      b = hn::Add(b, hn::LoadU(d, x + i + lanes));
    }
    each_vector(d, i, end, [&](int64_t k, auto mask) HWY_ATTR { a = hn::Add(a, hn::MaskedLoad(mask, d, x + k)); });
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b))));
  }
  return total;
}
// Sums of x - centre and of its square.
HWY_INLINE void row_deviations(D d, const float* x, int64_t n, float centre, double& sum, double& squares) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V c = hn::Set(d, centre);
  sum = squares = 0;
  for (int64_t at = 0; at < n; at += kSumBlock) {
    const int64_t end = std::min(n, at + kSumBlock);
    V s = hn::Zero(d), t = s, a = s, b = s;
    int64_t i = at;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const V u = hn::Sub(hn::LoadU(d, x + i), c), v = hn::Sub(hn::LoadU(d, x + i + lanes), c);
      s = hn::Add(s, u);
      t = hn::Add(t, v);
      a = hn::MulAdd(u, u, a);
      b = hn::MulAdd(v, v, b);
    }
    each_vector(d, i, end, [&](int64_t k, auto mask) HWY_ATTR {
      const V u = hn::IfThenElseZero(mask, hn::Sub(hn::MaskedLoad(mask, d, x + k), c));
      s = hn::Add(s, u);
      a = hn::MulAdd(u, u, a);
    });
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(s, t))));
    squares += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b))));
  }
}

// Two passes over a row in the cache: mean, then the squared deviations. The one-pass formula loses digits. The sum of
// the deviations gives the rounding error of the mean, which matters if the mean is large compared with the deviations.
void NormForward(const NormRows<float>& p, const float* x, float* y, float* mean, float* rstd, int64_t rows) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), n = p.n;
  const double count = static_cast<double>(n);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float m = p.centred ? static_cast<float>(row_sum(d, x, n) / count) : 0.f;
    double sum, squares;
    row_deviations(d, x, n, m, sum, squares);
    const double off = p.centred ? sum / count : 0, found = squares / count - off * off;
    const double variance = found < 0 ? 0 : found;  // NaN propagates
    const float inverse = static_cast<float>(1 / std::sqrt(variance + p.eps));
    if (mean) mean[r] = static_cast<float>(static_cast<double>(m) + off);
    if (rstd) rstd[r] = inverse;
    const V vm = hn::Set(d, m), scale = hn::Set(d, inverse), shift = hn::Set(d, static_cast<float>(-off) * inverse);
    for (int64_t i = 0; i < n; i += lanes) {
      const bool whole = i + lanes <= n;
      const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
      const auto load = [&](const float* q) { return whole ? hn::LoadU(d, q + i) : hn::MaskedLoad(mask, d, q + i); };
      V v = hn::MulAdd(hn::Sub(load(x), vm), scale, shift);
      if (p.weight) v = p.bias ? hn::MulAdd(v, load(p.weight), load(p.bias)) : hn::Mul(v, load(p.weight));
      else if (p.bias) v = hn::Add(v, load(p.bias));
      if (whole) hn::StoreU(v, d, y + i);
      else hn::BlendedStore(v, mask, d, y + i);
    }
  }
}

// With h = g w: rstd (h - mean(h) - (x - mean) rstd^2 mean(h (x - mean))); without centring there is no middle term.
void NormBackward(const NormRows<float>& p, const float* g, const float* x, const float* mean, const float* rstd,
                  float* out, int64_t rows) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), n = p.n;
  const float inverse = 1.f / static_cast<float>(n);
  for (int64_t r = 0; r < rows; ++r, g += n, x += n, out += n) {
    const V m = hn::Set(d, mean ? mean[r] : 0.f);
    const auto at = [&](int64_t i, auto mask, V& h, V& deviation) HWY_ATTR {
      h = hn::MaskedLoad(mask, d, g + i);
      if (p.weight) h = hn::Mul(h, hn::MaskedLoad(mask, d, p.weight + i));
      deviation = hn::IfThenElseZero(mask, hn::Sub(hn::MaskedLoad(mask, d, x + i), m));
    };
    V a = hn::Zero(d), b = a, h, deviation;
    for (int64_t i = 0; i < n; i += lanes) {
      at(i, hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i))), h, deviation);
      a = hn::Add(a, h);
      b = hn::MulAdd(h, deviation, b);
    }
    const float s = rstd[r];
    const V scale = hn::Set(d, s), slope = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, b)) * s * s * inverse),
            centre = hn::Set(d, p.centred ? hn::GetLane(hn::SumOfLanes(d, a)) * inverse : 0.f);
    for (int64_t i = 0; i < n; i += lanes) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
      at(i, mask, h, deviation);
      hn::BlendedStore(hn::Mul(scale, hn::NegMulAdd(deviation, slope, hn::Sub(h, centre))), mask, d, out + i);
    }
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
HWY_EXPORT(NormForward);
HWY_EXPORT(NormBackward);

namespace {
template <class T> void softmax_plain(const SoftmaxRows& s, const T* x, T* y) {
  const int64_t block = s.n * s.columns;
  for (int64_t r = 0; r < s.rows * s.columns; ++r) {
    const int64_t at = r / s.columns * block + r % s.columns;
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
  for (int64_t r = 0; r < s.rows * s.columns; ++r) {
    const int64_t at = r / s.columns * block + r % s.columns;
    T sum = 0;
    for (int64_t k = 0; k < s.n; ++k)
      sum += s.log ? g[at + k * s.columns] : g[at + k * s.columns] * y[at + k * s.columns];
    for (int64_t k = 0; k < s.n; ++k) {
      const int64_t i = at + k * s.columns;
      out[i] = s.log ? g[i] - std::exp(y[i]) * sum : (g[i] - sum) * y[i];
    }
  }
}
template <class T>
void norm_plain_backward(const NormRows<T>& p, const T* g, const T* x, const T* mean, const T* rstd, T* out,
                         int64_t rows) {
  const T n = static_cast<T>(p.n);
  for (int64_t r = 0; r < rows; ++r, g += p.n, x += p.n, out += p.n) {
    const T m = mean ? mean[r] : T(0), s = rstd[r];
    T a = 0, b = 0;  // sums of g w and g w xhat
    for (int64_t i = 0; i < p.n; ++i) {
      const T gw = p.weight ? g[i] * p.weight[i] : g[i];
      a += gw;
      b += gw * (x[i] - m);
    }
    const T c = b * s * s / n, e = p.centred ? a / n : T(0);
    if (p.weight)
      for (int64_t i = 0; i < p.n; ++i) out[i] = s * (g[i] * p.weight[i] - e - (x[i] - m) * c);
    else
      for (int64_t i = 0; i < p.n; ++i) out[i] = s * (g[i] - e - (x[i] - m) * c);
  }
}
}  // namespace

void softmax_forward(const SoftmaxRows& s, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(SoftmaxForward)(s, x, y); }
void softmax_forward(const SoftmaxRows& s, const double* x, double* y) { softmax_plain(s, x, y); }
void softmax_backward(const SoftmaxRows& s, const float* g, const float* y, float* out) {
  if (s.columns == 1) HWY_DYNAMIC_DISPATCH(SoftmaxBackward)(s, g, y, out);
  else softmax_plain_backward(s, g, y, out);
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

void norm_forward(const NormRows<float>& p, const float* x, float* y, float* mean, float* rstd, int64_t rows) {
  HWY_DYNAMIC_DISPATCH(NormForward)(p, x, y, mean, rstd, rows);
}
void norm_forward(const NormRows<double>& p, const double* x, double* y, double* mean, double* rstd, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, x += p.n, y += p.n) {
    double m = 0, v = 0;
    for (int64_t i = 0; p.centred && i < p.n; ++i) m += x[i];
    m /= static_cast<double>(p.n);
    for (int64_t i = 0; i < p.n; ++i) v += (x[i] - m) * (x[i] - m);
    const double s = 1 / std::sqrt(v / static_cast<double>(p.n) + p.eps);
    if (mean) mean[r] = m;
    if (rstd) rstd[r] = s;
    for (int64_t i = 0; i < p.n; ++i) y[i] = (x[i] - m) * s * (p.weight ? p.weight[i] : 1) + (p.bias ? p.bias[i] : 0);
  }
}
void norm_backward(const NormRows<float>& p, const float* g, const float* x, const float* mean, const float* rstd,
                   float* out, int64_t rows) {
  HWY_DYNAMIC_DISPATCH(NormBackward)(p, g, x, mean, rstd, out, rows);
}
void norm_backward(const NormRows<double>& p, const double* g, const double* x, const double* mean, const double* rstd,
                   double* out, int64_t rows) {
  norm_plain_backward(p, g, x, mean, rstd, out, rows);
}

}  // namespace strata::cpu
#endif
