// Gradients of attention for 16-bit floats, without the matrix of weights, on tensor cores from Ampere on (sm_80).
//
// With the weights w = exp(scores - log_sums), which are computed again from q and k, and the gradient g of the result:
//   means[i] = sum over features of g[i] out[i]    (the weighted mean of the slopes of row i)
//   s = w * (g vᵀ - means)                         (the gradient of the scores)
//   grad_q = scale s k,  grad_k = scale sᵀ q,  grad_v = wᵀ g
// With dropout, g vᵀ in the slopes and w in grad_v are multiplied by its factors; the means are the same.
// One kernel computes grad_k and grad_v: a block owns keys, and queries pass by. Another computes grad_q: a block owns
// queries, and keys pass by. Both compute the scores, so there are seven products instead of the five that a single
// kernel needs; in return every sum has one owner, there are no atomic additions, and the bits are the same each time.
// The first kernel computes the transposed scores, k qᵀ: so in both kernels the accumulators of the first products are,
// rounded, the left factors of the next ones, and nothing but inputs passes through shared memory.
#pragma once
#include "cuda/nn/attention_dropout.cuh"

namespace strata::cuda::attention {

// For each query, the logarithm of its sum in units of log2, and its mean: eight lanes for each row. Rows that attend to
// nothing, and those past the end, get an infinite logarithm: their weights are zeros.
template <bool kBf16> __device__ __forceinline__ void compute_pairs(const Params& p) {
  const int lane = threadIdx.x % kPairLanes,
            index = blockIdx.x * (kPairThreads / kPairLanes) + threadIdx.x / kPairLanes;
  const int most_rows = (p.rows + kPairRows - 1) / kPairRows * kPairRows, entry = index / most_rows,
            row = index % most_rows;
  const bool exists = entry < p.batches * p.sequences;
  const Part part = Part::of_entry(p, exists ? entry : 0);
  const bool there = exists && row < part.rows;
  float mean = 0;
  if (there) {
    const uint16_t* out = part.queries(p.out) + row * p.out.row;
    const uint16_t* grad = part.queries(p.grad) + row * p.grad.row;
    if (p.value_width % 8 == 0 && reinterpret_cast<uint64_t>(out) % 16 == 0) {  // rows of grad are aligned
#pragma unroll 2
      for (int i = lane * 8; i < p.value_width; i += kPairLanes * 8) {
        const uint4 a = *reinterpret_cast<const uint4*>(out + i), b = *reinterpret_cast<const uint4*>(grad + i);
        const uint32_t as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          mean += unpack<kBf16>(uint16_t(as[j])) * unpack<kBf16>(uint16_t(bs[j]));
          mean += unpack<kBf16>(uint16_t(as[j] >> 16)) * unpack<kBf16>(uint16_t(bs[j] >> 16));
        }
      }
    } else {
      for (int i = lane; i < p.value_width; i += kPairLanes) mean += unpack<kBf16>(out[i]) * unpack<kBf16>(grad[i]);
    }
  }
#pragma unroll
  for (int step = kPairLanes / 2; step; step /= 2) mean += __shfl_xor_sync(0xffffffffu, mean, step);
  if (lane != 0 || !exists || row >= (part.rows + kPairRows - 1) / kPairRows * kPairRows) return;
  const float log_sum = there ? part.log_sums(p)[row] : -STRATA_INFINITY;
  part.pairs(p)[row] = make_float2(log_sum == -STRATA_INFINITY ? STRATA_INFINITY : log_sum * kLog2E, mean);
}
template <int kFrags> __device__ __forceinline__ void fill(float (&factors)[kFrags][2], float value) {
#pragma unroll
  for (int f = 0; f < kFrags; ++f)
#pragma unroll
    for (int half = 0; half < 2; ++half) factors[f][half] = value;
}

