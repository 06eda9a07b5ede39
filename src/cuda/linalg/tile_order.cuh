// What tiled kernels share, those that are compiled at run time included: addresses in shared memory, and the order in
// which blocks compute the tiles of a matrix.
#pragma once
#include <stdint.h>

namespace strata::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

// The place of a block's tile in a matrix of tiles. Blocks go down eight rows of tiles, then one column on, so that
// those in flight share rows of a and columns of b in L2.
struct TilePlace {
  int row, column;
  __device__ __forceinline__ TilePlace(int index, int rows, int columns) {
    constexpr int kGroup = 8;
    const int first = index / (kGroup * columns) * kGroup, height = min(kGroup, rows - first);
    const int inside = index % (kGroup * columns);
    row = first + inside % height;
    column = inside / height;
  }
};

}  // namespace strata::cuda
