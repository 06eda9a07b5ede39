// softmax(scale q kᵀ) v on Hopper; see attention_hopper.cuh.
#pragma once
#include "cuda/nn/attention_hopper_tiles.cuh"

namespace strata::cuda::attention {

template <bool kBf16, HopperShape kShape> struct HopperForward : KeepsQueries<kShape> {
  using P = Products<kBf16, kShape>;
  static constexpr int kKeys = kShape.passing, kGroups = kShape.groups;
  using KeepsQueries<kShape>::p, KeepsQueries<kShape>::block, KeepsQueries<kShape>::tiles_of;

  __device__ __forceinline__ void multiply(char* memory, int group) const {
    const int lane = threadIdx.x % 32;
    const float factor = p.scale * kLog2E;
    const uint32_t q = block.kept(0, group);
    Ring<kShape.stages> ring, previous;
    uint32_t phase = 0;
    bool starts = true;
    for (Walk walk = this->walk(); walk.valid(); walk.next(), phase ^= 1) {
      const int first = walk.place.tile * kShape.rows, group_first = first + group * 64, tiles = tiles_of(first);
      const int row = group_first + threadIdx.x % 128 / 32 * 16 + lane / 4;
      const bool last = walk.last();
      typename P::Sums out;
      typename P::Weights w;
      float most[2] = {-STRATA_INFINITY, -STRATA_INFINITY}, sums[2] = {0, 0};
      clear(out);
      const auto step = [&]<bool kFirst>(int tile) {
        typename P::Scores s;
        barrier_wait(block.full(0, ring.stage), ring.phase);
        if (!starts || group > 0) turn_wait(kGroups + 1 + group);
        starts = false;
        wgmma_fence();
        P::scores(s, q, block.passing(0, ring.stage));
        wgmma_commit();
        if constexpr (!kFirst) {
          barrier_wait(block.full(1, previous.stage), previous.phase);
          wgmma_fence();
          P::weighted(out, w, block.passing(1, previous.stage));
          wgmma_commit();
        }
        if (tile > 0 || !last || group < kGroups - 1) turn_give(kGroups + 1 + (group + 1) % kGroups);
        wgmma_wait<(kFirst ? 0 : 1)>();
        wgmma_hold(P::flat(s));
        block.release(0, ring.stage);
        if (tile == 0) block.release_kept();
        const int column = tile * kKeys;
        if (column + kKeys > p.columns || (p.causal && column + kKeys > group_first))
          remove_outside<false>(p, s, row, column + lane % 4 * 2, -STRATA_INFINITY);
        float by[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          constexpr int kParts = 4;  // independent chains of maxima and sums
          float tops[kParts], parts[kParts];
#pragma unroll
          for (int i = 0; i < kParts; ++i) {
            tops[i] = most[half];
            parts[i] = 0;
          }
#pragma unroll
          for (int j = 0; j < kKeys / 8; ++j)
            tops[j % kParts] = fmaxf(tops[j % kParts], fmaxf(s[0][j][half * 2], s[0][j][half * 2 + 1]));
          float top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
          top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
          top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
          const float shift = top == -STRATA_INFINITY ? 0 : top * factor;
          by[half] = exp2_approximate(most[half] * factor - shift);
          most[half] = top;
#pragma unroll
          for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
            for (int e = half * 2; e < half * 2 + 2; ++e) {
              s[0][j][e] = exp2_approximate(s[0][j][e] * factor - shift);
              parts[j % kParts] += s[0][j][e];
            }
          const float sum = (parts[0] + parts[1]) + (parts[2] + parts[3]);
          sums[half] = sums[half] * by[half] + sum;
        }
        if constexpr (!kFirst) {
          wgmma_wait<0>();
          wgmma_hold(P::flat(out));
          block.release(1, previous.stage);
#pragma unroll
          for (int j = 0; j < kShape.width / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) out[0][j][e] *= by[e / 2];
        }
        P::round(w, s);
        previous = ring;
        ring.step();
      };
      barrier_wait(block.kept_full(), phase);
      step.template operator()<true>(tiles - 1);
      for (int tile = tiles - 2; tile >= 0; --tile) step.template operator()<false>(tile);
      barrier_wait(block.full(1, previous.stage), previous.phase);
      wgmma_fence();
      P::weighted(out, w, block.passing(1, previous.stage));
      wgmma_commit();
      float factors[1][2];
      auto* log_sums = reinterpret_cast<float*>(p.log_sums) + int64_t(walk.place.entry) * p.rows;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = sums[half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        factors[0][half] = sum == 0 ? 0 : 1 / sum;
        if (lane % 4 == 0 && row + half * 8 < p.rows)
          log_sums[row + half * 8] = sum == 0 ? -STRATA_INFINITY : (most[half] * factor + log2f(sum)) * kLn2;
      }
      wgmma_wait<0>();
      wgmma_hold(P::flat(out));
      block.release(1, previous.stage);
      write_group<kBf16, kShape>(memory, group, out, factors, walk.place.matrix(p.out), p.out.row, group_first, p.rows,
                                 p.value_width);
    }
  }
};

}  // namespace strata::cuda::attention
