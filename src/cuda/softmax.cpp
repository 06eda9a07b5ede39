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

// Rows that lie densely, in whole vectors, and that 512 threads hold in registers: 32 elements each.
bool in_registers(const SoftmaxParams& p, const TensorImpl& out) {
  const auto aligned = [](uint64_t address) { return address % 16 == 0; };
  return Runtime::gpu(out.device).properties.major >= 8 && p.columns == 1 && p.n % 8 == 0 && p.n <= 32 * 512 &&
         aligned(p.x) && aligned(p.y) && aligned(p.grad) && out.numel > 0;
}

void launch(const Function (&rows)[2], const Function (&kernels)[2], SoftmaxParams p, const TensorImpl& out) {
  if (out.numel == 0) return;
  if (in_registers(p, out)) {
    p.threads = 32;
    while (p.threads * 32 < p.n) p.threads *= 2;
    const int64_t threads = std::max<int64_t>(p.threads, 128), per_block = threads / p.threads;
    return stream_of(out.device)
      .launch(rows[out.dtype == DType::F64], {static_cast<uint32_t>((p.rows + per_block - 1) / per_block)},
              {static_cast<uint32_t>(threads)}, 0, p);
  }
  const auto blocks = static_cast<uint32_t>((p.rows * p.columns + p.per_block - 1) / p.per_block);
  stream_of(out.device).launch(kernels[out.dtype == DType::F64], {blocks}, {kThreads}, 0, p);
}
}  // namespace

void softmax(const TensorImpl& x, int dim, bool log, const TensorImpl& out) {
  static const Function kernels[] = {{"softmax", "softmax_f32"}, {"softmax", "softmax_f64"}};
  static const Function rows[] = {{"softmax_rows", "softmax_rows_f32"}, {"softmax_rows", "softmax_rows_f64"}};
  launch(rows, kernels, plan(x, dim, log, out), out);
}

void softmax_backward(const TensorImpl& grad, const TensorImpl& result, int dim, bool log, const TensorImpl& out) {
  static const Function kernels[] = {{"softmax", "softmax_backward_f32"}, {"softmax", "softmax_backward_f64"}};
  SoftmaxParams p = plan(result, dim, log, out);
  p.grad = reinterpret_cast<uint64_t>(grad.data), p.grad_type = static_cast<int32_t>(grad.dtype);
  static const Function rows[] = {{"softmax_rows", "softmax_rows_backward_f32"},
                                  {"softmax_rows", "softmax_rows_backward_f64"}};
  launch(rows, kernels, p, out);
}

}  // namespace strata::cuda
