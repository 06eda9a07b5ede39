// One step of recurrent cells in terms of other ops: what sequences are made of, and their kernels' gradients of gradients.
#pragma once
#include "tensor/tensor.h"

namespace strata {

struct RecurrentState {
  Tensor h, c;
};
// x and r are the parts of the gates [..., 4 * hidden] that come from the input and from the state.
RecurrentState lstm_step(const Tensor& x, const Tensor& r, const Tensor& cell);

}  // namespace strata
