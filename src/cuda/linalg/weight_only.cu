// ptx: compute_80
// Products with weights of 8 or 4 bits and scales, for few rows of activations (decoding). Bound: one read of the weights.
//
// With tensor cores: a warp multiplies 16 or 32 rows of weights by up to 8 or 32 rows of x (out^T = w x^T), for a part of
// k. Lane 4 * g + t reads kLane consecutive weights of rows g and g + 8, and the same k of row g of x, directly from
// memory: mma sums over k, so that its order within a step does not matter as long as both factors agree. The weights
// are converted to 16-bit floats exactly; the sums of a group are multiplied by its scale in float. The warps of a block
// add their parts in a fixed order.
//
// Without (float32, float64, any size): a warp computes one column of out for four rows of x at a time.
#include "cuda/linalg/mma.cuh"
#include "cuda/linalg/tensor_cores.cuh"
#include "cuda/linalg/weight_only_params.h"

namespace strata::cuda {
namespace {

constexpr int kWarps = kWeightThreads / 32;
constexpr unsigned kAll = 0xffffffffu;

// Adds `by` to both halves.
template <bool kBf16> __device__ __forceinline__ uint32_t plus(uint32_t pair, uint32_t by) {
  uint32_t out;
  if constexpr (kBf16) asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(pair), "r"(0x3f803f80u), "r"(by));
  else asm("add.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(pair), "r"(by));
  return out;
}

// A word of weights as pairs of 16-bit floats, in the order of order_activations.
template <bool kBf16, int kBits> __device__ __forceinline__ void convert(uint32_t word, uint32_t* pairs) {
  if constexpr (kBits == 4) {
    // A nibble in the mantissa of 1024 (float16) or 128 (bfloat16); 1032 and 136 are subtracted. The shifts give the
    // elements 0 and 4, 1 and 5, 2 and 6, 3 and 7.
    constexpr uint32_t kBase = kBf16 ? 0x43004300u : 0x64006400u, kMinus = kBf16 ? 0xc308c308u : 0xe408e408u;
    pairs[0] = plus<kBf16>((word >> 4 & 0x000f000fu) | kBase, kMinus);
    pairs[1] = plus<kBf16>((word & 0x000f000fu) | kBase, kMinus);
    pairs[2] = plus<kBf16>((word >> 12 & 0x000f000fu) | kBase, kMinus);
    pairs[3] = plus<kBf16>((word >> 8 & 0x000f000fu) | kBase, kMinus);
  } else if constexpr (kBf16) {
    const uint32_t shifted = word ^ 0x80808080u;  // + 128
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)  // in the mantissa of 2^23
      v[i] = __uint_as_float(__byte_perm(shifted, 0x4b000000u, 0x7440 + i)) - 8388736.f;
    pairs[0] = pack<true>(v[0], v[1]);
    pairs[1] = pack<true>(v[2], v[3]);
  } else {
    const uint32_t shifted = word ^ 0x80808080u;  // + 128, in the mantissa of 1024; 1152 is subtracted
    pairs[0] = plus<false>(__byte_perm(shifted, 0x64646464u, 0x4140), 0xe480e480u);
    pairs[1] = plus<false>(__byte_perm(shifted, 0x64646464u, 0x4342), 0xe480e480u);
  }
}

// Eight activations as pairs in the order of convert().
template <int kBits> __device__ __forceinline__ void order_activations(const uint4& x, uint32_t* pairs) {
  if constexpr (kBits == 4) {
    pairs[0] = __byte_perm(x.x, x.z, 0x5410);
    pairs[1] = __byte_perm(x.x, x.z, 0x7632);
    pairs[2] = __byte_perm(x.y, x.w, 0x5410);
    pairs[3] = __byte_perm(x.y, x.w, 0x7632);
  } else {
    pairs[0] = x.x;
    pairs[1] = x.y;
    pairs[2] = x.z;
    pairs[3] = x.w;
  }
}

// 4, 8 or 16 bytes.
template <int kWords> __device__ __forceinline__ void load_words(const void* from, uint32_t (&to)[kWords]) {
  if constexpr (kWords == 4) {
    const uint4 v = *static_cast<const uint4*>(from);
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
  } else if constexpr (kWords == 2) {
    const uint2 v = *static_cast<const uint2*>(from);
    to[0] = v.x;
    to[1] = v.y;
  } else {
    to[0] = *static_cast<const uint32_t*>(from);
  }
}

// The scales or zeros of the groups of kAhead blocks. Those of the dtype of x are all in flight, with the weights, before
// the first is converted.
template <bool kBf16, int kAhead, int kFrags, class Group>
__device__ __forceinline__ void load_groups(uint64_t from, int32_t type, int64_t s_n, int64_t s_g,
                                            const int64_t (&row)[kFrags][2], const Group& group_of,
                                            float (&to)[kAhead][kFrags][2]) {
  if (type == (kBf16 ? kBF16 : kF16)) {
    const auto* values = reinterpret_cast<const uint16_t*>(from);
    uint16_t bits[kAhead][kFrags][2];
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
#pragma unroll
      for (int f = 0; f < kFrags; ++f)
#pragma unroll
        for (int half = 0; half < 2; ++half) bits[a][f][half] = values[row[f][half] * s_n + group_of(a) * s_g];
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
#pragma unroll
      for (int f = 0; f < kFrags; ++f)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          to[a][f][half] = kBf16 ? bf16_to_float(bits[a][f][half]) : half_to_float(bits[a][f][half]);
    return;
  }
#pragma unroll
  for (int a = 0; a < kAhead; ++a)
#pragma unroll
    for (int f = 0; f < kFrags; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        to[a][f][half] = load<float>(element(from, type, row[f][half] * s_n + group_of(a) * s_g), type);
}

// kLane: weights of a row that a lane reads at once; kFrags: fragments of 16 rows of weights; kTiles: of 8 rows of x.
template <bool kBf16, int kBits, int kLane, int kFrags, int kTiles>
__device__ __forceinline__ void weight_mma(const WeightParams& p) {
  constexpr int kDepth = 4 * kLane, kWords = kLane * kBits / 32, kPairs = kLane / 2, kColumns = 16 * kFrags;
  __shared__ float parts[kWarps][kTiles * 8][kColumns + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int64_t n0 = int64_t(blockIdx.x) * kColumns, m0 = int64_t(blockIdx.y) * kTiles * 8;
  // Blocks of k are counted in 32 bits: a division of 64 bits takes as long as a read of memory.
  const uint32_t blocks = uint32_t(p.k) / kDepth, per_group = uint32_t(p.group) / kDepth,
                 each = (blocks + kWarps - 1) / kWarps;
  const uint32_t begin = min(warp * each, blocks), end = min(begin + each, blocks);
  const int tiles = int(min((p.rows - m0 + 7) / 8, int64_t(kTiles)));

  const uint8_t* weights[kFrags][2];
  int64_t row[kFrags][2];
#pragma unroll
  for (int f = 0; f < kFrags; ++f)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row[f][half] = min(n0 + f * 16 + half * 8 + g, p.n - 1);
      weights[f][half] = reinterpret_cast<const uint8_t*>(p.weight) + row[f][half] * p.w_n + t * (kLane * kBits / 8);
    }
  const uint16_t* x[kTiles];
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
    x[j] = reinterpret_cast<const uint16_t*>(p.x) + min(m0 + j * 8 + g, p.rows - 1) * p.x_m + t * kLane;

  float totals[kFrags][kTiles][4] = {}, sums[kFrags][kTiles][4] = {}, of_x[kTiles][4] = {};
  const auto finish_group = [&](const float(&scale)[kFrags][2], const float(&zero)[kFrags][2]) {
#pragma unroll
    for (int f = 0; f < kFrags; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < kTiles; ++j)
#pragma unroll
          for (int e = half * 2; e < half * 2 + 2; ++e) {
            totals[f][j][e] += scale[f][half] * sums[f][j][e] + zero[f][half] * of_x[j][e];
            sums[f][j][e] = 0;
          }
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) of_x[j][e] = 0;
  };

  constexpr int kAhead = kFrags == 1 ? 4 : 2;  // blocks of weights in flight
  for (uint32_t first = begin; first < end; first += kAhead) {
    uint32_t words[kAhead][kFrags][2][kWords];
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
      if (first + a < end)
#pragma unroll
        for (int f = 0; f < kFrags; ++f)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            load_words(weights[f][half] + int64_t(first + a) * (kDepth * kBits / 8), words[a][f][half]);
    float scale[kAhead][kFrags][2], zero[kAhead][kFrags][2] = {};  // of the group of each block
    const auto group_of = [&](int a) { return int64_t(min(first + a, end - 1) / per_group); };
    load_groups<kBf16>(p.scales, p.scale_type, p.s_n, p.s_g, row, group_of, scale);
    if (p.zeros) load_groups<kBf16>(p.zeros, p.zero_type, p.z_n, p.z_g, row, group_of, zero);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const uint32_t block = first + a;
      if (block >= end) break;
      uint32_t w[kFrags][2][kPairs];
#pragma unroll
      for (int f = 0; f < kFrags; ++f)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int i = 0; i < kWords; ++i) convert<kBf16, kBits>(words[a][f][half][i], w[f][half] + i * (16 / kBits));
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        if (j >= tiles) break;
        const bool inside = m0 + j * 8 + g < p.rows;
        uint32_t pairs[kPairs];
#pragma unroll
        for (int i = 0; i < kLane / 8; ++i) {
          uint4 v = make_uint4(0, 0, 0, 0);
          if (inside) v = *reinterpret_cast<const uint4*>(x[j] + int64_t(block) * kDepth + i * 8);
          order_activations<kBits>(v, pairs + i * 4);
        }
#pragma unroll
        for (int i = 0; i < kPairs; i += 2) {
#pragma unroll
          for (int f = 0; f < kFrags; ++f) {
            const uint32_t fragment[4] = {w[f][0][i], w[f][1][i], w[f][0][i + 1], w[f][1][i + 1]};
            mma::multiply<kBf16>(sums[f][j], fragment, pairs[i], pairs[i + 1]);
          }
          if (p.zeros) {
            constexpr uint32_t kOnes = kBf16 ? 0x3f803f80u : 0x3c003c00u;
            const uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
            mma::multiply<kBf16>(of_x[j], ones, pairs[i], pairs[i + 1]);
          }
        }
      }
      if (block + 1 == end || (block + 1) % per_group == 0) finish_group(scale[a], zero[a]);
    }
  }

