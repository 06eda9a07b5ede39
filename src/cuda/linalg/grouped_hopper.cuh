// Grouped products of 16-bit floats on Hopper, with the pipeline of hopper_pipeline.cuh: groups of rows times a matrix of
// each group, or parts of the sums. Bound: as a product of that size, plus a part of a tile for each group.
//
// Only the device knows the sizes of the groups, so every warp that has a role finds its tiles by walking through the
// offsets. TMA loads any rows, also those of the next group, which are not stored; TMA stores whole tiles, threads those
// at the end of a group. A part of the sums ends at any k: what TMA has loaded beyond it is cleared before the tensor
// cores read it.
#pragma once
#include "cuda/common/fault.cuh"
#include "cuda/linalg/gemm_hopper.cuh"
#include "cuda/linalg/grouped_params.h"

namespace strata::cuda::hopper {

__device__ inline int end_of_group(const GemmArgs& args, int group, int size) {
  if (group < 0) return 0;
  return min(max(reinterpret_cast<const int32_t*>(args.offsets)[group], 0), size);
}

// Tiles of groups of rows, group by group. Rows after the last group count as one more, without k.
template <class C> struct RowGroups {
  static constexpr bool kWholeK = true, kNeverEmpty = false;
  static constexpr int kRows = C::kTile.m * C::kCluster;
  const GemmArgs& args;
  int columns, clusters, rank, index;
  int group, first, last;  // group of the current tile and its rows
  int before, rows;        // clusters of the groups before, and rows of clusters of this one

  __device__ explicit RowGroups(const GemmArgs& a) : args(a), group(0), before(0) {
    rank = C::kCluster > 1 ? cluster_rank() : 0;
    columns = (a.n + C::kN - 1) / C::kN;
    clusters = gridDim.x / C::kCluster;
    index = blockIdx.x / C::kCluster;
    look();
    find();
  }
  __device__ bool valid() const { return group <= args.groups; }
  __device__ void next() {
    index += clusters;
    find();
  }
  __device__ void look() {
    first = end_of_group(args, group - 1, args.m);
    last = group < args.groups ? end_of_group(args, group, args.m) : args.m;
    rows = last > first ? (last - first + kRows - 1) / kRows : 0;
  }
  __device__ void find() {
    while (group <= args.groups && index >= before + rows * columns) {
      before += rows * columns;
      ++group;
      if (group <= args.groups) look();
    }
  }

  struct Tile {
    int m, n, inner, outer, last;  // last: where the rows of the group end
  };
  __device__ Tile tile(const GemmArgs&) const {
    const int place = index - before, start = place / (kGroupM * columns) * kGroupM;
    const int height = min(kGroupM, rows - start), inside = place % (kGroupM * columns);
    const int row = (start + inside % height) * C::kCluster + rank;
    return {first + row * C::kTile.m, inside / height * C::kN, group, 0, last};
  }
  __device__ int first_k() const { return 0; }
  __device__ int depth(const GemmArgs& a) const { return group < a.groups ? a.k : 0; }
};

// Tiles of the products of parts of k.
template <class C> struct DepthGroups : Walk<C> {
  static constexpr bool kWholeK = false, kNeverEmpty = false;
  const GemmArgs& args;
  int first = 0, last = 0;

  __device__ explicit DepthGroups(const GemmArgs& a) : Walk<C>(a), args(a) { look(); }
  __device__ void next() {
    Walk<C>::next();
    look();
  }
  __device__ void look() {
    if (!this->valid()) return;
    const int group = this->index / (this->rows * this->columns);
    first = end_of_group(args, group - 1, args.k);
    last = max(end_of_group(args, group, args.k), first);
  }
  __device__ int first_k() const { return first; }
  __device__ int depth(const GemmArgs&) const { return last - first; }
};

template <class C, bool kBf16>
__device__ inline void grouped_rows(const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_d,
                                    const GemmArgs& args) {
  const auto finish = [&](const typename C::Sums& sums, const Job<C>& job) {
    GemmArgs own = args;
    own.m = job.tile.last;
    own.tma_stores = args.tma_stores && job.tile.m + C::kTile.m <= job.tile.last;
    if (args.tma_stores && !own.tma_stores) {  // TMA may still read the buffers
      if (threadIdx.x % 128 == 0) tma_store_wait_read<0>();
      group_sync(job.bar);
    }
    auto place = job.tile;
    place.inner = 0;  // the result is one matrix
    write_out<C>(sums, map_d, job.staging, Adder<kBf16, kAddNothing>{own, nullptr, 0}, place, job.first_row, job.bar);
  };
  gemm<C>(
    map_a, map_b, map_d, args, [](const Job<C>&) {}, finish);
}

template <class C, bool kBf16>
__device__ inline void grouped_depth(const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_d,
                                     const GemmArgs& args) {
  const auto finish = [&](const typename C::Sums& sums, const Job<C>& job) {
    write_out<C>(sums, map_d, job.staging, Adder<kBf16, kAddNothing>{args, nullptr, 0}, job.tile, job.first_row,
                 job.bar);
  };
  gemm<C>(
    map_a, map_b, map_d, args, [](const Job<C>&) {}, finish);
}

// Reports offsets that are out of order, or beyond `size`.
__device__ inline void check_offsets(const GroupedHopperArgs& args, int size) {
  const auto* offsets = reinterpret_cast<const int32_t*>(args.gemm.offsets);
  const int groups = blockIdx.x == 0 ? args.gemm.groups : 0;
  for (int g = threadIdx.x; g < groups; g += kThreads)
    if (offsets[g] < (g > 0 ? offsets[g - 1] : 0) || offsets[g] > size)
      report(args.faults, FaultCode::Offset, offsets[g], size);
  __syncwarp();  // what follows has instructions of whole warps
}

#define STRATA_GROUPED_HOPPER(name, function, order, size, shape, bf16, a_along_k, b_along_k)                          \
  extern "C" __global__ void __launch_bounds__(kThreads, shape.blocks_per_sm) __cluster_dims__(shape.cluster, 1, 1)    \
    name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,                                     \
         const __grid_constant__ TensorMap d, const __grid_constant__ GroupedHopperArgs args) {                        \
    check_offsets(args, args.gemm.size);                                                                               \
    function<Config<shape, Wgmma<shape.n, bf16, a_along_k, b_along_k>, a_along_k, b_along_k, order>, bf16>(a, b, d,    \
                                                                                                           args.gemm); \
  }
