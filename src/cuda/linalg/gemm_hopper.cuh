// d[m, n] = alpha * a b + beta * in for 16-bit floats with sums in float, on Hopper (sm_90a).
#pragma once
#include "cuda/linalg/hopper_pipeline.cuh"
#include "cuda/linalg/tensor_cores.cuh"

namespace strata::cuda::hopper {

// Epilogue: alpha * sum + the addend. Compiled once per kind of addend: run-time branches per element made the code too
// long for the instruction cache.
template <bool kBf16, int kAddend> struct Adder {
  const GemmArgs& args;
  const uint16_t* matrix;  // of this tile's batch; its rows may start anywhere
  uint32_t row;  // address in shared memory of the row that is added to all, as floats, from the tile's first column on

  __device__ float2 added(int m, int n, int tile_n) const {
    if constexpr (kAddend == kAddNothing) return make_float2(0, 0);
    if constexpr (kAddend == kAddRow) return load_pair(row + (n - tile_n) * 4);
    if (m >= args.m) return make_float2(0, 0);
    const uint16_t* from = matrix + m * args.in_ld + n;
    return make_float2(n < args.n ? args.beta * unpack<kBf16>(from[0]) : 0,
                       n + 1 < args.n ? args.beta * unpack<kBf16>(from[1]) : 0);
  }
  // The results at (m, n) and (m, n + 1), rounded to 16 bits.
  __device__ uint32_t packed(float x, float y, int m, int n, int tile_n) const {
    const float2 more = added(m, n, tile_n);
    return pack<kBf16>(x * args.alpha + more.x, y * args.alpha + more.y);
  }
};

// 16-bit floats.
template <class C, bool kBf16>
__device__ inline void gemm_16(const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_d,
                               const GemmArgs& args) {
  const auto* in = reinterpret_cast<const uint16_t*>(args.in);
  const auto begin = [&](const Job<C>& job) {
    if (args.addend == kAddRow) keep_row(job, args, [in](int n) { return unpack<kBf16>(in[n]); });
  };
  const auto finish = [&](const typename C::Sums& sums, const Job<C>& job) {
    const uint16_t* matrix = in + job.tile.outer * args.in_b[0] + job.tile.inner * args.in_b[1];
    const auto write = [&]<int kAddend>() {
      const Adder<kBf16, kAddend> adder{args, matrix, job.row};
      write_out<C>(sums, map_d, job.staging, adder, job.tile, job.first_row, job.bar);
    };
    if (args.addend == kAddNothing) write.template operator()<kAddNothing>();
    else if (args.addend == kAddRow) write.template operator()<kAddRow>();
    else write.template operator()<kAddMatrix>();
  };
  gemm<C>(map_a, map_b, map_d, args, begin, finish);
}

// Kernels are named huge_nt: the tile's shape, then n for a factor that is dense along k and t for one that is not.
#define STRATA_HOPPER_GEMM(name, shape, bf16, a_along_k, b_along_k)                                                 \
  extern "C" __global__ void __launch_bounds__(kThreads, shape.blocks_per_sm) __cluster_dims__(shape.cluster, 1, 1) \
    name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,                                  \
         const __grid_constant__ TensorMap d, const __grid_constant__ GemmArgs args) {                              \
    gemm_16<Config<shape, Wgmma<shape.n, bf16, a_along_k, b_along_k>, a_along_k, b_along_k>, bf16>(a, b, d, args);  \
  }
#define STRATA_HOPPER_GEMMS(bf16)                            \
  STRATA_HOPPER_GEMM(huge_nn, kHuge, bf16, true, true)       \
  STRATA_HOPPER_GEMM(huge_nt, kHuge, bf16, true, false)      \
  STRATA_HOPPER_GEMM(huge_tn, kHuge, bf16, false, true)      \
  STRATA_HOPPER_GEMM(huge_tt, kHuge, bf16, false, false)     \
  STRATA_HOPPER_GEMM(wide_nn, kWide, bf16, true, true)       \
  STRATA_HOPPER_GEMM(wide_nt, kWide, bf16, true, false)      \
  STRATA_HOPPER_GEMM(wide_tn, kWide, bf16, false, true)      \
  STRATA_HOPPER_GEMM(wide_tt, kWide, bf16, false, false)     \
  STRATA_HOPPER_GEMM(large_nn, kLarge, bf16, true, true)     \
  STRATA_HOPPER_GEMM(large_nt, kLarge, bf16, true, false)    \
  STRATA_HOPPER_GEMM(large_tn, kLarge, bf16, false, true)    \
  STRATA_HOPPER_GEMM(large_tt, kLarge, bf16, false, false)   \
  STRATA_HOPPER_GEMM(medium_nn, kMedium, bf16, true, true)   \
  STRATA_HOPPER_GEMM(medium_nt, kMedium, bf16, true, false)  \
  STRATA_HOPPER_GEMM(medium_tn, kMedium, bf16, false, true)  \
  STRATA_HOPPER_GEMM(medium_tt, kMedium, bf16, false, false) \
  STRATA_HOPPER_GEMM(small_nn, kSmall, bf16, true, true)     \
  STRATA_HOPPER_GEMM(small_nt, kSmall, bf16, true, false)    \
  STRATA_HOPPER_GEMM(small_tn, kSmall, bf16, false, true)    \
  STRATA_HOPPER_GEMM(small_tt, kSmall, bf16, false, false)   \
  STRATA_HOPPER_GEMM(flat_nn, kFlat, bf16, true, true)       \
  STRATA_HOPPER_GEMM(flat_nt, kFlat, bf16, true, false)

}  // namespace strata::cuda::hopper
