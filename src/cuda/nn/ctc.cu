// Connectionist temporal classification: the loss of each sequence and its gradient (Graves et al., ICML 2006).
//
// Bound by latency: the recursion over the steps is sequential, and a step has few states. A block processes one
// sequence; its threads process the states of a step, forwards (alpha) and backwards (beta), then the steps of the
// gradient. All sums are of two logarithms in a fixed order.
#include <cuda_runtime.h>

#include "cuda/nn/ctc_params.h"

namespace strata::cuda {
namespace {

template <class T> __device__ __forceinline__ T log_add(T a, T b) {
  const T most = max(a, b), least = min(a, b);
  return least == T(-INFINITY) ? most : most + log1p(exp(least - most));
}

template <class T> __device__ __forceinline__ void ctc(const CtcParams& p) {
  const int64_t i = blockIdx.x, thread = threadIdx.x, threads = blockDim.x;
  const CtcSequence s = reinterpret_cast<const CtcSequence*>(p.sequences)[i];
  const int64_t* const target = reinterpret_cast<const int64_t*>(p.targets) + s.target;
  const int64_t states = 2 * s.length + 1;
  const T none = T(-INFINITY);
  T* const alpha = reinterpret_cast<T*>(p.alpha) + s.cells;
  T* const beta = reinterpret_cast<T*>(p.beta) + s.cells;
  const auto prob = [&](int64_t t, int64_t c) {
    return reinterpret_cast<const T*>(p.log_probs)[(t * p.n + i) * p.classes + c];
  };
  const auto grad = [&](int64_t t, int64_t c) -> T& {
    return reinterpret_cast<T*>(p.grad)[(t * p.n + i) * p.classes + c];
  };
  const auto label = [&](int64_t k) {  // of a state; a label out of range is reported and treated as a blank
    if (k % 2 == 0) return p.blank;
    const int64_t l = target[k / 2];
    return l >= 0 && l < p.classes ? l : p.blank;
  };
  const auto skips = [&](int64_t k) {  // whether there is a transition from k - 2, over a blank
    return k >= 2 && k % 2 == 1 && target[k / 2] != target[k / 2 - 1];
  };
  for (int64_t k = thread; k < s.length; k += threads)
    if (target[k] < 0 || target[k] >= p.classes)
      *reinterpret_cast<int64_t*>(p.failed) = target[k] < 0 ? target[k] : target[k] + 1;
  for (int64_t j = thread; j < p.most_steps * p.classes; j += threads) grad(j / p.classes, j % p.classes) = T(0);
  if (s.steps == 0) {
    if (thread == 0) reinterpret_cast<T*>(p.loss)[i] = s.length == 0 || p.zero_infinity ? T(0) : T(INFINITY);
    return;
  }
  for (int64_t t = 0; t < s.steps; ++t) {
    const T* const before = alpha + (t - 1) * states;
    for (int64_t k = thread; k < states; k += threads) {
      T sum = none;
      if (t == 0) {
        sum = k < 2 ? T(0) : none;
      } else {
        sum = before[k];
        if (k > 0) sum = log_add(sum, before[k - 1]);
        if (skips(k)) sum = log_add(sum, before[k - 2]);
      }
      alpha[t * states + k] = sum + prob(t, label(k));
    }
    __syncthreads();
  }
  T total = alpha[s.steps * states - 1];
  if (states > 1) total = log_add(total, alpha[s.steps * states - 2]);
  const bool nothing = p.zero_infinity && total == none;
  if (thread == 0) reinterpret_cast<T*>(p.loss)[i] = nothing ? T(0) : -total;
  if (nothing) return;
  for (int64_t t = s.steps - 1; t >= 0; --t) {
    const T* const after = beta + (t + 1) * states;
    for (int64_t k = thread; k < states; k += threads) {
      T sum = none;
      if (t == s.steps - 1) {
        sum = k >= states - 2 ? T(0) : none;
      } else {
        sum = after[k];
        if (k + 1 < states) sum = log_add(sum, after[k + 1]);
        if (k + 2 < states && skips(k + 2)) sum = log_add(sum, after[k + 2]);
      }
      beta[t * states + k] = sum + prob(t, label(k));
    }
    __syncthreads();
  }
  for (int64_t t = thread; t < s.steps; t += threads) {
    for (int64_t c = 0; c < p.classes; ++c) grad(t, c) = none;
    for (int64_t k = 0; k < states; ++k) {
      T& sum = grad(t, label(k));
      sum = log_add(sum, alpha[t * states + k] + beta[t * states + k]);
    }
    for (int64_t c = 0; c < p.classes; ++c) grad(t, c) = exp(prob(t, c)) - exp(grad(t, c) - total - prob(t, c));
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(128) ctc_f32(CtcParams p) { ctc<float>(p); }
extern "C" __global__ void __launch_bounds__(128) ctc_f64(CtcParams p) { ctc<double>(p); }

}  // namespace strata::cuda
