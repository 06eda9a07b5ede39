// Matrix products of any dtype and layout, in float, double or int64_t: the plain one, for what no faster kernel takes.
//
// A block of 256 threads makes a 64x64 tile of c, 16 deep at a time through shared memory; a thread holds 4x4 sums in registers. Bound by
// the arithmetic units and by shared memory: two vector reads feed 16 multiplications. Neighbouring threads read along whichever
// dimension is dense in memory.
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/gemm_params.h"
#include "cuda/kernels/tile.cuh"

namespace strata::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256;

template <class T> __device__ __forceinline__ void gemm(const GemmParams& p) {
  __shared__ T sa[kDepth][kTile + 4], sb[kDepth][kTile + 4];
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
    T sum[4][4] = {};
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
#pragma unroll
      for (int j = 0; j < kTile * kDepth / kThreads; ++j) {
        const int e = thread + j * kThreads;
        const int ak = a_along_k ? e % kDepth : e / kTile, am = a_along_k ? e / kDepth : e % kTile;
        const int64_t m = m0 + am, ka = k0 + ak;
        sa[ak][am] = m < p.m && ka < p.k ? load<T>(element(p.a, p.a_type, a + m * p.a_m + ka * p.a_k), p.a_type) : T(0);
        const int bk = b_along_n ? e / kTile : e % kDepth, bn = b_along_n ? e % kTile : e / kDepth;
        const int64_t n = n0 + bn, kb = k0 + bk;
        sb[bk][bn] = n < p.n && kb < p.k ? load<T>(element(p.b, p.b_type, b + kb * p.b_k + n * p.b_n), p.b_type) : T(0);
      }
      __syncthreads();
      multiply_tile(sa, sb, row, column, sum);
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t m = m0 + row + i, n = n0 + column + j;
        if (m >= p.m || n >= p.n) continue;
        T value = T(p.alpha) * sum[i][j];
        if (p.in) value += T(p.beta) * load<T>(element(p.in, p.in_type, in + m * p.in_m + n * p.in_n), p.in_type);
        store<T>(const_cast<void*>(element(p.c, p.c_type, c + m * p.c_m + n * p.c_n)), p.c_type, value);
      }
    }
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) gemm_f32(GemmParams p) { gemm<float>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_f64(GemmParams p) { gemm<double>(p); }
extern "C" __global__ void __launch_bounds__(256) gemm_i64(GemmParams p) { gemm<int64_t>(p); }

}  // namespace strata::cuda
