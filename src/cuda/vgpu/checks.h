// Optional checks: accesses outside of allocations, reads of uninitialized memory, races in shared memory, barriers
// that only part of a warp reaches. With checks on, every access is executed lane by lane.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "cuda/vgpu/ptx/types.h"

namespace strata::cuda::vgpu {

struct Warp;

enum Check : uint32_t {
  kCheckMemory = 1,  // every access must be inside a live allocation
  kCheckRace = 2,    // warps of a block must not access the same shared bytes between two barriers, if one writes
  kCheckInit = 4,    // memory must be written before it is read: device memory of cuMemAlloc, and shared memory
  kCheckSync = 8,    // aligned barriers and warp-wide instructions need all lanes they name
  kCheckHost = 16,   // host code that dereferences a device address gets SIGSEGV, as with a real GPU
};
// "memory,race,init,sync,host", in any combination, or "all" (without host); throws Error(Value) for other words.
STRATA_API uint32_t checks_named(std::string_view list);

inline constexpr uint32_t kEveryLane = 1u << 31;  // no check, but memory accesses lane by lane

enum class Access : uint8_t { Read, Write, Atomic };

// The access history of each byte of a block's shared memory.
class SharedHistory {
 public:
  void reset(size_t bytes, uint32_t checks);
  // Throws Fault for a race or an uninitialized read of [address, address + bytes) by this lane.
  void touch(const Warp& w, uint32_t address, uint32_t bytes, uint32_t lane, Access access);
  void barrier() { ++epoch_; }
  void written(uint32_t address, uint32_t bytes);  // by a copy, whose order an mbarrier keeps

 private:
  struct Byte {
    uint32_t write_epoch = 0, read_epoch = 0;            // 0: never
    uint32_t writer = 0, reader = 0;                     // threads
    bool atomic = false, many = false, written = false;  // many: threads of several warps read it in that epoch
  };
  uint32_t checks_ = 0, epoch_ = 1;
  std::vector<Byte> bytes_;
};

// Device memory: throws Fault on a violation, and records writes.
void check_global(const Warp& w, uint64_t address, uint32_t bytes, uint32_t lane, Access access);

}  // namespace strata::cuda::vgpu
