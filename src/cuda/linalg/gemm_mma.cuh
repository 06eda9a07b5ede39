// Products of 16-bit floats with sums in float, on tensor cores from Ampere on (sm_80): cp.async, ldmatrix and
// mma.sync.
//
// A block computes a square tile of c. Tiles of a and b pass through four stages of shared memory, 32 of k each, by
// asynchronous 16-byte copies. The 16-byte pieces are swizzled, so that the eight rows of an ldmatrix are in different
// banks. If k is not the dense dimension of a factor, ldmatrix transposes. Bound: the tensor cores, with 128 x 128 x 32
// per 16 KiB of loads.
#pragma once
#include "cuda/linalg/mma_tile.cuh"

namespace strata::cuda::mma {

// The part of each tile of one factor that a thread loads: two pieces of 16 bytes.
template <bool kAlongK, int kSize> struct Bringer {
  static constexpr int kThreads = mma_threads(kSize), kRow = kAlongK ? kMmaDepth / 8 : kSize / 8;  // pieces in a row
  const uint16_t *from[2], *base;
  uint32_t to[2];
  int k[2], there[2];  // there: bytes inside the matrix, without regard to k
  int64_t step;

  __device__ __forceinline__ Bringer(uint64_t matrix, int64_t ld, int first, int size, int thread)
      : base(reinterpret_cast<const uint16_t*>(matrix)), step(kAlongK ? kMmaDepth : kMmaDepth * ld) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int piece = thread + i * kThreads, row = piece / kRow, column = piece % kRow * 8;
      const int outer = kAlongK ? row : column;
      k[i] = kAlongK ? column : row;
      there[i] = kAlongK ? (first + outer < size ? 16 : 0) : min(max(size - first - outer, 0), 8) * 2;
      from[i] = base + (kAlongK ? (first + row) * ld + column : row * ld + first + column);
      to[i] = Tile<kAlongK, kSize>::offset(outer, k[i]);
    }
  }
  // Loads the next tile, in which `left` elements of k are inside the matrix.
  __device__ __forceinline__ void bring(uint32_t tile, int left) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int bytes = kAlongK ? min(there[i], min(max(left - k[i], 0), 8) * 2) : (k[i] < left ? there[i] : 0);
      copy_async(tile + to[i], bytes ? from[i] : base, bytes);
      from[i] += step;
    }
  }
};

template <bool kBf16, bool kAAlongK, bool kBAlongK, int kSize>
struct Gemm : TileProduct<kBf16, kAAlongK, kBAlongK, kSize> {
  using Base = TileProduct<kBf16, kAAlongK, kBAlongK, kSize>;
  using Base::kPitch;
  using Base::kThreads;
  using Base::thread;
  const MmaParams& p;

  __device__ __forceinline__ explicit Gemm(const MmaParams& params) : p(params) {}

  __device__ __forceinline__ float added(const uint16_t* in, int m, int n) const {
    if (p.addend == kMmaAddNothing || m >= p.m || n >= p.n) return 0;
    return p.beta * unpack<kBf16>(p.addend == kMmaAddRow ? in[n] : in[m * p.in_ld + n]);
  }

  // Converts the sums to 16 bits in shared memory, and writes them to c in rows.
  __device__ __forceinline__ void write_out(char* memory, uint16_t* c, const uint16_t* in, int m0, int n0) {
    auto* rows = reinterpret_cast<uint16_t*>(memory);
    this->each_pair([&](int m, int n, float low, float high) {
      low = low * p.alpha + added(in, m0 + m, n0 + n);
      high = high * p.alpha + added(in, m0 + m, n0 + n + 1);
      *reinterpret_cast<uint32_t*>(rows + m * kPitch + n) = pack<kBf16>(low, high);
    });
    __syncthreads();
#pragma unroll 4
    for (int piece = thread; piece < kSize * kSize / 8; piece += kThreads) {
      const int m = piece / (kSize / 8), n = piece % (kSize / 8) * 8;
      if (m0 + m >= p.m) break;
      store_eight(c + (m0 + m) * p.ldc + n0 + n, rows + m * kPitch + n, p.aligned, p.n - n0 - n);
    }
    __syncthreads();
  }

  __device__ __forceinline__ void run(char* memory) {
    const TilePlace place(blockIdx.x, (p.m + kSize - 1) / kSize, (p.n + kSize - 1) / kSize);
    const int m0 = place.row * kSize, n0 = place.column * kSize;
    for (int batch = blockIdx.y; batch < p.batches; batch += gridDim.y) {
      const int64_t outer = batch / p.inner, inner = batch % p.inner;
      const auto at = [&](const int64_t(&strides)[2]) { return 2 * (outer * strides[0] + inner * strides[1]); };
      Bringer<kAAlongK, kSize> from_a(p.a + at(p.a_b), p.lda, m0, p.m, thread);
      Bringer<kBAlongK, kSize> from_b(p.b + at(p.b_b), p.ldb, n0, p.n, thread);
      this->accumulate(
        memory, (p.k + kMmaDepth - 1) / kMmaDepth,
        [&](uint32_t tile, int step) { from_a.bring(tile, p.k - step * kMmaDepth); },
        [&](uint32_t tile, int step) { from_b.bring(tile, p.k - step * kMmaDepth); });
      write_out(memory, reinterpret_cast<uint16_t*>(p.c + at(p.c_b)),
                reinterpret_cast<const uint16_t*>(p.in + at(p.in_b)), m0, n0);
    }
  }
};

// Kernels are named large_nt: the tile's size, then n for a factor that is dense along k and t for one that is not.
#define STRATA_MMA_GEMM(name, bf16, a_along_k, b_along_k, size)                                                  \
  extern "C" __global__ void __launch_bounds__(mma_threads(size), size == kMmaLarge ? 2 : 4) name(MmaParams p) { \
    extern __shared__ __align__(128) char memory[];                                                              \
    Gemm<bf16, a_along_k, b_along_k, size>(p).run(memory);                                                       \
  }
#define STRATA_MMA_GEMMS(bf16)                             \
  STRATA_MMA_GEMM(large_nn, bf16, true, true, kMmaLarge)   \
  STRATA_MMA_GEMM(large_nt, bf16, true, false, kMmaLarge)  \
  STRATA_MMA_GEMM(large_tn, bf16, false, true, kMmaLarge)  \
  STRATA_MMA_GEMM(large_tt, bf16, false, false, kMmaLarge) \
  STRATA_MMA_GEMM(small_nn, bf16, true, true, kMmaSmall)   \
  STRATA_MMA_GEMM(small_nt, bf16, true, false, kMmaSmall)  \
  STRATA_MMA_GEMM(small_tn, bf16, false, true, kMmaSmall)  \
  STRATA_MMA_GEMM(small_tt, bf16, false, false, kMmaSmall)

}  // namespace strata::cuda::mma
