// Decoding: a few queries of each sequence against keys and values in pages, for 16-bit floats on tensor cores (sm_80).
//
// A block computes the 16 rows of the queries and heads that share a head of the keys, for a part of the keys. Its warps
// take turns with tiles of keys, each with two stages of shared memory of its own, so that none waits for another; at the
// end their sums are added in a fixed order. If the keys are split into several parts, so that a few long sequences fill
// the GPU, a second kernel combines them. Bound: memory; each key and value is read once.
#pragma once
#include "cuda/common/fault.cuh"
#include "cuda/nn/attention_tiles.cuh"
#include "cuda/nn/paged_attention_params.h"

namespace strata::cuda::attention {

template <bool kBf16> __device__ __forceinline__ uint16_t narrow(float x) { return uint16_t(pack<kBf16>(x, 0.0f)); }

template <bool kBf16, int kWidth> struct Paged {
  using S = PagedSizes<kWidth>;
  using T = Tile<kWidth>;
  static constexpr int kKeys = S::kKeys, kPieces = kWidth / 8;
  static constexpr int kStep = kPieces < 32 ? 32 / kPieces : 1;  // rows that a warp copies at once

  const PagedParams& p;
  const int lane, warp, part, head, first, sequence, context;  // first: row of the block
  const int begin, end;                                        // keys of this block

  __device__ __forceinline__ explicit Paged(const PagedParams& params)
      : p(params),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        part(blockIdx.x),
        head(blockIdx.y / params.row_tiles),
        first(blockIdx.y % params.row_tiles * kPagedRows),
        sequence(blockIdx.z),
        context(context_of(params)),
        begin(first_key() + part * part_keys()),
        end(min(begin + part_keys(), end_key())) {}

  static __device__ __forceinline__ int context_of(const PagedParams& p) {
    const int n = reinterpret_cast<const int*>(p.contexts)[blockIdx.z];
    if (n >= 0 && n <= p.most_keys) return n;
    if (threadIdx.x == 0) report(p.faults, FaultCode::Index, n, int64_t(p.most_keys) + 1);
    return min(max(n, 0), p.most_keys);
  }
  // The key of a row's own position. It is negative if there are more queries than keys.
  __device__ __forceinline__ int position(int row) const { return context - p.queries + row / p.repeats; }
  __device__ __forceinline__ int last_row() const { return min(first + kPagedRows, p.rows) - 1; }
  __device__ __forceinline__ int first_key() const { return max(position(first) - p.window, 0); }
  __device__ __forceinline__ int end_key() const { return max(position(last_row()) + 1, 0); }
  __device__ __forceinline__ int part_keys() const {
    constexpr int kRound = kKeys * S::kWarps;
    const int each = (max(end_key() - first_key(), 0) + p.parts - 1) / p.parts;
    return (each + kRound - 1) / kRound * kRound;
  }

  // Copies a tile of keys and of values with the threads of a warp.
  __device__ __forceinline__ void bring(uint32_t stage, int key) const {
    const int piece = lane % kPieces;
    const auto* k = reinterpret_cast<const uint16_t*>(p.k) + head * p.k_steps[2];
    const auto* v = reinterpret_cast<const uint16_t*>(p.v) + head * p.v_steps[2];
    const auto* table = reinterpret_cast<const int*>(p.table) + int64_t(sequence) * p.table_pages;
    const int k_bytes = min(max(p.width - piece * 8, 0), 8) * 2,
              v_bytes = min(max(p.value_width - piece * 8, 0), 8) * 2;
    if (key < end) {
#pragma unroll
      for (int row = lane / kPieces; row < kKeys; row += kStep) {
        uint32_t page = key + row;
        const bool inside = key + row < end;
        const int offset = split_off(page, p.page_size);
        int at = inside ? table[page] : 0;
        if (at < 0 || at >= p.pages) {
          report(p.faults, FaultCode::Index, at, p.pages);
          at = 0;
        }
        mma::copy_async(stage + T::offset(row, piece),
                        k + (k_bytes && inside ? at * p.k_steps[0] + offset * p.k_steps[1] + piece * 8 : 0),
                        inside ? k_bytes : 0);
        mma::copy_async(stage + S::kTileBytes + T::offset(row, piece),
                        v + (v_bytes && inside ? at * p.v_steps[0] + offset * p.v_steps[1] + piece * 8 : 0),
                        inside ? v_bytes : 0);
      }
    }
    mma::copies_commit();  // an empty group at the end
  }
  __device__ __forceinline__ void load_queries(uint32_t to) const {
    for (int i = threadIdx.x; i < kPagedRows * kPieces; i += S::kThreads) {
      const int row = first + i / kPieces, piece = i % kPieces;
      const int bytes = row < p.rows ? min(max(p.width - piece * 8, 0), 8) * 2 : 0;
      const auto* q = reinterpret_cast<const uint16_t*>(p.q);
      if (bytes)
        q += sequence * p.q_steps[0] + row / p.repeats * p.q_steps[1] +
             (head * p.repeats + row % p.repeats) * p.q_steps[2] + piece * 8;
      mma::copy_async(to + T::offset(i / kPieces, piece), q, bytes);
    }
  }
  __device__ __forceinline__ void remove_hidden(float (&s)[1][kKeys / 8][4], int key) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = position(first + lane / 4 + half * 8) - key - lane % 4 * 2;  // of the last key that stays
      const int limit = end - key - lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int x = j * 8 + e;
          if (x > at || x < at - p.window || x >= limit) s[0][j][half * 2 + e] = -STRATA_INFINITY;
        }
    }
  }

  __device__ __forceinline__ void run(char* memory) const {
    const uint32_t base = shared_address(memory), stages = base + S::kStages + warp * 4 * S::kTileBytes;
    load_queries(base);
    bring(stages, begin + warp * kKeys);
    mma::copies_wait<0>();
    __syncthreads();  // the queries are complete
    RunningRows<kWidth, 1, kKeys> rows;
    rows.start();
    const float factor = p.scale * kLog2E;
    const uint32_t q_at = T::rows_at(base, lane);
    uint32_t stage = stages;
    for (int key = begin + warp * kKeys; key < end; key += kKeys * S::kWarps) {
      mma::copies_wait<0>();
      __syncwarp();  // the tile is complete, and no lane still reads the stage that is filled next
      const uint32_t other = stages + (stage == stages ? 2 * S::kTileBytes : 0);
      bring(other, key + kKeys * S::kWarps);
      float s[1][kKeys / 8][4];
      multiply_rows<kBf16, kWidth>(s, q_at, T::columns_at(stage, lane));
      if (key + kKeys > min(end, position(first) + 1) || key < position(last_row()) - p.window) remove_hidden(s, key);
      rows.weigh(s, factor);
      add_weighted<kBf16, kWidth>(rows.out, s, T::rows_at(stage + S::kTileBytes, lane));
      stage = other;
    }
    mma::copies_wait<0>();
    __syncthreads();  // no warp still uses its stages, which the sums replace
    combine_warps(memory, rows, factor);
  }

  // Adds the sums of the warps, one after the other, and writes them.
  __device__ __forceinline__ void combine_warps(char* memory, RunningRows<kWidth, 1, kKeys>& rows, float factor) const {
    auto* sums = reinterpret_cast<float*>(memory + S::kStages);   // [kPagedRows][kWidth]
    auto* stats = reinterpret_cast<float2*>(memory + S::kStats);  // [kWarps][kPagedRows]: the maximum, the sum
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = rows.sums[0][half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (lane % 4 == 0) stats[warp * kPagedRows + lane / 4 + half * 8] = make_float2(rows.most[0][half] * factor, sum);
    }
    __syncthreads();
    for (int turn = 0; turn < S::kWarps; ++turn) {
      if (warp == turn)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = lane / 4 + half * 8;
          const float by = exp2_approximate(stats[warp * kPagedRows + row].x - shift_of(stats, row));
#pragma unroll
          for (int j = 0; j < kWidth / 8; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              float* at = sums + row * kWidth + j * 8 + lane % 4 * 2 + e;
              *at = (turn ? *at : 0) + rows.out[0][j][half * 2 + e] * by;
            }
        }
      __syncthreads();
    }
    for (int i = threadIdx.x; i < kPagedRows * p.value_width; i += S::kThreads) {
      const int row = i / p.value_width, feature = i % p.value_width, at = first + row;
      if (at >= p.rows) continue;
      const float shift = shift_of(stats, row), value = sums[row * kWidth + feature];
      float total = 0;
      for (int w = 0; w < S::kWarps; ++w)
        total += stats[w * kPagedRows + row].y * exp2_approximate(stats[w * kPagedRows + row].x - shift);
      if (p.parts == 1) {
        auto* out = reinterpret_cast<uint16_t*>(p.out) + sequence * p.out_steps[0] + at / p.repeats * p.out_steps[1] +
                    (head * p.repeats + at % p.repeats) * p.out_steps[2];
        out[feature] = narrow<kBf16>(total == 0 ? 0 : value / total);
        continue;
      }
      const int64_t place = ((int64_t(sequence) * p.shared_heads + head) * p.rows + at) * p.parts + part;
      reinterpret_cast<float*>(p.sums)[place * p.value_width + feature] = value;
      if (feature == 0) reinterpret_cast<float2*>(p.stats)[place] = make_float2(shift, total);
    }
  }
  // The maximum over all warps; 0 if the row attends to nothing here.
  __device__ __forceinline__ float shift_of(const float2* stats, int row) const {
    float most = -STRATA_INFINITY;
    for (int w = 0; w < S::kWarps; ++w) most = fmaxf(most, stats[w * kPagedRows + row].x);
    return most == -STRATA_INFINITY ? 0 : most;
  }
};

