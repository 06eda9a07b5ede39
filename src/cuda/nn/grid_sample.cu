// Samples images at the positions of a grid, in two or three dimensions, and computes the gradients of image and grid.
//
// Bound by memory and cache: each position reads up to 16 nearby inputs of each channel. A thread processes one
// position and a few channels. The gradient of the image is accumulated by one warp per plane, 32 positions at a time
// and equal inputs in order, so that each run gives the same bits.
#include "cuda/common/warp.cuh"
#include "cuda/nn/resample_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kChannels = 16;
enum : int32_t { kLinear, kNearest, kCubic };
enum : int32_t { kZeros, kBorder, kReflection };

// A coordinate in pixels and its derivative with respect to the grid's value.
template <class T> struct Spot { T at, slope; };

template <class T> __device__ Spot<T> clipped(Spot<T> p, int size) {
  if (p.at <= 0) return {T(0), T(0)};
  const T most = T(size - 1);
  return p.at >= most ? Spot<T>{most, T(0)} : p;
}
template <class T> __device__ Spot<T> reflected(Spot<T> p, T low, T high) {  // reflects between low and high
  if (low == high) return {T(0), T(0)};
  T x = p.at - low, slope = p.slope;
  if (x < 0) {
    x = -x;
    slope = -slope;
  }
  const T span = high - low, extra = fmod(x, span);
  const bool odd = int64_t(floor(x / span)) % 2 != 0;
  return odd ? Spot<T>{span - extra + low, -slope} : Spot<T>{extra + low, slope};
}
template <class T> __device__ __noinline__ Spot<T> padded(const GridParams& p, Spot<T> s, int size) {
  if (p.padding == kBorder) return clipped(s, size);
  if (p.padding == kReflection) {
    s = p.corners ? reflected<T>(s, T(0), T(size - 1)) : reflected<T>(s, T(-0.5), T(size) - T(0.5));
    return clipped(s, size);
  }
  return fabs(s.at) < T(1e9) ? s : Spot<T>{T(-100), T(0)};
}

// Up to four inputs along one dimension, their weights, and the derivatives of the weights with respect to the grid's
// value.
template <class T> struct Taps {
  int index[4];  // -1: outside, treated as 0
  T weight[4], slope[4];
};
__device__ __forceinline__ int inside(int64_t i, int size) { return i >= 0 && i < size ? int(i) : -1; }

template <class T> __device__ __noinline__ void find_taps(const GridParams& p, T v, int size, Taps<T>& t) {
  const T n = T(size);
  Spot<T> s = p.corners ? Spot<T>{(v + 1) / 2 * (n - 1), (n - 1) / 2} : Spot<T>{((v + 1) * n - 1) / 2, n / 2};
  if (p.mode == kCubic) {  // padding applies to each of the four inputs
    if (!(fabs(s.at) <= T(1e9))) s = {T(-100), T(0)};
    const T low = floor(s.at), part = s.at - low, a = T(-0.75);
    for (int k = 0; k < 4; ++k) {
      const T signed_distance = part + 1 - T(k), d = fabs(signed_distance);
      t.weight[k] =
        d < 1 || (d == 1 && k != 0 && k != 3) ? ((a + 2) * d - (a + 3)) * d * d + 1 : (((d - 5) * d + 8) * d - 4) * a;
      const T slope = d < 1 ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * d * d - 10 * d + 8) * a;
      t.slope[k] = slope * (signed_distance < 0 ? T(-1) : T(1)) * s.slope;
      const T place = low - 1 + T(k);
      t.index[k] = inside(int64_t(p.padding == kZeros ? place : padded<T>(p, {place, T(0)}, size).at), size);
    }
    return;
  }
  s = padded(p, s, size);
  if (p.mode == kNearest) {
    t.index[0] = inside(int64_t(rint(s.at)), size);
    t.weight[0] = 1;
    t.slope[0] = 0;
    return;
  }
  const T low = floor(s.at), part = s.at - low;
  for (int k = 0; k < 2; ++k) t.index[k] = inside(int64_t(low) + k, size);
  t.weight[0] = 1 - part;
  t.weight[1] = part;
  t.slope[0] = -s.slope;
  t.slope[1] = s.slope;
}

