// mbarrier objects: barriers in shared memory that count arrivals and the bytes of bulk copies.
#pragma once
#include <cstdint>

namespace strata::cuda::vgpu {

struct Warp;
struct BlockState;

// The contents of an mbarrier. A phase is complete when no arrivals and no bytes are pending; the next one then begins.
struct Mbarrier {
  static constexpr uint32_t kMostCount = (1u << 20) - 1;  // of arrivals and bytes
  bool phase = false;                                     // parity of the current phase
  uint32_t pending = 0, expected = 0;                     // arrivals: still missing, and of each phase
  int32_t bytes = 0;                                      // expected and not yet copied

  static bool unpack(uint64_t word, Mbarrier& out);  // false: not an mbarrier, such as fresh shared memory
  uint64_t pack() const;
};

// Change the mbarrier at an address of the block's shared memory, and begin the next phase if this one is complete. `w`
// and `lane` are named in faults: too many arrivals or bytes, no mbarrier at the address.
Mbarrier read_mbarrier(const Warp& w, const BlockState& b, uint32_t address, int lane);
void arrive_at(const Warp& w, BlockState& b, uint32_t address, int lane, uint32_t count);
void expect_bytes(const Warp& w, BlockState& b, uint32_t address, int lane, int64_t bytes);  // negative: were copied
void write_mbarrier(BlockState& b, uint32_t address, const Mbarrier& m);

// Lanes of a warp that wait for a phase (Wait::Phase) or for a cluster (Wait::Cluster). `mask` lanes are at an
// instruction that waits, and continue at the block `next`. False if the warp should let others run.
bool wait_at(Warp& w, uint32_t instruction, uint32_t mask, uint32_t next);
void wake(Warp& w);  // makes the groups ready whose phase is complete

}  // namespace strata::cuda::vgpu