// A warp for each row: the parts of its keys.
template <bool kBf16> __device__ __forceinline__ void combine_parts(const PagedParams& p) {
  const int lane = threadIdx.x % 32;
  const int64_t row = int64_t(blockIdx.x) * (kPagedCombineThreads / 32) + threadIdx.x / 32;
  const int64_t of_sequence = int64_t(p.shared_heads) * p.rows;
  if (row >= p.sequences * of_sequence) return;
  const auto* stats = reinterpret_cast<const float2*>(p.stats) + row * p.parts;
  const auto* sums = reinterpret_cast<const float*>(p.sums) + row * p.parts * p.value_width;
  float most = -STRATA_INFINITY, total = 0;
  for (int part = 0; part < p.parts; ++part)
    if (stats[part].y > 0) most = fmaxf(most, stats[part].x);
  for (int part = 0; part < p.parts; ++part)
    if (stats[part].y > 0) total += stats[part].y * exp2_approximate(stats[part].x - most);
  const int64_t sequence = row / of_sequence, head = row % of_sequence / p.rows, at = row % p.rows;
  auto* out = reinterpret_cast<uint16_t*>(p.out) + sequence * p.out_steps[0] + at / p.repeats * p.out_steps[1] +
              (head * p.repeats + at % p.repeats) * p.out_steps[2];
  for (int i = lane; i < p.value_width; i += 32) {
    float sum = 0;
    for (int part = 0; part < p.parts; ++part)
      if (stats[part].y > 0) sum += sums[part * p.value_width + i] * exp2_approximate(stats[part].x - most);
    out[i] = narrow<kBf16>(total == 0 ? 0 : sum / total);
  }
}

#define STRATA_PAGED_ATTENTION(name, bf16, width)                           \
  extern "C" __global__ void __launch_bounds__(PagedSizes<width>::kThreads) \
    name(const __grid_constant__ PagedParams p) {                           \
    extern __shared__ __align__(1024) char memory[];                        \
    Paged<bf16, width>(p).run(memory);                                      \
  }
#define STRATA_PAGED_ATTENTIONS(bf16)                                                                                 \
  STRATA_PAGED_ATTENTION(paged_64, bf16, 64)                                                                          \
  STRATA_PAGED_ATTENTION(paged_128, bf16, 128)                                                                        \
  STRATA_PAGED_ATTENTION(paged_256, bf16, 256)                                                                        \
  extern "C" __global__ void __launch_bounds__(kPagedCombineThreads) combine(const __grid_constant__ PagedParams p) { \
    combine_parts<bf16>(p);                                                                                           \
  }

}  // namespace strata::cuda::attention
