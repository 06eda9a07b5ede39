// Weighted sums of rows of a table on a device, and their gradients. indices are int64 [bags, each]; the other tensors are
// of any floating dtypes.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

// sums[b] = sum over l of weights[b, l] * table[indices[b, l]]
void weighted_rows(const TensorImpl& sums, const TensorImpl& table, const TensorImpl& indices,
                   const TensorImpl& weights, Workspace& workspace);
// The gradient of the table: grad[b] * weights[b, l] added to its row indices[b, l]. Each run gives the same bits.
void weighted_rows_table(const TensorImpl& table, const TensorImpl& grad, const TensorImpl& indices,
                         const TensorImpl& weights, Workspace& workspace);
// The gradient of the weights: the products of grad[b] and table[indices[b, l]].
void weighted_rows_weights(const TensorImpl& weights, const TensorImpl& grad, const TensorImpl& table,
                           const TensorImpl& indices, Workspace& workspace);

}  // namespace strata::cuda
