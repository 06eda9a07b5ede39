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

// Rows that lie densely, in whole vectors, and that 1024 threads hold in registers.
bool in_registers(const SoftmaxParams& p, const TensorImpl& out) {
  const auto fits = [&](uint64_t address, int32_t type) {
    const auto t = static_cast<DType>(type);
    const bool common =
      out.dtype == DType::F64 ? t == DType::F64 : t == DType::F32 || t == DType::F16 || t == DType::BF16;
    return address == 0 || (common && address % 16 == 0);
  };
  return p.columns == 1 && p.n % 8 == 0 && p.n <= kSoftmaxInRegisters * 1024 && fits(p.x, p.x_type) &&
         fits(p.y, p.y_type) && fits(p.grad, p.grad_type);
}

// Of a kernel: [double][log].
struct Kernels {
  Function rows[2][2], any[2];
};
void launch(const Kernels& kernels, SoftmaxParams p, const TensorImpl& out) {
  if (out.numel == 0) return;
  const bool wide = out.dtype == DType::F64;
  if (in_registers(p, out)) {
    p.threads = 32;
    while (p.threads * kSoftmaxInRegisters < p.n) p.threads *= 2;
    const int64_t threads = std::max<int64_t>(p.threads, 128), per_block = threads / p.threads;
    return stream_of(out.device)
      .launch(kernels.rows[wide][p.log], {static_cast<uint32_t>((p.rows + per_block - 1) / per_block)},
              {static_cast<uint32_t>(threads)}, 0, p);
  }
  const auto blocks = static_cast<uint32_t>((p.rows * p.columns + p.per_block - 1) / p.per_block);
  stream_of(out.device).launch(kernels.any[wide], {blocks}, {kThreads}, 0, p);
}
}  // namespace

void softmax(const TensorImpl& x, int dim, bool log, const TensorImpl& out) {
  static const Kernels kernels{{{{"softmax_rows", "softmax_rows_f32"}, {"softmax_rows", "log_softmax_rows_f32"}},
                                {{"softmax_rows", "softmax_rows_f64"}, {"softmax_rows", "log_softmax_rows_f64"}}},
                               {{"softmax", "softmax_f32"}, {"softmax", "softmax_f64"}}};
  launch(kernels, plan(x, dim, log, out), out);
}

void softmax_backward(const TensorImpl& grad, const TensorImpl& result, int dim, bool log, const TensorImpl& out) {
  static const Kernels kernels{
    {{{"softmax_rows", "softmax_backward_rows_f32"}, {"softmax_rows", "log_softmax_backward_rows_f32"}},
     {{"softmax_rows", "softmax_backward_rows_f64"}, {"softmax_rows", "log_softmax_backward_rows_f64"}}},
    {{"softmax", "softmax_backward_f32"}, {"softmax", "softmax_backward_f64"}}};
  SoftmaxParams p = plan(result, dim, log, out);
  p.grad = reinterpret_cast<uint64_t>(grad.data), p.grad_type = static_cast<int32_t>(grad.dtype);
  launch(kernels, p, out);
}

}  // namespace strata::cuda
