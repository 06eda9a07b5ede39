#include "cuda/gemm.h"

#include <algorithm>

#include "cuda/runtime/stream.h"
#include "cuda/tensors.h"

namespace strata::cuda {

void gemm(GemmParams p, const TensorImpl& a, const TensorImpl& b, const TensorImpl& c, const TensorImpl* in) {
  static const Function kernels[] = {{"gemm", "gemm_f32"}, {"gemm", "gemm_f64"}, {"gemm", "gemm_i64"}};
  static const Function folds[] = {{"gemm", "gemm_fold_f32"}, {"gemm", "gemm_fold_f64"}, {"gemm", "gemm_fold_i64"}};
  constexpr int64_t kTile = kGemmTile, kDepth = kGemmDepth, kMostBatches = 65535;
  constexpr int64_t kEnoughBlocks = 132;  // one for each multiprocessor of a large card: no need to cut the sums
  constexpr int64_t kLeastDepth = 3 * kDepth, kMostParts = 64;
  p.batches = 1;
  for (int d = 0; d < p.batch_dims; ++d) p.batches *= p.batch[d];
  if (p.m == 0 || p.n == 0 || p.batches == 0) return;
  p.a = address(a), p.b = address(b), p.c = address(c), p.in = in && p.beta != 0 ? address(*in) : 0;
  p.a_type = tag(a), p.b_type = tag(b), p.c_type = tag(c), p.in_type = tag(in);
  const int64_t tiles = ceil_div(p.m, kTile) * ceil_div(p.n, kTile);
  const DType compute = compute_type(c.dtype);
  const size_t type = kernel_index(c.dtype);
  const int64_t parts = p.batches > 1 ? 1
                                      : std::clamp<int64_t>(kEnoughBlocks / tiles, 1,
                                                            std::clamp<int64_t>(p.k / kLeastDepth, 1, kMostParts));
  p.depth = std::max<int64_t>(kDepth, ceil_div(ceil_div(p.k, parts), kDepth) * kDepth);
  p.quads = p.c_n == 1 && c.dtype == DType::F32 && p.c % 16 == 0 && p.c_m % 4 == 0 && p.n % 4 == 0;
  for (int d = 0; d < p.batch_dims; ++d) p.quads &= p.c_b[d] % 4 == 0;
  const Grid grid{static_cast<uint32_t>(tiles), static_cast<uint32_t>(std::min(p.batches, kMostBatches)),
                  static_cast<uint32_t>(std::max<int64_t>(1, ceil_div(p.k, p.depth)))};
  const Stream stream = stream_of(c.device);
  static const Function plain{"gemm", "gemm_plain"};
  const Function& kernel = a.dtype == DType::F32 && b.dtype == DType::F32 && type == 0 ? plain : kernels[type];
  if (grid.z == 1) return stream.launch(kernel, grid, {256}, 0, p);
  const Tensor partial = make_tensor(Shape(std::array{int64_t{grid.z}, p.m, p.n}), compute, c.device);
  p.partial = address(*partial);
  stream.launch(kernel, grid, {256}, 0, p);
  stream.launch(folds[type], {static_cast<uint32_t>(ceil_div(p.m * p.n, 64))}, {256}, 0, p);
}

}  // namespace strata::cuda
