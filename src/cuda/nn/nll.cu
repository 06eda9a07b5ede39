// Negative log likelihood: picks one element per row, and puts gradients back there.
//
// Bound by memory: the forward pass reads one element per row, the backward pass writes the whole gradient once. Losses
// are summed in double, in an order that depends on their number only: within a block first, then over the blocks, in a
// second launch if there is more than one.
#include "cuda/nn/classes.cuh"
#include "cuda/nn/nll_params.h"

namespace strata::cuda {
namespace {

template <class T> __device__ __forceinline__ void finish(const NllParams& p, const ClassSums& s) {
  store<T>(reinterpret_cast<void*>(p.total), p.total_type, T(s.weight));
  if (!p.each) store<T>(reinterpret_cast<void*>(p.loss), p.x_type, T(p.mean ? s.loss / s.weight : s.loss));
}

template <class T> __device__ __forceinline__ void forward(const NllParams& p) {
  const int64_t begin = int64_t(blockIdx.x) * kNllPart, end = min(begin + kNllPart, p.count);
  ClassSums own;
  for (int64_t i = begin + threadIdx.x; i < end; i += kClassThreads) {
    const int64_t t = class_of(p, i);
    T loss = T(0);
    if (t >= 0) {
      const T scale = weight_of<T>(p, t);
      loss = -load<T>(element(p.x, p.x_type, (i / p.inner * p.classes + t) * p.inner + i % p.inner), p.x_type) * scale;
      own.add({double(loss), double(scale)});
    }
    if (p.each) store<T>(const_cast<void*>(element(p.loss, p.x_type, i)), p.x_type, loss);
  }
  own = over_block(own);
  if (threadIdx.x != 0) return;
  if (p.partial) reinterpret_cast<ClassSums*>(p.partial)[blockIdx.x] = own;
  else finish<T>(p, own);
}

template <class T> __device__ __forceinline__ void add_parts(const NllParams& p) {
  const int64_t parts = (p.count + kNllPart - 1) / kNllPart;
  ClassSums own;
  for (int64_t i = threadIdx.x; i < parts; i += kClassThreads)
    own.add(reinterpret_cast<const ClassSums*>(p.partial)[i]);
  own = over_block(own);
  if (threadIdx.x == 0) finish<T>(p, own);
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
extern "C" __global__ void __launch_bounds__(256) nll_parts_f32(NllParams p) { add_parts<float>(p); }
extern "C" __global__ void __launch_bounds__(256) nll_parts_f64(NllParams p) { add_parts<double>(p); }
extern "C" __global__ void __launch_bounds__(256) nll_backward_f32(NllParams p) { backward<float>(p); }
extern "C" __global__ void __launch_bounds__(256) nll_backward_f64(NllParams p) { backward<double>(p); }

}  // namespace strata::cuda
