// Scans of few long lines in one pass: each element is read and written once, by many blocks.
//
// A block takes the next tile of a line, so it only waits for blocks that are running, and scans it. The state before
// the tile is found by look-back, in an order that does not depend on timing, so that each run gives the same bits:
// tiles form groups of 32. The tiles of a group before this one are combined by a warp, in the order of its shuffles.
// The groups before are combined one by one from the first on: a group publishes its own state and then that of all
// groups up to it, and combining what has been published so far from left to right gives the same result.
#include "cuda/reduce/scan_kinds.cuh"

namespace strata::cuda {
namespace {

// States in device memory. Each half of a 64-bit word that is written and read at once has 32 bits of a state, the other
// one tells whether they are there: no fence is needed between a state and a flag. Memory is 0 at first.
template <class S> struct Published {
  static constexpr int kWords = sizeof(S) / 4;
  static_assert(kWords <= kScanStateWords);
  uint64_t words;
  __device__ void put(int64_t i, const S& s) const {
    uint32_t parts[kWords];
    memcpy(parts, &s, sizeof s);
#pragma unroll
    for (int k = 0; k < kWords; ++k)
      reinterpret_cast<volatile uint64_t*>(words)[i * kWords + k] = 1ull << 32 | parts[k];
  }
  // Returns false if the state is not there yet.
  __device__ bool get(int64_t i, S& s) const {
    uint64_t read[kWords];
#pragma unroll
    for (int k = 0; k < kWords; ++k) read[k] = reinterpret_cast<const volatile uint64_t*>(words)[i * kWords + k];
    uint32_t parts[kWords];
    bool there = true;
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      there = there && read[k] >> 32;
      parts[k] = uint32_t(read[k]);
    }
    memcpy(&s, parts, sizeof s);
    return there;
  }
};

// The state of all groups before this one. Called by a warp.
template <class K>
__device__ __forceinline__ typename K::State before_group(const Published<typename K::State>& own,
                                                          const Published<typename K::State>& whole, int64_t line,
                                                          int64_t group) {
  const int lane = threadIdx.x % 32;
  const int64_t at = line + max(group - 1 - lane, int64_t(0));
  typename K::State of_all, of_group;
  int nearest;
  for (;;) {  // until one of the last 32 groups is whole, and those after it have states of their own
    const bool is_whole = whole.get(at, of_all), is_own = own.get(at, of_group);
    const uint32_t wholes = __ballot_sync(kAllLanes, is_whole), owns = __ballot_sync(kAllLanes, is_own);
    nearest = __ffs(int(wholes)) - 1;
    const uint32_t after = nearest < 0 ? 0 : (1u << nearest) - 1;
    if (nearest >= 0 && (owns & after) == after) break;
  }
  const typename K::State mine = lane == nearest ? of_all : of_group;
  typename K::State all = from_lane(mine, nearest);
  for (int l = nearest - 1; l >= 0; --l) all = K::both(all, from_lane(mine, l));
  return all;
}

// Publishes the state of a tile and returns that of all before it. Called by a warp.
template <class K>
__device__ __forceinline__ typename K::State look_back(const ScanParams& p, int64_t line, int64_t tile,
                                                       const typename K::State& own) {
  using State = typename K::State;
  const Published<State> tiles{p.tile_states}, groups{p.group_states}, wholes{p.whole_states};
  const int lane = threadIdx.x % 32, number = int(tile % kScanGroup);
  const int64_t group = tile / kScanGroup, first_tile = line * p.tiles + tile - number, first_group = line * p.groups;
  if (lane == 0) tiles.put(first_tile + number, own);
  State mine = K::none();
  if (lane < number)
    while (!tiles.get(first_tile + lane, mine)) {}
  __syncwarp();
  const State in_group = from_lane(warp_scan<K>(mine), 31);
  const State up_to = K::both(in_group, own);
  const bool last = number == kScanGroup - 1;
  if (last && lane == 0) groups.put(first_group + group, up_to);
  if (group == 0) {
    if (last && lane == 0) wholes.put(first_group, up_to);
    return in_group;
  }
  const State before = before_group<K>(groups, wholes, first_group, group);
  if (last && lane == 0) wholes.put(first_group + group, K::both(before, up_to));
  return K::both(before, in_group);
}

// Hides where a number comes from: the compiler would keep what it has computed of it, in registers that limit the blocks
// of a multiprocessor, instead of computing it again.
__device__ __forceinline__ void forget(float& x) { asm("" : "+f"(x)); }
__device__ __forceinline__ void forget(double& x) { asm("" : "+d"(x)); }
__device__ __forceinline__ void forget(int64_t& x) { asm("" : "+l"(x)); }

template <class K> __device__ __forceinline__ void scan_tile(const ScanParams& p) {
  using T = typename K::Element;
  using State = typename K::State;
  constexpr int kItems = 16 / sizeof(T), kPiece = 32 * kItems, kVectors = K::kLogs ? kLogScanVectors : kScanVectors;
  __shared__ State of_warps[kScanWarps], carried;
  __shared__ uint32_t ticket;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) ticket = atomicAdd(reinterpret_cast<uint32_t*>(p.ticket), 1u);
  __syncthreads();
  const int64_t line = ticket / p.tiles, tile = ticket % p.tiles;
  const int64_t base = line / p.inner * p.n * p.inner + line % p.inner;
  const int64_t first = (tile * kScanWarps + warp) * kVectors * kPiece + lane * kItems;
  T x[kVectors][kItems];  // states of all elements would need twice the registers
  State kept[K::kLogs ? kVectors : 1][kItems], run = K::none();
  // Of each vector, the elements of the warp before it: here, as registers limit the blocks of a multiprocessor.
  __shared__ State before[kVectors][kScanThreads];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) load_items<T>(p, base, first + v * kPiece, p.n, x[v]);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    State s[kItems];
    scan_items<K>(x[v], first + v * kPiece, s);
    if constexpr (K::kLogs) {
#pragma unroll
      for (int j = 0; j < kItems; ++j) kept[v][j] = s[j];
    }
    const State sum = warp_scan<K>(s[kItems - 1]), below = from_below(sum, 1);
    before[v][threadIdx.x] = lane == 0 ? run : K::both(run, below);
    run = K::both(run, from_lane(sum, 31));
  }
  if (lane == 0) of_warps[warp] = run;
  __syncthreads();
  if (warp == 0) {
    State all = of_warps[0];
    for (int w = 1; w < kScanWarps; ++w) all = K::both(all, of_warps[w]);
    all = look_back<K>(p, line, tile, all);
    if (lane == 0) carried = all;
    __syncwarp();  // the barrier needs whole warps
  }
  __syncthreads();
  State lead = carried;
  for (int w = 0; w < warp; ++w) lead = K::both(lead, of_warps[w]);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const State own = K::both(lead, before[v][threadIdx.x]);
    if constexpr (K::kLogs) {
      put_states<K>(p, base, first + v * kPiece, p.n, own, kept[v]);
    } else {
      State s[kItems];
#pragma unroll
      for (int j = 0; j < kItems; ++j) forget(x[v][j]);
      scan_items<K>(x[v], first + v * kPiece, s);
      put_states<K>(p, base, first + v * kPiece, p.n, own, s);
    }
  }
}
}  // namespace

// Sums and products wait for memory and for other blocks: four blocks per multiprocessor overlap that.
template <class K> constexpr int kScanBlocks = K::kPlaces || K::kLogs ? 1 : 4;

#define STRATA_SCAN_TILE(name, K, suffix, T)                                                                \
  extern "C" __global__ void __launch_bounds__(256, kScanBlocks<K<T>>) name##_tile_##suffix(ScanParams p) { \
    scan_tile<K<T>>(p);                                                                                     \
  }
STRATA_SCANS(STRATA_SCAN_TILE)

}  // namespace strata::cuda
