// Launches the kernels of cuda/indexing/take.cu.
#pragma once
#include "cuda/common/axes.h"

namespace strata::cuda {

// A table with one indexed dimension of `size` and `stride`, between outer and inner axes; all in units of 2^log_unit
// bytes. The block [outer][n][inner] and the index ([n], or as the block) are contiguous.
struct Taken {
  const Axes& outer;
  const Axes& inner;
  int64_t size, stride, n;
  int log_unit;
  bool front;      // negative indices are out of range
  bool own_index;  // each element of the block has its own: gather
};

// Whether the kernels fit: a simple layout, and few enough units.
bool can_take(const Taken& t);
void take(const Taken& t, const TensorImpl& table, const TensorImpl& index, const TensorImpl& block);

// Dimensions [from, to) with these sizes and the strides of a table, in order, merged if they are adjacent in memory.
Axes joined_axes(const TensorImpl& sizes, const TensorImpl& table, int from, int to);

}  // namespace strata::cuda
