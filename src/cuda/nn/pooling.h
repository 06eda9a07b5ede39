// Pooling on a device. Tensors are contiguous: planes of one image and channel each, of one to three spatial
// dimensions.
#pragma once
#include "record/pooling.h"
#include "tensor/tensor.h"

namespace strata::cuda {

// Of fractional pooling: where its windows are.
struct PoolSamples {
  const TensorImpl& values;      // doubles, [planes, dims]
  int sample[3] = {-1, -1, -1};  // index of a plane's sample for each dimension
  int dims = 0;
};

// The maximum of each window and its index within the plane; NaN wins.
void pool_max(const PoolShape& s, const TensorImpl& x, const TensorImpl& y, const TensorImpl& index,
              const PoolSamples* samples = nullptr);
void pool_mean(const PoolShape& s, const TensorImpl& x, const TensorImpl& y);
void pool_mean_backward(const PoolShape& s, const TensorImpl& grad, const TensorImpl& out);
// values = x at index; planes of `in` values with `out` indices each.
void plane_gather(int64_t planes, int64_t in, int64_t out, const TensorImpl& x, const TensorImpl& index,
                  const TensorImpl& values);
// Stores or adds values at index into x, whose elements are zero and of the compute type. With `failed`, one int64 on the
// device, waits and returns an invalid index if there is one.
std::optional<int64_t> plane_scatter(int64_t planes, int64_t in, int64_t out, const TensorImpl& values,
                                     const TensorImpl& index, const TensorImpl& x, bool add, const Tensor& failed);

}  // namespace strata::cuda
