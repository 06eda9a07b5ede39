// The 16 barriers of a block: arrival, reduction over the arriving lanes, release.
#include "cuda/vgpu/lanes/lanes.h"

#include <fmt/core.h>

namespace strata::cuda::vgpu {

namespace {

// Exited lanes do not count. A barrier with a thread count waits for that many, in whole warps.
bool complete(const BlockState& b, const BarrierState& s) {
  if (s.arrived.empty()) return false;
  uint32_t threads = 0;
  bool all = true, any = false;
  for (size_t k = 0; k < b.warps.size(); ++k) {
    const uint32_t alive = b.warps[k].alive, here = s.arrived[k];
    any = any || here;
    if (here && !(alive & ~here)) threads += kLanes;
    if (alive & ~here) all = false;
  }
  return any && (s.expected ? threads >= s.expected : all);
}

void release(BlockState& b, uint32_t id) {
  BarrierState& s = b.barriers[id];
  for (Warp& w : b.warps)
    for (int k = 0; k < w.group_count; ++k) {
      Group& g = w.groups[k];
      if (g.wait != Wait::Barrier || g.barrier != id) continue;
      g.wait = Wait::Ready;
      const Inst& i = b.program->code[g.instruction];
      if (i.op == 2) each_lane(g.mask, [&](int lane) { cells<uint32_t>(w, i.d)[lane] = s.count; });
      else if (i.op == 3) set_mask(w, i.d, g.mask, s.all ? kFull : 0);
      else if (i.op == 4) set_mask(w, i.d, g.mask, s.any ? kFull : 0);
    }
  s = BarrierState{};
  if (b.checks) b.history.barrier();
  ++b.tally.barriers;
}

}  // namespace

void arrive(Warp& w, uint32_t instruction, uint32_t mask, uint32_t next) {
  BlockState& b = *w.block;
  const Inst& i = b.program->code[instruction];
  w.current = &i;
  const int lane = std::countr_zero(mask);
  const uint32_t id = cells<uint32_t>(w, i.a)[lane];
  if (id >= kBarriers) fault(w, kIllegalInstruction, fmt::format("barrier {} of 16", id), static_cast<uint32_t>(lane));
  if (b.checks & kCheckSync && i.plain && mask != w.alive)
    fault(w, kLaunchFailed,
          fmt::format("barrier {} in divergent code: lanes 0x{:08x} of the warp reach it, 0x{:08x} do not", id, mask,
                      w.alive & ~mask),
          static_cast<uint32_t>(std::countr_zero(w.alive & ~mask)));
  BarrierState& s = b.barriers[id];
  if (s.arrived.empty()) s.arrived.resize(b.warps.size());
  if (i.count) {
    const uint32_t expected = cells<uint32_t>(w, i.b)[lane];
    if (expected == 0 || expected % kLanes || expected > b.warps.size() * kLanes)
      fault(w, kIllegalInstruction,
            fmt::format("a barrier of {} threads, in a block of {} warps: whole warps are needed", expected,
                        b.warps.size()),
            static_cast<uint32_t>(lane));
    s.expected = expected;
  }
  if (s.arrived[w.index] & mask)
    fault(w, kLaunchFailed, fmt::format("a thread arrives twice at barrier {}", id), static_cast<uint32_t>(lane));
  s.arrived[w.index] |= mask;
  if (i.op >= 2) {
    const uint32_t p = mask_at(w, i.c) & mask;
    s.count += static_cast<uint32_t>(std::popcount(p));
    s.all = s.all && p == mask;
    s.any = s.any || p;
  }
  push_group(w, {next, mask, i.op == 1 ? Wait::Ready : Wait::Barrier, id, instruction});
  if (complete(b, s)) release(b, id);
}

bool release_complete(BlockState& b) {
  bool any = false;
  for (uint32_t id = 0; id < kBarriers; ++id)
    if (complete(b, b.barriers[id])) {
      release(b, id);
      any = true;
    }
  return any;
}

}  // namespace strata::cuda::vgpu
