// Products with sparse matrices on a device. Indices are int64, the other tensors of any floating dtypes.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

// Row i of out is the sum of values[k] * table[columns[k]] for k from starts[i] to starts[i + 1].
void compressed_product(const TensorImpl& out, const TensorImpl& starts, const TensorImpl& columns,
                        const TensorImpl& values, const TensorImpl& table, Workspace& workspace);
// out[k] is the product of the rows a[a_rows[k]] and b[b_rows[k]].
void row_products(const TensorImpl& out, const TensorImpl& a, const TensorImpl& b, const TensorImpl& a_rows,
                  const TensorImpl& b_rows, Workspace& workspace);

}  // namespace strata::cuda
