// Convolutions of any dtype, layout, stride, padding, dilation and groups as implicit matrix products.
//
// A block computes a tile of 64x64, 64x32 or 32x32 results, 16 deep at a time through shared memory, as in gemm.cu.
// Index arithmetic finds the elements of both factors when they are loaded, which overlaps with computing the previous
// tile. Bound by arithmetic. Results:
//   forward  small[(n, out), o]        = sum over (c, kernel) of big * weight
//   data     big[(n, in), c]           = sum over (o, kernel) of small * weight, for strides other than 1; with
//                                        stride 1 it is the forward convolution of small with the flipped weight
//   weight   weight[o, (c, kernel)]    = sum over (n, out) of small * big, in parts that a second launch sums
#include <type_traits>

#include "cuda/common/dtypes.cuh"
#include "cuda/common/index.cuh"
#include "cuda/linalg/tile.cuh"
#include "cuda/nn/convolution_params.h"

namespace strata::cuda {
namespace {

enum Way { kForward, kData, kWeight };
constexpr int kDepth = kConvDepth;

// A position: a channel or an image, and three spatial coordinates.
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

// The window that contains element `in` at kernel position `k`; false if there is none.
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

// kPlain: everything is of type T, and offsets fit 32 bits; then computing an address takes a third of the
// instructions.
template <int kMode, class T, int kRows = 64, int kColumns = 64, bool kPlain = false>
__device__ __forceinline__ void convolve(const ConvParams& p) {
  using Offset = std::conditional_t<kPlain, int32_t, int64_t>;
  constexpr int kThreads = kRows * kColumns / 16;
  // elements loaded by a thread
  constexpr int kEachA = kRows * kDepth / kThreads, kEachB = kColumns * kDepth / kThreads;
  constexpr int kStepA = kThreads / kRows, kStepB = kThreads / kDepth;
  __shared__ Tile<T, kDepth, kRows> sa[2];  // double buffer
  __shared__ Tile<T, kDepth, kColumns> sb[2];
  const int thread = threadIdx.x;
  // Neighbouring threads compute neighbouring outputs: windows, or columns of the weight.
  const int row = (kMode == kWeight ? thread / (kColumns / 4) : thread % (kRows / 4)) * 4,
            column = (kMode == kWeight ? thread % (kColumns / 4) : thread / (kRows / 4)) * 4;
  const int64_t group = blockIdx.y;
  const int64_t windows = int64_t(p.n) * p.out[0] * p.out[1] * p.out[2],
                elements = int64_t(p.n) * p.in[0] * p.in[1] * p.in[2];
  const int64_t places = int64_t(p.kernel[0]) * p.kernel[1] * p.kernel[2];
  const int64_t m_size = kMode == kForward ? windows : kMode == kData ? elements : p.o;
  const int64_t n_size = kMode == kForward ? p.o : kMode == kData ? p.c : p.c * places;
  const int64_t k_size = kMode == kForward ? p.c * places : kMode == kData ? p.o * places : windows;
  const int64_t tiles_n = (n_size + kColumns - 1) / kColumns;
  const int64_t m0 = int64_t(blockIdx.x) / tiles_n * kRows, n0 = int64_t(blockIdx.x) % tiles_n * kColumns;
  const int64_t k_begin = int64_t(blockIdx.z) * p.depth, k_end = min(k_begin + p.depth, k_size);

  const auto small_at = [&](int32_t n, int32_t o, const int32_t* out) {
    return load<T>(element(p.small, p.small_type,
                           n * p.small_stride[0] + (group * p.o + o) * p.small_stride[1] + dot3(p.small_stride, out)),
                   p.small_type);
  };
  const auto weight_offset = [&](int32_t o, int32_t c, const int32_t* k) {
    return group * p.weight_group + o * p.weight_stride[0] + c * p.weight_stride[1] + dot3(p.weight_stride, k);
  };

  const auto get = [](uint64_t data, int32_t type, Offset i) {
    if constexpr (kPlain) return reinterpret_cast<const T*>(data)[i];
    else return load<T>(element(data, type, i), type);
  };

  // One index of the elements that a thread loads is constant, so values that depend on it are computed once.
  const int am = thread % kRows, bk = thread % kDepth, bn = thread / kDepth;
  constexpr int32_t kNowhere = int32_t(0x80000000u);  // a position or shift outside of the tensor
  // forward: of the window, and of each kernel position of the tile, computed by the first threads
  __shared__ Offset tap_weight[2][kDepth];
  __shared__ int64_t tap_offset[kPlain ? 1 : 2][kPlain ? 1 : kDepth];
  __shared__ __align__(16) int32_t tap_shift[2][kDepth][4];  // the fourth: the offset, if it fits 32 bits
  int32_t corner[3] = {};
  Offset corner_offset = 0;
  Position mine{};                                  // data
  int32_t shift[kMode == kWeight ? kEachB : 1][3];  // weight: of the columns of the tile
  Offset shift_offset[kMode == kWeight ? kEachB : 1];
  if constexpr (kMode == kForward) {
    mine = split(uint32_t(min(m0 + am, m_size - 1)), p.out_div);
#pragma unroll
    for (int d = 0; d < 3; ++d) corner[d] = mine.at[d] * p.stride[d] - p.padding[d];
    corner_offset = Offset(mine.first * p.big_stride[0] + group * p.c * p.big_stride[1] + dot3(p.big_stride, corner));
    if (m0 + am >= m_size) corner[1] = kNowhere;  // in another dimension than that of taps: the sum of both would be 0
  } else if constexpr (kMode == kData) {
    mine = split(uint32_t(min(m0 + am, m_size - 1)), p.in_div);
  } else {
#pragma unroll
    for (int j = 0; j < kEachB; ++j) {
      const int64_t n = n0 + bn + j * kStepB;
      const Position q = split(uint32_t(min(n, n_size - 1)), p.kernel_div);
#pragma unroll
      for (int d = 0; d < 3; ++d) shift[j][d] = q.at[d] * p.dilation[d];
      shift_offset[j] = Offset((group * p.c + q.first) * p.big_stride[1] + dot3(p.big_stride, shift[j]));
      if (n >= n_size) shift[j][2] = kNowhere;
    }
  }
  // of big; negative numbers become large unsigned ones
  const auto inside = [&](const int32_t* at, const int32_t* by) {
    return (uint32_t(at[0]) + uint32_t(by[0]) < uint32_t(p.in[0])) &
           (uint32_t(at[1]) + uint32_t(by[1]) < uint32_t(p.in[1])) &
           (uint32_t(at[2]) + uint32_t(by[2]) < uint32_t(p.in[2]));
  };
  const auto find_taps = [&](int64_t k0, int buffer) {
    if (thread >= kDepth) return;
    const int64_t k = k0 + thread;
    const Position q = split(uint32_t(k < k_end ? k : 0), p.kernel_div);
    int32_t* by = tap_shift[buffer][thread];
#pragma unroll
    for (int d = 0; d < 3; ++d) by[d] = q.at[d] * p.dilation[d];
    const auto offset = Offset(q.first * p.big_stride[1] + dot3(p.big_stride, by));
    if constexpr (kPlain) by[3] = offset;
    else {
      by[3] = 0;
      tap_offset[buffer][thread] = offset;
    }
    tap_weight[buffer][thread] = Offset(weight_offset(0, q.first, q.at));
    if (k >= k_end) by[2] = kNowhere;
  };

  T sum[4][4] = {}, next_a[kEachA], next_b[kEachB];
  const auto fetch = [&](int64_t k0, int buffer) {
    const int64_t kb = k0 + bk;
    const bool real = kb < k_end;
    if constexpr (kMode == kWeight) {
      const Position q = split(uint32_t(real ? kb : k_begin), p.out_div);
      int32_t at[3];
#pragma unroll
      for (int d = 0; d < 3; ++d) at[d] = q.at[d] * p.stride[d] - p.padding[d];
      const auto from_a =
        Offset(q.first * p.small_stride[0] + group * p.o * p.small_stride[1] + dot3(p.small_stride, q.at));
      const auto from_b = Offset(q.first * p.big_stride[0] + dot3(p.big_stride, at));
#pragma unroll
      for (int j = 0; j < kEachA; ++j) {
        const int64_t m = m0 + bn + j * kStepB;
        next_a[j] =
          real && m < m_size ? get(p.small, p.small_type, from_a + Offset(m) * Offset(p.small_stride[1])) : T(0);
      }
#pragma unroll
      for (int j = 0; j < kEachB; ++j) {
        next_b[j] = real && inside(at, shift[j]) ? get(p.big, p.big_type, from_b + shift_offset[j]) : T(0);
      }
    } else if constexpr (kMode == kForward) {
#pragma unroll
      for (int j = 0; j < kEachA; ++j) {
        const int tap = thread / kRows + j * kStepA;
        const int4 by = *reinterpret_cast<const int4*>(tap_shift[buffer][tap]);
        const int32_t shift_by[3] = {by.x, by.y, by.z};
        Offset offset = by.w;
        if constexpr (!kPlain) offset = tap_offset[buffer][tap];
        next_a[j] = inside(corner, shift_by) ? get(p.big, p.big_type, corner_offset + offset) : T(0);
      }
#pragma unroll
      for (int j = 0; j < kEachB; ++j) {
        const int64_t n = n0 + bn + j * kStepB;
        next_b[j] = real && n < n_size
                      ? get(p.weight, p.weight_type, tap_weight[buffer][bk] + Offset(n) * Offset(p.weight_stride[0]))
                      : T(0);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kEachA; ++j) {
        const int64_t k = k0 + thread / kRows + j * kStepA;
        const Position q = split(uint32_t(k < k_end ? k : 0), p.kernel_div);
        int32_t at[3];
        const bool fits = window(p, mine.at, q.at, at);
        next_a[j] = fits && k < k_end && m0 + am < m_size ? small_at(mine.first, q.first, at) : T(0);
      }
      const Position q = split(uint32_t(real ? kb : 0), p.kernel_div);
#pragma unroll
      for (int j = 0; j < kEachB; ++j) {
        const int64_t n = n0 + bn + j * kStepB;
        next_b[j] =
          real && n < n_size
            ? load<T>(element(p.weight, p.weight_type, weight_offset(q.first, int32_t(n), q.at)), p.weight_type)
            : T(0);
      }
    }
  };
  if constexpr (kMode == kForward) {
    find_taps(k_begin, 0);
    find_taps(k_begin + kDepth, 1);
    __syncthreads();
  }
  const auto put = [&](int buffer) {
#pragma unroll
    for (int j = 0; j < kEachA; ++j) {
      if constexpr (kMode == kWeight) sa[buffer][bk][bn + j * kStepB] = next_a[j];
      else sa[buffer][thread / kRows + j * kStepA][am] = next_a[j];
    }
#pragma unroll
    for (int j = 0; j < kEachB; ++j) sb[buffer][bk][bn + j * kStepB] = next_b[j];
  };
  fetch(k_begin, 0);
  put(0);
  __syncthreads();
  int buffer = 0;
  for (int64_t k0 = k_begin; k0 < k_end; k0 += kDepth, buffer ^= 1) {
    const bool more = k0 + kDepth < k_end;
    if (more) fetch(k0 + kDepth, buffer ^ 1);
    if constexpr (kMode == kForward) find_taps(k0 + 2 * kDepth, buffer);
    multiply_tile(sa[buffer], sb[buffer], row, column, sum);
    if (more) put(buffer ^ 1);
    __syncthreads();
  }

  if constexpr (kPlain && kMode == kForward) {
    if (p.quads) {
      if (m0 + row >= m_size) return;
      const Position q = split(uint32_t(m0 + row), p.out_div);
      T* to = reinterpret_cast<T*>(p.small) + q.first * p.small_stride[0] + dot3(p.small_stride, q.at);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (n0 + column + j >= n_size) break;
        const int64_t channel = group * n_size + n0 + column + j;
        const T bias = p.bias ? load<T>(element(p.bias, p.bias_type, channel), p.bias_type) : T(0);
        *reinterpret_cast<float4*>(to + channel * p.small_stride[1]) =
          make_float4(sum[0][j] + bias, sum[1][j] + bias, sum[2][j] + bias, sum[3][j] + bias);
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t m = m0 + row + i;
    if (m >= m_size) continue;
    const Position q = kMode == kWeight ? Position{} : split(uint32_t(m), kMode == kForward ? p.out_div : p.in_div);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t n = n0 + column + j;
      if (n >= n_size) continue;
      T value = sum[i][j];
      if constexpr (kMode == kWeight) {
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
        const int64_t* stride = kMode == kForward ? p.small_stride : p.big_stride;
        const uint64_t to = kMode == kForward ? p.small : p.big;
        const int32_t type = kMode == kForward ? p.small_type : p.big_type;
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
// Float only: the common case. Slim and small: for few channels.
extern "C" __global__ void __launch_bounds__(256) forward_plain(ConvParams p) {
  convolve<kForward, float, 64, 64, true>(p);
}
extern "C" __global__ void __launch_bounds__(128) forward_slim(ConvParams p) {
  convolve<kForward, float, 64, 32, true>(p);
}
extern "C" __global__ void __launch_bounds__(256) weight_plain(ConvParams p) {
  convolve<kWeight, float, 64, 64, true>(p);
}
extern "C" __global__ void __launch_bounds__(64) weight_small(ConvParams p) {
  convolve<kWeight, float, 32, 32, true>(p);
}

STRATA_CONVOLUTION(f32, float)
STRATA_CONVOLUTION(f64, double)
STRATA_CONVOLUTION(i64, int64_t)

}  // namespace strata::cuda
