// Resizing along one dimension, and im2col and col2im for sliding windows.
//
// Bound by memory: neighbouring outputs share most of their few inputs, which come from the cache. A thread computes
// one output, or four if they are copies; neighbouring threads compute neighbouring ones. The adjoints gather too, so that no two threads add to
// one element.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/index.cuh"
#include "cuda/nn/resample_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

// T: of the elements; W: of the weights and the sum, int32_t for bytes.
template <class T, class W = T> __device__ __forceinline__ void resample(const ResampleParams& p) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= p.count) return;
  uint32_t rest = i;
  const uint32_t inner = split_off(rest, p.inner), o = split_off(rest, p.out);
  const int64_t outer = p.first + rest;
  const T* const from = reinterpret_cast<const T*>(p.x) + outer * p.in * p.inner.divisor + inner;
  const int32_t* const begin = reinterpret_cast<const int32_t*>(p.begin) + o;
  W sum = 0;
  for (int32_t k = begin[0]; k < begin[1]; ++k)
    sum += reinterpret_cast<const W*>(p.weight)[k] *
           from[int64_t(reinterpret_cast<const int32_t*>(p.index)[k]) * p.inner.divisor];
  if constexpr (sizeof(T) == 1) sum = min(max((sum + (1 << p.precision >> 1)) >> p.precision, 0), 255);
  reinterpret_cast<T*>(p.y)[p.first * p.out.divisor * p.inner.divisor + i] = sum;
}

template <class U> __device__ __forceinline__ void nearest(const NearestParams& p) {
  struct alignas(sizeof(U) * kNearestItems) Units {
    U at[kNearestItems];
  };
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= p.count) return;
  uint32_t rest = i;
  const uint32_t c = split_off(rest, p.row) * kNearestItems, b = split_off(rest, p.out[1]),
                 a = split_off(rest, p.out[0]);
  const int64_t plane = p.first + rest;
  const int64_t row = (plane * p.in[0] + reinterpret_cast<const int32_t*>(p.index[0])[a]) * p.in[1] +
                      reinterpret_cast<const int32_t*>(p.index[1])[b];
  const U* const from = reinterpret_cast<const U*>(p.x) + row * p.in[2];
  const int4 k = *reinterpret_cast<const int4*>(p.index[2] + c * sizeof(int32_t));
  const Units read{{from[k.x], from[k.y], from[k.z], from[k.w]}};
  U* const to =
    reinterpret_cast<U*>(p.y) + ((plane * p.out[0].divisor + a) * p.out[1].divisor + b) * int64_t(p.width) + c;
  if (p.vectors) {
    *reinterpret_cast<Units*>(to) = read;
    return;
  }
#pragma unroll
  for (int j = 0; j < kNearestItems; ++j)
    if (int(c) + j < p.width) to[j] = read.at[j];
}

// size: kernel positions, rows and columns of windows.
template <class T> __device__ __forceinline__ void unfold(const WindowParams& p) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= p.count) return;
  uint32_t rest = i;
  const int x = int(split_off(rest, p.size[3])), y = int(split_off(rest, p.size[2])),
            kx = int(split_off(rest, p.size[1])), ky = int(split_off(rest, p.size[0]));
  const int row = y * p.stride[0] + ky * p.dilation[0] - p.padding[0],
            column = x * p.stride[1] + kx * p.dilation[1] - p.padding[1];
  T v = 0;
  if (row >= 0 && row < p.in[0] && column >= 0 && column < p.in[1])
    v = load<T>(element(p.image, p.type, ((p.first + rest) * p.in[0] + row) * p.in[1] + column), p.type);
  const int64_t skipped = p.first * p.kernel[0] * p.kernel[1] * p.out[0] * p.out[1];
  store<T>(const_cast<void*>(element(p.columns, p.type, skipped + i)), p.type, v);
}

// size: 1, 1, rows and columns of the image.
template <class T> __device__ __forceinline__ void fold(const WindowParams& p) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= p.count) return;
  uint32_t rest = i;
  const int column = int(split_off(rest, p.size[3])), row = int(split_off(rest, p.size[2]));
  const int64_t plane = p.first + rest;
  T sum = 0;
  for (int ky = 0; ky < p.kernel[0]; ++ky) {
    const int y = row + p.padding[0] - ky * p.dilation[0];
    if (y < 0 || y % p.stride[0] != 0 || y / p.stride[0] >= p.out[0]) continue;
    for (int kx = 0; kx < p.kernel[1]; ++kx) {
      const int x = column + p.padding[1] - kx * p.dilation[1];
      if (x < 0 || x % p.stride[1] != 0 || x / p.stride[1] >= p.out[1]) continue;
      const int64_t at =
        (((plane * p.kernel[0] + ky) * p.kernel[1] + kx) * p.out[0] + y / p.stride[0]) * p.out[1] + x / p.stride[1];
      sum += load<T>(element(p.columns, p.type, at), p.type);
    }
  }
  store<T>(const_cast<void*>(element(p.image, p.type, p.first * p.in[0] * p.in[1] + i)), p.type, sum);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) resample_f32(ResampleParams p) { resample<float>(p); }
extern "C" __global__ void __launch_bounds__(256) resample_f64(ResampleParams p) { resample<double>(p); }
extern "C" __global__ void __launch_bounds__(256) resample_u8(ResampleParams p) { resample<uint8_t, int32_t>(p); }
extern "C" __global__ void __launch_bounds__(256) nearest_1(NearestParams p) { nearest<uint8_t>(p); }
extern "C" __global__ void __launch_bounds__(256) nearest_2(NearestParams p) { nearest<uint16_t>(p); }
extern "C" __global__ void __launch_bounds__(256) nearest_4(NearestParams p) { nearest<uint32_t>(p); }
extern "C" __global__ void __launch_bounds__(256) nearest_8(NearestParams p) { nearest<uint64_t>(p); }
extern "C" __global__ void __launch_bounds__(256) unfold_f32(WindowParams p) { unfold<float>(p); }
extern "C" __global__ void __launch_bounds__(256) unfold_f64(WindowParams p) { unfold<double>(p); }
extern "C" __global__ void __launch_bounds__(256) unfold_i64(WindowParams p) { unfold<int64_t>(p); }
extern "C" __global__ void __launch_bounds__(256) fold_f32(WindowParams p) { fold<float>(p); }
extern "C" __global__ void __launch_bounds__(256) fold_f64(WindowParams p) { fold<double>(p); }
extern "C" __global__ void __launch_bounds__(256) fold_i64(WindowParams p) { fold<int64_t>(p); }

}  // namespace strata::cuda
