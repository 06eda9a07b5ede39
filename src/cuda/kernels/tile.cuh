// The inner step of products that go through shared memory in tiles: 4x4 sums per thread.
#pragma once

namespace strata::cuda {

// sum += the 4x4 products of rows `row` of a and columns `column` of b, over the depth of the tiles.
template <class T, int kDepth, int kPitchA, int kPitchB>
__device__ __forceinline__ void multiply_tile(const T (&a)[kDepth][kPitchA], const T (&b)[kDepth][kPitchB], int row,
                                              int column, T (&sum)[4][4]) {
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    T x[4], y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = a[k][row + i], y[i] = b[k][column + i];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[i][j] += x[i] * y[j];
  }
}

}  // namespace strata::cuda
