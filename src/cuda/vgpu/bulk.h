// Bulk copies between device memory and shared memory (TMA). Addresses are checked when a copy is issued; the bytes move
// when the copy is waited for, so that a missing wait is detected.
#pragma once
#include <cstdint>

#include "cuda/vgpu/tensor_map.h"

namespace strata::cuda::vgpu {

struct Warp;
struct BlockState;

// One copy: a box of a tensor, or consecutive bytes (map.rank is 0).
struct BulkCopy {
  TensorMap map;
  int32_t at[TensorMap::kMostDims] = {};
  const uint8_t* from = nullptr;  // of consecutive bytes: the source, or for a store the destination in device memory
  uint32_t shared = 0;            // address in the block's shared memory
  uint32_t bytes = 0;
  uint32_t barrier = 0;          // of a load: its mbarrier
  uint32_t lane = 0, group = 0;  // of a store: the thread, and its bulk group
};

void finish_loads(Warp& w, uint32_t barrier);  // the loads into this block that the mbarrier counts
void copy_out(const BlockState& b, const BulkCopy& c);
void finish_block(BlockState& b);  // all threads have exited

}  // namespace strata::cuda::vgpu
