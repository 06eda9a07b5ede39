// The negative log likelihood of classes: picks one element per row, and puts gradients back there.
//
// Bound by memory: the forward pass reads one element per row, the backward pass writes the whole gradient once.
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/fault.cuh"
#include "cuda/kernels/nll_params.h"

namespace strata::cuda {
namespace {

// The class of place i, or -1 where it does not count.
__device__ __forceinline__ int64_t class_of(const NllParams& p, int64_t i) {
  const int64_t t = load<int64_t>(element(p.target, p.target_type, i), p.target_type);
  if (t == p.ignore) return -1;
  if (t >= 0 && t < p.classes) return t;
  report(p.faults, FaultCode::Target, t, p.classes);
  return -1;
}
template <class T> __device__ __forceinline__ T weight_of(const NllParams& p, int64_t t) {
  return p.weight ? load<T>(element(p.weight, p.weight_type, t), p.weight_type) : T(1);
}

template <class T> __device__ __forceinline__ void forward(const NllParams& p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const int64_t t = class_of(p, i);
  const T scale = t < 0 ? T(0) : weight_of<T>(p, t);
  T loss = T(0);
  if (t >= 0)
    loss = -load<T>(element(p.x, p.x_type, (i / p.inner * p.classes + t) * p.inner + i % p.inner), p.x_type) * scale;
  reinterpret_cast<T*>(p.losses)[i] = loss;
  reinterpret_cast<T*>(p.scales)[i] = scale;
}

// One thread per element of the gradient [n, classes, inner].
template <class T> __device__ __forceinline__ void backward(const NllParams& p) {
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= p.count * p.classes) return;
  const int64_t i = e / (p.classes * p.inner) * p.inner + e % p.inner;
  const int64_t t = class_of(p, i);
  T value = T(0);
  if (t >= 0 && e / p.inner % p.classes == t) {
    T g = load<T>(element(p.grad, p.grad_type, p.each ? i : 0), p.grad_type);
    if (p.total) g /= load<T>(element(p.total, p.total_type, 0), p.total_type);
    value = -g * weight_of<T>(p, t);
  }
  store<T>(const_cast<void*>(element(p.x, p.x_type, e)), p.x_type, value);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) nll_f32(NllParams p) { forward<float>(p); }
extern "C" __global__ void __launch_bounds__(256) nll_f64(NllParams p) { forward<double>(p); }
extern "C" __global__ void __launch_bounds__(256) nll_backward_f32(NllParams p) { backward<float>(p); }
extern "C" __global__ void __launch_bounds__(256) nll_backward_f64(NllParams p) { backward<double>(p); }

}  // namespace strata::cuda
