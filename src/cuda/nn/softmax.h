// Softmax and its gradient on a device, with two planned kernels.
#pragma once
#include "record/rows.h"

namespace strata::cuda {

struct SoftmaxCall {
  const TensorImpl& x;     // the input; for the gradient: the result
  const TensorImpl* grad;  // null: forward
  const TensorImpl& out;   // contiguous
  int dim;
  bool log;
};

// Contiguous rows, held in registers between the passes.
const char* plan_softmax_rows(const SoftmaxCall& s, Plan& plan);
// Any dimension; three passes over memory.
const char* plan_softmax_lines(const SoftmaxCall& s, Plan& plan);
void run_softmax(const SoftmaxCall& s, const Call& c, const Plan& plan);
// The first of them in groups of ops; nothing if it rejects the call.
std::optional<RowOp> softmax_in_group(const SoftmaxCall& s);

}  // namespace strata::cuda
