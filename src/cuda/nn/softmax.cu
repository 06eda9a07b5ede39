// softmax and log_softmax with their gradients, over any dimension.
//
// Bound by memory. The first pass finds the maximum and the sum of exponentials together (the running sum is rescaled
// when the maximum changes), the second writes; if a row fits the cache, its second read comes from there. Neighbouring
// threads process neighbouring elements of a row, or neighbouring columns if the dimension is not the last.
#include "cuda/common/dtypes.cuh"
#include "cuda/nn/softmax_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

struct Place {
  int per_row, lane, step;  // threads per row; index in the row; distance to neighbours in shared memory
  int64_t base;             // first element; negative: no row
};
__device__ __forceinline__ Place place_of(const SoftmaxParams& p) {
  Place at;
  const bool columns = p.columns > 1;
  const int thread = threadIdx.x;
  at.per_row = kThreads / p.per_block;
  at.step = columns ? p.per_block : 1;
  at.lane = columns ? thread / p.per_block : thread % at.per_row;
  const int own = columns ? thread % p.per_block : thread / at.per_row;
  const int64_t row = int64_t(blockIdx.x) * p.per_block + own;
  at.base = row < p.rows * p.columns ? row / p.columns * p.n * p.columns + row % p.columns : -1;
  return at;
}

// The maximum and the sum of exponentials relative to it.
template <class T> struct Peak { T most, sum; };
template <class T> __device__ __forceinline__ Peak<T> both(const Peak<T>& a, const Peak<T>& b) {
  const T most = a.most < b.most ? b.most : a.most;
  return {most, (a.most == most ? a.sum : a.sum * exp(a.most - most)) +
                  (b.most == most ? b.sum : b.sum * exp(b.most - most))};
}

template <class T> __device__ __forceinline__ void forward(const SoftmaxParams& p) {
  __shared__ T most[kThreads], sum[kThreads];
  const Place at = place_of(p);
  const int thread = threadIdx.x;
  Peak<T> peak{T(-INFINITY), T(0)};
  const auto value = [&](int64_t i) { return load<T>(element(p.x, p.x_type, at.base + i * p.columns), p.x_type); };
  if (at.base >= 0) {
    for (int64_t i = at.lane; i < p.n; i += at.per_row) {
      const T v = value(i);
      // The new maximum adds exp(0) = 1, and NaN if it is infinite, as inf - inf is.
      if (v > peak.most) {
        peak.sum = peak.sum * exp(peak.most - v) + (T(1) + (v - v));
        peak.most = v;
      } else if (v != T(-INFINITY)) peak.sum += exp(v - peak.most);  // NaN propagates
    }
  }
  most[thread] = peak.most;
  sum[thread] = peak.sum;
  for (int half = at.per_row / 2; half > 0; half /= 2) {
    __syncthreads();
    if (at.lane < half) {
      peak = both(peak, Peak<T>{most[thread + half * at.step], sum[thread + half * at.step]});
      most[thread] = peak.most;
      sum[thread] = peak.sum;
    }
  }
  __syncthreads();
  if (at.base < 0) return;
  const int first = thread - at.lane * at.step;
  peak = {most[first], sum[first]};
  const T shift = p.log ? log(peak.sum) : T(1) / peak.sum;
  for (int64_t i = at.lane; i < p.n; i += at.per_row) {
    const T v = value(i) - peak.most;
    store<T>(const_cast<void*>(element(p.y, p.y_type, at.base + i * p.columns)), p.y_type,
             p.log ? v - shift : exp(v) * shift);
  }
}

template <class T> __device__ __forceinline__ void backward(const SoftmaxParams& p) {
  __shared__ T sum[kThreads];
  const Place at = place_of(p);
  const int thread = threadIdx.x;
  const auto result = [&](int64_t i) { return load<T>(element(p.x, p.x_type, at.base + i * p.columns), p.x_type); };
  const auto grad = [&](int64_t i) {
    return load<T>(element(p.grad, p.grad_type, at.base + i * p.columns), p.grad_type);
  };
  T total = 0;
  if (at.base >= 0)
    for (int64_t i = at.lane; i < p.n; i += at.per_row) total += p.log ? grad(i) : grad(i) * result(i);
  sum[thread] = total;
  for (int half = at.per_row / 2; half > 0; half /= 2) {
    __syncthreads();
    if (at.lane < half) sum[thread] += sum[thread + half * at.step];
  }
  __syncthreads();
  if (at.base < 0) return;
  total = sum[thread - at.lane * at.step];
  for (int64_t i = at.lane; i < p.n; i += at.per_row) {
    const T g = grad(i), y = result(i);
    store<T>(const_cast<void*>(element(p.y, p.y_type, at.base + i * p.columns)), p.y_type,
             p.log ? g - exp(y) * total : (g - total) * y);
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) softmax_f32(SoftmaxParams p) { forward<float>(p); }
extern "C" __global__ void __launch_bounds__(256) softmax_f64(SoftmaxParams p) { forward<double>(p); }
extern "C" __global__ void __launch_bounds__(256) softmax_backward_f32(SoftmaxParams p) { backward<float>(p); }
extern "C" __global__ void __launch_bounds__(256) softmax_backward_f64(SoftmaxParams p) { backward<double>(p); }

}  // namespace strata::cuda
