// Indexing on a device, with the interface of cpu/indexing/indexing.h. Kernels check the indices; an index out of range
// is raised the next time the host waits for the device.
#pragma once
#include "record/kernel.h"
#include "record/kinds.h"

namespace strata::cuda {

// Index tensors (int64, one shape) for the dimensions starting at `first`; negative indices count from the end. out
// [outer, n, inner] = in at the indices; out is contiguous.
void take_rows(const TensorImpl& out, const TensorImpl& in, int first, std::span<const Tensor> indices,
               Workspace& workspace);
// out at the indices = values, or += values. values: one element, or contiguous [outer, n, inner]. For equal indices
// the last wins, and sums are computed in order, unless `any_order`.
void put_rows(const TensorImpl& out, const TensorImpl& values, int first, std::span<const Tensor> indices,
              bool accumulate, bool any_order, Workspace& workspace);
// Whether values of this dtype are added in any order by atomics.
inline bool adds_in_any_order(DType t) { return t == DType::F32 || t == DType::F64; }
// Reports indices that are not in [0, size), or [-size, size) with `wrap`.
void check_indices(const TensorImpl& index, int64_t size, bool wrap);

// Rows of weight [rows, n] at the indices, which must not be negative; sums of the rows of grad by index.
void embedding(const TensorImpl& out, const TensorImpl& weight, const TensorImpl& indices, Workspace& workspace);
void embedding_backward(const TensorImpl& out, const TensorImpl& grad, const TensorImpl& indices, int64_t padding,
                        bool mean, Workspace& workspace);

// Along dim, as in cpu/indexing/indexing.h. The index is int64 or int32; a zero-dimensional src is used for all
// elements. `any_order`: as for put_rows.
void gather(const TensorImpl& out, const TensorImpl& in, int dim, const TensorImpl& index, Workspace& workspace);
void scatter(const TensorImpl& out, int dim, const TensorImpl& index, const TensorImpl& src, Scatter how,
             bool any_order, Workspace& workspace);

int64_t count_nonzero(const TensorImpl& t);                                      // waits for the device
void nonzero(const TensorImpl& out, const TensorImpl& t, Workspace& workspace);  // out [count, ndim], int64
// The elements of x where the mask, of the same shape, is set; out is contiguous.
void masked_select(const TensorImpl& out, const TensorImpl& x, const TensorImpl& mask, Workspace& workspace);

// out = x in the lower (upper) triangle of each matrix, 0 elsewhere.
void triangle(const TensorImpl& out, const TensorImpl& x, bool lower, int64_t diagonal, Workspace& workspace);

}  // namespace strata::cuda
