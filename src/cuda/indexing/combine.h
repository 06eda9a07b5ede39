// Values joined into rows in a fixed order: what scatter_add, index_put with accumulate and embedding's gradient come down to.
#pragma once
#include "record/kinds.h"
#include "tensor/tensor.h"

namespace strata::cuda {

struct Combine {
  int64_t rows, outer, inner;  // table [outer][rows][inner]
  int64_t n;                   // values [outer][n][inner], or one value for all
  int64_t skip = -1;           // a row that takes nothing
  bool mean = false;           // sums are divided by how many they have
};
// table[:, rows[i], :] op= values[:, i, :], in the order of i. Both are contiguous; rows: int32, and one
// that is c.rows takes nothing.
void combine(Scatter how, const Combine& c, const TensorImpl& table, const TensorImpl& values, const Tensor& rows);

}  // namespace strata::cuda
