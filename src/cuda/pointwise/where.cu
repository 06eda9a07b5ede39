// where(condition, yes, no) of contiguous tensors of one type: bits are moved, nothing is converted.
//
// Bound by memory: 1 byte of the condition and three times the size of an element. A thread moves 16 bytes. Compiled for each size
// of an element: knowing it saves the branches over element types, which cost the general kernel of pointwise ops 7%.
#include <stdint.h>

#include "cuda/pointwise/where_params.h"

namespace strata::cuda {
namespace {

// The conditions of the elements in 16 bytes, one in each byte.
template <int kSize> struct Conditions {
  static constexpr int kItems = 16 / kSize;
  alignas(kItems) uint8_t byte[kItems];
};

template <int kSize> __device__ __forceinline__ void where(const WhereParams& p) {
  using C = Conditions<kSize>;
  const int64_t first = (int64_t(blockIdx.x) * kWhereThreads + threadIdx.x) * C::kItems;
  const auto* condition = reinterpret_cast<const uint8_t*>(p.condition);
  const auto *yes = reinterpret_cast<const uint8_t*>(p.yes), *no = reinterpret_cast<const uint8_t*>(p.no);
  auto* to = reinterpret_cast<uint8_t*>(p.to);
  if (first + C::kItems > p.count) {  // the last elements
    for (int64_t i = first; i < p.count; ++i)
      for (int b = 0; b < kSize; ++b) to[i * kSize + b] = (condition[i] ? yes : no)[i * kSize + b];
    return;
  }
  const C holds = *reinterpret_cast<const C*>(condition + first);
  const uint4 y = *reinterpret_cast<const uint4*>(yes + first * kSize);
  const uint4 n = *reinterpret_cast<const uint4*>(no + first * kSize);
  const uint32_t from_yes[4] = {y.x, y.y, y.z, y.w}, from_no[4] = {n.x, n.y, n.z, n.w};
  uint32_t word[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    uint32_t mask = 0;
    if constexpr (kSize >= 4) {
      mask = holds.byte[w / (kSize / 4)] ? 0xffffffffu : 0;
    } else {
      constexpr uint32_t kOnes = kSize == 2 ? 0xffffu : 0xffu;
#pragma unroll
      for (int k = 0; k < 4 / kSize; ++k)
        if (holds.byte[w * (4 / kSize) + k]) mask |= kOnes << (8 * kSize * k);
    }
    word[w] = (from_yes[w] & mask) | (from_no[w] & ~mask);
  }
  *reinterpret_cast<uint4*>(to + first * kSize) = make_uint4(word[0], word[1], word[2], word[3]);
}
}  // namespace

#define STRATA_WHERE(size) \
  extern "C" __global__ void __launch_bounds__(kWhereThreads) where_##size(WhereParams p) { where<size>(p); }
STRATA_WHERE(1)
STRATA_WHERE(2)
STRATA_WHERE(4)
STRATA_WHERE(8)

}  // namespace strata::cuda
