// Clusters: blocks that run together and access each other's shared memory.
//
// An address of shared memory is the offset in the thread's own block; one of another block (mapa) has that block's
// rank + 1 from bit kRankAt on.
#pragma once
#include <cstdint>
#include <vector>

#include "cuda/vgpu/ptx/types.h"

namespace strata::cuda::vgpu {

struct Warp;
struct BlockState;

inline constexpr int kRankAt = 24;
inline constexpr uint32_t kOffsetMask = (1u << kRankAt) - 1;
inline constexpr uint32_t kMostClusterBlocks = 16;

struct Cluster {
  std::vector<BlockState*> blocks;  // by rank
  bool phase = false;               // parity of barrier.cluster
};

struct SharedPlace {
  BlockState* block;
  uint32_t address;  // in that block's shared memory
};
// [address, address + bytes) in the shared memory of a block of the cluster, whose threads are still running.
SharedPlace shared_place(const Warp& w, uint64_t address, uint64_t bytes, int lane);

// barrier.cluster: lanes arrive; the parity of the phase that a lane then waits for.
void arrive_cluster(Warp& w, uint32_t mask);
bool await_cluster(const Warp& w, int lane);
bool release_cluster(Cluster& c);  // true if all threads that have not exited had arrived

}  // namespace strata::cuda::vgpu
