// Indexing kernels: read and write rows at offsets, gather and scatter along a dimension, find nonzero elements.
// Results do not depend on the number of threads: every element is written by one thread, in the order of the indices.
#pragma once
#include "record/kinds.h"
#include "tensor/tensor.h"

namespace strata::cpu {

// Index tensors of one shape select positions in the dimensions [first, first + count) of a tensor.
struct IndexedDims {
  int first, count;
  int64_t n;                          // index elements
  std::unique_ptr<int64_t[]> offset;  // of each, in elements; negative indices are already wrapped
  // Throws Index if an index is out of range; `wrap` allows negative ones.
  IndexedDims(const TensorImpl& t, int first, std::span<const Tensor> indices, bool wrap, const char* op);
};

// out [outer, n, inner] = in at the offsets; out is contiguous.
void take_rows(const TensorImpl& out, const TensorImpl& in, const IndexedDims& at);
// out at the offsets = values, or += values. values: one element, or contiguous [outer, n, inner].
void put_rows(const TensorImpl& out, const TensorImpl& values, const IndexedDims& at, bool accumulate);

// Throws Index unless every element of an index tensor is in [0, size).
void check_indices(const TensorImpl& index, int64_t size, int dim, const char* op);

// out[…, i, …] = in[…, index[…, i, …], …] along dim.
void gather(const TensorImpl& out, const TensorImpl& in, int dim, const TensorImpl& index);
using strata::Scatter;
// out[…, index[…, i, …], …] op= src[…, i, …] along dim; src may be a single element.
void scatter(const TensorImpl& out, int dim, const TensorImpl& index, const TensorImpl& src, Scatter how);

int64_t count_nonzero(const TensorImpl& t);
void nonzero(const TensorImpl& out, const TensorImpl& t);  // out [count, ndim], int64
// out [count] = the elements of x under the mask, of the same shape, in row-major order.
void masked_select(const TensorImpl& out, const TensorImpl& x, const TensorImpl& mask);
// out = x, with the elements under the mask replaced by those of source, in row-major order; x, mask and out have one shape.
void masked_put(const TensorImpl& out, const TensorImpl& x, const TensorImpl& mask, const TensorImpl& source);

}  // namespace strata::cpu
