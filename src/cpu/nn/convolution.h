// The kernels of all convolution ops; see record/convolution.h for the terms.
#pragma once
#include "record/convolution.h"
#include "record/op.h"

namespace strata::cpu {

// Null: oneDNN supports it. Otherwise the reason.
const char* conv_onednn_ready(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                              const TensorImpl& small, bool bias);
void conv_onednn(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                 const TensorImpl& small, const TensorImpl* bias);
// 3x3 of stride 1 by Winograd's method; float32. Null: it is supported and faster.
const char* conv_winograd_ready(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight);
void conv_winograd(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                   const TensorImpl& small, const TensorImpl* bias);
// Few input channels into a channels-last output, float32, forward.
const char* conv_shallow_ready(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& small);
void conv_shallow(const ConvShape& s, const TensorImpl& big, const TensorImpl& weight, const TensorImpl& small,
                  const TensorImpl* bias);
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
