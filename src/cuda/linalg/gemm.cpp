#include "cuda/linalg/gemm.h"

#include <algorithm>

#include "cuda/common/tensors.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kTile = kGemmTile, kDepth = kGemmDepth, kMostBatches = 65535;
constexpr int64_t kEnoughBlocks = 132;  // one for each multiprocessor of a large GPU: no need to split the sums
constexpr int64_t kLeastDepth = 3 * kDepth, kMostParts = 64;

int64_t tiles_of(const GemmParams& p) { return ceil_div(p.m, kTile) * ceil_div(p.n, kTile); }
int64_t batches_of(const GemmParams& p) {
  int64_t count = 1;
  for (int d = 0; d < p.batch_dims; ++d) count *= p.batch[d];
  return count;
}

void keep(Plan& plan, const GemmCall& g, int64_t parts) {
  GemmParams p = g.params;
  p.batches = batches_of(p);
  p.depth = std::max<int64_t>(kDepth, ceil_div(ceil_div(p.k, parts), kDepth) * kDepth);
  if (const int64_t cut = ceil_div(p.k, p.depth); cut > 1)
    Workspace(plan).take(Shape(std::array{cut, p.m, p.n}), compute_type(g.c.dtype()));
  plan.keep(p);
}
}  // namespace

const char* plan_gemm_tiles(const GemmCall& g, Plan& plan) {
  keep(plan, g, 1);
  return nullptr;
}

const char* plan_gemm_parts(const GemmCall& g, Plan& plan) {
  const GemmParams& p = g.params;
  if (batches_of(p) != 1) return "there are several matrices";
  if (p.m == 0 || p.n == 0) return "the result is empty";
  const int64_t wanted = kEnoughBlocks / tiles_of(p), possible = std::min(p.k / kLeastDepth, kMostParts);
  if (wanted < 2) return "the result has enough tiles";
  if (possible < 2) return "the sums are short";
  keep(plan, g, std::min(wanted, possible));
  return nullptr;
}

void run_gemm(const GemmCall& g, const Call& call, const Plan& plan) {
  static const Function kernels[] = {{"gemm", "gemm_f32"}, {"gemm", "gemm_f64"}, {"gemm", "gemm_i64"}};
  static const Function folds[] = {{"gemm", "gemm_fold_f32"}, {"gemm", "gemm_fold_f64"}, {"gemm", "gemm_fold_i64"}};
  static const Function plain{"gemm", "gemm_plain"};
  auto p = plan.get<GemmParams>();
  if (p.m == 0 || p.n == 0 || p.batches == 0) return;
  const TensorImpl& c = *g.c;
  const TensorImpl* in = g.in && p.beta != 0 ? g.in.get() : nullptr;
  p.a = address(*g.a);
  p.b = address(*g.b);
  p.c = address(c);
  p.in = address(in);
  p.a_type = tag(*g.a);
  p.b_type = tag(*g.b);
  p.c_type = tag(c);
  p.in_type = tag(in);
  p.quads = p.c_n == 1 && c.dtype == DType::F32 && p.c % 16 == 0 && p.c_m % 4 == 0 && p.n % 4 == 0;
  for (int d = 0; d < p.batch_dims; ++d) p.quads &= p.c_b[d] % 4 == 0;
  const Grid grid{static_cast<uint32_t>(tiles_of(p)), static_cast<uint32_t>(std::min(p.batches, kMostBatches)),
                  static_cast<uint32_t>(std::max<int64_t>(1, ceil_div(p.k, p.depth)))};
  Tensor partial;
  if (grid.z > 1) {
    partial = Workspace(call).take(Shape(std::array{int64_t{grid.z}, p.m, p.n}), compute_type(c.dtype));
    p.partial = address(*partial);
  }
  const Stream stream = stream_of(c.device);
  const size_t type = kernel_index(c.dtype);
  const bool floats = g.a.dtype() == DType::F32 && g.b.dtype() == DType::F32 && type == 0;
  stream.launch(floats ? plain : kernels[type], grid, {256}, 0, p);
  if (grid.z > 1) stream.launch(folds[type], {blocks_for(p.m * p.n, 64)}, {256}, 0, p);
}

}  // namespace strata::cuda
