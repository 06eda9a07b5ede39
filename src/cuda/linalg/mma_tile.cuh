// Building blocks of kernels for tensor cores from Ampere on (sm_80): asynchronous copies, ldmatrix, mma.sync, swizzled
// tiles in shared memory, and the pipeline that multiplies them.
#pragma once
#include "cuda/linalg/gemm_mma_params.h"
#include "cuda/linalg/mma.cuh"
#include "cuda/linalg/tensor_cores.cuh"

namespace strata::cuda::mma {

// A tile of one factor in shared memory: kSize rows of 32 k where k is dense, 32 rows of kSize otherwise.
template <bool kAlongK, int kSize> struct Tile {
  static constexpr int kBytes = kSize * kMmaDepth * 2;
  // Of the 16-byte piece that begins at row or column `outer` (a multiple of 8 unless k is dense) and at k.
  static __device__ __forceinline__ uint32_t offset(int outer, int k) {
    if constexpr (kAlongK) return outer * 64 + ((k / 8) ^ (outer / 2 & 3)) * 16;
    else return k * (kSize * 2) + ((outer / 8) ^ (k & 7)) * 16;
  }
};

// A square tile of sums, computed by all threads of a block; each warp has its part of it in registers.
template <bool kBf16, bool kAAlongK, bool kBAlongK, int kSize> struct TileProduct {
  using TileA = Tile<kAAlongK, kSize>;
  using TileB = Tile<kBAlongK, kSize>;
  static constexpr int kThreads = mma_threads(kSize), kStageBytes = TileA::kBytes + TileB::kBytes;
  static constexpr int kFragsM = kSize / 32, kFragsN = 4;  // 16 x 8 fragments of a warp
  static constexpr int kPitch = kSize + 8;                 // of the rows of results in shared memory

  const int thread, lane, warp_m, warp_n;  // warp_m, warp_n: where the warp's part of the tile begins
  float sums[kFragsM][kFragsN][4];

  __device__ __forceinline__ TileProduct()
      : thread(threadIdx.x),
        lane(threadIdx.x % 32),
        warp_m(threadIdx.x / 32 % 2 * (kSize / 2)),
        warp_n(threadIdx.x / 64 * 32) {}

  __device__ __forceinline__ void multiply_tile(uint32_t a, uint32_t b) {
    const int block = lane / 8, row = lane % 8;
#pragma unroll
    for (int k = 0; k < kMmaDepth; k += 16) {
      uint32_t fa[kFragsM][4], fb[kFragsN / 2][4];
#pragma unroll
      for (int i = 0; i < kFragsM; ++i)  // blocks: rows 0-7, rows 8-15, then the same of k 8-15
        load_matrices<!kAAlongK>(
          fa[i], a + (kAAlongK ? TileA::offset(warp_m + i * 16 + lane % 16, k + lane / 16 * 8)
                               : TileA::offset(warp_m + i * 16 + block % 2 * 8, k + block / 2 * 8 + row)));
#pragma unroll
      for (int j = 0; j < kFragsN / 2; ++j)  // blocks: k 0-7, k 8-15, then the same of columns 8-15
        load_matrices<!kBAlongK>(
          fb[j], b + (kBAlongK ? TileB::offset(warp_n + j * 16 + block / 2 * 8 + row, k + block % 2 * 8)
                               : TileB::offset(warp_n + j * 16 + block / 2 * 8, k + block % 2 * 8 + row)));
#pragma unroll
      for (int i = 0; i < kFragsM; ++i)
#pragma unroll
        for (int j = 0; j < kFragsN; ++j)
          multiply<kBf16>(sums[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
    }
  }

  // Sums `steps` products of tiles, kMmaDepth of k each. load_a and load_b(address, step) start the copies of a tile.
  // Afterwards the shared memory is free.
  template <class LoadA, class LoadB>
  __device__ __forceinline__ void accumulate(char* memory, int steps, LoadA load_a, LoadB load_b) {
    const uint32_t base = shared_address(memory);
    const auto bring = [&](int step) {
      const uint32_t stage = base + step % kMmaStages * kStageBytes;
      if (step < steps) {
        load_a(stage, step);
        load_b(stage + TileA::kBytes, step);
      }
      copies_commit();  // empty groups at the end keep the number of groups in flight constant
    };
#pragma unroll
    for (int i = 0; i < kFragsM; ++i)
#pragma unroll
      for (int j = 0; j < kFragsN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
#pragma unroll
    for (int step = 0; step < kMmaStages - 1; ++step) bring(step);
    for (int step = 0; step < steps; ++step) {
      copies_wait<kMmaStages - 2>();
      __syncthreads();  // the tile is complete, and no thread still reads the stage that is filled next
      bring(step + kMmaStages - 1);
      const uint32_t stage = base + step % kMmaStages * kStageBytes;
      multiply_tile(stage, stage + TileA::kBytes);
    }
    copies_wait<0>();
    __syncthreads();
  }

  // f(row, column, low, high) for each pair of neighbouring sums of this thread.
  template <class F> __device__ __forceinline__ void each_pair(F f) const {
#pragma unroll
    for (int i = 0; i < kFragsM; ++i)
#pragma unroll
      for (int j = 0; j < kFragsN; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          f(warp_m + i * 16 + half * 8 + lane / 4, warp_n + j * 8 + lane % 4 * 2, sums[i][j][half * 2],
            sums[i][j][half * 2 + 1]);
  }
};

// Writes eight 16-bit elements, of which the first `count` are inside the tensor.
__device__ __forceinline__ void store_eight(uint16_t* to, const uint16_t* from, bool aligned, int count) {
  if (aligned && count >= 8) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    return;
  }
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (e < count) to[e] = from[e];
}

}  // namespace strata::cuda::mma
