// Products of groups of rows with a matrix of each group (mixtures of experts), in one launch, with the tiles of
// gemm_template.cuh. Bound: as a product of that size, plus a part of a tile for each group.
//
// The sizes of the groups are known to the device only. The grid has as many tiles as there may be; a block finds its
// group by a scan of the offsets, or ends. Rows after the last group are written as zeros: they count as a group
// without k. Copies of 16 bytes need aligned addresses, so if rows are the dense dimension of a, a group's first tile
// begins at a multiple of eight rows, and does not store those of the group before.
#pragma once
#include "cuda/common/fault.cuh"
#include "cuda/custom/gemm_template.cuh"
#include "cuda/linalg/grouped_params.h"

namespace strata::cuda::grouped {

using namespace strata::gemm;

// Where group g ends. Offsets that are out of order are reported, and their group is empty.
__device__ __forceinline__ int64_t end_of(const GroupedParams& p, int g, int64_t size) {
  if (g < 0) return 0;
  const int64_t end = reinterpret_cast<const int32_t*>(p.offsets)[g];
  return min(max(end, int64_t(0)), size);
}
__device__ __forceinline__ void check_offset(const GroupedParams& p, int g, int64_t size) {
  const auto* offsets = reinterpret_cast<const int32_t*>(p.offsets);
  const int64_t before = g > 0 ? offsets[g - 1] : 0;
  if (offsets[g] < before || offsets[g] > size) report(p.faults, FaultCode::Offset, offsets[g], size);
}

struct Group {
  int index;  // p.groups: the rows after the last group
  int64_t begin, end, tile;
};

// The group of tile `tile` of a list of all groups' tiles of kTile rows, by all lanes of a warp. index -1: none.
template <int kTile, bool kAligned> __device__ __forceinline__ Group find_group(const GroupedParams& p, int64_t tile) {
  const int lane = threadIdx.x % 32;
  int64_t before = 0;  // tiles of the groups before
  for (int first = 0; first <= p.groups; first += 32) {
    const int g = first + lane;
    int64_t begin = 0, end = 0, tiles = 0;
    if (g <= p.groups) {
      begin = end_of(p, g - 1, p.m);
      end = g == p.groups ? p.m : end_of(p, g, p.m);
      const int64_t start = kAligned ? begin / 8 * 8 : begin;
      tiles = end > begin ? (end - start + kTile - 1) / kTile : 0;
    }
    int64_t sum = tiles;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int64_t other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    const bool is_here = tile >= before + sum - tiles && tile < before + sum;
    const unsigned found = __ballot_sync(0xffffffffu, is_here);
    if (found) {
      const int from = __ffs(int(found)) - 1;
      return {first + from, __shfl_sync(0xffffffffu, begin, from), __shfl_sync(0xffffffffu, end, from),
              tile - __shfl_sync(0xffffffffu, before + sum - tiles, from)};
    }
    before += __shfl_sync(0xffffffffu, sum, 31);
  }
  return {-1, 0, 0, 0};
}

template <class C>
__device__ __forceinline__ void multiply_group(const GroupedParams& p, char* memory, Product& own,
                                               const typename C::Element* a, const typename C::Element* b,
                                               int64_t c_offset, int64_t m0, int64_t n0, int64_t first) {
  Sums<C> tile;
  tile.accumulate(own, memory, a, b, m0, n0);
  auto* c = reinterpret_cast<typename C::Result*>(p.c) + c_offset;
  store<C>(own, tile, memory, c, m0, n0, first, p.wide_stores, [](typename Sums<C>::Sum sum, int, int) { return sum; });
}

// Groups of rows: blockIdx.x counts the tiles of a column of tiles, blockIdx.y the columns.
template <class C> __device__ __forceinline__ void by_rows(const GroupedParams& p, char* memory) {
  constexpr bool kAligned = !C::kAAlongK && C::kAVector == 16;
  if (blockIdx.x == 0 && blockIdx.y == 0)
    for (int g = threadIdx.x; g < p.groups; g += Sums<C>::kThreads) check_offset(p, g, p.m);
  const Group group = find_group<C::kM, kAligned>(p, blockIdx.x);
  if (group.index < 0) return;
  const int64_t start = kAligned ? group.begin / 8 * 8 : group.begin;
  Product own = p;
  own.m = group.end;
  if (group.index == p.groups) own.k = 0;
  const int64_t g = min(group.index, p.groups - 1);
  const auto* b = reinterpret_cast<const typename C::Element*>(p.b) + g * p.b_g;
  multiply_group<C>(p, memory, own, reinterpret_cast<const typename C::Element*>(p.a), b, 0, start + group.tile * C::kM,
                    int64_t(blockIdx.y) * C::kN, group.begin);
}

// Parts of k: blockIdx.x counts the tiles of the result of a group, blockIdx.y the groups.
template <class C> __device__ __forceinline__ void by_depth(const GroupedParams& p, char* memory) {
  const TilePlace place(blockIdx.x, int((p.m + C::kM - 1) / C::kM), int((p.n + C::kN - 1) / C::kN));
  for (int g = blockIdx.y; g < p.groups; g += gridDim.y) {
    if (blockIdx.x == 0 && threadIdx.x == 0) check_offset(p, g, p.k);
    const int64_t begin = end_of(p, g - 1, p.k), end = end_of(p, g, p.k);
    Product own = p;
    own.k = max(end - begin, int64_t(0));
    multiply_group<C>(p, memory, own, reinterpret_cast<const typename C::Element*>(p.a) + begin * p.a_k,
                      reinterpret_cast<const typename C::Element*>(p.b) + begin * p.b_k, g * p.c_g,
                      int64_t(place.row) * C::kM, int64_t(place.column) * C::kN, 0);
  }
}

template <class T, bool kAAlongK_, bool kBAlongK_, int kSize, int kVector> struct Config {
  using Element = T;
  using Result = T;
  static constexpr bool kIsSmall = sizeof(T) == 2;
  static constexpr int kM = kSize, kN = kSize, kK = kIsSmall ? 32 : 16, kStages = 4;
  static constexpr int kWarpsM = 2, kWarpsN = kSize / 32;
  static constexpr bool kAAlongK = kAAlongK_, kBAlongK = kBAlongK_;
  static constexpr int kAVector = kVector, kBVector = kVector;
};

// Two blocks of 16-bit tiles fit a multiprocessor.
#define STRATA_GROUPED(name, type, a, b, size, vector)                                \
  extern "C" __global__ void __launch_bounds__(sizeof(type) == 2 ? 2 * size : 256, 2) \
    name(const __grid_constant__ GroupedParams p) {                                   \
    extern __shared__ __align__(128) char memory[];                                   \
    by_rows<Config<type, a, b, size, vector>>(p, memory);                             \
  }                                                                                   \
  extern "C" __global__ void __launch_bounds__(sizeof(type) == 2 ? 2 * size : 256, 2) \
    name##_depth(const __grid_constant__ GroupedParams p) {                           \
    extern __shared__ __align__(128) char memory[];                                   \
    by_depth<Config<type, a, b, size, vector>>(p, memory);                            \
  }
// Kernels are named as those of gemm_mma.cuh; any: copies of single elements, in any order.
#define STRATA_GROUPED_ALL(type)                                  \
  STRATA_GROUPED(large_nn, type, true, true, kGroupedLarge, 16)   \
  STRATA_GROUPED(large_nt, type, true, false, kGroupedLarge, 16)  \
  STRATA_GROUPED(large_tn, type, false, true, kGroupedLarge, 16)  \
  STRATA_GROUPED(large_tt, type, false, false, kGroupedLarge, 16) \
  STRATA_GROUPED(any, type, true, true, kGroupedSmall, 0)

}  // namespace strata::cuda::grouped
