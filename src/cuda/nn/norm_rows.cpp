#include "cuda/nn/norm_rows.h"

#include <fmt/core.h>

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
  Function of[2], any[2], narrow;  // narrow: for 16-bit tensors only
};

// How many threads a row has, and whether they hold it in registers.
struct Threads {
  int64_t count;
  bool narrow, in_registers;
};
// most: per row. `all`: the tensors with elements; copies of those that are not contiguous are aligned.
Threads threads_of_row(int64_t n, bool wide, int64_t most, std::initializer_list<const TensorImpl*> all) {
  Threads t{0, !wide, n % 8 == 0};
  for (const TensorImpl* one : all) {
    if (!one) continue;
    t.in_registers &= one->contiguous ? reads_in_pieces(*one, wide) : reads_in_pieces(one->dtype, wide);
    t.narrow &= size_of(one->dtype) == 2;
  }
  const int64_t of_thread = kNormInRegisters / (wide ? 8 : t.narrow ? 2 : 4);
  t.count = std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(n, of_thread)))),
                                kFewestThreads, t.narrow ? most / 2 : most);
  t.in_registers &= n <= t.count * of_thread;
  return t;
}

void launch(const Kernels& kernels, NormRowsParams p, int64_t most_threads, const TensorImpl& x,
            std::initializer_list<const TensorImpl*> all) {
  if (x.numel == 0) return;
  const bool wide = x.dtype == DType::F64;
  const auto [threads, narrow, in_registers] = threads_of_row(p.n, wide, most_threads, all);
  p.rows = x.numel / p.n;
  p.each = 1 / static_cast<double>(p.n);
  p.threads = static_cast<int32_t>(threads);
  const int64_t block = std::max(threads, kBlock), rows = block / threads;
  const Function& kernel = !in_registers ? kernels.any[wide] : narrow ? kernels.narrow : kernels.of[wide];
  stream_of(x.device).launch(kernel, {static_cast<uint32_t>((p.rows + rows - 1) / rows)},
                             {static_cast<uint32_t>(block)}, 0, p);
}
}  // namespace

void norm_rows(const TensorImpl& x, int64_t n, const TensorImpl* weight, const TensorImpl* bias, double eps,
               const TensorImpl& y, const TensorImpl* mean, const TensorImpl& rstd) {
  static const Kernels kernels{{{"norm_rows", "norm_rows_f32"}, {"norm_rows", "norm_rows_f64"}},
                               {{"norm_rows", "norm_rows_long_f32"}, {"norm_rows", "norm_rows_long_f64"}},
                               {"norm_rows", "norm_rows_narrow"}};
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
    {"norm_rows", "norm_rows_backward_narrow"}};
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

namespace {
constexpr const char* kHeader = "cuda/nn/norm_rows.cuh";
}

std::shared_ptr<GpuRows> norm_in_group(const TensorImpl& x, int64_t n, const TensorImpl* weight, const TensorImpl* bias,
                                       double eps, bool centred) {
  if (x.dtype == DType::F64) return nullptr;
  const auto [threads, narrow, in_registers] = threads_of_row(n, false, kMostThreads, {&x, weight, bias});
  if (!in_registers) return nullptr;
  const std::string functor = fmt::format("{}{}{}{}>", centred ? "NormRow<true, " : "RootMeanSquareRow<", !narrow,
                                          weight ? ", cuda::Scaled" : "", bias ? ", cuda::Shifted" : "");
  return std::make_shared<GpuRows>(GpuRows{.header = kHeader,
                                           .functor = functor,
                                           .threads = threads,
                                           .arrays = 1,
                                           .numbers = {1 / static_cast<double>(n), eps}});
}

std::shared_ptr<GpuRows> norm_backward_in_group(const TensorImpl& grad, const TensorImpl& x, int64_t n, bool centred,
                                                const TensorImpl* weight) {
  if (x.dtype == DType::F64) return nullptr;
  const auto [threads, narrow, in_registers] = threads_of_row(n, false, kMostBackward, {&grad, &x, weight});
  if (!in_registers) return nullptr;
  const std::string functor =
    fmt::format("{}<{}>", centred ? "NormRowGradient" : "RootMeanSquareRowGradient", weight ? "cuda::Scaled" : "");
  return std::make_shared<GpuRows>(GpuRows{
    .header = kHeader, .functor = functor, .threads = threads, .arrays = 2, .numbers = {1 / static_cast<double>(n)}});
}

}  // namespace strata::cuda
