// Matrix-vector products y = a x, where rows of a are dense. Bound: one read of a.
//
// A warp, or a block if there are few rows, computes two rows at a time, so that each load of x serves both. A thread
// issues four 16-byte loads per row before the first multiplication. The summation order depends only on the shape.
#include "cuda/common/dtypes.cuh"
#include "cuda/linalg/gemv_params.h"

namespace strata::cuda {
namespace {

constexpr int kWarps = kGemvThreads / 32, kPieces = 4, kRows = kGemvRows;
constexpr unsigned kAll = 0xffffffffu;

// The elements of 16 bytes, as T.
template <int kTag, class T> struct Piece {
  static constexpr int kSize = kTag == kF64 ? 8 : kTag == kF32 ? 4 : 2, kCount = 16 / kSize;
  uint4 bits = make_uint4(0, 0, 0, 0);
  __device__ __forceinline__ T operator[](int i) const {
    const uint32_t words[] = {bits.x, bits.y, bits.z, bits.w};
    if constexpr (kTag == kF64) return __hiloint2double(int(words[2 * i + 1]), int(words[2 * i]));
    else if constexpr (kTag == kF32) return __uint_as_float(words[i]);
    else {
      const auto half = uint16_t(words[i / 2] >> i % 2 * 16);
      return kTag == kBF16 ? bf16_to_float(half) : half_to_float(half);
    }
  }
};

// kPerRow: warps that share their rows.
template <int kTag, class T, int kPerRow> __device__ __forceinline__ void gemv(const GemvParams& p) {
  using P = Piece<kTag, T>;
  const int lane = threadIdx.x % 32, part = threadIdx.x / 32 % kPerRow;
  const int64_t group = (int64_t(blockIdx.x) * kWarps + threadIdx.x / 32) / kPerRow, row = group * kRows;
  const int64_t pieces = p.k / P::kCount, step = 32 * kPerRow;
  uint64_t from[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) from[r] = p.a + min(row + r, p.rows - 1) * p.lda * P::kSize;
  T sum[kRows] = {};
  for (int64_t first = part * 32 + lane; first < pieces; first += step * kPieces) {
    P x[kPieces], a[kRows][kPieces];
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const int64_t at = first + j * step;
      if (at >= pieces) break;
#pragma unroll
      for (int r = 0; r < kRows; ++r) a[r][j].bits = *reinterpret_cast<const uint4*>(from[r] + at * 16);
      x[j].bits = *reinterpret_cast<const uint4*>(p.x + at * 16);
    }
#pragma unroll
    for (int j = 0; j < kPieces; ++j)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int e = 0; e < P::kCount; ++e) sum[r] += a[r][j][e] * x[j][e];
  }
  const int64_t last = pieces * P::kCount + lane;  // the tail of the rows, shorter than a piece
  if (part == 0 && last < p.k)
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      sum[r] += load<T>(element(from[r], kTag, last), kTag) * load<T>(element(p.x, kTag, last), kTag);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int half = 16; half > 0; half /= 2) sum[r] += __shfl_xor_sync(kAll, sum[r], half);
  if constexpr (kPerRow > 1) {
    __shared__ T parts[kWarps][kRows];
    if (lane == 0)
#pragma unroll
      for (int r = 0; r < kRows; ++r) parts[threadIdx.x / 32][r] = sum[r];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sum[r] = 0;
#pragma unroll
      for (int w = 0; w < kPerRow; ++w) sum[r] += parts[w][r];
    }
  }
  if (part != 0 || lane != 0) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (row + r >= p.rows) break;
    T value = T(p.alpha) * sum[r];
    if (p.in) value += T(p.beta) * load<T>(element(p.in, kTag, row + r), kTag);
    store<T>(const_cast<void*>(element(p.y, kTag, row + r)), kTag, value);
  }
}
}  // namespace

#define STRATA_GEMV(name, tag, T)                                                                              \
  extern "C" __global__ void __launch_bounds__(kGemvThreads) gemv_##name(GemvParams p) { gemv<tag, T, 1>(p); } \
  extern "C" __global__ void __launch_bounds__(kGemvThreads) gemv_few_##name(GemvParams p) { gemv<tag, T, kWarps>(p); }
STRATA_GEMV(f64, kF64, double)
STRATA_GEMV(f32, kF32, float)
STRATA_GEMV(f16, kF16, float)
STRATA_GEMV(bf16, kBF16, float)

}  // namespace strata::cuda
