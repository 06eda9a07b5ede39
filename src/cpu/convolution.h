// The three kernels behind every convolution op. `big` is the side the window moves over ([n, c, in…]), `small` the other one
// ([n, o, out…]), weight [o, c / groups, kernel…]. conv: big -> small; transposed conv and input gradients: small -> big.
#pragma once
#include "record/op.h"

namespace strata::cpu {

struct ConvShape {
  int dims = 2;  // spatial
  int64_t n = 0, c = 0, o = 0, groups = 1;
  int64_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
};

enum class ConvWay : uint8_t { Forward, Data, Weight };  // writes small, big, weight

// Null: oneDNN takes it. Otherwise the reason.
const char* conv_onednn_ready(const ConvShape& s, ConvWay way, const TensorImpl& big, const TensorImpl& weight,
                              const TensorImpl& small, bool bias);
void conv_onednn(const ConvShape& s, ConvWay way, const TensorImpl& big, const TensorImpl& weight,
                 const TensorImpl& small, const TensorImpl* bias);
// 3x3 of stride 1 by Winograd's method; float32. Null: it takes it and it pays.
const char* conv_winograd_ready(const ConvShape& s, ConvWay way, const TensorImpl& big, const TensorImpl& weight);
void conv_winograd(const ConvShape& s, ConvWay way, const TensorImpl& big, const TensorImpl& weight,
                   const TensorImpl& small, const TensorImpl* bias);
// Few input channels into a channels-last output, float32, forward.
const char* conv_shallow_ready(const ConvShape& s, ConvWay way, const TensorImpl& big, const TensorImpl& small);
void conv_shallow(const ConvShape& s, const TensorImpl& big, const TensorImpl& weight, const TensorImpl& small,
                  const TensorImpl* bias);
// Windows unfolded into columns, then a matrix product; any dtype. bias (Forward only) may be null.
void conv_columns(const ConvShape& s, ConvWay way, const Tensor& big, const Tensor& weight, const Tensor& small,
                  const TensorImpl* bias);
// Nested loops.
void conv_reference(const ConvShape& s, ConvWay way, const Tensor& big, const Tensor& weight, const Tensor& small,
                    const TensorImpl* bias);

// One image [c, in…] to columns [c * kernel, out…] and back (adding where windows overlap).
template <class T> void im2col(const ConvShape& s, int64_t channels, const T* image, T* columns);
template <class T> void col2im(const ConvShape& s, int64_t channels, const T* columns, T* image);

}  // namespace strata::cpu
