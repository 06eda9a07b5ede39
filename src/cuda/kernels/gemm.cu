// Matrix products of any dtype and layout, in float, double or int64_t: the plain one, for what no faster kernel takes.
//
// A block of 256 threads makes a 64x64 tile of c, 16 deep at a time through shared memory; a thread holds 4x4 sums in registers. Bound by
// the arithmetic units and by shared memory: two vector reads feed 16 multiplications. The next tile is on its way to registers
// meanwhile. Neighbouring threads read along whichever dimension is dense in memory. Where c has few tiles and the sums are long,
// parts of the sums go to blocks of their own, and a second launch adds them up.
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/gemm_params.h"
#include "cuda/kernels/tile.cuh"

namespace strata::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256, kEach = kTile * kDepth / kThreads;

template <class T> __device__ __forceinline__ void gemm(const GemmParams& p) {
  __shared__ Tile<T, kDepth, kTile> sa, sb;
  const int thread = threadIdx.x, row = thread / 16 * 4, column = thread % 16 * 4;
  const int64_t tiles_n = (p.n + kTile - 1) / kTile;
  const int64_t m0 = int64_t(blockIdx.x) / tiles_n * kTile, n0 = int64_t(blockIdx.x) % tiles_n * kTile;
  const bool a_along_k = p.a_k == 1, b_along_n = p.b_n == 1;
  for (int64_t index = blockIdx.y; index < p.batches; index += gridDim.y) {
    int64_t a = 0, b = 0, c = 0, in = 0, rest = index;
#pragma unroll 1
    for (int d = p.batch_dims; d-- > 0; rest /= p.batch[d]) {
      const int64_t i = rest % p.batch[d];
      a += i * p.a_b[d], b += i * p.b_b[d], c += i * p.c_b[d], in += i * p.in_b[d];
    }
    T sum[4][4] = {}, next_a[kEach], next_b[kEach];
    const int64_t k_begin = int64_t(blockIdx.z) * p.depth, k_end = min(k_begin + p.depth, p.k);
    // The elements that this thread brings: where they are for the first tile, 0 outside of the matrix.
    uint64_t from_a[kEach], from_b[kEach];
    const uint64_t step_a = uint64_t(kDepth * p.a_k) << log_size(p.a_type),
                   step_b = uint64_t(kDepth * p.b_k) << log_size(p.b_type);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int e = thread + j * kThreads;
      const int64_t m = m0 + (a_along_k ? e / kDepth : e % kTile), n = n0 + (b_along_n ? e % kTile : e / kDepth);
      const int64_t ka = k_begin + (a_along_k ? e % kDepth : e / kTile),
                    kb = k_begin + (b_along_n ? e / kTile : e % kDepth);
      from_a[j] = m < p.m ? uint64_t(element(p.a, p.a_type, a + m * p.a_m + ka * p.a_k)) : 0;
      from_b[j] = n < p.n ? uint64_t(element(p.b, p.b_type, b + kb * p.b_k + n * p.b_n)) : 0;
    }
    const auto fetch = [&](int64_t k0) {
      const int left = int(min(k_end - k0, int64_t(kDepth)));
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int e = thread + j * kThreads;
        const int ka = a_along_k ? e % kDepth : e / kTile, kb = b_along_n ? e / kTile : e % kDepth;
        next_a[j] = from_a[j] && ka < left ? load<T>(reinterpret_cast<const void*>(from_a[j]), p.a_type) : T(0);
        next_b[j] = from_b[j] && kb < left ? load<T>(reinterpret_cast<const void*>(from_b[j]), p.b_type) : T(0);
        from_a[j] += from_a[j] ? step_a : 0, from_b[j] += from_b[j] ? step_b : 0;
      }
    };
    fetch(k_begin);
    for (int64_t k0 = k_begin; k0 < k_end; k0 += kDepth) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int e = thread + j * kThreads;
        sa[a_along_k ? e % kDepth : e / kTile][a_along_k ? e / kDepth : e % kTile] = next_a[j];
        sb[b_along_n ? e / kTile : e % kDepth][b_along_n ? e % kTile : e / kDepth] = next_b[j];
      }
      __syncthreads();
      if (k0 + kDepth < k_end) fetch(k0 + kDepth);
      multiply_tile(sa, sb, row, column, sum);
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t m = m0 + row + i, n = n0 + column + j;
        if (m >= p.m || n >= p.n) continue;
        if (p.partial) {
          reinterpret_cast<T*>(p.partial)[(int64_t(blockIdx.z) * p.m + m) * p.n + n] = sum[i][j];
          continue;
        }
        T value = T(p.alpha) * sum[i][j];
        if (p.in) value += T(p.beta) * load<T>(element(p.in, p.in_type, in + m * p.in_m + n * p.in_n), p.in_type);
        store<T>(const_cast<void*>(element(p.c, p.c_type, c + m * p.c_m + n * p.c_n)), p.c_type, value);
      }
    }
  }
}

// Adds up the parts, always in the same order.
template <class T> __device__ __forceinline__ void fold(const GemmParams& p) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x, m = i / p.n, n = i % p.n, size = p.m * p.n;
  if (i >= size) return;
  const T* part = reinterpret_cast<const T*>(p.partial) + i;
  T sum = 0;
#pragma unroll 8
  for (int64_t k = 0; k < p.k; k += p.depth, part += size) sum += *part;
  T value = T(p.alpha) * sum;
  if (p.in) value += T(p.beta) * load<T>(element(p.in, p.in_type, m * p.in_m + n * p.in_n), p.in_type);
  store<T>(const_cast<void*>(element(p.c, p.c_type, m * p.c_m + n * p.c_n)), p.c_type, value);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) gemm_fold_f32(GemmParams p) { fold<float>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_fold_f64(GemmParams p) { fold<double>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_fold_i64(GemmParams p) { fold<int64_t>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_f32(GemmParams p) { gemm<float>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_f64(GemmParams p) { gemm<double>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_i64(GemmParams p) { gemm<int64_t>(p); }

}  // namespace strata::cuda
