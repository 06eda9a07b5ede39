// Pooling: maximum and mean of windows in one to three dimensions, sliding, adaptive and fractional, and their
// gradients.
//
// Bound by memory: inputs are read once from memory, as overlapping windows share the cache. A thread computes one
// output; in the gradient of means one input, from all windows that contain it, in the order of the windows. One warp
// per plane stores or adds values at indices, 32 at a time and equal indices in order, so that each run gives the same
// bits.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/index.cuh"
#include "cuda/common/warp.cuh"
#include "cuda/nn/pooling_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

template <class T> __device__ __forceinline__ T lowest() {
  if constexpr (TagOf<T>::value == kI64) return int64_t(0x8000000000000000ull);
  else return T(-INFINITY);
}

struct Window {  // along one dimension: inputs lo, lo + step, … below hi
  int lo, hi, step, full;
};
__device__ __forceinline__ Window window_of(const PoolParams& p, int d, int o, int64_t plane) {
  const int in = p.in[d];
  if (p.adaptive) {
    const int lo = int(int64_t(o) * in / p.out[d]), hi = int((int64_t(o + 1) * in + p.out[d] - 1) / p.out[d]);
    return {lo, hi, 1, hi - lo};
  }
  const int k = p.kernel[d], step = p.dilation[d];
  if (p.samples && p.sample[d] >= 0) {  // Graham, Fractional Max-Pooling: steps of alpha, shifted by the sample
    int lo = in - k;
    if (o + 1 < p.out[d]) {
      const double sample = reinterpret_cast<const double*>(p.samples)[plane * p.dims + p.sample[d]];
      const double alpha = double(in - k) / double(p.out[d] - 1);
      lo = int((double(o) + sample) * alpha) - int(sample * alpha);
    }
    return {lo, lo + k, 1, k};
  }
  const int begin = o * p.stride[d] - p.padding[d], end = min(begin + (k - 1) * step + 1, in + p.padding[d]);
  const int lo = begin >= 0 ? begin : begin + (-begin + step - 1) / step * step;
  return {lo, min(end, in), step, end - begin};
}
template <class T> __device__ __forceinline__ T divisor_of(const PoolParams& p, const Window (&w)[3]) {
  if (p.divisor) return T(p.divisor);
  int64_t n = 1;
#pragma unroll
  for (int d = 0; d < 3; ++d) n *= p.include_pad ? w[d].full : w[d].hi - w[d].lo;
  return T(n);
}

// The plane and the three coordinates of this thread's element.
struct Place {
  int at[3];
  int64_t plane, element;
  bool there;
  __device__ explicit Place(const PoolParams& p) {
    const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
    uint32_t rest = i;
#pragma unroll
    for (int d = 2; d >= 0; --d) at[d] = int(split_off(rest, p.size[d]));
    plane = p.first + rest;
    there = i < p.count;
    element = p.first * p.size[0].divisor * p.size[1].divisor * p.size[2].divisor + i;
  }
};

template <class T> __device__ __forceinline__ void pool_max(const PoolParams& p) {
  const Place o(p);
  if (!o.there) return;
  const Window a = window_of(p, 0, o.at[0], o.plane), b = window_of(p, 1, o.at[1], o.plane),
               c = window_of(p, 2, o.at[2], o.plane);
  const int64_t base = o.plane * p.in[0] * p.in[1] * p.in[2];
  T best = lowest<T>();
  int where = (a.lo * p.in[1] + b.lo) * p.in[2] + c.lo;
  for (int i = a.lo; i < a.hi; i += a.step)
    for (int j = b.lo; j < b.hi; j += b.step) {
      const int row = (i * p.in[1] + j) * p.in[2];
      for (int k = c.lo; k < c.hi; k += c.step) {
        const T v = load<T>(element(p.x, p.x_type, base + row + k), p.x_type);
        if (v > best || v != v) {
          best = v;
          where = row + k;
        }
      }
    }
  store<T>(const_cast<void*>(element(p.y, p.y_type, o.element)), p.y_type, best);
  reinterpret_cast<int64_t*>(p.index)[o.element] = where;
}

template <class T> __device__ __forceinline__ void pool_mean(const PoolParams& p) {
  const Place o(p);
  if (!o.there) return;
  const Window w[3] = {window_of(p, 0, o.at[0], 0), window_of(p, 1, o.at[1], 0), window_of(p, 2, o.at[2], 0)};
  const int64_t base = o.plane * p.in[0] * p.in[1] * p.in[2];
  T sum = 0;
  for (int i = w[0].lo; i < w[0].hi; ++i)
    for (int j = w[1].lo; j < w[1].hi; ++j) {
      const int row = (i * p.in[1] + j) * p.in[2];
      for (int k = w[2].lo; k < w[2].hi; ++k) sum += load<T>(element(p.x, p.x_type, base + row + k), p.x_type);
    }
  const bool empty = w[0].hi <= w[0].lo || w[1].hi <= w[1].lo || w[2].hi <= w[2].lo;
  store<T>(const_cast<void*>(element(p.y, p.y_type, o.element)), p.y_type, empty ? T(0) : sum / divisor_of<T>(p, w));
}

