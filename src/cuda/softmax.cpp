#include "cuda/softmax.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "cuda/kernels/softmax_params.h"
#include "cuda/runtime/stream.h"
#include "cuda/tensors.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;

SoftmaxParams plan(const TensorImpl& x, int dim, bool log, const TensorImpl& out) {
  SoftmaxParams p{};
  p.rows = p.columns = 1, p.n = x.ndim ? x.shape[dim] : 1, p.log = log;
  for (int d = 0; d < x.ndim; ++d) (d < dim ? p.rows : p.columns) *= d == dim ? 1 : x.shape[d];
  p.x = address(x), p.x_type = tag(x);
  p.y = address(out), p.y_type = tag(out);
  // A row gets as many threads as have work; columns a warp's worth of neighbours.
  int64_t threads = 1;
  while (threads < kThreads && threads * 4 < p.n) threads *= 2;
  int64_t rows = kThreads / threads;
  if (p.columns > 1) rows = std::max<int64_t>(rows, 32);
  p.per_block = static_cast<int32_t>(rows);
  return p;
}

// Rows that lie densely, in whole vectors, and that 1024 threads hold in registers.
bool in_registers(const SoftmaxParams& p, std::initializer_list<const TensorImpl*> all) {
  bool fits = p.columns == 1 && p.n % 8 == 0 && p.n <= kSoftmaxInRegisters * 1024;
  for (const TensorImpl* t : all) fits &= reads_in_pieces(*t, (*all.begin())->dtype == DType::F64);
  return fits;
}

// Of a kernel: [double][log].
struct Kernels {
  Function rows[2][2], any[2];
};
// all: what is written, then what is read.
void launch(const Kernels& kernels, SoftmaxParams p, std::initializer_list<const TensorImpl*> all) {
  const TensorImpl& out = **all.begin();
  if (out.numel == 0) return;
  const bool wide = out.dtype == DType::F64;
  if (in_registers(p, all)) {
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
  launch(kernels, plan(x, dim, log, out), {&out, &x});
}

void softmax_backward(const TensorImpl& grad, const TensorImpl& result, int dim, bool log, const TensorImpl& out) {
  static const Kernels kernels{
    {{{"softmax_rows", "softmax_backward_rows_f32"}, {"softmax_rows", "log_softmax_backward_rows_f32"}},
     {{"softmax_rows", "softmax_backward_rows_f64"}, {"softmax_rows", "log_softmax_backward_rows_f64"}}},
    {{"softmax", "softmax_backward_f32"}, {"softmax", "softmax_backward_f64"}}};
  SoftmaxParams p = plan(result, dim, log, out);
  p.grad = address(grad), p.grad_type = tag(grad);
  launch(kernels, p, {&out, &result, &grad});
}

}  // namespace strata::cuda
