// The loops of distances.h: up to four vectors of columns at a time. Bound by arithmetic.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/distances_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <vector>

#include "cpu/movement/transpose.h"
#include "cpu/nn/distances.h"

#define STRATA_SIMD_TARGET
#include "device/math.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kTerms = 256;  // summed before they are added to the total, so that rounding errors grow slowly

template <class V> HWY_INLINE V power(V x, double p) {
  const hn::DFromV<V> d;
  using T = hn::TFromD<decltype(d)>;
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, std::pow(hn::GetLane(x), static_cast<T>(p)));
#else
  return strata::HWY_NAMESPACE::math::pow(x, hn::Set(d, static_cast<T>(p)));
#endif
}
// -1, 0, 1 or NaN.
template <class V> HWY_INLINE V sign_of(V x) {
  const hn::DFromV<V> d;
  const auto as_it_is = hn::Or(hn::Eq(x, hn::Zero(d)), hn::IsNaN(x));
  return hn::IfThenElse(as_it_is, x, hn::CopySign(hn::Set(d, 1), x));
}

// --- norms ----------------------------------------------------------------------------------------------------------
// fold() adds a difference to a sum, root() makes the norm of it, slope() is its derivative: `norm` is that of the column,
// infinite where it is 0. kScaled: sums near the limits of the range are computed again in double.

template <class V> struct Differing {  // p = 0
  static constexpr bool kScaled = false;
  HWY_INLINE V fold(V sum, V x) const {
    const hn::DFromV<V> d;
    return hn::Add(sum, hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Zero(d), hn::Set(d, 1)));
  }
  HWY_INLINE V join(V a, V b) const { return hn::Add(a, b); }
  HWY_INLINE V root(V sum) const { return sum; }
  HWY_INLINE V slope(V, V) const { return hn::Zero(hn::DFromV<V>()); }
};
template <class V> struct Absolute {  // p = 1
  static constexpr bool kScaled = false;
  HWY_INLINE V fold(V sum, V x) const { return hn::Add(sum, hn::Abs(x)); }
  HWY_INLINE V join(V a, V b) const { return hn::Add(a, b); }
  HWY_INLINE V root(V sum) const { return sum; }
  HWY_INLINE V slope(V x, V) const { return sign_of(x); }
};
template <class V> struct Euclidean {  // p = 2
  static constexpr bool kScaled = true;
  HWY_INLINE V fold(V sum, V x) const { return hn::MulAdd(x, x, sum); }
  HWY_INLINE V join(V a, V b) const { return hn::Add(a, b); }
  HWY_INLINE V root(V sum) const { return hn::Sqrt(sum); }
  HWY_INLINE V slope(V x, V norm) const { return hn::Div(x, norm); }
};
template <class V> struct Cubic {  // p = 3
  static constexpr bool kScaled = true;
  HWY_INLINE V fold(V sum, V x) const { return hn::MulAdd(hn::Mul(x, x), hn::Abs(x), sum); }
  HWY_INLINE V join(V a, V b) const { return hn::Add(a, b); }
  HWY_INLINE V root(V sum) const { return power(sum, 1.0 / 3); }
  HWY_INLINE V slope(V x, V norm) const {
    const V part = hn::Div(x, norm);
    return hn::Mul(part, hn::Abs(part));
  }
};
template <class V> struct Powers {
  static constexpr bool kScaled = true;
  double p;
  HWY_INLINE V fold(V sum, V x) const { return hn::Add(sum, power(hn::Abs(x), p)); }
  HWY_INLINE V join(V a, V b) const { return hn::Add(a, b); }
  HWY_INLINE V root(V sum) const { return power(sum, 1 / p); }
  HWY_INLINE V slope(V x, V norm) const {
    const V part = hn::Div(hn::Abs(x), norm), zero = hn::Zero(hn::DFromV<V>());
    return hn::IfThenElse(hn::Eq(part, zero), zero, hn::CopySign(power(part, p - 1), x));
  }
};
template <class V> struct Largest {  // p = inf
  static constexpr bool kScaled = false;
  HWY_INLINE V fold(V most, V x) const { return join(most, hn::Abs(x)); }
  HWY_INLINE V join(V a, V b) const { return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a); }
  HWY_INLINE V root(V most) const { return most; }
  HWY_INLINE V slope(V x, V norm) const { return hn::IfThenElseZero(attains(x, norm), sign_of(x)); }
  HWY_INLINE auto attains(V x, V norm) const {
    return hn::Or(hn::Eq(hn::Abs(x), norm), hn::And(hn::IsNaN(x), hn::IsNaN(norm)));
  }
};

template <class T, class Body> HWY_INLINE void by_norm(double p, Body body) {
  using V = hn::Vec<hn::ScalableTag<T>>;
  if (p == 0) body(Differing<V>());
  else if (p == 1) body(Absolute<V>());
  else if (p == 2) body(Euclidean<V>());
  else if (p == 3) body(Cubic<V>());
  else if (std::isinf(p)) body(Largest<V>());
  else body(Powers<V>{p});
}

