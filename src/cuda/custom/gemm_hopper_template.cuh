// Products with an epilogue of the user on Hopper, compiled at run time: the pipeline of hopper_pipeline.cuh, with the
// epilogue applied to the sums in registers.
//
// Config:  Element, Result; kShape: the shape of its tiles; kAAlongK, kBAlongK: k is the dense dimension of the factor.
// Epilogue: as for gemm_template.cuh.
#pragma once
#include "cuda/custom/gemm_functions.cuh"
#include "cuda/custom/gemm_hopper_kernel_params.h"
#include "cuda/linalg/hopper_pipeline.cuh"

namespace strata::gemm {

template <class A, class B> constexpr bool kEqual = false;
template <class A> constexpr bool kEqual<A, A> = true;

// The epilogue as hopper::write_out uses it. Sums outside of the matrix are not stored, but have an epilogue too, so that
// there are no branches: it is that of the nearest element inside.
template <class Result, class Epilogue> struct Rounded {
  const cuda::hopper::GemmArgs& args;
  const Epilogue& epilogue;
  int64_t batch;

  __device__ __forceinline__ uint32_t packed(float x, float y, int m, int n, int) const {
    struct alignas(4) Pair {
      Result low, high;
    } pair;
    const int row = min(m, args.m - 1);
    strata_store(pair.low, epilogue(x, row, min(n, args.n - 1), batch));
    strata_store(pair.high, epilogue(y, row, min(n + 1, args.n - 1), batch));
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
};

// Stores results of any size and strides from registers: four lanes write neighbouring elements.
template <class C, class Result, class Epilogue>
__device__ __forceinline__ void store_from_registers(const typename C::Sums& sums, const KernelParams& p,
                                                     const BatchIndex& batch, const Epilogue& epilogue,
                                                     const cuda::hopper::Job<C>& job) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  Result* c = reinterpret_cast<Result*>(p.c) + batch.offset(p, p.c_b);
#pragma unroll
  for (int block = 0; block < C::kBlocks; ++block)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = job.tile.m + job.first_row + block * 64 + warp * 16 + half * 8 + lane / 4;
      if (m >= p.m) continue;
#pragma unroll
      for (int j = 0; j < C::kN / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int n = job.tile.n + j * 8 + lane % 4 * 2 + e;
          if (n < p.n)
            strata_store(c[m * p.c_m + n * p.c_n], epilogue(sums[block][j * 4 + half * 2 + e], m, n, batch.linear));
        }
    }
}

template <class User, class Epilogue> __device__ __forceinline__ void run_hopper(const HopperParams& p) {
  using namespace cuda::hopper;
  constexpr bool kBf16 = kEqual<typename User::Element, strata_bfloat16>;
  using C =
    Config<User::kShape, Wgmma<User::kShape.n, kBf16, User::kAAlongK, User::kBAlongK>, User::kAAlongK, User::kBAlongK>;
  const auto finish = [&](const typename C::Sums& sums, const Job<C>& job) {
    const BatchIndex batch(p.user, int64_t(job.tile.outer) * p.gemm.inner + job.tile.inner);
    const Epilogue epilogue(p.user, batch);
    if constexpr (sizeof(typename User::Result) == 2) {
      if (p.gemm.tma_stores) {
        write_out<C>(sums, p.d, job.staging, Rounded<typename User::Result, Epilogue>{p.gemm, epilogue, batch.linear},
                     job.tile, job.first_row, job.bar);
        return;
      }
    }
    store_from_registers<C, typename User::Result>(sums, p.user, batch, epilogue, job);
  };
  cuda::hopper::gemm<C>(
    p.a, p.b, p.d, p.gemm, [](const Job<C>&) {}, finish);
}

}  // namespace strata::gemm
