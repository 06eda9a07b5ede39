// A stable radix sort of lines, eight bits at a time from the lowest, that reads and writes each element once per pass.
//
// radix_count counts all digits of a line in one pass over the keys, radix_plan turns the counts into the position of
// each digit's first element and finds the digits that are the same everywhere, whose passes do nothing. A pass is one
// launch: a block takes the next tile of a line, ranks its elements in shared memory, adds the counts of the preceding
// tiles of the line (look-back), and writes runs of elements of the same digit. Blocks take tiles in order, so a block
// only waits for blocks that are running. The keys are the elements' own bits: the first pass reads the tensor itself,
// the last one writes the results. 16 bytes per element and pass for keys of 4 bytes, of which 8 are for the positions, if
// they are wanted. Bound by the instructions of ranking, and by waiting for the blocks before.
#include "cuda/order/radix.cuh"

namespace strata::cuda {
namespace {

constexpr int kCountThreads = 256, kAhead = 4;

template <class Bits> __device__ __forceinline__ Bits from_first_lane(Bits v) {
  if constexpr (sizeof(Bits) == 8) return __shfl_sync(kAllLanes, static_cast<unsigned long long>(v), 0);
  else return Bits(__shfl_sync(kAllLanes, uint32_t(v), 0));
}

// A block counts the digits of a part of a line.
template <class Bits> __device__ __forceinline__ void count_digits(const RadixParams& p) {
  constexpr int kPasses = sizeof(Bits);
  // Additions to one address take a step each: neighbouring lanes have counts of their own.
  constexpr int kCopies = 4;
  __shared__ uint32_t counts[kPasses][kRadixDigits][kCopies];
  for (int c = threadIdx.x; c < kPasses * kRadixDigits * kCopies; c += kCountThreads) counts[0][0][c] = 0;
  __syncthreads();
  const int copy = threadIdx.x % kCopies;
  const int64_t line = blockIdx.x / p.parts, begin = blockIdx.x % p.parts * p.part, end = min(begin + p.part, p.n);
  const Bits* keys = reinterpret_cast<const Bits*>(p.x) + line * p.n;
  const Digits<Bits> digits(p.type, p.flip);
  const auto count = [&](Bits bits, bool whole_warp) {
    const Bits key = Bits(digits.order(bits) ^ digits.turn);
    const Bits first = whole_warp ? from_first_lane(key) : key;
#pragma unroll
    for (int k = 0; k < kPasses; ++k) {
      if (k >= p.passes) break;
      const uint32_t digit = uint32_t(key >> 8 * k) & uint32_t(kRadixDigits - 1);
      // Upper digits are often the same everywhere.
      if (whole_warp && __all_sync(kAllLanes, (Bits(key ^ first) >> 8 * k & (kRadixDigits - 1)) == 0)) {
        if (threadIdx.x % 32 == 0) atomicAdd(&counts[k][digit][0], 32u);
      } else {
        atomicAdd(&counts[k][digit][copy], 1u);
      }
    }
  };
  int64_t at = begin;
  for (; at + kAhead * kCountThreads <= end; at += kAhead * kCountThreads) {
    Bits bits[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) bits[j] = keys[at + j * kCountThreads + threadIdx.x];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) count(bits[j], true);
  }
  for (int64_t i = at + threadIdx.x; i < end; i += kCountThreads) count(keys[i], false);
  __syncthreads();
  auto* to = reinterpret_cast<RadixLine*>(p.lines) + line;
  for (int c = threadIdx.x; c < p.passes * kRadixDigits; c += kCountThreads) {
    uint32_t all = 0;
#pragma unroll
    for (int k = 0; k < kCopies; ++k) all += counts[0][c][k];
    if (all) atomicAdd(&to->starts[0][c], all);
  }
}

// The number of elements of a digit in the tiles before this one.
__device__ __forceinline__ uint64_t look_back(const RadixParams& p, int64_t first, int64_t tile, int digit) {
  const auto* states = reinterpret_cast<const volatile uint64_t*>(p.states) + first * kRadixDigits + digit;
  const uint64_t own = 2 * p.pass + 1, whole = own + 1;  // tags: count of the tile; of the tile and all before it
  uint64_t before = 0;
  for (int64_t t = tile - 1; t >= 0;) {
    uint64_t words[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) words[j] = states[max(t - j, int64_t(0)) * kRadixDigits];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const uint64_t tag = words[j] >> kRadixTagShift;
      if (t < 0 || (tag != own && tag != whole)) break;
      before += words[j] & kRadixCountMask;
      t = tag == whole ? -1 : t - 1;
    }
  }
  return before;
}

