// Memory orders of the tensors of a convolution, and what its launchers share.
#pragma once
#include "cuda/nn/convolution.h"

namespace strata::cuda {

enum class Order : int64_t { ChannelsFirst, ChannelsLast };  // [n, c, spatial…] and [n, spatial…, c]

// Strides of a dense tensor with dimensions [n, c, spatial…].
void set_dense_strides(Order order, int ndim, const int64_t* shape, int64_t* strides);
// The strides of dimensions of size 1 are ignored.
bool is_dense(const TensorImpl& t, Order order);

// The tensor that the call writes.
inline const TensorImpl& written(const ConvCall& v) {
  return v.mode == ConvMode::Forward ? *v.small : v.mode == ConvMode::Data ? *v.big : *v.weight;
}
// Whether there is nothing to sum, or nothing to write.
inline bool sums_nothing(const ConvCall& v) { return !v.big.numel() || !v.small.numel() || !v.weight.numel(); }

// Bytes of the tensors that are not dense in this order.
int64_t bytes_out_of_order(const ConvCall& v, Order order);

// The tensor itself if it is dense in this order, otherwise memory of the workspace with its shape in this order, which
// is undefined while planning.
Tensor in_order(const Tensor& t, Order order, Workspace& space);

// One number per channel as a tensor that broadcasts to [n, c, spatial…].
Tensor broadcast_bias(const TensorImpl& bias, int spatial_dims);
// out += bias
void add_bias(const TensorImpl& out, const TensorImpl& bias);

}  // namespace strata::cuda
