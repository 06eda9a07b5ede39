// Launches the kernels of cuda/reduce/log_sum_exp.cu.
#include "cuda/reduce/log_sum_exp.h"

#include <algorithm>
#include <bit>

#include "cuda/movement/dense.h"
#include "cuda/reduce/log_sum_exp_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {

void log_sum_exp(const TensorImpl& out, const TensorImpl& x, Workspace& workspace) {
  static const Function kernels[] = {{"log_sum_exp", "log_sum_exp_f32"}, {"log_sum_exp", "log_sum_exp_f64"}};
  constexpr int64_t kBlock = 512, kPerThread = 32;  // elements that are worth a thread
  if (out.numel == 0) return;
  const Tensor from = dense(x, workspace);
  const DenseOut to(out, workspace);
  if (workspace.planning()) return;
  LogSumExpParams p{};
  p.x = address(*from);
  p.out = address(*to);
  p.type = tag(x);
  p.rows = out.numel;
  p.n = x.shape[x.ndim - 1];
  const int64_t wanted = std::clamp<int64_t>(ceil_div(p.n, kPerThread), 1, kBlock);
  p.threads = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(wanted)));
  stream_of(out.device)
    .launch(kernels[x.dtype == DType::F64], {blocks_for(p.rows, kBlock / p.threads)}, {kBlock}, 0, p);
  to.finish();
}

}  // namespace strata::cuda