template <class Bits> __device__ __forceinline__ void pass(const RadixParams& p) {
  constexpr int kItems = sizeof(Bits) == 8 ? kRadixItemsWide : kRadixItems, kTile = kRadixThreads * kItems;
  using Shared = RadixShared<Bits, kItems>;
  __shared__ Shared s;
  __shared__ uint32_t ticket;
  const int thread = threadIdx.x;
  if (gridDim.x == p.tiles && !(reinterpret_cast<const RadixLine*>(p.lines)->route[p.pass] & kRadixRuns)) return;
  if (thread == 0) ticket = atomicAdd(reinterpret_cast<uint32_t*>(p.tickets) + p.pass, 1u);
  __syncthreads();
  const int64_t number = ticket, line = number / p.tiles, tile = number % p.tiles;
  const RadixLine& plan = reinterpret_cast<const RadixLine*>(p.lines)[line];
  const uint32_t route = plan.route[p.pass];
  if (!(route & kRadixRuns)) return;
  const uint32_t source = route >> kRadixSourceShift & 3;  // 0: the tensor, otherwise a buffer
  const bool last = route & kRadixLast;
  const int64_t base = line * p.n, begin = tile * kTile;
  const int count = int(min(p.n - begin, int64_t(kTile)));

  const Bits* from = reinterpret_cast<const Bits*>(source ? p.keys[source - 1] : p.x) + base + begin;
  Bits keys[kItems];
  uint32_t rank[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int e = own_element<kItems>(j);
    keys[j] = e < count ? from[e] : Bits(0);
    rank[j] = 0;
  }
  const Digits<Bits> digits(p.type, p.flip);
  auto* states = reinterpret_cast<volatile uint64_t*>(p.states) + number * kRadixDigits;
  uint32_t own = 0;
  rank_elements<Bits, kItems>(
    s, OwnDigits<kItems>(digits, keys, p.shift, count),
    [&](uint32_t total) {
      own = total;
      if (tile > 0) states[thread] = uint64_t(2 * p.pass + 1) << kRadixTagShift | total;
    },
    rank);
#pragma unroll
  for (int j = 0; j < kItems; ++j) s.keys[rank[j]] = keys[j];
  // Read now, as the look-back waits for other blocks.
  const auto* places = reinterpret_cast<const uint32_t*>(source ? p.places[source - 1] : p.payload);
  uint32_t place[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int e = own_element<kItems>(j);
    place[j] = uint32_t(begin) + e;
    if (places && p.indices && e < count) place[j] = places[base + place[j]];
  }
  if (thread < kRadixDigits) {
    const uint64_t before = look_back(p, number - tile, tile, thread);
    states[thread] = uint64_t(2 * p.pass + 2) << kRadixTagShift | (before + own);
    s.starts[thread] = plan.starts[p.pass][thread] + uint32_t(before) - s.starts[thread];
    __syncwarp();  // the barrier needs whole warps
  }
  __syncthreads();

  uint32_t to[kItems];  // positions in the line of the elements that this thread writes
  const int64_t out = last ? line * p.keep : base;
  Bits* keys_out = reinterpret_cast<Bits*>(last ? p.values : p.keys[source == 1]);
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int e = j * kRadixThreads + thread;
    to[j] = 0xffffffffu;
    if (e >= count) continue;
    const Bits bits = s.keys[e];
    to[j] = s.starts[digits(bits, p.shift)] + e;
    if (last && to[j] >= p.keep) to[j] = 0xffffffffu;
    if (keys_out && to[j] != 0xffffffffu) keys_out[out + to[j]] = bits;
  }
  if (!p.indices) return;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kItems; ++j) s.places[rank[j]] = place[j];
  __syncthreads();
  const uint64_t places_out = last ? p.indices : p.places[source == 1];
  const bool wide = last && p.wide_indices;
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    if (to[j] == 0xffffffffu) continue;
    const uint32_t moved = s.places[j * kRadixThreads + thread];
    if (wide) reinterpret_cast<int64_t*>(places_out)[out + to[j]] = moved;
    else reinterpret_cast<uint32_t*>(places_out)[out + to[j]] = moved;
  }
}
}  // namespace

#define STRATA_RADIX(suffix, Bits)                                                                                 \
  extern "C" __global__ void __launch_bounds__(256) radix_count_##suffix(RadixParams p) { count_digits<Bits>(p); } \
  extern "C" __global__ void __launch_bounds__(512, 2) radix_pass_##suffix(RadixParams p) { pass<Bits>(p); }
STRATA_RADIX(u8, uint8_t)
STRATA_RADIX(u16, uint16_t)
STRATA_RADIX(u32, uint32_t)
STRATA_RADIX(u64, uint64_t)

// A block per line: counts become positions, and each pass learns what it reads and writes.
extern "C" __global__ void __launch_bounds__(256) radix_plan(RadixParams p) {
  __shared__ uint32_t of_warp[kRadixDigits / 32];
  __shared__ bool runs[kRadixPassesMost];
  RadixLine& line = reinterpret_cast<RadixLine*>(p.lines)[blockIdx.x];
  const int digit = threadIdx.x;
  if (digit < p.passes) runs[digit] = true;
  for (int k = 0; k < p.passes; ++k) {
    const uint32_t own = line.starts[k][digit];
    __syncthreads();
    const uint32_t start = sum_below(own, of_warp);
    line.starts[k][digit] = start;
    if (own == p.n) runs[k] = false;  // all elements have this digit
  }
  __syncthreads();
  if (digit > 0) return;
  int last = 0;
  for (int k = 0; k < p.passes; ++k)
    if (runs[k]) last = k;
  runs[last] = true;  // at least one pass writes the results
  uint32_t source = 0;
  for (int k = 0; k < p.passes; ++k) {
    line.route[k] = runs[k] ? kRadixRuns | (k == last ? kRadixLast : 0) | source << kRadixSourceShift : 0;
    if (runs[k]) source = source == 1 ? 2 : 1;
  }
}

}  // namespace strata::cuda
