// A random permutation: the order of random numbers of 64 bits, the same as on the host.
//
// Only some upper bits of the numbers are sorted, so many that few are equal. Then a thread sorts each run of equal keys
// by the whole numbers, which are drawn again. Bound by the passes of the sort.
#include "cuda/creation/permutation_params.h"
#include "cuda/creation/philox_blocks.cuh"

namespace strata::cuda {
namespace {

constexpr uint32_t kSign = 0x80000000u;  // numbers are compared with their signs

__device__ __forceinline__ uint64_t number_of(const Blocks& blocks, int64_t place) {
  const PhiloxBlock block = blocks[place / 2];
  const int word = int(place % 2) * 2;
  return uint64_t((word ? block.word[2] : block.word[0]) ^ kSign) << 32 | (word ? block.word[3] : block.word[1]);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) permutation_keys(PermutationParams p) {
  const int64_t block = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, first = 2 * block;
  if (first >= p.count) return;
  const PhiloxBlock drawn = Blocks(p)[block];
  const uint2 keys = make_uint2((drawn.word[0] ^ kSign) >> p.shift, (drawn.word[2] ^ kSign) >> p.shift);
  auto* const to = reinterpret_cast<uint32_t*>(p.keys) + first;
  if (first + 1 < p.count) *reinterpret_cast<uint2*>(to) = keys;
  else *to = keys.x;
}

extern "C" __global__ void __launch_bounds__(256) permutation_order(PermutationParams p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const auto* const keys = reinterpret_cast<const uint32_t*>(p.keys);
  const auto* const places = reinterpret_cast<const uint32_t*>(p.places);
  auto* const out = reinterpret_cast<int64_t*>(p.out);
  const uint32_t key = keys[i];
  if (i > 0 && keys[i - 1] == key) return;  // the thread of the first one writes the run
  out[i] = places[i];
  const Blocks blocks(p);
  for (int64_t last = i + 1; last < p.count && keys[last] == key; ++last) {  // insertion; equal numbers stay in order
    const int64_t place = places[last];
    const uint64_t number = number_of(blocks, place);
    int64_t at = last;
    for (; at > i && number_of(blocks, out[at - 1]) > number; --at) out[at] = out[at - 1];
    out[at] = place;
  }
}

}  // namespace strata::cuda
