// Translates lane addresses to host memory, with the checks of a GPU, and counts memory instructions.
#pragma once
#include "cuda/vgpu/cluster.h"
#include "cuda/vgpu/lanes/lanes.h"

namespace strata::cuda::vgpu {

// [a + imm] of each lane.
inline void addresses(const Inst& i, Warp& w, uint64_t* out) {
  if (i.a_bytes == 8) {
    const auto* a = cells<uint64_t>(w, i.a);
    for (int k = 0; k < kLanes; ++k) out[k] = a[k] + static_cast<uint64_t>(i.imm);
  } else {
    const auto* a = cells<uint32_t>(w, i.a);
    for (int k = 0; k < kLanes; ++k) out[k] = static_cast<uint32_t>(a[k] + static_cast<uint32_t>(i.imm));
  }
}

// The host address of `bytes` bytes; throws a fault that names the lane.
uint8_t* resolve(Warp& w, Space space, uint64_t address, uint32_t bytes, int lane, Access access);
// The same for any number of bytes of device memory, at any address.
uint8_t* resolve_global(Warp& w, uint64_t address, uint32_t bytes, int lane, Access access);
// An mbarrier's place in shared memory.
SharedPlace mbarrier_place(Warp& w, Space space, uint64_t address, int lane, Access access = Access::Atomic);

// Counts one request: sectors of 32 bytes for device memory, passes over the 32 banks for shared memory.
void count_request(const Inst& i, Warp& w, Space space, const uint64_t* address, uint32_t mask, uint32_t bytes);
// The slow paths of counting: a new pattern of offsets from `base`, or the known one at another offset in its sector.
void learn(Site& site, Space space, uint64_t base, const uint32_t* offsets, uint32_t mask, uint32_t bytes);
void move_phase(Site& site, uint64_t base, uint32_t bytes);
inline uint32_t phase_of(Space space, uint64_t base) { return space == Space::Shared ? 0 : base & 31; }

inline uint64_t window_of(Space space) {
  return space == Space::Shared  ? kSharedWindow
         : space == Space::Local ? kLocalWindow
         : space == Space::Param ? kParamWindow
                                 : 0;
}
// The space that a generic address points into.
inline Space space_of(uint64_t address) {
  return address - kSharedWindow < kWindow  ? Space::Shared
         : address - kLocalWindow < kWindow ? Space::Local
         : address - kParamWindow < kWindow ? Space::Param
                                            : Space::Global;
}

}  // namespace strata::cuda::vgpu
