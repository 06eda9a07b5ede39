// Cross entropy of rows of logits with class indices: log_softmax and nll_loss without the matrix between them.
//
// Bound by memory: the forward pass reads the logits once (exp_rows.cuh); the backward pass reads them once more and
// writes the gradient. Losses are summed in double.
// fmad: off
#include "cuda/common/exp_rows.cuh"
#include "cuda/nn/classes.cuh"
#include "cuda/nn/cross_entropy.cuh"

namespace strata::cuda {
namespace {

template <class T> __device__ __forceinline__ void forward(const CrossEntropyParams& p) {
  __shared__ T space[2][32];
  const ExpRow r = exp_row_of(p, p.classes, p.singly);
  const ExpSum<T, false> all = exp_sum_of<T, false>(p, r, p.classes, space);
  const T most = all.most, log_sum = log(all.sum);
  if (!r.exists || r.thread != 0) return;
  const int64_t t = class_of(p, r.row);
  T loss = T(0);
  if (t >= 0) loss = class_loss(load<T>(element(p.x, p.type, r.base + t), p.type), most, log_sum, weight_of<T>(p, t));
  T* stats = reinterpret_cast<T*>(p.stats) + r.row * kCrossEntropyStats;
  stats[0] = most;
  stats[1] = log_sum;
  stats[2] = loss;
  if (p.each) store<T>(const_cast<void*>(element(p.loss, p.type, r.row)), p.type, loss);
}

// The sums over all rows, by one block. Without statistics only that of the weights.
template <class T> __device__ __forceinline__ void sums(const CrossEntropyParams& p) {
  ClassSums own;
  for (int64_t row = threadIdx.x; row < p.rows; row += kClassThreads) {
    const int64_t t = load<int64_t>(element(p.target, p.target_type, row), p.target_type);
    if (t < 0 || t >= p.classes || t == p.ignore) continue;
    const double loss = p.stats ? double(reinterpret_cast<const T*>(p.stats)[row * kCrossEntropyStats + 2]) : 0;
    own.add({loss, double(weight_of<T>(p, t))});
  }
  own = over_block(own);
  if (threadIdx.x != 0) return;
  *reinterpret_cast<T*>(p.total) = T(own.weight);
  if (p.stats && !p.each)
    store<T>(reinterpret_cast<void*>(p.loss), p.type, T(p.mean ? own.loss / own.weight : own.loss));
}

// The gradient of a row, as if no class were the target; then that of the target is written over it. `out` may be x.
template <class T, Types kTypes> __device__ __forceinline__ void backward(const CrossEntropyParams& p) {
  constexpr int kFlight = 16 / int(sizeof(T));
  constexpr bool kCoarse = kTypes == Types::Narrow;
  const ExpRow r = exp_row_of(p, p.classes, p.singly);
  const int64_t t = r.exists ? class_of(p, r.row) : -1;
  T most = T(0), log_sum = T(0), scale = T(0);
  if (t >= 0) {
    const T* stats = reinterpret_cast<const T*>(p.stats) + r.row * kCrossEntropyStats;
    most = stats[0];
    log_sum = stats[1];
    scale = load<T>(element(p.grad, p.grad_type, p.each ? r.row : 0), p.grad_type) * weight_of<T>(p, t);
    if (p.mean) scale /= *reinterpret_cast<const T*>(p.total);
  }
  const bool counts = t >= 0;  // an ignored row has no gradient, whatever it contains
  const auto value = [&](T v) { return counts ? logit_gradient(v, most, log_sum, scale, false, kCoarse) : T(0); };
  const auto read = [&](int64_t i) { return load<T>(element_as<T, kTypes>(p.x, p.type, r.base + i), p.type); };
  const auto put = [&](int64_t i, T v) {
    store<T>(const_cast<void*>(element_as<T, kTypes>(p.out, p.type, r.base + i)), p.type, v);
  };
  const T hit = t >= 0 && r.thread == 0 ? read(t) : T(0);
  if (p.out == p.x) __syncthreads();  // it is read before another thread overwrites it
  if (r.exists) {
    for (int64_t i = r.thread; i < r.head; i += p.threads) put(i, value(read(i)));
    for (int64_t i = r.head + r.vectors * 8 + r.thread; i < p.classes; i += p.threads) put(i, value(read(i)));
    for (int64_t v = r.thread; v < r.vectors; v += int64_t(p.threads) * kFlight) {
      const auto has = [&](int k) { return v + int64_t(k) * p.threads < r.vectors; };
      const auto place = [&](int k) { return r.base + r.head + (v + int64_t(k) * p.threads) * 8; };
      Eights<T, kFlight, kTypes> x;
      x.load(
        p.type, [&](int k) { return element_as<T, kTypes>(p.x, p.type, place(k)); }, has);
      T y[kFlight][8];
      x.each(p.type, [&](int k, int j, T e) { y[k][j] = value(e); });
#pragma unroll
      for (int k = 0; k < kFlight; ++k)
        if (has(k))
          store_eight<T, false>(const_cast<void*>(element_as<T, kTypes>(p.out, p.type, place(k))), p.type, y[k]);
    }
  }
  __syncthreads();
  if (t >= 0 && r.thread == 0) put(t, logit_gradient(hit, most, log_sum, scale, true, kCoarse));
}
}  // namespace

#define STRATA_CROSS_ENTROPY(suffix, T)                                                                             \
  extern "C" __global__ void __launch_bounds__(512) cross_entropy_##suffix(CrossEntropyParams p) { forward<T>(p); } \
  extern "C" __global__ void __launch_bounds__(256) cross_entropy_sums_##suffix(CrossEntropyParams p) { sums<T>(p); }
STRATA_CROSS_ENTROPY(f32, float)
STRATA_CROSS_ENTROPY(f64, double)
#define STRATA_CROSS_ENTROPY_BACKWARD(suffix, T, kTypes)                                                    \
  extern "C" __global__ void __launch_bounds__(512) cross_entropy_backward_##suffix(CrossEntropyParams p) { \
    backward<T, kTypes>(p);                                                                                 \
  }
STRATA_CROSS_ENTROPY_BACKWARD(narrow, float, Types::Narrow)
STRATA_CROSS_ENTROPY_BACKWARD(f32, float, Types::Same)
STRATA_CROSS_ENTROPY_BACKWARD(f64, double, Types::Same)

}  // namespace strata::cuda
