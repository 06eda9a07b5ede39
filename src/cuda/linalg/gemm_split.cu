// ptx: compute_80
// Products of 16-bit floats with few results and long sums, on tensor cores: parts of the sums go to separate blocks, and
// a second launch adds them, always in the same order. Bound: one read of the factors by all multiprocessors.
#include "cuda/linalg/gemm_mma.cuh"
#include "cuda/linalg/gemm_split_params.h"

namespace strata::cuda::mma {

// blockIdx: the tile, the matrix of the batch, the part of k.
template <bool kBf16, bool kAAlongK, bool kBAlongK>
struct PartOfGemm : TileProduct<kBf16, kAAlongK, kBAlongK, kSplitTile> {
  using Base = TileProduct<kBf16, kAAlongK, kBAlongK, kSplitTile>;
  using Base::thread;
  __device__ __forceinline__ void run(const SplitParams& s, char* memory) {
    const MmaParams& p = s.product;
    const TilePlace place(blockIdx.x, (p.m + kSplitTile - 1) / kSplitTile, (p.n + kSplitTile - 1) / kSplitTile);
    const int m0 = place.row * kSplitTile, n0 = place.column * kSplitTile;
    const int64_t k0 = int64_t(blockIdx.z) * s.depth;
    const int count = int(min(int64_t(s.depth), p.k - k0));
    for (int batch = blockIdx.y; batch < p.batches; batch += gridDim.y) {
      const int64_t outer = batch / p.inner, inner = batch % p.inner;
      const auto at = [&](const int64_t(&strides)[2]) { return 2 * (outer * strides[0] + inner * strides[1]); };
      Bringer<kAAlongK, kSplitTile> from_a(p.a + at(p.a_b) + 2 * k0 * (kAAlongK ? 1 : p.lda), p.lda, m0, p.m, thread);
      Bringer<kBAlongK, kSplitTile> from_b(p.b + at(p.b_b) + 2 * k0 * (kBAlongK ? 1 : p.ldb), p.ldb, n0, p.n, thread);
      this->accumulate(
        memory, (count + kMmaDepth - 1) / kMmaDepth,
        [&](uint32_t tile, int step) { from_a.bring(tile, count - step * kMmaDepth); },
        [&](uint32_t tile, int step) { from_b.bring(tile, count - step * kMmaDepth); });
      float* to = reinterpret_cast<float*>(s.partial) + (int64_t(blockIdx.z) * p.batches + batch) * p.m * p.n;
      this->each_pair([&](int m, int n, float low, float high) {
        if (m0 + m >= p.m) return;
        float* row = to + int64_t(m0 + m) * p.n + n0 + n;
        if (n0 + n < p.n) row[0] = low;
        if (n0 + n + 1 < p.n) row[1] = high;
      });
    }
  }
};

// A warp of each block adds every eighth part of 32 results.
template <bool kBf16> __device__ __forceinline__ void add_parts(const SplitParams& s) {
  constexpr int kWarps = kSplitFoldThreads / 32;
  __shared__ float sums[kWarps][32];
  const MmaParams& p = s.product;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t size = int64_t(p.batches) * p.m * p.n, i = int64_t(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (i < size) {
    const float* part = reinterpret_cast<const float*>(s.partial) + i;
#pragma unroll 4
    for (int k = warp; k < s.parts; k += kWarps) sum += part[k * size];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || i >= size) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += sums[w][lane];
  const int64_t n = i % p.n, m = i / p.n % p.m, batch = i / p.n / p.m;
  const auto at = [&](const int64_t(&strides)[2]) {
    return batch / p.inner * strides[0] + batch % p.inner * strides[1];
  };
  float value = sum * p.alpha;
  if (p.addend != kMmaAddNothing) {
    const auto* in = reinterpret_cast<const uint16_t*>(p.in) + at(p.in_b);
    value += p.beta * unpack<kBf16>(p.addend == kMmaAddRow ? in[n] : in[m * p.in_ld + n]);
  }
  reinterpret_cast<uint16_t*>(p.c)[at(p.c_b) + m * p.ldc + n] = uint16_t(pack<kBf16>(value, 0.f));
}

#define STRATA_SPLIT(name, bf16, a_along_k, b_along_k)                                           \
  extern "C" __global__ void __launch_bounds__(mma_threads(kSplitTile), 2) name(SplitParams s) { \
    extern __shared__ __align__(128) char memory[];                                              \
    PartOfGemm<bf16, a_along_k, b_along_k>().run(s, memory);                                     \
  }
#define STRATA_SPLITS(type, bf16)             \
  STRATA_SPLIT(type##_nn, bf16, true, true)   \
  STRATA_SPLIT(type##_nt, bf16, true, false)  \
  STRATA_SPLIT(type##_tn, bf16, false, true)  \
  STRATA_SPLIT(type##_tt, bf16, false, false) \
  extern "C" __global__ void __launch_bounds__(kSplitFoldThreads) add_##type(SplitParams s) { add_parts<bf16>(s); }
STRATA_SPLITS(bf16, true)
STRATA_SPLITS(f16, false)

}  // namespace strata::cuda::mma
