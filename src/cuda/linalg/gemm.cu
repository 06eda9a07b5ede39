// Matrix products of any dtype and layout, in float, double or int64_t: the general kernel, if no faster one applies.
//
// A block of 256 threads computes a 64x64 tile of c, 16 deep at a time through shared memory; a thread holds 4x4 sums
// in registers. Bound by arithmetic and shared memory: two vector reads feed 16 multiplications. The next tile is
// loaded to registers meanwhile. Neighbouring threads read along whichever dimension is contiguous. If c has few tiles
// and the sums are long, parts of the sums go to separate blocks, and a second launch adds them.
#include "cuda/common/dtypes.cuh"
#include "cuda/linalg/gemm_params.h"
#include "cuda/linalg/tile.cuh"

namespace strata::cuda {
namespace {

constexpr int kTile = kGemmTile, kDepth = kGemmDepth, kThreads = 256, kEach = kTile * kDepth / kThreads;

// Loads a thread's elements of one factor for each tile.
struct Bringer {
  uint64_t data;         // address of its first element, in the next tile
  int64_t apart, deep;   // bytes between its elements, and between tiles
  int32_t type, places;  // places: how many of its elements are inside the matrix, or kEach: all or none
  int row, k;            // of the first element, in the tile
  bool along_k;

  // size: rows of the matrix, starting at this tile.
  __device__ __forceinline__ Bringer(uint64_t matrix, int32_t t, int64_t offset, int64_t row_step, int64_t k_step,
                                     int64_t size, int64_t row0, int64_t k0, bool along, int thread)
      : type(t), along_k(along) {
    row = along ? thread / kDepth : thread % kTile;
    k = along ? thread % kDepth : thread / kTile;
    data = uint64_t(element(matrix, type, offset + (row0 + row) * row_step + (k0 + k) * k_step));
    const int log = log_size(type);
    apart = (along ? (kThreads / kDepth) * row_step : (kThreads / kTile) * k_step) * (int64_t(1) << log);
    deep = kDepth * k_step * (int64_t(1) << log);
    const int64_t left = size - row;
    places = along ? int(min(max((left + kThreads / kDepth - 1) / (kThreads / kDepth), int64_t(0)), int64_t(kEach)))
                   : (left > 0 ? kEach : 0);
  }
  // Loads from the next tile; `left` elements of k remain.
  template <class T, bool kPlain> __device__ __forceinline__ void bring(int64_t left, T (&v)[kEach]) {
    const int there = int(min(left, int64_t(kDepth)));
    uint64_t from = data;
#pragma unroll
    for (int j = 0; j < kEach; ++j, from += apart) {
      const int depth = along_k ? k : k + j * (kThreads / kTile);
      v[j] = T(0);
      if (j < places && depth < there) {
        if constexpr (kPlain) v[j] = *reinterpret_cast<const T*>(from);
        else v[j] = load<T>(reinterpret_cast<const void*>(from), type);
      }
    }
    data += deep;
  }
  template <class T> __device__ __forceinline__ void put(Tile<T, kDepth, kTile>& tile, const T (&v)[kEach]) const {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      tile[along_k ? k : k + j * (kThreads / kTile)][along_k ? row + j * (kThreads / kDepth) : row] = v[j];
  }
};

// kPlain: a and b are of type T.
template <class T, bool kPlain = false> __device__ __forceinline__ void gemm(const GemmParams& p) {
  __shared__ Tile<T, kDepth, kTile> sa[2], sb[2];  // double buffer
  const int thread = threadIdx.x, row = thread / 16 * 4, column = thread % 16 * 4;
  const int64_t tiles_n = (p.n + kTile - 1) / kTile;
  const int64_t m0 = int64_t(blockIdx.x) / tiles_n * kTile, n0 = int64_t(blockIdx.x) % tiles_n * kTile;
  const bool a_along_k = p.a_k == 1, b_along_n = p.b_n == 1;
  for (int64_t index = blockIdx.y; index < p.batches; index += gridDim.y) {
    int64_t a = 0, b = 0, c = 0, in = 0, rest = index;
#pragma unroll 1
    for (int d = p.batch_dims; d-- > 0; rest /= p.batch[d]) {
      const int64_t i = rest % p.batch[d];
      a += i * p.a_b[d];
      b += i * p.b_b[d];
      c += i * p.c_b[d];
      in += i * p.in_b[d];
    }
    T sum[4][4] = {}, next_a[kEach], next_b[kEach];
    const int64_t k_begin = int64_t(blockIdx.z) * p.depth, k_end = min(k_begin + p.depth, p.k);
    // This thread's elements are along k, one row after every 16, or along the other dimension, one k after every 4.
    Bringer from_a(p.a, p.a_type, a, p.a_m, p.a_k, p.m - m0, m0, k_begin, a_along_k, thread);
    Bringer from_b(p.b, p.b_type, b, p.b_n, p.b_k, p.n - n0, n0, k_begin, !b_along_n, thread);
    const auto fetch = [&](int64_t k0) {
      from_a.template bring<T, kPlain>(k_end - k0, next_a);
      from_b.template bring<T, kPlain>(k_end - k0, next_b);
    };
    const auto put = [&](int buffer) {
      from_a.put(sa[buffer], next_a);
      from_b.put(sb[buffer], next_b);
    };
    fetch(k_begin);
    put(0);
    __syncthreads();
    int buffer = 0;
    for (int64_t k0 = k_begin; k0 < k_end; k0 += kDepth, buffer ^= 1) {
      const bool more = k0 + kDepth < k_end;
      if (more) fetch(k0 + kDepth);
      multiply_tile(sa[buffer], sb[buffer], row, column, sum);
      if (more) put(buffer ^ 1);
      __syncthreads();
    }
    const int64_t n = n0 + column;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t m = m0 + row + i;
      if (m >= p.m || n >= p.n) break;
      if (p.partial) {
        T* to = reinterpret_cast<T*>(p.partial) + (int64_t(blockIdx.z) * p.m + m) * p.n + n;
        if (sizeof(T) == 4 && p.quads) {
          *reinterpret_cast<float4*>(to) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
          continue;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (n + j < p.n) to[j] = sum[i][j];
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum[i][j] *= T(p.alpha);
        if (p.in && n + j < p.n)
          sum[i][j] += T(p.beta) * load<T>(element(p.in, p.in_type, in + m * p.in_m + (n + j) * p.in_n), p.in_type);
      }
      const int64_t at = c + m * p.c_m + n * p.c_n;
      if (sizeof(T) == 4 && p.quads) {
        *reinterpret_cast<float4*>(reinterpret_cast<float*>(p.c) + at) =
          make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (n + j < p.n) store<T>(const_cast<void*>(element(p.c, p.c_type, at + j * p.c_n)), p.c_type, sum[i][j]);
    }
  }
}

// Adds the parts, always in the same order: each of four threads adds every fourth part of a result.
template <class T> __device__ __forceinline__ void fold(const GemmParams& p) {
  constexpr int kResults = kThreads / 4;
  __shared__ T space[4][kResults];
  const int own = threadIdx.x % kResults, quarter = threadIdx.x / kResults;
  const int64_t i = int64_t(blockIdx.x) * kResults + own, size = p.m * p.n, parts = (p.k + p.depth - 1) / p.depth;
  T sum = 0;
  if (i < size) {
    const T* part = reinterpret_cast<const T*>(p.partial) + i;
#pragma unroll 8
    for (int64_t k = quarter; k < parts; k += 4) sum += part[k * size];
  }
  space[quarter][own] = sum;
  __syncthreads();
  if (quarter != 0 || i >= size) return;
  const int64_t m = i / p.n, n = i % p.n;
  T value = T(p.alpha) * (space[0][own] + space[1][own] + space[2][own] + space[3][own]);
  if (p.in) value += T(p.beta) * load<T>(element(p.in, p.in_type, m * p.in_m + n * p.in_n), p.in_type);
  store<T>(const_cast<void*>(element(p.c, p.c_type, m * p.c_m + n * p.c_n)), p.c_type, value);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) gemm_fold_f32(GemmParams p) { fold<float>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_fold_f64(GemmParams p) { fold<double>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_fold_i64(GemmParams p) { fold<int64_t>(p); }
extern "C" __global__ void __launch_bounds__(256, 3) gemm_plain(GemmParams p) { gemm<float, true>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_f32(GemmParams p) { gemm<float>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_f64(GemmParams p) { gemm<double>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_i64(GemmParams p) { gemm<int64_t>(p); }

}  // namespace strata::cuda
