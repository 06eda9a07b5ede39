// d[m, n] = a b for 8-bit factors that are dense along k, on Hopper: integers with exact sums, or floats with scales,
//   d = scale_a * scale_b * a b + bias.
// The pipeline is that of gemm_hopper.cuh; two elements of k count as one unit of 16 bits.
#pragma once
#include "cuda/linalg/gemm_bytes_params.h"
#include "cuda/linalg/gemm_floats.cuh"
#include "cuda/linalg/gemm_hopper.cuh"
#include "cuda/linalg/wgmma_along_k.cuh"

namespace strata::cuda::hopper {

__device__ inline float read_bias(const ByteArgs& args, int n) {
  if (args.bias_type == kF32) return reinterpret_cast<const float*>(args.bias)[n];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(args.bias)[n];
  return args.bias_type == kBF16 ? bf16_to_float(bits) : half_to_float(bits);
}

// Epilogue. The row in shared memory has the scales of the columns.
struct Scaled {
  const GemmArgs& args;
  const ByteArgs& bytes;
  uint32_t row;

  __device__ float2 operator()(float x, float y, int m, int n, int tile_n) const {
    const int clamped = bytes.by_rows ? min(m, args.m - 1) : 0;
    const float scale = __ldg(reinterpret_cast<const float*>(bytes.scale_a) + clamped);
    const float2 column = load_pair(row + (n - tile_n) * 4);
    float2 bias = make_float2(0, 0);
    if (bytes.bias) bias = make_float2(read_bias(bytes, min(n, args.n - 1)), read_bias(bytes, min(n + 1, args.n - 1)));
    return make_float2(x * scale * column.x + bias.x, y * scale * column.y + bias.y);
  }
  __device__ uint32_t packed(float x, float y, int m, int n, int tile_n) const {
    const float2 value = (*this)(x, y, m, n, tile_n);
    return bytes.d_type == kBF16 ? pack<true>(value.x, value.y) : pack<false>(value.x, value.y);
  }
};

template <class C>
__device__ inline void gemm_integers(const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_d,
                                     const ByteArgs& args) {
  const auto finish = [&](const typename C::Sums& sums, const Job<C>& job) {
    write_wide<C, int2>(sums, args.gemm, args.pairs, job, reinterpret_cast<int*>(args.gemm.d), args.gemm.d_ld,
                        [](int x, int y, int, int) { return make_int2(x, y); });
  };
  gemm<C>(
    map_a, map_b, map_d, args.gemm, [](const Job<C>&) {}, finish);
}

template <class C>
__device__ inline void gemm_scaled(const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_d,
                                   const ByteArgs& args) {
  const auto* scale_b = reinterpret_cast<const float*>(args.scale_b);
  const auto begin = [&](const Job<C>& job) {
    keep_row(job, args.gemm, [&](int n) { return scale_b[args.by_rows ? n : 0]; });
  };
  const auto finish = [&](const typename C::Sums& sums, const Job<C>& job) {
    const Scaled epilogue{args.gemm, args, job.row};
    if (args.d_type != kF32) return write_out<C>(sums, map_d, job.staging, epilogue, job.tile, job.first_row, job.bar);
    write_wide<C, float2>(sums, args.gemm, args.pairs, job, reinterpret_cast<float*>(args.gemm.d), args.gemm.d_ld,
                          [&](float x, float y, int m, int n) { return epilogue(x, y, m, n, job.tile.n); });
  };
  gemm<C>(map_a, map_b, map_d, args.gemm, begin, finish);
}

// Kernels are named after the tile's shape and the format.
#define STRATA_BYTE_GEMM(name, shape, function, format)                                                             \
  extern "C" __global__ void __launch_bounds__(kThreads, shape.blocks_per_sm) __cluster_dims__(shape.cluster, 1, 1) \
    name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,                                  \
         const __grid_constant__ TensorMap d, const __grid_constant__ ByteArgs args) {                              \
    function<Config<shape, WgmmaAlongK<shape.n, KFormat::format>, true, true>>(a, b, d, args);                      \
  }
#define STRATA_BYTE_GEMMS(suffix, function, format)            \
  STRATA_BYTE_GEMM(huge_##suffix, kHuge, function, format)     \
  STRATA_BYTE_GEMM(large_##suffix, kLarge, function, format)   \
  STRATA_BYTE_GEMM(medium_##suffix, kMedium, function, format) \
  STRATA_BYTE_GEMM(flat_##suffix, kFlat, function, format)

}  // namespace strata::cuda::hopper
