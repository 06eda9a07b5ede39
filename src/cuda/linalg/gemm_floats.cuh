// Hopper products with results of 32 bits, which leave from registers: four lanes write a sector of 32 bytes.
#pragma once
#include "cuda/linalg/gemm_parts_params.h"
#include "cuda/linalg/hopper_pipeline.cuh"

namespace strata::cuda::hopper {

// Tiles of the parts of sums, one part after the other. A part is a whole number of steps.
template <class C> struct Parts : Walk<C> {
  int each, depth_of_part, k;
  __device__ explicit Parts(const GemmArgs& args) : Walk<C>(args) {
    each = this->rows * this->columns;
    depth_of_part = (steps_of(args.k) + args.batches - 1) / args.batches * kTileK;
    k = args.k;
  }
  __device__ int first_k() const { return this->index / each * depth_of_part; }
  __device__ int depth(const GemmArgs&) const { return min(depth_of_part, k - first_k()); }
};

// Stores results of 32 bits. value(x, y, m, n): a pair of them from their sums; the second may be outside of the matrix.
// pairs: two results next to each other are aligned to 8 bytes.
template <class C, class Pair, class Value>
__device__ inline void write_wide(const typename C::Sums& sums, const GemmArgs& args, bool pairs, const Job<C>& job,
                                  decltype(Pair::x)* d, int64_t ld, const Value& value) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
#pragma unroll
  for (int block = 0; block < C::kBlocks; ++block)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = job.tile.m + job.first_row + block * 64 + warp * 16 + half * 8 + lane / 4;
      if (m >= args.m) continue;
      auto* out = d + m * ld;
#pragma unroll
      for (int j = 0; j < C::kN / 8; ++j) {
        const int n = job.tile.n + j * 8 + lane % 4 * 2;
        if (n >= args.n) continue;
        const Pair pair = value(sums[block][j * 4 + half * 2], sums[block][j * 4 + half * 2 + 1], m, n);
        if (pairs && n + 1 < args.n) {
          *reinterpret_cast<Pair*>(out + n) = pair;
        } else {
          out[n] = pair.x;
          if (n + 1 < args.n) out[n + 1] = pair.y;
        }
      }
    }
}

// The sums of parts, without a factor.
template <class C>
__device__ inline void gemm_parts(const TensorMap& map_a, const TensorMap& map_b, const FloatArgs& args) {
  const auto finish = [&](const typename C::Sums& sums, const Job<C>& job) {
    float* part = reinterpret_cast<float*>(args.gemm.d) + int64_t(job.tile.outer) * args.gemm.m * args.gemm.n;
    write_wide<C, float2>(sums, args.gemm, args.pairs, job, part, args.gemm.n,
                          [](float x, float y, int, int) { return make_float2(x, y); });
  };
  gemm<C>(
    map_a, map_b, map_a, args.gemm, [](const Job<C>&) {}, finish);
}

// alpha * a b + beta * in, in float.
template <class C>
__device__ inline void gemm_floats(const TensorMap& map_a, const TensorMap& map_b, const FloatArgs& args) {
  const GemmArgs& g = args.gemm;
  const auto* in = reinterpret_cast<const float*>(g.in);
  const auto begin = [&](const Job<C>& job) {
    if (g.addend == kAddRow) keep_row(job, g, [in](int n) { return in[n]; });
  };
  const auto finish = [&](const typename C::Sums& sums, const Job<C>& job) {
    const int inner = job.tile.inner, outer = job.tile.outer;
    float* d = reinterpret_cast<float*>(g.d) + outer * g.d_b[0] + inner * g.d_b[1];
    const float* matrix = in + outer * g.in_b[0] + inner * g.in_b[1];
    const auto write = [&]<int kAddend>() {
      write_wide<C, float2>(sums, g, args.pairs, job, d, g.d_ld, [&](float x, float y, int m, int n) {
        float2 more = make_float2(0, 0);
        if constexpr (kAddend == kAddRow) more = load_pair(job.row + (n - job.tile.n) * 4);
        if constexpr (kAddend == kAddMatrix) {
          const float* from = matrix + m * g.in_ld + n;
          more = make_float2(g.beta * from[0], n + 1 < g.n ? g.beta * from[1] : 0);
        }
        return make_float2(x * g.alpha + more.x, y * g.alpha + more.y);
      });
    };
    if (g.addend == kAddNothing) write.template operator()<kAddNothing>();
    else if (g.addend == kAddRow) write.template operator()<kAddRow>();
    else write.template operator()<kAddMatrix>();
  };
  gemm<C>(map_a, map_b, map_a, g, begin, finish);
}

#define STRATA_FLOAT_GEMM(name, function, shape, ...)                                                               \
  extern "C" __global__ void __launch_bounds__(kThreads, shape.blocks_per_sm) __cluster_dims__(shape.cluster, 1, 1) \
    name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,                                  \
         const __grid_constant__ FloatArgs args) {                                                                  \
    function<Config<shape, __VA_ARGS__>>(a, b, args);                                                               \
  }

}  // namespace strata::cuda::hopper
