// A stable radix sort of lines of medium length: a block sorts a line of up to 8192 elements (4096 of 8 bytes).
//
// Each pass ranks the elements by eight bits and moves them to their ranks through shared memory; digits that are the
// same everywhere are skipped. Device memory is read and written once, so the kernel is bound by the instructions of
// ranking, about 100 per element and pass.
#include "cuda/order/radix.cuh"

namespace strata::cuda {
namespace {

// The bits in which the keys of a block differ.
template <class Bits> __device__ __forceinline__ Bits any_bits(Bits own, uint64_t (&of_warp)[kRadixWarps]) {
  uint64_t all = own;
#pragma unroll
  for (int by = 16; by > 0; by /= 2) all |= __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(all), by);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = all;
  __syncthreads();
  for (int w = 0; w < kRadixWarps; ++w) all |= of_warp[w];
  return Bits(all);
}

template <class Bits, int kItems> __device__ __forceinline__ void sort_line(const LineSortParams& p) {
  __shared__ RadixShared<Bits, kItems> s;
  __shared__ uint64_t of_warp[kRadixWarps];
  const Bits* line = reinterpret_cast<const Bits*>(p.x) + int64_t(blockIdx.x) * p.n;
  const int n = int(p.n);
  const Digits<Bits> digits(p.type, p.flip);
  const Bits first = digits.order(line[0]);
  Bits keys[kItems], differ = 0;
  uint32_t rank[kItems];  // the element's position in its line in the upper half
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int e = own_element<kItems>(j);
    keys[j] = e < n ? line[e] : Bits(0);
    rank[j] = uint32_t(e) << 16;
    if (e < n) differ |= digits.order(keys[j]) ^ first;
  }
  differ = any_bits(differ, of_warp);
#pragma unroll 1
  for (int shift = 0; shift < int(sizeof(Bits)) * 8; shift += 8) {
    if ((differ >> shift & (kRadixDigits - 1)) == 0) continue;
    rank_elements<Bits, kItems>(
      s, OwnDigits<kItems>(digits, keys, shift, n), [](uint32_t) {}, rank);
#pragma unroll
    for (int j = 0; j < kItems; ++j) s.keys[rank[j] & 0xffffu] = keys[j];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kItems; ++j) keys[j] = s.keys[own_element<kItems>(j)];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kItems; ++j) s.places[rank[j] & 0xffffu] = rank[j] & 0xffff0000u;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kItems; ++j) rank[j] = s.places[own_element<kItems>(j)];
  }
  const int64_t out = int64_t(blockIdx.x) * p.keep;
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int e = own_element<kItems>(j);
    if (e >= p.keep) continue;
    if (p.values) reinterpret_cast<Bits*>(p.values)[out + e] = keys[j];
    const uint32_t place = rank[j] >> 16;
    if (p.indices && p.wide_indices) reinterpret_cast<int64_t*>(p.indices)[out + e] = place;
    else if (p.indices) reinterpret_cast<uint32_t*>(p.indices)[out + e] = uint32_t(blockIdx.x) * uint32_t(n) + place;
  }
}
}  // namespace

// Sixteen elements of a thread do not fit the registers of two blocks per multiprocessor.
#define STRATA_SORT_LINE(name, Bits, items)                                                      \
  extern "C" __global__ void __launch_bounds__(512, items == 8 ? 2 : 1) name(LineSortParams p) { \
    sort_line<Bits, items>(p);                                                                   \
  }
STRATA_SORT_LINE(sort_line_u8, uint8_t, 16)
STRATA_SORT_LINE(sort_line_u16, uint16_t, 16)
STRATA_SORT_LINE(sort_line_u32, uint32_t, 16)
STRATA_SORT_LINE(sort_short_line_u8, uint8_t, 8)
STRATA_SORT_LINE(sort_short_line_u16, uint16_t, 8)
STRATA_SORT_LINE(sort_short_line_u32, uint32_t, 8)
STRATA_SORT_LINE(sort_short_line_u64, uint64_t, 8)

}  // namespace strata::cuda
