#include "cuda/nn/convolution_order.h"

#include <array>

#include "cuda/pointwise/pointwise.h"

namespace strata::cuda {

void set_dense_strides(Order order, int ndim, const int64_t* shape, int64_t* strides) {
  int64_t step = 1;
  const auto put = [&](int d) {
    strides[d] = step;
    step *= shape[d];
  };
  if (order == Order::ChannelsLast) put(1);
  for (int d = ndim - 1; d >= 2; --d) put(d);
  if (order == Order::ChannelsFirst) put(1);
  put(0);
}

bool is_dense(const TensorImpl& t, Order order) {
  int64_t dense[kMaxDims];
  set_dense_strides(order, t.ndim, t.shape, dense);
  for (int d = 0; d < t.ndim; ++d)
    if (t.shape[d] != 1 && t.strides[d] != dense[d]) return false;
  return true;
}

int64_t bytes_out_of_order(const ConvCall& v, Order order) {
  int64_t bytes = 0;
  for (const Tensor* t : {&v.big, &v.weight, &v.small})
    if (!is_dense(**t, order)) bytes += t->numel() * static_cast<int64_t>(size_of(t->dtype()));
  return bytes;
}

Tensor in_order(const Tensor& t, Order order, Workspace& space) {
  if (is_dense(*t, order)) return t;
  Tensor piece = space.take(t.shape(), t.dtype());
  set_dense_strides(order, piece->ndim, piece->shape, piece->strides);
  piece->update_contiguous();
  return piece;
}

Tensor broadcast_bias(const TensorImpl& bias, int spatial_dims) {
  Tensor row = alias(bias);
  row->reserve_dims(row->ndim + spatial_dims);
  for (int d = 0; d < spatial_dims; ++d) {
    row->shape[row->ndim] = 1;
    row->strides[row->ndim] = 1;
    ++row->ndim;
  }
  row->update_contiguous();
  return row;
}

void add_bias(const TensorImpl& out, const TensorImpl& bias) {
  static const OpRecord& add = find_op("add");
  Tensor to = alias(out);
  const Tensor row = broadcast_bias(bias, out.ndim - 2);
  run_pointwise(Call{add, Args(to, row, 1), &to});
}

}  // namespace strata::cuda
