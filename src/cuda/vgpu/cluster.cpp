// Shared memory of other blocks, and barrier.cluster.
#include "cuda/vgpu/cluster.h"

#include <fmt/core.h>

#include <algorithm>

#include "cuda/vgpu/warp.h"

namespace strata::cuda::vgpu {

SharedPlace shared_place(const Warp& w, uint64_t address, uint64_t bytes, int lane) {
  BlockState* b = w.block;
  const uint64_t rank = address >> kRankAt, offset = address & kOffsetMask;
  if (rank) {
    if (rank > b->cluster->blocks.size())
      fault(w, kIllegalAddress,
            fmt::format("shared memory of block {} of a cluster of {}", rank - 1, b->cluster->blocks.size()),
            static_cast<uint32_t>(lane));
    b = b->cluster->blocks[rank - 1];
    if (std::ranges::all_of(b->warps, finished))
      fault(w, kIllegalAddress,
            fmt::format("shared memory of block ({},{},{}), which has exited", b->index[0], b->index[1], b->index[2]),
            static_cast<uint32_t>(lane));
  }
  if (offset >= b->shared_bytes || bytes > b->shared_bytes - offset)
    fault(w, kIllegalAddress,
          fmt::format("{} bytes at shared address 0x{:x}, of {} bytes of the block", bytes, offset, b->shared_bytes),
          static_cast<uint32_t>(lane));
  return {b, static_cast<uint32_t>(offset)};
}

void arrive_cluster(Warp& w, uint32_t mask) {
  Cluster& c = *w.block->cluster;
  if (const uint32_t twice = w.cluster_arrived & mask)
    fault(w, kLaunchFailed, "a thread arrives twice at the barrier of its cluster",
          static_cast<uint32_t>(std::countr_zero(twice)));
  w.cluster_arrived |= mask;
  w.cluster_phases = (w.cluster_phases & ~mask) | (c.phase ? mask : 0);
  w.cluster_waits |= mask;
  release_cluster(c);
}

bool await_cluster(const Warp& w, int lane) {
  const uint32_t bit = 1u << lane;
  if (!(w.cluster_waits & bit))
    fault(w, kLaunchFailed, "a thread waits for its cluster without having arrived", static_cast<uint32_t>(lane));
  return w.cluster_phases & bit;
}

bool release_cluster(Cluster& c) {
  bool any = false;
  for (const BlockState* b : c.blocks)
    for (const Warp& w : b->warps) {
      if (w.alive & ~w.cluster_arrived) return false;
      any = any || (w.alive & w.cluster_arrived);
    }
  if (!any) return false;
  c.phase = !c.phase;
  for (BlockState* b : c.blocks) {
    for (Warp& w : b->warps) w.cluster_arrived = 0;
    if (b->checks) b->history.barrier();
    ++b->tally.barriers;
  }
  return true;
}

}  // namespace strata::cuda::vgpu
