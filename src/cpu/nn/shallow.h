// Convolutions of few input channels into channels-last outputs.
#pragma once
#include <cstdint>

namespace strata::cpu {

constexpr int64_t kMostShallowWindow = 64;  // channels times kernel size

struct Shallow {
  int64_t n, c, o;
  int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
  int64_t n_stride, c_stride, y_stride, x_stride;  // of the input
  bool relu;
  int64_t padded_width() const { return (out[1] - 1) * stride[1] + dilation[1] * (kernel[1] - 1) + 1; }
  int64_t rows_under(int64_t rows) const { return (rows - 1) * stride[0] + dilation[0] * (kernel[0] - 1) + 1; }
};

// y [n, out, o]; weight strides of [o, c, y, x]; bias may be null. The same bits for any number of threads.
void shallow(const Shallow& s, const float* x, const float* weight, const int64_t* weight_strides, const float* bias,
             float* y);

}  // namespace strata::cpu
