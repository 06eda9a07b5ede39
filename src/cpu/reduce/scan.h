// Running sums, products, extremes and log-sums along one dimension.
#pragma once
#include "record/kinds.h"
#include "tensor/tensor.h"

namespace strata::cpu {

using strata::Scan;
// out has x's shape and any dense layout; arithmetic happens in the compute type of out's dtype.
STRATA_API void scan(Scan kind, const TensorImpl& x, int dim, const TensorImpl& out);
STRATA_API void scan_reference(Scan kind, const TensorImpl& x, int dim, const TensorImpl& out);
// Running maxima (minima) and the place each came from: the last of equal ones, as PyTorch has it.
STRATA_API void scan_extremes(bool largest, const TensorImpl& x, int dim, const TensorImpl& values,
                              const TensorImpl& indices);

}  // namespace strata::cpu
