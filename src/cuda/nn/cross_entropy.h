// Cross entropy of rows of logits on a device. Tensors are contiguous.
#pragma once
#include "record/rows.h"

namespace strata::cuda {

struct CrossEntropyInputs {
  const TensorImpl &x, &target;  // [rows, classes], [rows]
  const TensorImpl* weight;      // [classes], or null
  int64_t ignore;
  bool mean;
};
// stats: [rows, 3] of the compute type (see cross_entropy_params.h); loss: one number or [rows]; total: the sum of the
// weights of the rows that count.
void cross_entropy(const CrossEntropyInputs& in, const TensorImpl& stats, const TensorImpl& loss,
                   const TensorImpl& total);
// out = the gradient of x, for that of the loss. out may be x itself.
void cross_entropy_backward(const CrossEntropyInputs& in, const TensorImpl& stats, const TensorImpl& total,
                            const TensorImpl& grad, const TensorImpl& out);

// The same in groups of ops, for the sum or mean of losses without weights; nothing for other calls. The number of rows that count
// is computed when the op is called.
std::optional<RowOp> cross_entropy_in_group(const CrossEntropyInputs& in);
std::optional<RowOp> cross_entropy_backward_in_group(const CrossEntropyInputs& in, const TensorImpl& stats,
                                                     const TensorImpl& total, const TensorImpl& grad);

}  // namespace strata::cuda
