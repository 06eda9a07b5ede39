// Cumulative sums, products, extremes and log-sums along one dimension.
#pragma once
#include "record/kinds.h"
#include "tensor/tensor.h"

namespace strata::cpu {

using strata::Scan;
// out has x's shape and any dense layout; arithmetic happens in the compute type of out's dtype.
STRATA_API void scan(Scan kind, const TensorImpl& x, int dim, const TensorImpl& out);
STRATA_API void scan_reference(Scan kind, const TensorImpl& x, int dim, const TensorImpl& out);
// Cumulative maxima (minima) and their indices: the last of equal ones, as in PyTorch.
STRATA_API void scan_extremes(bool largest, const TensorImpl& x, int dim, const TensorImpl& values,
                              const TensorImpl& indices);

}  // namespace strata::cpu
