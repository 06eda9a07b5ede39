// Shared parts of reductions: the reduced dimensions, the resulting shape, and the expansion of gradients.
#pragma once
#include "autograd/node.h"
#include "cpu/reduce/reduce.h"
#include "record/op.h"

namespace strata {

// Bit d is set if dimension d is reduced. None and an empty list mean all.
STRATA_API DimMask reduced_mask(const TensorImpl& x, const Value& dim, const char* op);
STRATA_API DimMask reduced_mask(const TensorImpl& x, const OptIntList& dim, const char* op);
STRATA_API void set_reduced_shape(TensorImpl& out, const TensorImpl& x, DimMask reduced, bool keepdim);
STRATA_API int64_t reduced_count(const TensorImpl& x, DimMask reduced);
// A reduction without an identity needs at least one element per result.
STRATA_API void require_elements(const TensorImpl& x, DimMask reduced, const char* op);

// A reduced tensor with size-1 dimensions in place of the reduced ones, so that it broadcasts against the input.
STRATA_API Tensor with_kept_dims(const Tensor& t, Shape input, DimMask reduced, bool keepdim);
STRATA_API Tensor expand_reduced(const Tensor& t, Shape input, DimMask reduced, bool keepdim);

// The gradient of a value chosen among the reduced elements: those equal to it (or NaN if it is NaN) share g.
struct Spread {
  Tensor mask, share;  // elements equal to the result; the gradient divided by their number, to be broadcast
};
Spread spread_evenly(const Tensor& g, const Tensor& x, const Tensor& result, DimMask reduced, bool keepdim);
// The gradient of a result that is one of all elements of x: those equal to it share g, the others get 0.
Tensor grad_of_one_value(const Tensor& g, const Tensor& x, const Tensor& result);
STRATA_API Tensor scatter_into_zeros(const TensorImpl& like, int64_t dim, const Tensor& index, const Tensor& values);
// For ops that select one element per row: args (input, dim, …), results (values, indices).
STRATA_API Tensor grad_of_selection(const GradContext& c, const Tensor& g, bool keepdim);

// The dtype of the arithmetic, for an op's dtype argument.
inline DType sum_dtype(const TensorImpl& x, const Value& dtype) {
  STRATA_CHECK(!dtype || !is_complex(dtype.dtype()) || is_complex(x.dtype), NotImplemented,
               "a {} tensor cannot be accumulated as {}; convert it with .to() first", name_of(x.dtype),
               name_of(dtype.dtype()));
  return dtype ? dtype.dtype() : is_integral(x.dtype) ? DType::I64 : x.dtype;
}

}  // namespace strata
