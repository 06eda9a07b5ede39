// One step of recurrent cells, composed of other ops: used by sequences, and by double gradients of their kernels.
#pragma once
#include "tensor/tensor.h"

namespace strata {

struct RecurrentState {
  Tensor h, c;
};
// x and r are the parts of the gates [..., 4 * hidden] that come from the input and from the state.
RecurrentState lstm_step(const Tensor& x, const Tensor& r, const Tensor& cell);

}  // namespace strata
