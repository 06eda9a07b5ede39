// Gradients of attention on Hopper; see attention_hopper.cuh.
#pragma once
#include "cuda/nn/attention_hopper_tiles.cuh"

namespace strata::cuda::attention {

template <bool kBf16, HopperShape kShape> struct HopperQueryGrad : KeepsQueries<kShape> {
  using P = Products<kBf16, kShape>;
  static constexpr int kKeys = kShape.passing;
  using KeepsQueries<kShape>::p, KeepsQueries<kShape>::block, KeepsQueries<kShape>::tiles_of;

  __device__ __forceinline__ void multiply(char* memory, int group) const {
    const int lane = threadIdx.x % 32;
    const float factor = p.scale * kLog2E;
    const uint32_t q = block.kept(0, group), g = block.kept(1, group);
    Ring<kShape.stages> ring;
    uint32_t phase = 0;
    for (Walk walk = this->walk(); walk.valid(); walk.next(), phase ^= 1) {
      const int first = walk.place.tile * kShape.rows, group_first = first + group * 64, tiles = tiles_of(first);
      const int row = group_first + threadIdx.x % 128 / 32 * 16 + lane / 4;
      typename P::Sums grad;
      typename P::Weights w;
      float2 pairs[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        pairs[half] =
          row + half * 8 < p.rows ? pairs_of(p, walk.place)[row + half * 8] : make_float2(STRATA_INFINITY, 0);
      clear(grad);
      barrier_wait(block.kept_full(), phase);
      for (int tile = tiles - 1; tile >= 0; --tile) {
        typename P::Scores s, slopes;
        barrier_wait(block.full(0, ring.stage), ring.phase);
        wgmma_fence();
        P::scores(s, q, block.passing(0, ring.stage));
        wgmma_commit();
        barrier_wait(block.full(1, ring.stage), ring.phase);
        wgmma_fence();
        P::scores(slopes, g, block.passing(1, ring.stage));
        wgmma_commit();
        wgmma_wait<1>();
        wgmma_hold(P::flat(s));
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) s[0][j][e] = exp2_approximate(s[0][j][e] * factor - pairs[e / 2].x);
        const int column = tile * kKeys;
        if (column + kKeys > p.columns || (p.causal && column + kKeys > group_first))
          remove_outside<false>(p, s, row, column + lane % 4 * 2, 0);
        wgmma_hold(P::flat(s));  // the exponentials are computed before the wait, not after it
        wgmma_wait<0>();
        wgmma_hold(P::flat(slopes));
        block.release(1, ring.stage);
        if (tile == 0) block.release_kept();
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) s[0][j][e] *= slopes[0][j][e] - pairs[e / 2].y;
        P::round(w, s);
        wgmma_fence();
        P::weighted(grad, w, block.passing(0, ring.stage));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(P::flat(grad));
        block.release(0, ring.stage);
        ring.step();
      }
      const float factors[1][2] = {{p.scale, p.scale}};
      write_group<kBf16, kShape>(memory, group, grad, factors, walk.place.matrix(p.grad_q), p.grad_q.row, group_first,
                                 p.rows, p.width);
    }
  }
};

