// Convolutions of any dtype, layout, stride, padding, dilation and groups as matrix products whose matrices are never built.
//
// A block of 256 threads makes a 64x64 tile, 16 deep at a time through shared memory, as in gemm.cu; the elements of both factors are
// found by index arithmetic when they are loaded. Bound by the arithmetic units. What is written:
//   forward  small[(n, out), o]        = sum over (c, kernel) of big * weight
//   data     big[(n, in), c]           = sum over (o, kernel) of small * weight
//   weight   weight[o, (c, kernel)]    = sum over (n, out) of small * big, in parts that a second launch adds up
#include "cuda/kernels/convolution_params.h"
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/index.cuh"
#include "cuda/kernels/tile.cuh"

namespace strata::cuda {
namespace {

enum Way { kForward, kData, kWeight };
constexpr int kTile = 64, kDepth = 16, kThreads = 256, kEach = kTile * kDepth / kThreads;

// A position: a channel or an image, and three places beside it.
struct Position {
  int32_t first, at[3];
};
__device__ __forceinline__ Position split(uint32_t i, const FastDivisor (&size)[3]) {
  Position p;
#pragma unroll
  for (int d = 2; d >= 0; --d) p.at[d] = int32_t(split_off(i, size[d]));
  p.first = int32_t(i);
  return p;
}
__device__ __forceinline__ int64_t dot3(const int64_t* stride, const int32_t* at) {
  return stride[2] * at[0] + stride[3] * at[1] + stride[4] * at[2];
}

// Element of big under window `out` at kernel place `k`; false: in the padding.
__device__ __forceinline__ bool under(const ConvParams& p, const int32_t* out, const int32_t* k, int32_t* in) {
  bool inside = true;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    in[d] = out[d] * p.stride[d] - p.padding[d] + k[d] * p.dilation[d];
    inside &= in[d] >= 0 && in[d] < p.in[d];
  }
  return inside;
}
// The window that sees element `in` at kernel place `k`; false: none does.
__device__ __forceinline__ bool window(const ConvParams& p, const int32_t* in, const int32_t* k, int32_t* out) {
  bool fits = true;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    const int32_t from = in[d] + p.padding[d] - k[d] * p.dilation[d];
    uint32_t rest = from < 0 ? 0 : uint32_t(from);
    fits &= from >= 0 && split_off(rest, p.stride_div[d]) == 0;
    out[d] = int32_t(rest);
    fits &= out[d] < p.out[d];
  }
  return fits;
}