template <bool kBf16, int kWidth, bool kMasked> struct QueryGrad {
  static constexpr int kFrags = Sizes<kWidth>::kQueryFrags, kKeys = Sizes<kWidth>::kQueryKeys;
  static constexpr Shape kShape = kQueryShape<kWidth>;
  static constexpr int kTileBytes = kKeys * 2 * kWidth, kOwnBytes = kShape.rows * 2 * kWidth;
  using T = Tile<kWidth>;

  static __device__ __forceinline__ void run(const Params& p, char* memory) {
    const int row_tiles = (p.rows + kShape.rows - 1) / kShape.rows;
    const Part part = Part::of(p, blockIdx.x, row_tiles);
    // The last rows come first: with causal attention they take longest.
    const int lane = threadIdx.x % 32, first = (row_tiles - 1 - part.tile) * kShape.rows;
    if (first >= part.rows) return;  // this sequence is shorter than the longest one
    const int warp_row = threadIdx.x / 32 * 16 * kFrags;
    const int row = first + warp_row + lane / 4;
    const uint32_t base = shared_address(memory), stages = base + 2 * kOwnBytes;
    const int begin = part.first_column_of(p, first) / kKeys;
    const int tiles = (part.end_column_of(p, first + kShape.rows - 1) + kKeys - 1) / kKeys;
    const Passing<kWidth, kKeys, kShape.threads> passing{{part.keys(p.k), p.k.row, part.columns, p.width},
                                                         {part.keys(p.v), p.v.row, part.columns, p.value_width},
                                                         stages,
                                                         tiles};
    Loader<kWidth, kShape.rows, kShape.threads>(part.queries(p.q), p.q.row, part.rows, p.width).load(base, first);
    Loader<kWidth, kShape.rows, kShape.threads>(part.queries(p.grad), p.grad.row, part.rows, p.value_width)
      .load(base + kOwnBytes, first);
    passing.bring(begin);
    float grad[kFrags][kWidth / 8][4], shifts[kFrags][2], means[kFrags][2];
    clear(grad);
#pragma unroll
    for (int f = 0; f < kFrags; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 pair = part.pairs(p)[row + f * 16 + half * 8];
        shifts[f][half] = pair.x;
        means[f][half] = pair.y;
      }
    const float factor = kMasked ? 1 : p.scale * kLog2E;
    const uint32_t q_at = T::rows_at(base + warp_row * T::kRowBytes, lane), g_at = q_at + kOwnBytes;
    for (int tile = begin; tile < tiles; ++tile) {
      mma::copies_wait<0>();
      __syncthreads();  // the tile is complete, and no thread still reads the stage that is filled next
      passing.bring(tile + 1);
      const uint32_t stage = passing.stage(tile);
      const int column = tile * kKeys;
      float s[kFrags][kKeys / 8][4], slopes[kFrags][kKeys / 8][4];
      multiply_rows<kBf16, kWidth>(s, q_at, T::columns_at(stage, lane));
      if constexpr (kMasked) add_mask<false>(p, part.place, s, row, column + lane % 4 * 2);
      multiply_rows<kBf16, kWidth>(slopes, g_at, T::columns_at(stage + kTileBytes, lane));
      if constexpr (kMasked)
        if (p.draws) {
          uint32_t bits[kFrags];
          Draws(p, part.place).template find<false, kFrags, kKeys / 8>(bits, row, column + lane % 4 * 2);
          drop(slopes, bits, p.kept_scale);
        }
#pragma unroll
      for (int f = 0; f < kFrags; ++f)
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float w = exp2_approximate(s[f][j][e] * factor - shifts[f][e / 2]);
            s[f][j][e] = w * (slopes[f][j][e] - means[f][e / 2]);
          }
      if (part.removes(p, first, kShape.rows, column, kKeys))
        remove_outside<false>(p, part, s, row, column + lane % 4 * 2, 0);
      add_weighted<kBf16, kWidth>(grad, s, T::rows_at(stage, lane));
    }
    mma::copies_wait<0>();  // without a single tile, the copies of queries are still under way
    __syncthreads();
    float factors[kFrags][2];
    fill(factors, p.scale);
    Writer<kBf16, kWidth, kFrags>::write(memory + warp_row * T::kRowBytes, grad, factors,
                                         part.queries(p.grad_q) + (first + warp_row) * p.grad_q.row, p.grad_q.row,
                                         part.rows - first - warp_row, p.width);
  }
};

