// Descriptions of tensors for the bulk tensor copy engine of Hopper (TMA).
#pragma once
#include <span>

#include "cuda/runtime/runtime.h"
#include "tensor/dtype.h"

namespace strata::cuda {

// A tensor of 16-bit elements. sizes: of the dense dimension, of rows, then of the batch from inner to outer; strides:
// of all but the dense one, in elements. A batch dimension with stride 0 gets size 1: its coordinate is always 0. A box
// is box_x elements of box_y rows, with a swizzle as wide as its rows.
driver::CUtensorMap tensor_map(const Gpu& gpu, DType dtype, uint64_t address, std::span<const int64_t> sizes,
                               std::span<const int64_t> strides, int box_x, int box_y);

}  // namespace strata::cuda
