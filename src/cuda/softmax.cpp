#include "cuda/softmax.h"

#include <algorithm>
#include <bit>

#include "cuda/kernels/softmax_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;

SoftmaxParams plan(const TensorImpl& x, int dim, bool log, const TensorImpl& out) {
  SoftmaxParams p{};
  p.rows = p.columns = 1, p.n = x.ndim ? x.shape[dim] : 1, p.log = log;
  for (int d = 0; d < x.ndim; ++d) (d < dim ? p.rows : p.columns) *= d == dim ? 1 : x.shape[d];
  p.x = reinterpret_cast<uint64_t>(x.data), p.x_type = static_cast<int32_t>(x.dtype);
  p.y = reinterpret_cast<uint64_t>(out.data), p.y_type = static_cast<int32_t>(out.dtype);
  // A row gets as many threads as have work; columns a warp's worth of neighbours.
  int64_t threads = 1;
  while (threads < kThreads && threads * 4 < p.n) threads *= 2;
  int64_t rows = kThreads / threads;
  if (p.columns > 1) rows = std::max<int64_t>(rows, 32);
  p.per_block = static_cast<int32_t>(rows);
  return p;
}

void launch(const Function (&kernels)[2], const SoftmaxParams& p, const TensorImpl& out) {
  if (out.numel == 0) return;
  const auto blocks = static_cast<uint32_t>((p.rows * p.columns + p.per_block - 1) / p.per_block);
  stream_of(out.device).launch(kernels[out.dtype == DType::F64], {blocks}, {kThreads}, 0, p);
}
}  // namespace

void softmax(const TensorImpl& x, int dim, bool log, const TensorImpl& out) {
  static const Function kernels[] = {{"softmax", "softmax_f32"}, {"softmax", "softmax_f64"}};
  launch(kernels, plan(x, dim, log, out), out);
}

void softmax_backward(const TensorImpl& grad, const TensorImpl& result, int dim, bool log, const TensorImpl& out) {
  static const Function kernels[] = {{"softmax", "softmax_backward_f32"}, {"softmax", "softmax_backward_f64"}};
  SoftmaxParams p = plan(result, dim, log, out);
  p.grad = reinterpret_cast<uint64_t>(grad.data), p.grad_type = static_cast<int32_t>(grad.dtype);
  launch(kernels, p, out);
}

}  // namespace strata::cuda
