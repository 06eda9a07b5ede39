// log(sum(exp(x))) of contiguous rows. Bound by memory: elements are read once (exp_rows.cuh).
#include "cuda/common/exp_rows.cuh"
#include "cuda/reduce/log_sum_exp_params.h"

namespace strata::cuda {
namespace {

template <class T> __device__ __forceinline__ void log_sums(const LogSumExpParams& p) {
  __shared__ T space[2][32];
  const ExpRow r = exp_row_of(p, p.n, false);
  const ExpSum<T, true> all = exp_sum_of<T, true>(p, r, p.n, space);
  if (!r.exists || r.thread != 0) return;
  store<T>(const_cast<void*>(element(p.out, p.type, r.row)), p.type, log(all.sum) + all.below(all.most));
}
}  // namespace

extern "C" __global__ void __launch_bounds__(512) log_sum_exp_f32(LogSumExpParams p) { log_sums<float>(p); }
extern "C" __global__ void __launch_bounds__(512) log_sum_exp_f64(LogSumExpParams p) { log_sums<double>(p); }

}  // namespace strata::cuda