// Named as those of gemm_hopper.cuh. Rows of a are dense; of parts of k, those of both factors' other dimension.
#define STRATA_GROUPED_HOPPER_ALL(type, bf16)                                                          \
  STRATA_GROUPED_HOPPER(huge_nn_##type, grouped_rows, RowGroups, m, kHuge, bf16, true, true)           \
  STRATA_GROUPED_HOPPER(huge_nt_##type, grouped_rows, RowGroups, m, kHuge, bf16, true, false)          \
  STRATA_GROUPED_HOPPER(large_nn_##type, grouped_rows, RowGroups, m, kLarge, bf16, true, true)         \
  STRATA_GROUPED_HOPPER(large_nt_##type, grouped_rows, RowGroups, m, kLarge, bf16, true, false)        \
  STRATA_GROUPED_HOPPER(medium_nn_##type, grouped_rows, RowGroups, m, kMedium, bf16, true, true)       \
  STRATA_GROUPED_HOPPER(medium_nt_##type, grouped_rows, RowGroups, m, kMedium, bf16, true, false)      \
  STRATA_GROUPED_HOPPER(large_depth_##type, grouped_depth, DepthGroups, k, kLarge, bf16, false, false) \
  STRATA_GROUPED_HOPPER(medium_depth_##type, grouped_depth, DepthGroups, k, kMedium, bf16, false, false)

}  // namespace strata::cuda::hopper
