// Sorting and selection on a device, with the interface of cpu/order/sort.h: every order is total and stable.
#pragma once
#include "record/kernel.h"
#include "record/kinds.h"

namespace strata::cuda {

// Select: blocks find the few elements needed. Lines: a block sorts several short lines. Radix: by digits, in a block's
// shared memory if a line fits, otherwise in passes over all elements.
enum class SortMethod : uint8_t { Select, Lines, Radix };
// Why a method does not support `lines` lines of n elements, of which `keep` are needed; null if it does. top: they are
// the first ones.
const char* sort_objection(SortMethod method, int64_t n, int64_t lines, int64_t keep, bool top = false);

// values and indices have x's shape; either may be null.
void sort(SortMethod method, const TensorImpl& x, int dim, bool descending, const TensorImpl* values,
          const TensorImpl* indices, Workspace& workspace);
void topk(SortMethod method, const TensorImpl& x, int64_t k, int dim, bool largest, const TensorImpl& values,
          const TensorImpl& indices, Workspace& workspace);
void pick(SortMethod method, Pick what, const TensorImpl& x, int64_t k, int dim, const TensorImpl& values,
          const TensorImpl& indices, Workspace& workspace);

// Sorts a vector of numbers below 2^bits (int32), with their original indices (int32 or int64), or with a payload of 4
// bytes each. Both are in the workspace.
struct SortedKeys {
  Tensor keys, places;
};
SortedKeys sort_keys(const Tensor& keys, int bits, const TensorImpl* payload, Workspace& workspace);
// Sorts equal parts of a vector of non-negative numbers (int32), of at most 8192 elements each. places: indices into the
// whole vector (int32).
SortedKeys sort_lines(const Tensor& keys, int64_t lines, Workspace& workspace);

// The insertion index of each value in its row: the last dimension of `rows`, or rows itself if it has one dimension.
// All are contiguous and of one compute type; `order` (indices that sort the rows) may be null. out: int32 or int64.
void search(const TensorImpl& rows, const TensorImpl* order, const TensorImpl& values, bool right,
            const TensorImpl& out);

}  // namespace strata::cuda
