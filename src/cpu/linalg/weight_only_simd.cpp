#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linalg/weight_only_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "cpu/linalg/weight_only.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kChunk = 256;  // weights that are converted at once

// q[k0 .. k0 + n) of a row as floats; k0 and n are even for four bits unless the row ends.
HWY_INLINE void convert_weights(const WeightLine& line, int64_t k0, int64_t n, float* to) {
  alignas(64) int8_t nibbles[kChunk + 1];
  const auto* from = reinterpret_cast<const int8_t*>(line.weight) + k0;
  if (line.bits == 4) {
    const uint8_t* bytes = line.weight + k0 / 2;
    for (int64_t i = 0; i < (n + 1) / 2; ++i) {
      nibbles[2 * i] = static_cast<int8_t>((bytes[i] >> 4) - 8);
      nibbles[2 * i + 1] = static_cast<int8_t>((bytes[i] & 15) - 8);
    }
    from = nibbles;
  }
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> d32;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, from + i))), d, to + i);
  for (; i < n; ++i) to[i] = from[i];
}

// The sums of w[i] x[i] and of x[i].
HWY_INLINE void dot(const float* w, const float* x, int64_t n, bool with_sum, float& product, float& sum) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto p0 = hn::Zero(d), p1 = hn::Zero(d), s = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + lanes);
    p0 = hn::MulAdd(hn::LoadU(d, w + i), x0, p0);
    p1 = hn::MulAdd(hn::LoadU(d, w + i + lanes), x1, p1);
    if (with_sum) s = hn::Add(s, hn::Add(x0, x1));
  }
  product += hn::GetLane(hn::SumOfLanes(d, hn::Add(p0, p1)));
  sum += hn::GetLane(hn::SumOfLanes(d, s));
  for (; i < n; ++i) {
    product += w[i] * x[i];
    sum += x[i];
  }
}

void WeightLineOf(const WeightLine& line, float* out) {
  alignas(64) float w[kChunk];
  float products[kWeightRows], sums[kWeightRows];
  std::fill_n(out, line.rows, 0.F);
  for (int64_t begin = 0, g = 0; begin < line.k; begin += line.group, ++g) {
    std::fill_n(products, line.rows, 0.F);
    std::fill_n(sums, line.rows, 0.F);
    for (int64_t at = begin; at < begin + line.group;) {
      // An odd first weight of four bits is in the middle of a byte: alone, so that the next begins one.
      const bool is_odd = line.bits == 4 && at % 2 != 0;
      const int64_t n = is_odd ? 1 : std::min(kChunk, begin + line.group - at);
      if (is_odd) w[0] = static_cast<float>((line.weight[at / 2] & 15) - 8);
      else convert_weights(line, at, n, w);
      for (int r = 0; r < line.rows; ++r)
        dot(w, line.x + r * line.k + at, n, line.zeros != nullptr, products[r], sums[r]);
      at += n;
    }
    for (int r = 0; r < line.rows; ++r)
      out[r] += line.scales[g] * products[r] + (line.zeros ? line.zeros[g] * sums[r] : 0.F);
  }
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(WeightLineOf);
void weight_line(const WeightLine& line, float* out) { HWY_DYNAMIC_DISPATCH(WeightLineOf)(line, out); }
}  // namespace strata::cpu
#endif
