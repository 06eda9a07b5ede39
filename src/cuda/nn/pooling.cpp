#include "cuda/nn/pooling.h"

#include <algorithm>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/nn/pooling_params.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kPoolThreads = 256;

#define STRATA_POOL_KERNELS(name) \
  static const Function kernels[] = {{"pooling", name "_f32"}, {"pooling", name "_f64"}, {"pooling", name "_i64"}}

// `counted`: the sizes that the threads iterate over. Splits into launches of fewer than 2^31 threads, with whole
// planes.
void launch(const Function (&kernels)[3], const PoolShape& s, const int64_t* counted, PoolParams p,
            const TensorImpl& y) {
  const int64_t size = counted[0] * counted[1] * counted[2];
  if (size * s.planes == 0) return;
  for (int d = 0; d < 3; ++d) {
    STRATA_CHECK(
      std::max({s.in_size(), s.out_size(), s.kernel[d] * s.dilation[d], s.stride[d] * s.out[d]}) <= INT32_MAX / 2,
      NotImplemented, "pooling: planes of more than {} elements are not supported on devices", INT32_MAX / 2);
    p.in[d] = static_cast<int32_t>(s.in[d]);
    p.out[d] = static_cast<int32_t>(s.out[d]);
    p.kernel[d] = static_cast<int32_t>(s.kernel[d]);
    p.stride[d] = static_cast<int32_t>(s.stride[d]);
    p.padding[d] = static_cast<int32_t>(s.padding[d]);
    p.dilation[d] = static_cast<int32_t>(s.dilation[d]);
    p.size[d] = divisor(static_cast<uint32_t>(counted[d]));
  }
  p.adaptive = s.adaptive;
  p.include_pad = s.include_pad;
  p.divisor = s.divisor;
  p.y = address(y);
  p.y_type = static_cast<int32_t>(y.dtype);
  const int64_t step = INT32_MAX / size;
  for (int64_t first = 0; first < s.planes; first += step) {
    p.first = first;
    p.count = static_cast<uint32_t>(std::min(step, s.planes - first) * size);
    stream_of(y.device).launch(kernels[kernel_index(y.dtype)], {blocks_for(p.count, kPoolThreads)}, {kPoolThreads}, 0,
                               p);
  }
}
PoolParams reading(const TensorImpl& x) {
  PoolParams p{};
  p.x = address(x);
  p.x_type = static_cast<int32_t>(x.dtype);
  return p;
}
PlaneParams plane_params(int64_t planes, int64_t in, int64_t out, const TensorImpl& values, const TensorImpl& index,
                         const TensorImpl& x) {
  PlaneParams p{};
  p.values = address(values);
  p.values_type = static_cast<int32_t>(values.dtype);
  p.x = address(x);
  p.x_type = static_cast<int32_t>(x.dtype);
  p.index = address(index);
  p.planes = planes;
  p.in = in;
  p.out = out;
  return p;
}
}  // namespace

void pool_max(const PoolShape& s, const TensorImpl& x, const TensorImpl& y, const TensorImpl& index,
              const PoolSamples* samples) {
  STRATA_POOL_KERNELS("pool_max");
  PoolParams p = reading(x);
  p.index = address(index);
  if (samples) {
    p.samples = address(samples->values);
    std::copy_n(samples->sample, 3, p.sample);
    p.dims = samples->dims;
  }
  launch(kernels, s, s.out, p, y);
}

void pool_mean(const PoolShape& s, const TensorImpl& x, const TensorImpl& y) {
  STRATA_POOL_KERNELS("pool_mean");
  launch(kernels, s, s.out, reading(x), y);
}

void pool_mean_backward(const PoolShape& s, const TensorImpl& grad, const TensorImpl& out) {
  STRATA_POOL_KERNELS("pool_mean_backward");
  if (grad.numel == 0) return fill(out, 0);
  launch(kernels, s, s.in, reading(grad), out);
}

void plane_gather(int64_t planes, int64_t in, int64_t out, const TensorImpl& x, const TensorImpl& index,
                  const TensorImpl& values) {
  STRATA_POOL_KERNELS("plane_gather");
  if (values.numel == 0) return;
  stream_of(x.device).launch(kernels[kernel_index(x.dtype)], {blocks_for(values.numel, kPoolThreads)}, {kPoolThreads},
                             0, plane_params(planes, in, out, values, index, x));
}

std::optional<int64_t> plane_scatter(int64_t planes, int64_t in, int64_t out, const TensorImpl& values,
                                     const TensorImpl& index, const TensorImpl& x, bool add, const Tensor& failed) {
  STRATA_POOL_KERNELS("plane_scatter");
  if (values.numel == 0) return {};
  PlaneParams p = plane_params(planes, in, out, values, index, x);
  p.add = add;
  if (failed) {
    fill(*failed, 0);
    p.failed = reinterpret_cast<uint64_t>(failed.bytes());
  }
  const int64_t per_block = kPoolThreads / 32;
  stream_of(x.device).launch(kernels[kernel_index(x.dtype)],
                             {static_cast<uint32_t>((planes + per_block - 1) / per_block)}, {kPoolThreads}, 0, p);
  const int64_t found = failed ? failed.item<int64_t>() : 0;
  if (found == 0) return {};
  return found > 0 ? found - 1 : found;
}

}  // namespace strata::cuda