template <bool kBf16, HopperShape kShape> struct HopperKeyGrad {
  using P = Products<kBf16, kShape>;
  static constexpr int kQueries = kShape.passing;
  const Params& p;
  const Block<kShape>& block;

  __device__ __forceinline__ Walk walk() const { return Walk(p, p.columns, kShape.rows); }
  __device__ __forceinline__ int begin_of(int first) const { return p.causal ? first / kQueries : 0; }
  __device__ __forceinline__ int tiles() const { return (p.rows + kQueries - 1) / kQueries; }

  __device__ __forceinline__ void load(const Maps& maps) const {
    Ring<kShape.stages> ring;
    uint32_t phase = 0;
    for (Walk walk = this->walk(); walk.valid(); walk.next(), phase ^= 1) {
      const Loads<kShape> loads{block, walk.place};
      const int first = walk.place.tile * kShape.rows;
      loads.kept(maps, first, phase);
      for (int tile = begin_of(first); tile < tiles(); ++tile, ring.step()) {
        constexpr int kBytes = kQueries * kShape.row_bytes;
        loads.passing(maps, 0, ring, tile * kQueries, kBytes);
        bulk_load(block.rows(ring.stage), pairs_of(p, walk.place) + tile * kQueries, kBytes, block.full(0, ring.stage));
        loads.passing(maps, 1, ring, tile * kQueries);
      }
    }
  }

  __device__ __forceinline__ void multiply(char* memory, int group) const {
    const int lane = threadIdx.x % 32;
    const float factor = p.scale * kLog2E;
    const uint32_t k = block.kept(0, group), v = block.kept(1, group);
    Ring<kShape.stages> ring;
    uint32_t phase = 0;
    for (Walk walk = this->walk(); walk.valid(); walk.next(), phase ^= 1) {
      const int first = walk.place.tile * kShape.rows, group_first = first + group * 64;
      const int row = group_first + threadIdx.x % 128 / 32 * 16 + lane / 4;  // of keys
      typename P::Sums grad_k, grad_v;
      typename P::Weights w, of_scores;
      clear(grad_k);
      clear(grad_v);
      barrier_wait(block.kept_full(), phase);
      for (int tile = begin_of(first); tile < tiles(); ++tile) {
        typename P::Scores s, slopes;
        barrier_wait(block.full(0, ring.stage), ring.phase);
        wgmma_fence();
        P::scores(s, k, block.passing(0, ring.stage));
        wgmma_commit();
        barrier_wait(block.full(1, ring.stage), ring.phase);
        wgmma_fence();
        P::scores(slopes, v, block.passing(1, ring.stage));
        wgmma_commit();
        wgmma_wait<1>();
        wgmma_hold(P::flat(s));
        const auto* pair =
          reinterpret_cast<const float4*>(memory + (block.rows(ring.stage) - block.base) + lane % 4 * 16);
#pragma unroll
        for (int j = 0; j < kQueries / 8; ++j) {
          const float4 two = pair[j * 4];  // the pairs of two queries
#pragma unroll
          for (int e = 0; e < 4; ++e) s[0][j][e] = exp2_approximate(s[0][j][e] * factor - (e % 2 ? two.z : two.x));
        }
        if (p.causal && tile * kQueries < group_first + 64)
          remove_outside<true>(p, s, row, tile * kQueries + lane % 4 * 2, 0);
        P::round(w, s);
        wgmma_fence();
        P::weighted(grad_v, w, block.passing(1, ring.stage));
        wgmma_commit();
        wgmma_wait<1>();
        wgmma_hold(P::flat(slopes));
#pragma unroll
        for (int j = 0; j < kQueries / 8; ++j) {
          const float4 two = pair[j * 4];
#pragma unroll
          for (int e = 0; e < 4; ++e) s[0][j][e] *= slopes[0][j][e] - (e % 2 ? two.w : two.y);
        }
        P::round(of_scores, s);
        wgmma_fence();
        P::weighted(grad_k, of_scores, block.passing(0, ring.stage));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(P::flat(grad_k));
        wgmma_hold(P::flat(grad_v));
        block.release(0, ring.stage);
        block.release(1, ring.stage);
        ring.step();
      }
      block.release_kept();
      const float once[1][2] = {{1, 1}}, scaled[1][2] = {{p.scale, p.scale}};
      write_group<kBf16, kShape>(memory, group, grad_v, once, walk.place.matrix(p.grad_v), p.grad_v.row, group_first,
                                 p.columns, p.value_width);
      write_group<kBf16, kShape>(memory, group, grad_k, scaled, walk.place.matrix(p.grad_k), p.grad_k.row, group_first,
                                 p.columns, p.width);
    }
  }
};

}  // namespace strata::cuda::attention