template <int kWay, class T> __device__ __forceinline__ void convolve(const ConvParams& p) {
  __shared__ T sa[kDepth][kTile + 4], sb[kDepth][kTile + 4];
  const int thread = threadIdx.x, row = thread / 16 * 4, column = thread % 16 * 4;
  const int64_t group = blockIdx.y;
  const int64_t windows = int64_t(p.n) * p.out[0] * p.out[1] * p.out[2],
                elements = int64_t(p.n) * p.in[0] * p.in[1] * p.in[2];
  const int64_t places = int64_t(p.kernel[0]) * p.kernel[1] * p.kernel[2];
  const int64_t m_size = kWay == kForward ? windows : kWay == kData ? elements : p.o;
  const int64_t n_size = kWay == kForward ? p.o : kWay == kData ? p.c : p.c * places;
  const int64_t k_size = kWay == kForward ? p.c * places : kWay == kData ? p.o * places : windows;
  const int64_t tiles_n = (n_size + kTile - 1) / kTile;
  const int64_t m0 = int64_t(blockIdx.x) / tiles_n * kTile, n0 = int64_t(blockIdx.x) % tiles_n * kTile;
  const int64_t k_begin = int64_t(blockIdx.z) * p.depth, k_end = min(k_begin + p.depth, k_size);

  const auto big_at = [&](int32_t n, int32_t c, const int32_t* in) {
    return load<T>(
      element(p.big, p.big_type, n * p.big_stride[0] + (group * p.c + c) * p.big_stride[1] + dot3(p.big_stride, in)),
      p.big_type);
  };
  const auto small_at = [&](int32_t n, int32_t o, const int32_t* out) {
    return load<T>(element(p.small, p.small_type,
                           n * p.small_stride[0] + (group * p.o + o) * p.small_stride[1] + dot3(p.small_stride, out)),
                   p.small_type);
  };
  const auto weight_offset = [&](int32_t o, int32_t c, const int32_t* k) {
    return (group * p.o + o) * p.weight_stride[0] + c * p.weight_stride[1] + dot3(p.weight_stride, k);
  };

  // What a thread loads keeps one index while the other moves: decode it once.
  const int am = thread % kTile, bk = thread % kDepth, bn = thread / kDepth;
  Position mine{}, theirs[kEach];
  if constexpr (kWay == kForward) mine = split(uint32_t(min(m0 + am, m_size - 1)), p.out_div);
  else if constexpr (kWay == kData) mine = split(uint32_t(min(m0 + am, m_size - 1)), p.in_div);
  else
#pragma unroll
    for (int j = 0; j < kEach; ++j) theirs[j] = split(uint32_t(min(n0 + bn + j * kDepth, n_size - 1)), p.kernel_div);

  T sum[4][4] = {};
  for (int64_t k0 = k_begin; k0 < k_end; k0 += kDepth) {
    if constexpr (kWay == kWeight) {
      const int64_t k = k0 + bk;
      const bool real = k < k_end;
      const Position q = split(uint32_t(real ? k : k_begin), p.out_div);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int64_t m = m0 + bn + j * kDepth, n = n0 + bn + j * kDepth;
        sa[bk][bn + j * kDepth] = real && m < m_size ? small_at(q.first, int32_t(m), q.at) : T(0);
        int32_t in[3];
        const bool inside = under(p, q.at, theirs[j].at, in);
        sb[bk][bn + j * kDepth] = real && n < n_size && inside ? big_at(q.first, theirs[j].first, in) : T(0);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int ak = thread / kTile + j * (kThreads / kTile);
        const int64_t k = k0 + ak;
        const Position q = split(uint32_t(k < k_end ? k : 0), p.kernel_div);
        int32_t at[3];
        const bool inside = kWay == kForward ? under(p, mine.at, q.at, at) : window(p, mine.at, q.at, at);
        T value = T(0);
        if (inside && k < k_end && m0 + am < m_size)
          value = kWay == kForward ? big_at(mine.first, q.first, at) : small_at(mine.first, q.first, at);
        sa[ak][am] = value;
      }
      const int64_t k = k0 + bk;
      const Position q = split(uint32_t(k < k_end ? k : 0), p.kernel_div);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int64_t n = n0 + bn + j * kDepth;
        const int32_t o = kWay == kForward ? int32_t(n) : q.first, c = kWay == kForward ? q.first : int32_t(n);
        sb[bk][bn + j * kDepth] =
          k < k_end && n < n_size ? load<T>(element(p.weight, p.weight_type, weight_offset(o, c, q.at)), p.weight_type)
                                  : T(0);
      }
    }
    __syncthreads();
    multiply_tile(sa, sb, row, column, sum);
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t m = m0 + row + i;
    if (m >= m_size) continue;
    const Position q = kWay == kWeight ? Position{} : split(uint32_t(m), kWay == kForward ? p.out_div : p.in_div);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t n = n0 + column + j;
      if (n >= n_size) continue;
      T value = sum[i][j];
      if constexpr (kWay == kWeight) {
        const Position w = split(uint32_t(n), p.kernel_div);
        if (p.partial) {
          reinterpret_cast<T*>(p.partial)[blockIdx.z * p.partial_size + (group * p.o + m) * n_size + n] = value;
        } else {
          store<T>(const_cast<void*>(element(p.weight, p.weight_type, weight_offset(int32_t(m), w.first, w.at))),
                   p.weight_type, value);
        }
      } else {
        const int64_t channel = group * n_size + n;
        if (p.bias) value += load<T>(element(p.bias, p.bias_type, channel), p.bias_type);
        const int64_t* stride = kWay == kForward ? p.small_stride : p.big_stride;
        const uint64_t to = kWay == kForward ? p.small : p.big;
        const int32_t type = kWay == kForward ? p.small_type : p.big_type;
        store<T>(const_cast<void*>(element(to, type, q.first * stride[0] + channel * stride[1] + dot3(stride, q.at))),
                 type, value);
      }
    }
  }
}
}  // namespace

#define STRATA_CONVOLUTION(suffix, T)                                                                            \
  extern "C" __global__ void __launch_bounds__(256) forward_##suffix(ConvParams p) { convolve<kForward, T>(p); } \
  extern "C" __global__ void __launch_bounds__(256) data_##suffix(ConvParams p) { convolve<kData, T>(p); }       \
  extern "C" __global__ void __launch_bounds__(256) weight_##suffix(ConvParams p) { convolve<kWeight, T>(p); }
STRATA_CONVOLUTION(f32, float)
STRATA_CONVOLUTION(f64, double)
STRATA_CONVOLUTION(i64, int64_t)

}  // namespace strata::cuda
