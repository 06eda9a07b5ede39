// The kernels of all convolution ops; see record/convolution.h for the terms.
#pragma once
#include "record/convolution.h"
#include "record/epilogue.h"
#include "record/op.h"

namespace strata::cpu {

inline int64_t product(const int64_t* v, int count) {
  int64_t n = 1;
  for (int i = 0; i < count; ++i) n *= v[i];
  return n;
}

// What a kernel does with the sums of a forward convolution besides adding the bias.
struct ConvTail {
  Epilogue epilogue = {};
  const TensorImpl* other = nullptr;  // of the result's shape
  // For an input of bytes, whose weights are int8: the scales and that of each channel's weights. The bias is float32.
  const ByteScales* bytes = nullptr;
  const TensorImpl* weight_scales = nullptr;
  bool any() const { return other || bytes || epilogue.activation != Activation::None; }
};

// Null: oneDNN supports it. Otherwise the reason.
const char* conv_onednn_ready(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                              const TensorImpl& small, bool bias, const ConvTail& tail = {});
void conv_onednn(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                 const TensorImpl& small, const TensorImpl* bias, const ConvTail& tail = {});
// 3x3 of stride 1 by Winograd's method; float32, with ReLU if any. Null: it is supported and faster.
const char* conv_winograd_ready(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight);
void conv_winograd(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                   const TensorImpl& small, const TensorImpl* bias, const ConvTail& tail = {});
// Few input channels into a channels-last output, float32, forward.
const char* conv_shallow_ready(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& small);
void conv_shallow(const ConvShape& s, const TensorImpl& big, const TensorImpl& weight, const TensorImpl& small,
                  const TensorImpl* bias, bool relu = false);
// Windows unfolded into columns, then a matrix product; any dtype. bias (Forward only) may be null.
void conv_columns(const ConvShape& s, ConvMode mode, const Tensor& big, const Tensor& weight, const Tensor& small,
                  const TensorImpl* bias);
// Nested loops.
void conv_reference(const ConvShape& s, ConvMode mode, const Tensor& big, const Tensor& weight, const Tensor& small,
                    const TensorImpl* bias);

// One image [c, in…] to columns [c * kernel, out…] and back (adding where windows overlap).
template <class T> void im2col(const ConvShape& s, int64_t channels, const T* image, T* columns);
template <class T> void col2im(const ConvShape& s, int64_t channels, const T* columns, T* image);

}  // namespace strata::cpu
