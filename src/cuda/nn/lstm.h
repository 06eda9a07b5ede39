// An LSTM layer over a whole sequence on a device, with the blocks of one launch for all steps if they fit.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

struct LstmSizes {
  int64_t steps, batch, hidden;
  bool reverse;
};
// Contiguous float32 tensors of cuda/nn/lstm_params.h; cells and activations may be null.
struct LstmForward {
  LstmSizes sizes;
  const TensorImpl &gates, &h0, &c0, &weight, &output, &last;
  const TensorImpl *cells, *activations;
};
struct LstmBackward {
  LstmSizes sizes;
  const TensorImpl& grad;
  const TensorImpl* grad_c;  // may be null
  const TensorImpl &activations, &cells, &c0, &weight, &grad_gates, &grad_h0, &grad_c0;
};

// Null, or the reason why the kernels cannot run the layer: its part of the weight has to fit into shared memory.
const char* plan_lstm(const LstmSizes& sizes, bool backward, Device device, Plan& plan);
void run_lstm(const LstmForward& f, const Call& c, const Plan& plan);
void run_lstm_backward(const LstmBackward& b, const Call& c, const Plan& plan);

}  // namespace strata::cuda
