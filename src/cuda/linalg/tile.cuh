// The inner step of tiled products through shared memory: 4x4 sums per thread.
#pragma once

namespace strata::cuda {

// Rows of a tile: aligned, so that four elements are one 16-byte access.
template <class T, int kDepth, int kSize> struct alignas(16) Tile {
  T at[kDepth][kSize + 4];  // padding, so that rows begin in different banks
  __device__ __forceinline__ T* operator[](int k) { return at[k]; }
};

// sum += the 4x4 products of rows `row` of a and columns `column` of b, over the depth of the tiles.
template <class T, int kDepth, int kRows, int kColumns>
__device__ __forceinline__ void multiply_tile(const Tile<T, kDepth, kRows>& a, const Tile<T, kDepth, kColumns>& b,
                                              int row, int column, T (&sum)[4][4]) {
  struct alignas(16) Four {
    T v[4];
  };
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    const Four x = *reinterpret_cast<const Four*>(&a.at[k][row]), y = *reinterpret_cast<const Four*>(&b.at[k][column]);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[i][j] += x.v[i] * y.v[j];
  }
}

}  // namespace strata::cuda