// The windows [first, last] along one dimension that may contain input i.
__device__ __forceinline__ void windows_with(const PoolParams& p, int d, int i, int& first, int& last) {
  if (p.adaptive) {
    first = int(int64_t(i) * p.out[d] / p.in[d]);
    last = int((int64_t(i + 1) * p.out[d] + p.in[d] - 1) / p.in[d]) - 1;
  } else {
    const int beyond = i + p.padding[d] - p.kernel[d];  // the last begin that is too early
    first = beyond < 0 ? 0 : beyond / p.stride[d] + 1;
    last = min((i + p.padding[d]) / p.stride[d], p.out[d] - 1);
  }
}

// x is the gradient of the means, y that of the inputs.
template <class T> __device__ __forceinline__ void pool_mean_backward(const PoolParams& p) {
  const Place i(p);
  if (!i.there) return;
  int first[3], last[3];
#pragma unroll
  for (int d = 0; d < 3; ++d) windows_with(p, d, i.at[d], first[d], last[d]);
  const int64_t base = i.plane * p.out[0] * p.out[1] * p.out[2];
  T sum = 0;
  for (int a = first[0]; a <= last[0]; ++a)
    for (int b = first[1]; b <= last[1]; ++b)
      for (int c = first[2]; c <= last[2]; ++c) {
        const Window w[3] = {window_of(p, 0, a, 0), window_of(p, 1, b, 0), window_of(p, 2, c, 0)};
        bool inside = true;
#pragma unroll
        for (int d = 0; d < 3; ++d) inside = inside && w[d].lo <= i.at[d] && i.at[d] < w[d].hi;
        if (inside)
          sum += load<T>(element(p.x, p.x_type, base + (int64_t(a) * p.out[1] + b) * p.out[2] + c), p.x_type) /
                 divisor_of<T>(p, w);
      }
  store<T>(const_cast<void*>(element(p.y, p.y_type, i.element)), p.y_type, sum);
}

template <class T> __device__ __forceinline__ void plane_gather(const PlaneParams& p) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.planes * p.out) return;
  const int64_t at = reinterpret_cast<const int64_t*>(p.index)[i];
  T v = 0;
  if (at >= 0 && at < p.in) v = load<T>(element(p.x, p.x_type, i / p.out * p.in + at), p.x_type);
  store<T>(const_cast<void*>(element(p.values, p.values_type, i)), p.values_type, v);
}

// x is initially zero, and of the compute type.
template <class T> __device__ __forceinline__ void plane_scatter(const PlaneParams& p) {
  __shared__ T shared[kThreads];
  const int lane = threadIdx.x % 32;
  const int64_t plane = int64_t(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (plane >= p.planes) return;
  T* const of_warp = shared + threadIdx.x / 32 * 32;
  T* const to = reinterpret_cast<T*>(p.x) + plane * p.in;
  for (int64_t begin = 0; begin < p.out; begin += 32) {
    const int64_t o = begin + lane;
    int64_t place = -1;  // none
    if (o < p.out) {
      place = reinterpret_cast<const int64_t*>(p.index)[plane * p.out + o];
      of_warp[lane] = load<T>(element(p.values, p.values_type, plane * p.out + o), p.values_type);
      if (place < 0 || place >= p.in) {
        if (p.failed) *reinterpret_cast<int64_t*>(p.failed) = place < 0 ? place : place + 1;  // never 0
        place = -1;
      }
    }
    const unsigned same = match_any(place);
    __syncwarp();
    if (place >= 0 && lane == __ffs(int(same)) - 1) {
      if (p.add) {
        T sum = to[place];
        for (unsigned rest = same; rest; rest &= rest - 1) sum += of_warp[__ffs(int(rest)) - 1];
        to[place] = sum;
      } else {
        to[place] = of_warp[31 - __clz(int(same))];
      }
    }
    __syncwarp();
  }
}
}  // namespace

#define STRATA_KERNEL(name, P)                                                           \
  extern "C" __global__ void __launch_bounds__(256) name##_f32(P p) { name<float>(p); }  \
  extern "C" __global__ void __launch_bounds__(256) name##_f64(P p) { name<double>(p); } \
  extern "C" __global__ void __launch_bounds__(256) name##_i64(P p) { name<int64_t>(p); }
STRATA_KERNEL(pool_max, PoolParams)
STRATA_KERNEL(pool_mean, PoolParams)
STRATA_KERNEL(pool_mean_backward, PoolParams)
STRATA_KERNEL(plane_gather, PlaneParams)
STRATA_KERNEL(plane_scatter, PlaneParams)

}  // namespace strata::cuda
