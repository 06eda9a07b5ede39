// Convolutions on a device, in the terms of cpu/convolution.h.
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

struct ConvSizes {
  int dims = 2;  // spatial
  int64_t n = 0, c = 0, o = 0, groups = 1;
  int64_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
};
enum class ConvTarget : uint8_t { Small, Big, Weight };  // what is written

void convolution(const ConvSizes& s, ConvTarget target, const TensorImpl& big, const TensorImpl& weight,
                 const TensorImpl& small, const TensorImpl* bias);

}  // namespace strata::cuda
