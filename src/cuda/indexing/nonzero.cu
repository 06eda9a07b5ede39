// Positions of non-zero elements, in order; elements under a mask.
//
// Bound by memory: elements are read once to count them, since the result's size depends on the count, and once to write
// (compact.cuh). Elements of one byte, such as those of masks, are read 16 at once.
#include "cuda/common/compact.cuh"
#include "cuda/common/dtypes.cuh"
#include "cuda/common/index.cuh"
#include "cuda/common/units.cuh"
#include "cuda/indexing/indexing_params.h"

namespace strata::cuda {
namespace {

__device__ __forceinline__ bool is_set(const NonzeroParams& p, int64_t i) {
  if (i >= p.count) return false;
  const void* at = element(p.x, p.type, i);
  switch (p.type) {  // -0 is zero, NaN is not
    case kF8E4M3:
    case kF8E5M2: return (*static_cast<const uint8_t*>(at) & 0x7fu) != 0;
    case kF16:
    case kBF16: return (*static_cast<const uint16_t*>(at) & 0x7fffu) != 0;
    case kF32: return *static_cast<const float*>(at) != 0;
    case kF64: return *static_cast<const double*>(at) != 0;
    default: break;
  }
  switch (log_size(p.type)) {
    case 0: return *static_cast<const uint8_t*>(at) != 0;
    case 1: return *static_cast<const uint16_t*>(at) != 0;
    case 2: return *static_cast<const uint32_t*>(at) != 0;
    default: return *static_cast<const uint64_t*>(at) != 0;
  }
}

// One bit for each non-zero byte of a word, among those of `mask`.
__device__ __forceinline__ uint32_t nonzero_bytes(uint32_t word, uint32_t mask) {
  word &= mask;
  const uint32_t tops = ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu | word) & 0x80808080u;
  return tops * 0x00204081u >> 28;  // moves bits 7, 15, 23 and 31 next to each other
}
// The non-zero ones among this lane's 16 of the 512 elements of a warp, from `first` on.
__device__ __forceinline__ uint32_t set_bits(const NonzeroParams& p, int64_t first) {
  if (!p.bytes || first + 32 * kCompactItems > p.count)
    return ballot_bits(first, [&](int64_t i) { return is_set(p, i); });
  const uint4 v = reinterpret_cast<const uint4*>(p.x + uint64_t(first))[threadIdx.x % 32];
  const uint32_t mask = p.type == kF8E4M3 || p.type == kF8E5M2 ? 0x7f7f7f7fu : 0xffffffffu;
  return nonzero_bytes(v.x, mask) | nonzero_bytes(v.y, mask) << 4 | nonzero_bytes(v.z, mask) << 8 |
         nonzero_bytes(v.w, mask) << 12;
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) count_nonzero(NonzeroParams p) {
  __shared__ uint32_t total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  int found = __popc(set_bits(p, warp_elements(blockIdx.x)));
#pragma unroll
  for (int by = 16; by > 0; by /= 2) found += __shfl_xor_sync(kAllLanes, found, by);
  if (threadIdx.x % 32 == 0) atomicAdd(&total, uint32_t(found));
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(p.out), static_cast<unsigned long long>(total));
}

extern "C" __global__ void __launch_bounds__(256) write_nonzero(NonzeroParams p) {
  compact_elements(
    p.words, p.ticket, [&](int64_t first) { return set_bits(p, first); },
    [&](int64_t row, int64_t i) {
      int64_t* to = reinterpret_cast<int64_t*>(p.out) + row * p.dims;
      if (p.dims == 1) {
        *to = i;
        return;
      }
      uint32_t rest = uint32_t(i);
      for (int d = 0; d < p.dims; ++d) to[p.dims - 1 - d] = split_off(rest, p.size[d]);
    });
}

// The elements of `source` where x, the mask, is set.
extern "C" __global__ void __launch_bounds__(256) write_masked(NonzeroParams p) {
  compact_elements(
    p.words, p.ticket, [&](int64_t first) { return set_bits(p, first); },
    [&](int64_t row, int64_t i) { store_unit(p.out, row, p.log_unit, load_unit(p.source, i, p.log_unit)); });
}

}  // namespace strata::cuda
