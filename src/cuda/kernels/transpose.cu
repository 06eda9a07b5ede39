// Matrices transposed: copies between tensors whose fastest dimensions differ.
//
// Bound by memory: a tile goes through shared memory, so that both sides are read and written along their lines, in 16-byte
// accesses where sizes and addresses allow. Rows of the tile lie an odd number of words apart: a column of it meets every bank.
#include <stdint.h>

#include "cuda/kernels/transpose_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

template <class E, int kVector> struct alignas(sizeof(E) * kVector) Vector { E v[kVector]; };

template <class E, int kVector> __device__ __forceinline__ void transpose(const TransposeParams& p) {
  constexpr int kTile = sizeof(E) == 8 ? 32 : 64, kAcross = kTile / kVector, kDown = kThreads / kAcross;
  constexpr int kPitch = kTile + (sizeof(E) >= 4 ? 1 : 4 / int(sizeof(E)));
  using Access = Vector<E, kVector>;
  __shared__ E tile[kTile][kPitch];
  const int64_t r0 = int64_t(blockIdx.y) * kTile, c0 = int64_t(blockIdx.x) * kTile;
  const int along = int(threadIdx.x) % kAcross * kVector, across = int(threadIdx.x) / kAcross;
  for (int64_t b = blockIdx.z; b < p.batches; b += gridDim.z) {
    const E* x = reinterpret_cast<const E*>(p.x) + b * p.x_batch;
    E* y = reinterpret_cast<E*>(p.y) + b * p.y_batch;
#pragma unroll
    for (int i = across; i < kTile; i += kDown) {
      if (r0 + i >= p.rows || c0 + along >= p.columns) continue;
      const Access in = *reinterpret_cast<const Access*>(x + (r0 + i) * p.x_row + c0 + along);
#pragma unroll
      for (int j = 0; j < kVector; ++j) tile[i][along + j] = in.v[j];
    }
    __syncthreads();
#pragma unroll
    for (int i = across; i < kTile; i += kDown) {
      if (c0 + i >= p.columns || r0 + along >= p.rows) continue;
      Access out;
#pragma unroll
      for (int j = 0; j < kVector; ++j) out.v[j] = tile[along + j][i];
      *reinterpret_cast<Access*>(y + (c0 + i) * p.y_column + r0 + along) = out;
    }
    __syncthreads();
  }
}
}  // namespace

#define STRATA_TRANSPOSE(bytes, E)                                                                               \
  extern "C" __global__ void __launch_bounds__(256) transpose_##bytes(TransposeParams p) { transpose<E, 1>(p); } \
  extern "C" __global__ void __launch_bounds__(256) transpose_##bytes##_vectors(TransposeParams p) {             \
    transpose<E, 16 / bytes>(p);                                                                                 \
  }
STRATA_TRANSPOSE(1, uint8_t)
STRATA_TRANSPOSE(2, uint16_t)
STRATA_TRANSPOSE(4, uint32_t)
STRATA_TRANSPOSE(8, uint64_t)

}  // namespace strata::cuda
