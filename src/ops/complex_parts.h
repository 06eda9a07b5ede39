// Ops of complex tensors, composed of real ones over their parts. The tape records the ops inside, so that their gradients
// follow the convention for complex numbers without formulas of their own.
#pragma once
#include "tensor/tensor.h"

namespace strata {

// Sums, their means, and cumulative sums: the parts are summed separately. `reduced` is a mask of dimensions.
Tensor complex_sum(const Tensor& z, DimMask reduced, bool keepdim, const std::optional<DType>& dtype);
Tensor complex_mean(const Tensor& z, DimMask reduced, bool keepdim, const std::optional<DType>& dtype);
Tensor complex_cumsum(const Tensor& z, int64_t dim, const std::optional<DType>& dtype);
// The logarithm of cumulative sums of exponentials. Its angles are continued from element to element, as PyTorch's are.
Tensor complex_logcumsumexp(const Tensor& z, int64_t dim);
// Products along a dimension: halves are multiplied until one element is left.
Tensor complex_prod(const Tensor& z, int64_t dim, bool keepdim, const std::optional<DType>& dtype);
Tensor complex_cumprod(const Tensor& z, int64_t dim, const std::optional<DType>& dtype);

// The matrix product as one real product with twice the columns: [re im] of a row times [[re im], [-im re]].
Tensor complex_matmul(const Tensor& a, const Tensor& b);
Tensor times_i(const Tensor& z);

}  // namespace strata
