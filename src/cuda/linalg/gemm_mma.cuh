// Products of 16-bit floats with sums in float, on tensor cores from Ampere on (sm_80): cp.async, ldmatrix and
// mma.sync.
//
// A block computes a square tile of c. Tiles of a and b pass through four stages of shared memory, 32 of k each, by
// asynchronous 16-byte copies. The 16-byte pieces are swizzled, so that the eight rows of an ldmatrix are in different
// banks. If k is not the dense dimension of a factor, ldmatrix transposes. Bound: the tensor cores, with 128 x 128 x 32
// per 16 KiB of loads.
#pragma once
#include "cuda/linalg/gemm_mma_params.h"
#include "cuda/linalg/tensor_cores.cuh"

namespace strata::cuda::mma {

// 16 bytes, of which the first `there` are copied and the others are zeros.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, int there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there) : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending> __device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8x8 blocks; lane i gives the address of row i % 8 of block i / 8.
template <bool kTransposed> __device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// d += a b, of 16 x 8 x 16.
template <bool kBf16>
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#define STRATA_MMA(type)                                              \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "            \
               "{%8, %9}, {%0, %1, %2, %3};"                          \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (kBf16) STRATA_MMA("bf16");
  else STRATA_MMA("f16");
#undef STRATA_MMA
}

// A tile of one factor in shared memory: kSize rows of 32 k where k is dense, 32 rows of kSize otherwise.
template <bool kAlongK, int kSize> struct Tile {
  static constexpr int kBytes = kSize * kMmaDepth * 2;
  // Of the 16-byte piece that begins at row or column `outer` (a multiple of 8 unless k is dense) and at k.
  static __device__ __forceinline__ uint32_t offset(int outer, int k) {
    if constexpr (kAlongK) return outer * 64 + ((k / 8) ^ (outer / 2 & 3)) * 16;
    else return k * (kSize * 2) + ((outer / 8) ^ (k & 7)) * 16;
  }
};

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

