// Reduces values into rows in a fixed order: the basis of scatter_add, index_put with accumulate and embedding's
// gradient.
#pragma once
#include "record/kernel.h"
#include "record/kinds.h"

namespace strata::cuda {

struct Combine {
  int64_t rows, outer, inner;  // table [outer][rows][inner]
  int64_t n;                   // values [outer][n][inner], or one value for all
  int64_t skip = -1;           // a row that is not changed
  bool mean = false;           // divide sums by their counts
  int64_t lines = 1;           // equal parts of the n values, of which each goes to rows after those of the one before
};
// table[:, rows[i], :] op= values[:, i, :], in the order of i. Both are contiguous. rows: int32; the value c.rows means
// that a value is skipped.
void combine(Scatter how, const Combine& c, const TensorImpl& table, const TensorImpl& values, const Tensor& rows,
             Workspace& workspace);

}  // namespace strata::cuda
