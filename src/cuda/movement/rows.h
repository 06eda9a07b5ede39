// Copies of rows, with the kernels of cuda/movement/rows.cu.
#pragma once
#include <span>

#include "record/walk.h"

namespace strata::cuda {

// Copies view 1 of a collapsed walk to view 0, both of one element size, if the last dimension is contiguous in both and
// long enough. Otherwise returns false and does nothing.
bool copy_rows(const Walk& w, Device device);

// Joins up to kJoinMost contiguous tensors of one dtype along a dimension of a contiguous result, in one launch.
// Otherwise, or if rows are short, returns false and does nothing.
bool join_rows(const TensorImpl& out, int dim, std::span<const TensorImpl* const> parts);

}  // namespace strata::cuda