#pragma unroll
  for (int f = 0; f < kFrags; ++f)
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) parts[warp][j * 8 + t * 2 + e % 2][f * 16 + e / 2 * 8 + g] = totals[f][j][e];
  __syncthreads();
  for (int i = threadIdx.x; i < tiles * 8 * kColumns; i += kWeightThreads) {
    const int m = i / kColumns, n = i % kColumns;
    if (m0 + m >= p.rows || n0 + n >= p.n) continue;
    float sum = 0;
#pragma unroll
    for (int v = 0; v < kWarps; ++v) sum += parts[v][m][n];
    const int64_t at = (m0 + m) * p.out_m + (n0 + n) * p.out_n;
    reinterpret_cast<uint16_t*>(p.out)[at] = uint16_t(pack<kBf16>(sum, 0.f));
  }
}

template <int kBits, class T> __device__ __forceinline__ T weight_at(const uint8_t* row, int64_t k) {
  if constexpr (kBits == 8) return T(reinterpret_cast<const int8_t*>(row)[k]);
  else return T(int(row[k / 2] >> (k % 2 ? 0 : 4) & 15) - 8);
}

// A warp for each column of out. p.wide: 16 bytes of weights at a time, which have one scale.
template <class T, int kBits> __device__ __forceinline__ void weight_rows(const WeightParams& p) {
  constexpr int kChunk = 128 / kBits;
  const int lane = threadIdx.x % 32;
  const int64_t n = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32, m0 = int64_t(blockIdx.y) * kWeightRows;
  if (n >= p.n) return;
  const auto* row = reinterpret_cast<const uint8_t*>(p.weight) + n * p.w_n;
  const auto scale_at = [&](int64_t group) {
    return load<T>(element(p.scales, p.scale_type, n * p.s_n + group * p.s_g), p.scale_type);
  };
  const auto zero_at = [&](int64_t group) {
    return p.zeros ? load<T>(element(p.zeros, p.zero_type, n * p.z_n + group * p.z_g), p.zero_type) : T(0);
  };
  const auto x_at = [&](int64_t m, int64_t k) {
    return load<T>(element(p.x, p.x_type, m * p.x_m + k * p.x_k), p.x_type);
  };
  const int count = int(min(p.rows - m0, int64_t(kWeightRows)));
  T sum[kWeightRows] = {};
  if (p.wide) {
    for (int64_t k0 = lane * kChunk; k0 < p.k; k0 += 32 * kChunk) {
      const uint4 bytes = *reinterpret_cast<const uint4*>(row + k0 * kBits / 8);
      const T scale = scale_at(k0 / p.group), zero = zero_at(k0 / p.group);
      T w[kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i)
        w[i] = weight_at<kBits, T>(reinterpret_cast<const uint8_t*>(&bytes), i) * scale + zero;
#pragma unroll
      for (int r = 0; r < kWeightRows; ++r)
        if (r < count)
#pragma unroll
          for (int i = 0; i < kChunk; ++i) sum[r] += w[i] * x_at(m0 + r, k0 + i);
    }
  } else {
    for (int64_t k = lane; k < p.k; k += 32) {
      const T w = weight_at<kBits, T>(row, k) * scale_at(k / p.group) + zero_at(k / p.group);
#pragma unroll
      for (int r = 0; r < kWeightRows; ++r)
        if (r < count) sum[r] += w * x_at(m0 + r, k);
    }
  }
#pragma unroll
  for (int r = 0; r < kWeightRows; ++r) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) sum[r] += __shfl_xor_sync(kAll, sum[r], half);
    if (lane == 0 && r < count)
      store<T>(const_cast<void*>(element(p.out, p.out_type, (m0 + r) * p.out_m + n * p.out_n)), p.out_type, sum[r]);
  }
}
}  // namespace

