// Functions of several ops that have no record of their own: lists of copies, and slopes along dimensions.
#pragma once
#include <vector>

#include "tensor/tensor.h"

namespace strata {

// A copy of input in another shape, of which one size may be -1.
STRATA_API Tensor view_copy(const Tensor& input, IntList size);
// A copy of the bytes of input in another dtype.
STRATA_API Tensor view_copy(const Tensor& input, DType dtype);
// Copies of consecutive pieces of the given sizes.
STRATA_API std::vector<Tensor> split_with_sizes_copy(const Tensor& input, IntList split_sizes, int64_t dim = 0);
// Each tensor in chunks along dim, the last filled up with zeros, flattened behind dim; those of all tensors side by side.
STRATA_API Tensor _chunk_cat(const std::vector<Tensor>& tensors, int64_t dim, int64_t num_chunks);

// Slopes between neighbors along each dimension, or along those of `dim`: central inside; one-sided, of two or three
// points (edge_order 1 or 2), at the ends. Neighbors are `spacing` apart.
STRATA_API std::vector<Tensor> gradient(const Tensor& input, double spacing = 1, const OptIntList& dim = {},
                                        int64_t edge_order = 1);
// The same with the coordinates of the elements along each dimension.
STRATA_API std::vector<Tensor> gradient(const Tensor& input, const std::vector<Tensor>& coordinates,
                                        const OptIntList& dim = {}, int64_t edge_order = 1);

}  // namespace strata
