// Strides, pads and kernels of convolutions and pools.
#pragma once
#include "onnx/ops/common.h"

namespace strata::onnx {

struct Windows {
  Ints kernel, strides, dilations, before, after;  // by spatial dimension
  bool symmetric() const { return before == after; }
  size_t dims() const { return kernel.size(); }
};
// The attributes of a node over an input with the spatial sizes of `x`; checks their numbers and signs.
Windows windows_of(const NodeCall& c, const Tensor& x, Ints kernel);
// Pads the spatial dimensions by before and after.
Tensor pad_spatial(const Tensor& x, const Ints& before, const Ints& after, Scalar value);

}  // namespace strata::onnx