// kKeyGrad, kValueGrad: which gradients are computed; wide heads have registers for one of them only.
template <bool kBf16, int kWidth, bool kMasked, bool kKeyGrad, bool kValueGrad> struct KeyGrad {
  static constexpr int kFrags = Sizes<kWidth>::kKeyFrags, kQueries = Sizes<kWidth>::kKeyQueries;
  static constexpr Shape kShape = kKeyShape<kWidth>;
  static constexpr int kTileBytes = kQueries * 2 * kWidth, kOwnBytes = kShape.rows * 2 * kWidth;
  using T = Tile<kWidth>;

  static __device__ __forceinline__ void run(const Params& p, char* memory) {
    const Part part = Part::of(p, blockIdx.x, (p.columns + kShape.rows - 1) / kShape.rows);
    const int lane = threadIdx.x % 32, first = part.tile * kShape.rows, warp_row = threadIdx.x / 32 * 16 * kFrags;
    if (first >= part.columns) return;            // this sequence is shorter than the longest one
    const int row = first + warp_row + lane / 4;  // of keys
    const uint32_t base = shared_address(memory), stages = base + 2 * kOwnBytes;
    auto* pairs = reinterpret_cast<float2*>(memory + 2 * kOwnBytes + 4 * kTileBytes);
    const int begin = part.first_row_of(p, first) / kQueries;
    const int tiles = (part.end_row_of(p, first + kShape.rows - 1) + kQueries - 1) / kQueries;
    const Passing<kWidth, kQueries, kShape.threads> passing{
      {part.queries(p.q), p.q.row, part.rows, p.width},
      {part.queries(p.grad), p.grad.row, part.rows, p.value_width},
      stages,
      tiles};
    const auto bring = [&](int tile) {
      if (tile < tiles && threadIdx.x < kQueries / 2)
        mma::copy_async(shared_address(pairs + tile % 2 * kQueries + threadIdx.x * 2),
                        part.pairs(p) + tile * kQueries + threadIdx.x * 2, 16);
      passing.bring(tile);
    };
    Loader<kWidth, kShape.rows, kShape.threads>(part.keys(p.k), p.k.row, part.columns, p.width).load(base, first);
    Loader<kWidth, kShape.rows, kShape.threads>(part.keys(p.v), p.v.row, part.columns, p.value_width)
      .load(base + kOwnBytes, first);
    bring(begin);
    float grad_k[kFrags][kKeyGrad ? kWidth / 8 : 1][4], grad_v[kFrags][kValueGrad ? kWidth / 8 : 1][4];
    clear(grad_k);
    clear(grad_v);
    const float factor = kMasked ? 1 : p.scale * kLog2E;
    const uint32_t k_at = T::rows_at(base + warp_row * T::kRowBytes, lane), v_at = k_at + kOwnBytes;
    for (int tile = begin; tile < tiles; ++tile) {
      mma::copies_wait<0>();
      __syncthreads();  // the tile is complete, and no thread still reads the stage that is filled next
      bring(tile + 1);
      const uint32_t stage = passing.stage(tile);
      const int column = tile * kQueries + lane % 4 * 2;  // of queries
      const float2* pair = pairs + tile % 2 * kQueries + lane % 4 * 2;
      float s[kFrags][kQueries / 8][4];
      multiply_rows<kBf16, kWidth>(s, k_at, T::columns_at(stage, lane));
      if constexpr (kMasked) add_mask<true>(p, part.place, s, row, column);
#pragma unroll
      for (int f = 0; f < kFrags; ++f)
#pragma unroll
        for (int j = 0; j < kQueries / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) s[f][j][e] = exp2_approximate(s[f][j][e] * factor - pair[j * 8 + e % 2].x);
      if (part.removes(p, tile * kQueries, kQueries, first, kShape.rows))
        remove_outside<true>(p, part, s, row, column, 0);
      uint32_t bits[kFrags];
      if constexpr (kMasked)
        if (p.draws) Draws(p, part.place).template find<true, kFrags, kQueries / 8>(bits, row, column);
      if constexpr (kValueGrad) {
        float kept[kFrags][kQueries / 8][4];
#pragma unroll
        for (int f = 0; f < kFrags; ++f)
#pragma unroll
          for (int j = 0; j < kQueries / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) kept[f][j][e] = s[f][j][e];
        if constexpr (kMasked)
          if (p.draws) drop(kept, bits, p.kept_scale);
        add_weighted<kBf16, kWidth>(grad_v, kept, T::rows_at(stage + kTileBytes, lane));
      }
      if constexpr (kKeyGrad) {
        float slopes[kFrags][kQueries / 8][4];
        multiply_rows<kBf16, kWidth>(slopes, v_at, T::columns_at(stage + kTileBytes, lane));
        if constexpr (kMasked)
          if (p.draws) drop(slopes, bits, p.kept_scale);
#pragma unroll
        for (int f = 0; f < kFrags; ++f)
#pragma unroll
          for (int j = 0; j < kQueries / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) s[f][j][e] *= slopes[f][j][e] - pair[j * 8 + e % 2].y;
        add_weighted<kBf16, kWidth>(grad_k, s, T::rows_at(stage, lane));
      }
    }
    // Without a single tile, the copies of keys and values are still under way.
    mma::copies_wait<0>();
    __syncthreads();
    char* tile = memory + warp_row * T::kRowBytes;
    const int warp_first = first + warp_row;
    float factors[kFrags][2];
    if constexpr (kValueGrad) {
      fill(factors, 1);
      Writer<kBf16, kWidth, kFrags>::write(tile, grad_v, factors, part.keys(p.grad_v) + warp_first * p.grad_v.row,
                                           p.grad_v.row, part.columns - warp_first, p.value_width);
    }
    if constexpr (kKeyGrad) {
      fill(factors, p.scale);
      Writer<kBf16, kWidth, kFrags>::write(tile, grad_k, factors, part.keys(p.grad_k) + warp_first * p.grad_k.row,
                                           p.grad_k.row, part.columns - warp_first, p.width);
    }
  }
};

