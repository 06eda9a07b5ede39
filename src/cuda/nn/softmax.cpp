#include "cuda/nn/softmax.h"

#include <fmt/core.h>

#include <algorithm>

#include "cuda/common/tensors.h"
#include "cuda/movement/dense.h"
#include "cuda/nn/softmax_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kSoftmaxThreads = 256;

struct SoftmaxPlan {
  SoftmaxParams params;  // without addresses
  Grid grid;
  uint32_t block;
  bool in_registers;
};

SoftmaxPlan geometry(const SoftmaxCall& s) {
  SoftmaxPlan plan{};
  SoftmaxParams& p = plan.params;
  p.rows = 1;
  p.columns = 1;
  p.n = s.x.ndim ? s.x.shape[s.dim] : 1;
  p.log = s.log;
  for (int d = 0; d < s.x.ndim; ++d) (d < s.dim ? p.rows : p.columns) *= d == s.dim ? 1 : s.x.shape[d];
  return plan;
}

int64_t threads_of_softmax_row(int64_t n) {
  int64_t threads = 8;
  while (threads * kSoftmaxInRegisters < n) threads *= 2;
  return threads;
}

// The kernels use linear indices: other layouts are copied to the workspace.
void count_workspace(const SoftmaxCall& s, Plan& plan) {
  Workspace workspace(plan);
  dense(s.x, workspace);
  if (s.grad) dense(*s.grad, workspace);
}
}  // namespace

// Why a call is not computed in registers; null: it is.
static const char* unfit(const SoftmaxCall& s, const SoftmaxParams& p) {
  if (p.columns != 1) return "the dimension is not the last";
  if (p.n % 8 != 0) return "a row is not a multiple of 8 elements";
  if (p.n > kSoftmaxInRegisters * 1024) return "a row is longer than the registers of 1024 threads";
  const bool wide = s.out.dtype == DType::F64;
  for (const TensorImpl* t : {&s.out, &s.x, s.grad}) {
    if (!t) continue;
    const bool fits = t->contiguous ? reads_in_pieces(*t, wide) : reads_in_pieces(t->dtype, wide);  // a copy is aligned
    if (!fits) return "its elements are not read in 16-byte pieces";
  }
  return nullptr;
}

const char* plan_softmax_rows(const SoftmaxCall& s, Plan& plan) {
  SoftmaxPlan made = geometry(s);
  SoftmaxParams& p = made.params;
  if (const char* reason = unfit(s, p)) return reason;
  p.threads = static_cast<int32_t>(threads_of_softmax_row(p.n));
  const int64_t threads = std::max<int64_t>(p.threads, 128);
  made.grid = {blocks_for(p.rows, threads / p.threads)};
  made.block = static_cast<uint32_t>(threads);
  made.in_registers = true;
  count_workspace(s, plan);
  plan.keep(made);
  return nullptr;
}

std::optional<RowOp> softmax_in_group(const SoftmaxCall& s) {
  const SoftmaxParams p = geometry(s).params;
  if (s.out.numel == 0 || compute_type(s.out.dtype) != DType::F32 || unfit(s, p)) return {};
  RowOp op{.compute = DType::F32, .shape = s.out.sizes(), .row = p.n, .in = {{{}, &s.x}}};
  if (s.grad) op.in.insert(op.in.begin(), {{}, s.grad});
  op.gpu = std::make_shared<GpuRows>(
    GpuRows{.header = "cuda/nn/softmax_rows.cuh",
            .functor = s.grad ? fmt::format("SoftmaxRowGradient<{}>", s.log)
                              : fmt::format("SoftmaxRow<{}, {}>", s.log, size_of(s.out.dtype) == 2),
            .threads = threads_of_softmax_row(p.n),
            .arrays = s.grad ? 2 : 1});
  return op;
}

const char* plan_softmax_lines(const SoftmaxCall& s, Plan& plan) {
  SoftmaxPlan made = geometry(s);
  SoftmaxParams& p = made.params;
  // A row gets as many threads as it has work for; columns get a warp's worth of neighbours.
  int64_t threads = 1;
  while (threads < kSoftmaxThreads && threads * 4 < p.n) threads *= 2;
  int64_t rows = kSoftmaxThreads / threads;
  if (p.columns > 1) rows = std::max<int64_t>(rows, 32);
  p.per_block = static_cast<int32_t>(rows);
  made.grid = {blocks_for(p.rows * p.columns, rows)};
  made.block = kSoftmaxThreads;
  count_workspace(s, plan);
  plan.keep(made);
  return nullptr;
}

void run_softmax(const SoftmaxCall& s, const Call& c, const Plan& plan) {
  // Kernel variants, indexed by [is_backward][is_double], for rows also by [is_log].
  static const Function rows[2][2][2] = {
    {{{"softmax_rows", "softmax_rows_f32"}, {"softmax_rows", "log_softmax_rows_f32"}},
     {{"softmax_rows", "softmax_rows_f64"}, {"softmax_rows", "log_softmax_rows_f64"}}},
    {{{"softmax_rows", "softmax_backward_rows_f32"}, {"softmax_rows", "log_softmax_backward_rows_f32"}},
     {{"softmax_rows", "softmax_backward_rows_f64"}, {"softmax_rows", "log_softmax_backward_rows_f64"}}}};
  static const Function lines[2][2] = {{{"softmax", "softmax_f32"}, {"softmax", "softmax_f64"}},
                                       {{"softmax", "softmax_backward_f32"}, {"softmax", "softmax_backward_f64"}}};
  if (s.out.numel == 0) return;
  auto made = plan.get<SoftmaxPlan>();
  Workspace workspace(c);
  const Tensor x = dense(s.x, workspace);
  const Tensor grad = s.grad ? dense(*s.grad, workspace) : Tensor();
  SoftmaxParams& p = made.params;
  p.x = address(*x);
  p.x_type = tag(*x);
  p.y = address(s.out);
  p.y_type = tag(s.out);
  p.grad = address(grad.get());
  p.grad_type = tag(grad.get());
  const bool backward = s.grad, wide = s.out.dtype == DType::F64;
  const Function& kernel = made.in_registers ? rows[backward][wide][s.log] : lines[backward][wide];
  stream_of(s.out.device).launch(kernel, made.grid, {made.block}, 0, p);
}

}  // namespace strata::cuda
