// Decides which convolutions have so few input channels that they are summed directly, window by window.
#include "cpu/nn/shallow.h"
#include "cpu/nn/convolution.h"
#include "cpu/staging.h"

namespace strata::cpu {

const char* conv_shallow_ready(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& small) {
  if (big.dtype != DType::F32) return "used for float32";
  if (mode != ConvMode::Forward || s.dims != 2 || s.groups != 1) return "used for plain two-dimensional convolutions";
  if (s.o < 16 || s.c * s.kernel[0] * s.kernel[1] > kMostShallowWindow) return "a long window, or few output channels";
  return channels_last(small) ? nullptr : "the output is not channels-last";
}

void conv_shallow(const ConvShape& s, const TensorImpl& big, const TensorImpl& weight, const TensorImpl& small,
                  const TensorImpl* bias, bool relu) {
  if (small.numel == 0) return;
  Shallow p{};
  p.relu = relu;
  p.n = s.n;
  p.c = s.c;
  p.o = s.o;
  for (int d = 0; d < 2; ++d) {
    p.in[d] = s.in[d];
    p.out[d] = s.out[d];
    p.kernel[d] = s.kernel[d];
    p.stride[d] = s.stride[d];
    p.padding[d] = s.padding[d];
    p.dilation[d] = s.dilation[d];
  }
  p.n_stride = big.strides[0];
  p.c_stride = big.strides[1];
  p.y_stride = big.strides[2];
  p.x_stride = big.strides[3];
  const Tensor row = bias ? staged(*bias, DType::F32) : Tensor();
  shallow(p, reinterpret_cast<const float*>(big.data), reinterpret_cast<const float*>(weight.data), weight.strides,
          row ? row.data<float>() : nullptr, reinterpret_cast<float*>(small.data));
}

}  // namespace strata::cpu
