// Norms of rows. Each function here runs on one thread; callers partition the rows. Sums have a fixed order per row, so results do not
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

HWY_EXPORT(NormForward);
HWY_EXPORT(NormBackward);

namespace {
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
