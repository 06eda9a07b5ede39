#include "cuda/nn/norm_rows.h"

#include <algorithm>
#include <bit>

#include "cuda/common/tensors.h"
#include "cuda/nn/norm_rows_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kMostThreads = 1024, kMostBackward = 512;  // threads per row
constexpr int64_t kFewestThreads = 8;                        // neighbours that read together
constexpr int64_t kBlock = 256;

struct Kernels {
  // float and double; in registers, or for rows that are longer or not a multiple of the vector size
  Function of[2], any[2];
  const Function* narrow;  // for 16-bit tensors only; may be null
};
void launch(const Kernels& kernels, NormRowsParams p, int64_t most_threads, const TensorImpl& x,
            std::initializer_list<const TensorImpl*> all) {
  if (x.numel == 0) return;
  const bool wide = x.dtype == DType::F64;
  bool vectors = p.n % 8 == 0, narrow = kernels.narrow != nullptr;
  for (const TensorImpl* t : all) {
    if (!t) continue;
    vectors &= reads_in_pieces(*t, wide);
    narrow &= size_of(t->dtype) == 2;
  }
  const int64_t of_thread = kNormInRegisters / (wide ? 8 : narrow ? 2 : 4);
  p.rows = x.numel / p.n;
  p.each = 1 / static_cast<double>(p.n);
  const int64_t threads =
    std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((p.n + of_thread - 1) / of_thread))),
                        kFewestThreads, narrow ? most_threads / 2 : most_threads);
  p.threads = static_cast<int32_t>(threads);
  vectors &= p.n <= threads * of_thread;
  const int64_t block = std::max(threads, kBlock), rows = block / threads;
  const Function& kernel = !vectors ? kernels.any[wide] : narrow ? *kernels.narrow : kernels.of[wide];
  stream_of(x.device).launch(kernel, {static_cast<uint32_t>((p.rows + rows - 1) / rows)},
                             {static_cast<uint32_t>(block)}, 0, p);
}
}  // namespace

void norm_rows(const TensorImpl& x, int64_t n, const TensorImpl* weight, const TensorImpl* bias, double eps,
               const TensorImpl& y, const TensorImpl* mean, const TensorImpl& rstd) {
  static const Function narrow{"norm_rows", "norm_rows_narrow"};
  static const Kernels kernels{{{"norm_rows", "norm_rows_f32"}, {"norm_rows", "norm_rows_f64"}},
                               {{"norm_rows", "norm_rows_long_f32"}, {"norm_rows", "norm_rows_long_f64"}},
                               &narrow};
  NormRowsParams p{};
  p.x = address(&x);
  p.weight = address(weight);
  p.bias = address(bias);
  p.y = address(&y);
  p.x_type = tag(&x);
  p.weight_type = tag(weight);
  p.bias_type = tag(bias);
  p.y_type = tag(&y);
  p.mean = address(mean);
  p.rstd = address(&rstd);
  p.centred = mean != nullptr;
  p.n = n;
  p.eps = eps;
  launch(kernels, p, kMostThreads, x, {&x, weight, bias, &y});
}

void norm_rows_backward(const TensorImpl& grad, const TensorImpl& x, int64_t n, const TensorImpl* mean,
                        const TensorImpl& rstd, const TensorImpl* weight, const TensorImpl& out) {
  static const Kernels kernels{
    {{"norm_rows", "norm_rows_backward_f32"}, {"norm_rows", "norm_rows_backward_f64"}},
    {{"norm_rows", "norm_rows_backward_long_f32"}, {"norm_rows", "norm_rows_backward_long_f64"}},
    nullptr};
  NormRowsParams p{};
  p.x = address(&x);
  p.grad = address(&grad);
  p.weight = address(weight);
  p.y = address(&out);
  p.x_type = tag(&x);
  p.grad_type = tag(&grad);
  p.weight_type = tag(weight);
  p.y_type = tag(&out);
  p.mean = address(mean);
  p.rstd = address(&rstd);
  p.centred = mean != nullptr;
  p.n = n;
  launch(kernels, p, kMostBackward, x, {&x, &grad, weight, &out});
}

}  // namespace strata::cuda
