// Checks on demand: accesses outside of allocations, reads of what was never written, races in shared memory, barriers that
// only part of a warp reaches. While one is on, every access goes lane by lane.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "cuda/vgpu/ptx/types.h"

namespace strata::cuda::vgpu {

struct Warp;

enum Check : uint32_t {
  kCheckMemory = 1,  // every access must lie in a living allocation
  kCheckRace = 2,    // warps of a block must not touch the same shared bytes between two barriers, if one writes
  kCheckInit = 4,    // what is read must have been written: device memory of cuMemAlloc, and shared memory
  kCheckSync = 8,    // aligned barriers and warp-wide instructions need all lanes they name
};
// "memory,race,init,sync", in any choice, or "all"; throws Error(Value) for another word.
STRATA_API uint32_t checks_named(std::string_view list);

inline constexpr uint32_t kEveryLane = 1u << 31;  // no check, but memory lane by lane

enum class Access : uint8_t { Read, Write, Atomic };

// What happened to each byte of a block's shared memory.
class SharedHistory {
 public:
  void reset(size_t bytes, uint32_t checks);
  // Throws Fault for a race or an uninitialised read of [address, address + bytes) by this lane.
  void touch(const Warp& w, uint32_t address, uint32_t bytes, uint32_t lane, Access access);
  void barrier() { ++epoch_; }

 private:
  struct Byte {
    uint32_t write_epoch = 0, read_epoch = 0;            // 0: never
    uint32_t writer = 0, reader = 0;                     // threads
    bool atomic = false, many = false, written = false;  // many: threads of several warps read it in that epoch
  };
  uint32_t checks_ = 0, epoch_ = 1;
  std::vector<Byte> bytes_;
};

// Device memory: throws Fault for what the checks forbid, and notes what is written.
void check_global(const Warp& w, uint64_t address, uint32_t bytes, uint32_t lane, Access access);

}  // namespace strata::cuda::vgpu