template <bool kBf16, bool kAAlongK, bool kBAlongK, int kSize> struct Gemm {
  using TileA = Tile<kAAlongK, kSize>;
  using TileB = Tile<kBAlongK, kSize>;
  static constexpr int kThreads = mma_threads(kSize), kStageBytes = TileA::kBytes + TileB::kBytes;
  static constexpr int kFragsM = kSize / 32, kFragsN = 4;  // 16 x 8 fragments of a warp
  static constexpr int kPitch = kSize + 8;                 // of the rows of c in shared memory

  const MmaParams& p;
  const int thread, lane, warp_m, warp_n;  // warp_m, warp_n: where the warp's part of the tile begins
  float sums[kFragsM][kFragsN][4];

  __device__ __forceinline__ explicit Gemm(const MmaParams& params)
      : p(params),
        thread(threadIdx.x),
        lane(threadIdx.x % 32),
        warp_m(threadIdx.x / 32 % 2 * (kSize / 2)),
        warp_n(threadIdx.x / 64 * 32) {}

  __device__ __forceinline__ void multiply_tile(uint32_t a, uint32_t b) {
    const int block = lane / 8, row = lane % 8;
#pragma unroll
    for (int k = 0; k < kMmaDepth; k += 16) {
      uint32_t fa[kFragsM][4], fb[kFragsN / 2][4];
#pragma unroll
      for (int i = 0; i < kFragsM; ++i)  // blocks: rows 0-7, rows 8-15, then the same of k 8-15
        load_matrices<!kAAlongK>(
          fa[i], a + (kAAlongK ? TileA::offset(warp_m + i * 16 + lane % 16, k + lane / 16 * 8)
                               : TileA::offset(warp_m + i * 16 + block % 2 * 8, k + block / 2 * 8 + row)));
#pragma unroll
      for (int j = 0; j < kFragsN / 2; ++j)  // blocks: k 0-7, k 8-15, then the same of columns 8-15
        load_matrices<!kBAlongK>(
          fb[j], b + (kBAlongK ? TileB::offset(warp_n + j * 16 + block / 2 * 8 + row, k + block % 2 * 8)
                               : TileB::offset(warp_n + j * 16 + block / 2 * 8, k + block % 2 * 8 + row)));
#pragma unroll
      for (int i = 0; i < kFragsM; ++i)
#pragma unroll
        for (int j = 0; j < kFragsN; ++j)
          multiply<kBf16>(sums[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
    }
  }

  __device__ __forceinline__ float added(const uint16_t* in, int m, int n) const {
    if (p.addend == kMmaAddNothing || m >= p.m || n >= p.n) return 0;
    return p.beta * unpack<kBf16>(p.addend == kMmaAddRow ? in[n] : in[m * p.in_ld + n]);
  }

  // Converts the sums to 16 bits in shared memory, and writes them to c in rows.
  __device__ __forceinline__ void write_out(char* memory, uint16_t* c, const uint16_t* in, int m0, int n0) {
    auto* rows = reinterpret_cast<uint16_t*>(memory);
#pragma unroll
    for (int i = 0; i < kFragsM; ++i)
#pragma unroll
      for (int j = 0; j < kFragsN; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int m = warp_m + i * 16 + half * 8 + lane / 4, n = warp_n + j * 8 + lane % 4 * 2;
          const float low = sums[i][j][half * 2] * p.alpha + added(in, m0 + m, n0 + n);
          const float high = sums[i][j][half * 2 + 1] * p.alpha + added(in, m0 + m, n0 + n + 1);
          *reinterpret_cast<uint32_t*>(rows + m * kPitch + n) = pack<kBf16>(low, high);
        }
    __syncthreads();
#pragma unroll 4
    for (int piece = thread; piece < kSize * kSize / 8; piece += kThreads) {
      const int m = piece / (kSize / 8), n = piece % (kSize / 8) * 8;
      if (m0 + m >= p.m) break;
      const uint16_t* from = rows + m * kPitch + n;
      uint16_t* to = c + (m0 + m) * p.ldc + n0 + n;
      if (p.aligned && n0 + n + 8 <= p.n) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
        continue;
      }
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (n0 + n + e < p.n) to[e] = from[e];
    }
    __syncthreads();
  }

  // Blocks go down eight rows of tiles, then one column on, so that those in flight share rows of a and columns of b in
  // L2.
  __device__ __forceinline__ void run(char* memory) {
    constexpr int kGroup = 8;
    const int tiles_m = (p.m + kSize - 1) / kSize, tiles_n = (p.n + kSize - 1) / kSize;
    const int index = blockIdx.x, first = index / (kGroup * tiles_n) * kGroup, height = min(kGroup, tiles_m - first);
    const int inside = index % (kGroup * tiles_n), m0 = (first + inside % height) * kSize, n0 = inside / height * kSize;
    const int steps = (p.k + kMmaDepth - 1) / kMmaDepth;
    const uint32_t base = shared_address(memory);
    for (int batch = blockIdx.y; batch < p.batches; batch += gridDim.y) {
      const int64_t outer = batch / p.inner, inner = batch % p.inner;
      const auto at = [&](const int64_t(&strides)[2]) { return 2 * (outer * strides[0] + inner * strides[1]); };
      Bringer<kAAlongK, kSize> from_a(p.a + at(p.a_b), p.lda, m0, p.m, thread);
      Bringer<kBAlongK, kSize> from_b(p.b + at(p.b_b), p.ldb, n0, p.n, thread);
      const auto bring = [&](int step) {
        const uint32_t stage = base + step % kMmaStages * kStageBytes;
        if (step < steps) {
          from_a.bring(stage, p.k - step * kMmaDepth);
          from_b.bring(stage + TileA::kBytes, p.k - step * kMmaDepth);
        }
        copies_commit();  // empty groups at the end keep the number of groups in flight constant
      };
#pragma unroll
      for (int i = 0; i < kFragsM; ++i)
#pragma unroll
        for (int j = 0; j < kFragsN; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
#pragma unroll
      for (int step = 0; step < kMmaStages - 1; ++step) bring(step);
      for (int step = 0; step < steps; ++step) {
        copies_wait<kMmaStages - 2>();
        __syncthreads();  // the tile is complete, and no thread still reads the stage that is filled next
        bring(step + kMmaStages - 1);
        const uint32_t stage = base + step % kMmaStages * kStageBytes;
        multiply_tile(stage, stage + TileA::kBytes);
      }
      copies_wait<0>();
      __syncthreads();  // the stages are free for c
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