// --- distances ------------------------------------------------------------------------------------------------------

// One distance in double, with the differences divided by the largest: powers then neither overflow nor vanish.
template <class T> T scaled_distance(const T* row, const T* column, int64_t d, double p) {
  const auto difference = [&](int64_t k) {
    return std::abs(static_cast<double>(row[k]) - static_cast<double>(column[k * kDistanceColumns<T>]));
  };
  double most = 0, sum = 0;
  for (int64_t k = 0; k < d; ++k) {
    const double x = difference(k);
    if (!(x <= most)) most = x;
    if (std::isnan(x)) return static_cast<T>(x);
  }
  if (most == 0 || std::isinf(most)) return static_cast<T>(most);
  for (int64_t k = 0; k < d; ++k) sum += std::pow(difference(k) / most, p);
  return static_cast<T>(most * std::pow(sum, 1 / p));
}

// kVectors vectors of columns.
template <class T, int kVectors, class Norm>
HWY_INLINE void distances_of(const Norm& norm, const T* row, const T* panel, int64_t d, T* sums, T* out) {
  const hn::ScalableTag<T> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  auto t0 = hn::Zero(tag), t1 = t0, t2 = t0, t3 = t0;
  for (int64_t begin = 0; begin < d; begin += kTerms) {
    auto s0 = hn::Zero(tag), s1 = s0, s2 = s0, s3 = s0;
    const int64_t end = std::min(d, begin + kTerms);
    for (int64_t k = begin; k < end; ++k) {
      const auto x = hn::Set(tag, row[k]);
      const T* at = panel + k * kDistanceColumns<T>;
      s0 = norm.fold(s0, hn::Sub(x, hn::LoadU(tag, at)));
      if constexpr (kVectors > 1) s1 = norm.fold(s1, hn::Sub(x, hn::LoadU(tag, at + lanes)));
      if constexpr (kVectors > 2) s2 = norm.fold(s2, hn::Sub(x, hn::LoadU(tag, at + 2 * lanes)));
      if constexpr (kVectors > 3) s3 = norm.fold(s3, hn::Sub(x, hn::LoadU(tag, at + 3 * lanes)));
    }
    t0 = norm.join(t0, s0);
    if constexpr (kVectors > 1) t1 = norm.join(t1, s1);
    if constexpr (kVectors > 2) t2 = norm.join(t2, s2);
    if constexpr (kVectors > 3) t3 = norm.join(t3, s3);
  }
  const auto store = [&](auto total, int64_t v) HWY_ATTR {
    hn::StoreU(total, tag, sums + v * lanes);
    hn::StoreU(norm.root(total), tag, out + v * lanes);
  };
  store(t0, 0);
  if constexpr (kVectors > 1) store(t1, 1);
  if constexpr (kVectors > 2) store(t2, 2);
  if constexpr (kVectors > 3) store(t3, 3);
}

template <class T> void to_panel(const T* row, const T* panel, int64_t d, int64_t columns, double p, T* out) {
  constexpr T kLeast = sizeof(T) == 4 ? T(1e-30) : T(1e-280), kMost = sizeof(T) == 4 ? T(1e37) : T(1e300);
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  alignas(64) T sums[kDistanceColumns<T>], roots[kDistanceColumns<T>];
  by_norm<T>(p, [&](const auto& norm) HWY_ATTR {
    for (int64_t v = 0; v < columns;) {
      const int64_t left = columns - v;
      const auto some = [&]<int kVectors>() HWY_ATTR {
        distances_of<T, kVectors>(norm, row, panel + v, d, sums + v, roots + v);
        v += kVectors * lanes;
      };
      if (left > 2 * lanes && v + 4 * lanes <= kDistanceColumns<T>) some.template operator()<4>();
      else if (left > lanes) some.template operator()<2>();
      else some.template operator()<1>();
    }
    for (int64_t j = 0; j < columns; ++j) {
      out[j] = roots[j];
      if (norm.kScaled && !(sums[j] > kLeast && sums[j] < kMost)) out[j] = scaled_distance(row, panel + j, d, p);
    }
  });
}
void ToPanelFloat(const float* row, const float* panel, int64_t d, int64_t columns, double p, float* out) {
  to_panel(row, panel, d, columns, p, out);
}
void ToPanelDouble(const double* row, const double* panel, int64_t d, int64_t columns, double p, double* out) {
  to_panel(row, panel, d, columns, p, out);
}

// --- gradients ------------------------------------------------------------------------------------------------------

