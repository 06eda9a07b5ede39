// Sorting and selection along one dimension. Every order is total and stable: NaN after all numbers (before them if
// descending), equal elements by index. So the result does not depend on the partition of the work.
#pragma once
#include "record/kinds.h"
#include "tensor/tensor.h"

namespace strata::cpu {

// values and indices have x's shape; either may be null.
STRATA_API void sort(const TensorImpl& x, int dim, bool descending, const TensorImpl* values,
                     const TensorImpl* indices);
STRATA_API void sort_reference(const TensorImpl& x, int dim, bool descending, const TensorImpl* values,
                               const TensorImpl* indices);
// The first k in that order.
STRATA_API void topk(const TensorImpl& x, int64_t k, int dim, bool largest, const TensorImpl& values,
                     const TensorImpl& indices);
STRATA_API void topk_reference(const TensorImpl& x, int64_t k, int dim, bool largest, const TensorImpl& values,
                               const TensorImpl& indices);
// One element per row, into contiguous outputs.
using strata::Pick;
STRATA_API void pick(Pick what, const TensorImpl& x, int64_t k, int dim, const TensorImpl& values,
                     const TensorImpl& indices);
STRATA_API void pick_reference(Pick what, const TensorImpl& x, int64_t k, int dim, const TensorImpl& values,
                               const TensorImpl& indices);

}  // namespace strata::cpu