// For wide heads, half of the blocks compute the gradient of keys and the other half that of values.
template <bool kBf16, bool kMasked> struct WideKeyGrad {
  static __device__ __forceinline__ void run(const Params& p, char* memory) {
    if (blockIdx.y == 0) KeyGrad<kBf16, 256, kMasked, true, false>::run(p, memory);
    else KeyGrad<kBf16, 256, kMasked, false, true>::run(p, memory);
  }
};

#define STRATA_ATTENTION_KERNEL(name, shape, ...)                                                      \
  extern "C" __global__ void __launch_bounds__(shape.threads) name(const __grid_constant__ Params p) { \
    extern __shared__ __align__(1024) char memory[];                                                   \
    __VA_ARGS__::run(p, memory);                                                                       \
  }
#define STRATA_ATTENTION_BACKWARDS_OF(bf16, masked, suffix)                                               \
  STRATA_ATTENTION_KERNEL(query##suffix##64, kQueryShape<64>, QueryGrad<bf16, 64, masked>)                \
  STRATA_ATTENTION_KERNEL(query##suffix##128, kQueryShape<128>, QueryGrad<bf16, 128, masked>)             \
  STRATA_ATTENTION_KERNEL(query##suffix##256, kQueryShape<256>, QueryGrad<bf16, 256, masked>)             \
  STRATA_ATTENTION_KERNEL(key_value##suffix##64, kKeyShape<64>, KeyGrad<bf16, 64, masked, true, true>)    \
  STRATA_ATTENTION_KERNEL(key_value##suffix##128, kKeyShape<128>, KeyGrad<bf16, 128, masked, true, true>) \
  STRATA_ATTENTION_KERNEL(key_value##suffix##256, kKeyShape<256>, WideKeyGrad<bf16, masked>)
#define STRATA_ATTENTION_BACKWARDS(bf16)                                                               \
  extern "C" __global__ void __launch_bounds__(kPairThreads) pairs(const __grid_constant__ Params p) { \
    compute_pairs<bf16>(p);                                                                            \
  }                                                                                                    \
  STRATA_ATTENTION_BACKWARDS_OF(bf16, false, _)                                                        \
  STRATA_ATTENTION_BACKWARDS_OF(bf16, true, _masked_)

}  // namespace strata::cuda::attention
