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
    const hn::ScalableTag<uint8_t> du;
    const auto lanes = static_cast<int64_t>(hn::Lanes(du)), count = (n + 1) / 2;
    const auto eight = hn::Set(du, 8), low = hn::Set(du, 15);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto v = hn::LoadU(du, bytes + i);
      hn::StoreInterleaved2(hn::Sub(hn::ShiftRight<4>(v), eight), hn::Sub(hn::And(v, low), eight), du,
                            reinterpret_cast<uint8_t*>(nibbles) + 2 * i);
    }
    for (; i < count; ++i) {
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

// total[lanes] += scale * w[i] x[i], by lanes; the elements after the last whole vector are added to `rest`.
HWY_INLINE void add_products(const float* w, const float* x, int64_t n, float scale, float* total, float& rest) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto p0 = hn::Zero(d), p1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    p0 = hn::MulAdd(hn::LoadU(d, w + i), hn::LoadU(d, x + i), p0);
    p1 = hn::MulAdd(hn::LoadU(d, w + i + lanes), hn::LoadU(d, x + i + lanes), p1);
  }
  hn::StoreU(hn::MulAdd(hn::Set(d, scale), hn::Add(p0, p1), hn::LoadU(d, total)), d, total);
  for (; i < n; ++i) rest += scale * w[i] * x[i];
}

void WeightLineOf(const WeightLine& line, float* out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  alignas(64) float w[kChunk], totals[kWeightRows * hn::MaxLanes(d)] = {};
  std::fill_n(out, line.rows, 0.F);
  for (int64_t begin = 0, g = 0; begin < line.k; begin += line.group, ++g)
    for (int64_t at = begin; at < begin + line.group;) {
      // An odd first weight of four bits is in the middle of a byte: alone, so that the next begins one.
      const bool is_odd = line.bits == 4 && at % 2 != 0;
      const int64_t n = is_odd ? 1 : std::min(kChunk, begin + line.group - at);
      if (is_odd) w[0] = static_cast<float>((line.weight[at / 2] & 15) - 8);
      else convert_weights(line, at, n, w);
      for (int r = 0; r < line.rows; ++r)
        add_products(w, line.x + r * line.k + at, n, line.scales[g], totals + static_cast<size_t>(r) * lanes, out[r]);
      at += n;
    }
  const int64_t groups = line.k > 0 ? line.k / line.group : 0;
  for (int r = 0; r < line.rows; ++r) {
    out[r] += hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, totals + static_cast<size_t>(r) * lanes)));
    for (int64_t g = 0; line.zeros && g < groups; ++g) out[r] += line.zeros[g] * line.sums_of_x[r * groups + g];
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
