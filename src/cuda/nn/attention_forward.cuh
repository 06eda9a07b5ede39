// softmax(scale q kᵀ + mask) v without the matrix of scores, for 16-bit floats on tensor cores from Ampere on (sm_80).
//
// A block computes 16 * kFrags rows per warp. Tiles of keys and values pass through two stages of shared memory. For each
// tile a warp computes the scores of its rows in registers, updates their maximum and sum, rescales the sums of values
// if a maximum grew, and multiplies the weights by the values; the accumulators of the first product are, rounded, the
// left factor of the second. Exponentials are powers of two. Bound: the tensor cores; a tile of keys costs as many
// exponentials as scores. docs/internals/attention.md has the mathematics.
#pragma once
#include "cuda/nn/attention_dropout.cuh"

namespace strata::cuda::attention {

template <bool kBf16, int kWidth, bool kMasked>
struct Forward : RunningRows<kWidth, Sizes<kWidth>::kForwardFrags, Sizes<kWidth>::kForwardKeys> {
  static constexpr int kFrags = Sizes<kWidth>::kForwardFrags, kKeys = Sizes<kWidth>::kForwardKeys;
  using Rows = RunningRows<kWidth, kFrags, kKeys>;
  using Rows::most, Rows::out, Rows::start, Rows::sums, Rows::weigh;
  static constexpr Shape kShape = kForwardShape<kWidth>;
  static constexpr int kTileBytes = kKeys * 2 * kWidth;
  using T = Tile<kWidth>;

  const Params& p;
  const Part part;
  const int lane, first, row;  // first: row of the block; row: of this lane's first element

  __device__ __forceinline__ explicit Forward(const Params& params)
      : p(params),
        part(Part::of(params, blockIdx.x, tiles_of(params))),
        lane(threadIdx.x % 32),
        // The last rows come first: with causal attention they take longest.
        first((tiles_of(params) - 1 - part.tile) * kShape.rows),
        row(first + threadIdx.x / 32 * 16 * kFrags + lane / 4) {}

  static __device__ __forceinline__ int tiles_of(const Params& p) { return (p.rows + kShape.rows - 1) / kShape.rows; }

  __device__ __forceinline__ void run(char* memory) {
    const uint32_t base = shared_address(memory), stages = base + kShape.rows * T::kRowBytes;
    if (first >= part.rows) return;  // this sequence is shorter than the longest one
    const int begin = part.first_column_of(p, first) / kKeys;
    const int end = part.end_column_of(p, first + kShape.rows - 1);
    const int tiles = (end + kKeys - 1) / kKeys, warp_row = threadIdx.x / 32 * 16 * kFrags;
    const Loader<kWidth, kShape.rows, kShape.threads> queries(part.queries(p.q), p.q.row, part.rows, p.width);
    const Passing<kWidth, kKeys, kShape.threads> passing{{part.keys(p.k), p.k.row, part.columns, p.width},
                                                         {part.keys(p.v), p.v.row, part.columns, p.value_width},
                                                         stages,
                                                         tiles};
    queries.load(base, first);
    passing.bring(begin);
    start();
    const uint32_t q_at = T::rows_at(base + warp_row * T::kRowBytes, lane);
    for (int tile = begin; tile < tiles; ++tile) {
      mma::copies_wait<0>();
      __syncthreads();  // the tile is complete, and no thread still reads the stage that is filled next
      passing.bring(tile + 1);
      const uint32_t stage = passing.stage(tile);
      const int column = tile * kKeys;
      float s[kFrags][kKeys / 8][4];
      multiply_rows<kBf16, kWidth>(s, q_at, T::columns_at(stage, lane));
      if constexpr (kMasked) add_mask<false>(p, part.place, s, row, column + lane % 4 * 2);
      if (part.removes(p, first, kShape.rows, column, kKeys))
        remove_outside<false>(p, part, s, row, column + lane % 4 * 2, -STRATA_INFINITY);
      weigh(s, kMasked ? 1 : p.scale * kLog2E);
      if constexpr (kMasked)
        if (p.draws) {  // the sums of weights are those before dropout
          uint32_t bits[kFrags];
          Draws(p, part.place).template find<false, kFrags, kKeys / 8>(bits, row, column + lane % 4 * 2);
          drop(s, bits, p.kept_scale);
        }
      add_weighted<kBf16, kWidth>(out, s, T::rows_at(stage + kTileBytes, lane));
    }
    mma::copies_wait<0>();  // without a single tile, the copies of queries are still under way
    __syncthreads();
    finish(memory + warp_row * T::kRowBytes, first + warp_row);
  }

  __device__ __forceinline__ void finish(char* tile, int warp_first) {
    float factors[kFrags][2];
    const float factor = kMasked ? 1 : p.scale * kLog2E;
    float* log_sums = part.log_sums(p);
#pragma unroll
    for (int f = 0; f < kFrags; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = sums[f][half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        factors[f][half] = sum == 0 ? 0 : 1 / sum;  // nothing to attend to: zeros
        const int at = row + f * 16 + half * 8;
        if (lane % 4 == 0 && at < part.rows)
          log_sums[at] = sum == 0 ? -STRATA_INFINITY : (most[f][half] * factor + log2f(sum)) * kLn2;
      }
    Writer<kBf16, kWidth, kFrags>::write(tile, out, factors, part.queries(p.out) + warp_first * p.out.row, p.out.row,
                                         part.rows - warp_first, p.value_width);
  }
};

#define STRATA_ATTENTION_FORWARD(name, bf16, width, masked)                     \
  extern "C" __global__ void __launch_bounds__(kForwardShape<width>.threads, 2) \
    name(const __grid_constant__ Params p) {                                    \
    extern __shared__ __align__(1024) char memory[];                            \
    Forward<bf16, width, masked>(p).run(memory);                                \
  }
#define STRATA_ATTENTION_FORWARDS(bf16)                         \
  STRATA_ATTENTION_FORWARD(forward_64, bf16, 64, false)         \
  STRATA_ATTENTION_FORWARD(forward_128, bf16, 128, false)       \
  STRATA_ATTENTION_FORWARD(forward_256, bf16, 256, false)       \
  STRATA_ATTENTION_FORWARD(forward_masked_64, bf16, 64, true)   \
  STRATA_ATTENTION_FORWARD(forward_masked_128, bf16, 128, true) \
  STRATA_ATTENTION_FORWARD(forward_masked_256, bf16, 256, true)

}  // namespace strata::cuda::attention
