// A layer of a recurrent network over a whole sequence on a device, with the blocks of one launch for all steps if they
// fit.
#pragma once
#include "cuda/nn/recurrent_params.h"
#include "record/kernel.h"

namespace strata::cuda {

struct RecurrentSizes {
  RecurrentCell cell;
  int64_t steps, batch, hidden;
  bool reverse;
  std::span<const int64_t> running;  // sequences at each step, if they end at different ones; empty: all of the batch
};
// Contiguous float32 tensors of cuda/nn/recurrent_params.h. Pointers may be null: c0 and last_cell without cells; cells and
// kept if no gradient is needed.
struct RecurrentForward {
  RecurrentSizes sizes;
  const TensorImpl &gates, &h0, &weight, &output;
  const TensorImpl *bias, *c0, *last, *last_cell, *cells, *kept;
};
struct RecurrentBackward {
  RecurrentSizes sizes;
  const TensorImpl &grad, &weight, &before, &grad_gates, &grad_h0;
  // grad_last and grad_cell: of the last states; grad_products: null if the same as grad_gates; grad_c0: of an LSTM
  const TensorImpl *grad_last, *grad_cell, *states, *cells, *kept, *grad_products, *grad_c0;
};

// Null, or the reason why the kernels cannot run the layer: its part of the weight has to fit into shared memory.
const char* plan_recurrent(const RecurrentSizes& sizes, bool backward, Device device, Plan& plan);
void run_recurrent(const RecurrentForward& f, const Call& c, const Plan& plan);
void run_recurrent_backward(const RecurrentBackward& b, const Call& c, const Plan& plan);

}  // namespace strata::cuda