// Several differences of a column may be its largest: they share the gradient.
template <class T> void share(const T* row, const T* panel, int64_t d, const T* norm, T* weight) {
  const hn::ScalableTag<T> tag;
  const Largest<hn::Vec<hn::ScalableTag<T>>> largest;
  for (int64_t v = 0; v < kDistanceColumns<T>; v += static_cast<int64_t>(hn::Lanes(tag))) {
    auto count = hn::Zero(tag);
    const auto of = hn::LoadU(tag, norm + v), one = hn::Set(tag, 1);
    for (int64_t k = 0; k < d; ++k) {
      const auto x = hn::Sub(hn::Set(tag, row[k]), hn::LoadU(tag, panel + k * kDistanceColumns<T> + v));
      count = hn::Add(count, hn::IfThenElseZero(largest.attains(x, of), one));
    }
    hn::StoreU(hn::Div(hn::LoadU(tag, weight + v), hn::Max(count, one)), tag, weight + v);
  }
}

template <class T>
void gradient_of(const T* row, const T* panels, int64_t d, int64_t count, const T* g, const T* distances, double p,
                 T* out) {
  constexpr int64_t kWidth = kDistanceColumns<T>;
  const hn::ScalableTag<T> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  std::vector<T> sums(static_cast<size_t>(d * lanes));
  alignas(64) T weight[kWidth], norm[kWidth];
  const bool always = p == 1 || std::isinf(p);  // has a slope at 0
  by_norm<T>(p, [&](const auto& norm_of) HWY_ATTR {
    for (int64_t j = 0; j < count; j += kWidth, panels += d * kWidth) {
      const int64_t columns = std::min(kWidth, count - j);
      for (int64_t i = 0; i < kWidth; ++i) {
        const bool used = i < columns && (always || distances[j + i] != 0);
        weight[i] = used ? g[j + i] : T(0);
        norm[i] = used ? distances[j + i] : static_cast<T>(HUGE_VAL);
      }
      if (std::isinf(p)) share(row, panels, d, norm, weight);
      for (int64_t k = 0; k < d; ++k) {
        const T* at = panels + k * kWidth;
        const auto x = hn::Set(tag, row[k]);
        auto sum = hn::LoadU(tag, sums.data() + k * lanes);
        for (int64_t v = 0; v < columns; v += lanes) {
          const auto slope = norm_of.slope(hn::Sub(x, hn::LoadU(tag, at + v)), hn::LoadU(tag, norm + v));
          sum = hn::MulAdd(slope, hn::LoadU(tag, weight + v), sum);
        }
        hn::StoreU(sum, tag, sums.data() + k * lanes);
      }
    }
  });
  for (int64_t k = 0; k < d; ++k) out[k] = hn::GetLane(hn::SumOfLanes(tag, hn::LoadU(tag, sums.data() + k * lanes)));
}
void GradientFloat(const float* row, const float* panels, int64_t d, int64_t count, const float* g,
                   const float* distances, double p, float* out) {
  gradient_of(row, panels, d, count, g, distances, p, out);
}
void GradientDouble(const double* row, const double* panels, int64_t d, int64_t count, const double* g,
                    const double* distances, double p, double* out) {
  gradient_of(row, panels, d, count, g, distances, p, out);
}

}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(ToPanelFloat);
HWY_EXPORT(ToPanelDouble);
HWY_EXPORT(GradientFloat);
HWY_EXPORT(GradientDouble);

template <class T> static void pack(const T* rows, int64_t count, int64_t d, T* panels) {
  constexpr int64_t kWidth = kDistanceColumns<T>;
  for (int64_t j = 0; j < count; j += kWidth, panels += d * kWidth) {
    const int64_t columns = std::min(kWidth, count - j);
    if (columns < kWidth) std::fill_n(panels, d * kWidth, T(0));
    transpose_tile<T, false>(panels, kWidth, rows + j * d, d, d, columns);
  }
}
void pack_distance_panels(const float* rows, int64_t count, int64_t d, float* panels) { pack(rows, count, d, panels); }
void pack_distance_panels(const double* rows, int64_t count, int64_t d, double* panels) {
  pack(rows, count, d, panels);
}
void distances_to_panel(const float* row, const float* panel, int64_t d, int64_t columns, double p, float* out) {
  HWY_DYNAMIC_DISPATCH(ToPanelFloat)(row, panel, d, columns, p, out);
}
void distances_to_panel(const double* row, const double* panel, int64_t d, int64_t columns, double p, double* out) {
  HWY_DYNAMIC_DISPATCH(ToPanelDouble)(row, panel, d, columns, p, out);
}
void distance_gradient(const float* row, const float* panels, int64_t d, int64_t count, const float* g,
                       const float* distances, double p, float* out) {
  HWY_DYNAMIC_DISPATCH(GradientFloat)(row, panels, d, count, g, distances, p, out);
}
void distance_gradient(const double* row, const double* panels, int64_t d, int64_t count, const double* g,
                       const double* distances, double p, double* out) {
  HWY_DYNAMIC_DISPATCH(GradientDouble)(row, panels, d, count, g, distances, p, out);
}
}  // namespace strata::cpu
#endif
