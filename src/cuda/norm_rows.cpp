#include "cuda/norm_rows.h"

#include <algorithm>
#include <bit>

#include "cuda/kernels/norm_rows_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kMostThreads = 512, kMostBackward = 256;  // of a row
constexpr int64_t kFewestThreads = 8;                       // neighbours that read together
constexpr int64_t kBlock = 256;

uint64_t address(const TensorImpl* t) { return t ? reinterpret_cast<uint64_t>(t->data) : 0; }
int32_t type_of(const TensorImpl* t) { return t ? static_cast<int32_t>(t->dtype) : 0; }

void launch(const Function (&kernels)[2], NormRowsParams p, int64_t most_threads, const TensorImpl& x,
            std::initializer_list<const TensorImpl*> all) {
  if (x.numel == 0) return;
  const bool wide = x.dtype == DType::F64;
  const int64_t vector = wide ? 2 : 8, of_thread = wide ? 16 : 32;
  p.rows = x.numel / p.n;
  const int64_t threads =
    std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((p.n + of_thread - 1) / of_thread))),
                        kFewestThreads, most_threads);
  p.threads = static_cast<int32_t>(threads);
  p.vectors = p.n % vector == 0 && p.n <= threads * of_thread;
  for (const TensorImpl* t : all) {
    if (!t) continue;
    const bool common =
      wide ? t->dtype == DType::F64 : t->dtype == DType::F32 || t->dtype == DType::F16 || t->dtype == DType::BF16;
    p.vectors &= common && address(t) % 16 == 0;
  }
  const int64_t block = std::max(threads, kBlock), rows = block / threads;
  stream_of(x.device).launch(kernels[wide], {static_cast<uint32_t>((p.rows + rows - 1) / rows)},
                             {static_cast<uint32_t>(block)}, 0, p);
}
}  // namespace

void norm_rows(const TensorImpl& x, int64_t n, const TensorImpl* weight, const TensorImpl* bias, double eps,
               const TensorImpl& y, const TensorImpl* mean, const TensorImpl& rstd) {
  static const Function kernels[] = {{"norm_rows", "norm_rows_f32"}, {"norm_rows", "norm_rows_f64"}};
  NormRowsParams p{};
  p.x = address(&x), p.weight = address(weight), p.bias = address(bias), p.y = address(&y);
  p.x_type = type_of(&x), p.weight_type = type_of(weight), p.bias_type = type_of(bias), p.y_type = type_of(&y);
  p.mean = address(mean), p.rstd = address(&rstd), p.centred = mean != nullptr, p.n = n, p.eps = eps;
  launch(kernels, p, kMostThreads, x, {&x, weight, bias, &y});
}

void norm_rows_backward(const TensorImpl& grad, const TensorImpl& x, int64_t n, const TensorImpl* mean,
                        const TensorImpl& rstd, const TensorImpl* weight, const TensorImpl& out) {
  static const Function kernels[] = {{"norm_rows", "norm_rows_backward_f32"}, {"norm_rows", "norm_rows_backward_f64"}};
  NormRowsParams p{};
  p.x = address(&x), p.grad = address(&grad), p.weight = address(weight), p.y = address(&out);
  p.x_type = type_of(&x), p.grad_type = type_of(&grad), p.weight_type = type_of(weight), p.y_type = type_of(&out);
  p.mean = address(mean), p.rstd = address(&rstd), p.centred = mean != nullptr, p.n = n;
  launch(kernels, p, kMostBackward, x, {&x, &grad, weight, &out});
}

}  // namespace strata::cuda
