#include "cuda/gemm.h"

#include <algorithm>

#include "cuda/runtime/stream.h"

namespace strata::cuda {

void gemm(GemmParams p, const TensorImpl& a, const TensorImpl& b, const TensorImpl& c, const TensorImpl* in) {
  static const Function kernels[] = {{"gemm", "gemm_f32"}, {"gemm", "gemm_f64"}, {"gemm", "gemm_i64"}};
  constexpr int64_t kTile = 64, kMostBatches = 65535;
  p.batches = 1;
  for (int d = 0; d < p.batch_dims; ++d) p.batches *= p.batch[d];
  if (p.m == 0 || p.n == 0 || p.batches == 0) return;
  const auto address = [](const TensorImpl& t) { return reinterpret_cast<uint64_t>(t.data); };
  p.a = address(a), p.b = address(b), p.c = address(c), p.in = in && p.beta != 0 ? address(*in) : 0;
  p.a_type = static_cast<int32_t>(a.dtype), p.b_type = static_cast<int32_t>(b.dtype);
  p.c_type = static_cast<int32_t>(c.dtype), p.in_type = in ? static_cast<int32_t>(in->dtype) : 0;
  const int64_t tiles = ((p.m + kTile - 1) / kTile) * ((p.n + kTile - 1) / kTile);
  const DType compute = compute_type(c.dtype);
  const Function& kernel = kernels[compute == DType::F32 ? 0 : compute == DType::F64 ? 1 : 2];
  stream_of(c.device).launch(
    kernel, {static_cast<uint32_t>(tiles), static_cast<uint32_t>(std::min(p.batches, kMostBatches))}, {256}, 0, p);
}

}  // namespace strata::cuda