// Kernels are named few_bf16_4_32: up to 8 or 32 rows of x, bits of a weight, weights that a lane reads at once.
#define STRATA_WEIGHT_MMA(type, bf16, bits, lane)                                                              \
  extern "C" __global__ void __launch_bounds__(kWeightThreads) few_##type##_##bits##_##lane(WeightParams p) {  \
    weight_mma<bf16, bits, lane, 1, 1>(p);                                                                     \
  }                                                                                                            \
  extern "C" __global__ void __launch_bounds__(kWeightThreads) many_##type##_##bits##_##lane(WeightParams p) { \
    weight_mma<bf16, bits, lane, 2, 4>(p);                                                                     \
  }
#define STRATA_WEIGHT_MMAS(type, bf16) \
  STRATA_WEIGHT_MMA(type, bf16, 8, 16) \
  STRATA_WEIGHT_MMA(type, bf16, 8, 8)  \
  STRATA_WEIGHT_MMA(type, bf16, 4, 32) \
  STRATA_WEIGHT_MMA(type, bf16, 4, 8)
STRATA_WEIGHT_MMAS(bf16, true)
STRATA_WEIGHT_MMAS(f16, false)

extern "C" __global__ void __launch_bounds__(kWeightThreads) rows_f32_8(WeightParams p) { weight_rows<float, 8>(p); }
extern "C" __global__ void __launch_bounds__(kWeightThreads) rows_f32_4(WeightParams p) { weight_rows<float, 4>(p); }
extern "C" __global__ void __launch_bounds__(kWeightThreads) rows_f64_8(WeightParams p) { weight_rows<double, 8>(p); }
extern "C" __global__ void __launch_bounds__(kWeightThreads) rows_f64_4(WeightParams p) { weight_rows<double, 4>(p); }

}  // namespace strata::cuda
