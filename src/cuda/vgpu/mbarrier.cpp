// The state of mbarriers, and the lanes that wait for them.
#include "cuda/vgpu/mbarrier.h"

#include <fmt/core.h>

#include "cuda/vgpu/bulk.h"
#include "cuda/vgpu/cluster.h"
#include "cuda/vgpu/lanes/access.h"

namespace strata::cuda::vgpu {

namespace {
// Bit 0: phase; then pending, expected and bytes. The last bit is zero, so that fresh shared memory (ones) is no
// mbarrier; neither is zeroed memory, since at least one arrival is expected.
constexpr int kPendingAt = 1, kExpectedAt = 21, kBytesAt = 41;
constexpr uint64_t kBytesBits = (uint64_t{1} << 22) - 1;
}  // namespace

bool Mbarrier::unpack(uint64_t word, Mbarrier& out) {
  out.phase = word & 1;
  out.pending = static_cast<uint32_t>(word >> kPendingAt) & kMostCount;
  out.expected = static_cast<uint32_t>(word >> kExpectedAt) & kMostCount;
  out.bytes = static_cast<int32_t>(static_cast<uint32_t>(word >> kBytesAt & kBytesBits) << 10) >> 10;
  return !(word >> 63) && out.expected != 0;
}

uint64_t Mbarrier::pack() const {
  return uint64_t{phase} | uint64_t{pending} << kPendingAt | uint64_t{expected} << kExpectedAt |
         (static_cast<uint64_t>(static_cast<int64_t>(bytes)) & kBytesBits) << kBytesAt;
}

Mbarrier read_mbarrier(const Warp& w, const BlockState& b, uint32_t address, int lane) {
  uint64_t word = 0;
  std::memcpy(&word, b.shared + address, sizeof word);
  Mbarrier m;
  if (!Mbarrier::unpack(word, m))
    fault(w, kLaunchFailed,
          fmt::format("there is no mbarrier at shared address 0x{:x}: mbarrier.init is missing", address),
          static_cast<uint32_t>(lane));
  return m;
}

void write_mbarrier(BlockState& b, uint32_t address, const Mbarrier& m) {
  Mbarrier next = m;
  if (m.pending == 0 && m.bytes == 0) {
    next.phase = !m.phase;
    next.pending = m.expected;
    if (b.checks) b.history.barrier();
  }
  const uint64_t word = next.pack();
  std::memcpy(b.shared + address, &word, sizeof word);
}

void arrive_at(const Warp& w, BlockState& b, uint32_t address, int lane, uint32_t count) {
  Mbarrier m = read_mbarrier(w, b, address, lane);
  if (count == 0 || count > m.pending)
    fault(w, kLaunchFailed,
          fmt::format("{} arrivals at the mbarrier at 0x{:x}, which expects {} more of {} in this phase", count,
                      address, m.pending, m.expected),
          static_cast<uint32_t>(lane));
  m.pending -= count;
  write_mbarrier(b, address, m);
}

void expect_bytes(const Warp& w, BlockState& b, uint32_t address, int lane, int64_t bytes) {
  Mbarrier m = read_mbarrier(w, b, address, lane);
  const int64_t now = m.bytes + bytes;
  if (now > int64_t{Mbarrier::kMostCount} || now < -int64_t{Mbarrier::kMostCount})
    fault(w, kLaunchFailed,
          fmt::format("{} pending bytes at the mbarrier at 0x{:x}, at most {} are possible", now, address,
                      Mbarrier::kMostCount),
          static_cast<uint32_t>(lane));
  m.bytes = static_cast<int32_t>(now);
  // An expectation alone completes no phase: a completed copy does.
  if (bytes < 0) return write_mbarrier(b, address, m);
  const uint64_t word = m.pack();
  std::memcpy(b.shared + address, &word, sizeof word);
}

namespace {

bool complete(Warp& w, const Group& g) {
  if (g.wait == Wait::Cluster) return w.block->cluster->phase != g.phase;
  finish_loads(w, g.barrier);
  return read_mbarrier(w, *w.block, g.barrier, std::countr_zero(g.mask)).phase != g.phase;
}

}  // namespace

bool wait_at(Warp& w, uint32_t instruction, uint32_t mask, uint32_t next) {
  const Inst& i = w.block->program->code[instruction];
  w.current = &i;
  const auto op = static_cast<WaitOp>(i.op);
  uint64_t address[kLanes];
  addresses(i, w, address);
  bool go_on = true;
  each_lane(mask, [&](int k) {
    Group g{next, 1u << k, Wait::Phase, 0, instruction};
    if (op == WaitOp::Cluster) {
      g.wait = Wait::Cluster;
      g.phase = await_cluster(w, k);
    } else {
      const SharedPlace at = mbarrier_place(w, i.space, address[k], k);
      if (at.block != w.block)
        fault(w, kIllegalAddress, "a thread waits for an mbarrier of another block", static_cast<uint32_t>(k));
      g.barrier = at.address;
      // b: the parity, or the state that mbarrier.arrive returned, whose first bit is its phase.
      g.phase = wide(w, i.b, i.plain ? 4 : 8, k) & 1;
    }
    const bool done = complete(w, g);
    if (!done && op != WaitOp::Test) return push_group(w, g);
    if (op != WaitOp::Cluster) set_mask(w, i.d, g.mask, done ? kFull : 0);
    go_on = go_on && done;
    push_group(w, {next, g.mask, Wait::Ready, 0, 0});
  });
  return go_on;
}

void wake(Warp& w) {
  for (int k = 0; k < w.group_count; ++k) {
    Group& g = w.groups[k];
    if (g.wait != Wait::Phase && g.wait != Wait::Cluster) continue;
    const Inst& i = w.block->program->code[g.instruction];
    w.current = &i;
    if (!complete(w, g)) continue;
    if (g.wait == Wait::Phase) set_mask(w, i.d, g.mask, kFull);
    g.wait = Wait::Ready;
  }
}

}  // namespace strata::cuda::vgpu