// All inputs of a position: a plane is a volume of depth 1.
template <class T> struct Inputs {
  Taps<T> t[3];
  int count[3];

  __device__ Inputs(const GridParams& p, int64_t place) {
    const int each = p.mode == kCubic ? 4 : p.mode == kNearest ? 1 : 2;
    count[0] = 1;
    t[0].index[0] = 0;
    t[0].weight[0] = 1;
    t[0].slope[0] = 0;
    const T* const at = reinterpret_cast<const T*>(p.grid) + place * p.dims;  // x first
    for (int d = 3 - p.dims; d < 3; ++d) {
      find_taps(p, at[2 - d], p.in[d], t[d]);
      count[d] = each;
    }
  }
  // f(offset within a plane, or -1 outside, weight, slopes by dimension)
  template <class F> __device__ __forceinline__ void each(const GridParams& p, const F& f) const {
    for (int i = 0; i < count[0]; ++i)
      for (int j = 0; j < count[1]; ++j)
        for (int k = 0; k < count[2]; ++k) {
          const T a = t[0].weight[i], b = t[1].weight[j], c = t[2].weight[k];
          const T slopes[3] = {t[0].slope[i] * b * c, a * t[1].slope[j] * c, a * b * t[2].slope[k]};
          const bool there = t[0].index[i] >= 0 && t[1].index[j] >= 0 && t[2].index[k] >= 0;
          f(there ? (t[0].index[i] * p.in[1] + t[1].index[j]) * p.in[2] + t[2].index[k] : -1, a * b * c, slopes);
        }
  }
};

template <class T> __device__ __forceinline__ void grid_sample(const GridParams& p) {
  const int64_t place = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (place >= p.n * p.out) return;
  const int64_t plane = int64_t(p.in[0]) * p.in[1] * p.in[2], image = place / p.out, o = place - image * p.out;
  const int64_t first = int64_t(blockIdx.y) * kChannels, last = min(first + kChannels, p.c);
  T sum[kChannels] = {};
  const Inputs<T> inputs(p, place);
  inputs.each(p, [&](int at, T w, const T*) {
    if (at < 0) return;
    const T* const from = reinterpret_cast<const T*>(p.x) + (image * p.c + first) * plane + at;
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      if (first + c < last) sum[c] += w * from[c * plane];
  });
  T* const to = reinterpret_cast<T*>(p.y) + (image * p.c + first) * p.out + o;
#pragma unroll
  for (int c = 0; c < kChannels; ++c)
    if (first + c < last) to[c * p.out] = sum[c];
}

template <class T> __device__ __forceinline__ void grad_of_grid(const GridParams& p) {
  const int64_t place = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (place >= p.n * p.out) return;
  const int64_t plane = int64_t(p.in[0]) * p.in[1] * p.in[2], image = place / p.out, o = place - image * p.out;
  const T* const x = reinterpret_cast<const T*>(p.x) + image * p.c * plane;
  const T* const g = reinterpret_cast<const T*>(p.grad) + image * p.c * p.out + o;
  T slope[3] = {};
  const Inputs<T> inputs(p, place);
  inputs.each(p, [&](int at, T, const T* slopes) {
    if (at < 0) return;
    T sum = 0;
    for (int64_t c = 0; c < p.c; ++c) sum += x[c * plane + at] * g[c * p.out];
    for (int d = 0; d < 3; ++d) slope[d] += sum * slopes[d];
  });
  for (int d = 0; d < p.dims; ++d) reinterpret_cast<T*>(p.grad_grid)[place * p.dims + d] = slope[2 - d];
}

// grad_x is initially zero.
template <class T> __device__ __forceinline__ void grad_of_image(const GridParams& p) {
  __shared__ T shared[kThreads];
  const int lane = threadIdx.x % 32;
  const int64_t plane = int64_t(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (plane >= p.n * p.c) return;
  const int64_t image = plane / p.c;
  T* const of_warp = shared + threadIdx.x / 32 * 32;
  T* const to = reinterpret_cast<T*>(p.grad_x) + plane * p.in[0] * p.in[1] * p.in[2];
  for (int64_t begin = 0; begin < p.out; begin += 32) {
    const bool there = begin + lane < p.out;
    const int64_t o = there ? begin + lane : p.out - 1;  // past the end, the last position again, with a gradient of 0
    const T g = there ? reinterpret_cast<const T*>(p.grad)[plane * p.out + o] : T(0);
    const Inputs<T> inputs(p, image * p.out + o);
    __syncwarp();
    inputs.each(p, [&](int at, T w, const T*) {
      of_warp[lane] = w * g;
      if (!there) at = -1;
      const unsigned same = match_any(at);
      __syncwarp();
      if (at >= 0 && lane == __ffs(int(same)) - 1) {
        T sum = to[at];
        for (unsigned rest = same; rest; rest &= rest - 1) sum += of_warp[__ffs(int(rest)) - 1];
        to[at] = sum;
      }
      __syncwarp();
    });
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) grid_sample_f32(GridParams p) { grid_sample<float>(p); }
extern "C" __global__ void __launch_bounds__(256) grid_sample_f64(GridParams p) { grid_sample<double>(p); }
extern "C" __global__ void __launch_bounds__(256) grad_of_grid_f32(GridParams p) { grad_of_grid<float>(p); }
extern "C" __global__ void __launch_bounds__(256) grad_of_grid_f64(GridParams p) { grad_of_grid<double>(p); }
extern "C" __global__ void __launch_bounds__(256) grad_of_image_f32(GridParams p) { grad_of_image<float>(p); }
extern "C" __global__ void __launch_bounds__(256) grad_of_image_f64(GridParams p) { grad_of_image<double>(p); }

}  // namespace strata::cuda
