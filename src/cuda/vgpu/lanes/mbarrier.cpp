// mbarrier: init, inval, arrive, expect_tx, complete_tx, pending_count, and the waits (vgpu/mbarrier.cpp).
#include "cuda/vgpu/mbarrier.h"

#include <fmt/core.h>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"

namespace strata::cuda::vgpu {

namespace {

void init(const Inst& i, Warp& w) {  // b: arrivals of each phase
  uint64_t address[kLanes];
  addresses(i, w, address);
  each_lane(active(i, w), [&](int k) {
    const uint32_t count = cells<uint32_t>(w, i.b)[k];
    if (count == 0 || count > Mbarrier::kMostCount)
      fault(w, kLaunchFailed,
            fmt::format("an mbarrier of {} arrivals, 1 to {} are possible", count, Mbarrier::kMostCount),
            static_cast<uint32_t>(k));
    const SharedPlace at = mbarrier_place(w, i.space, address[k], k, Access::Write);
    write_mbarrier(*at.block, at.address, {false, count, count, 0});
  });
}

void invalidate(const Inst& i, Warp& w) {
  uint64_t address[kLanes];
  addresses(i, w, address);
  each_lane(active(i, w), [&](int k) {
    const SharedPlace at = mbarrier_place(w, i.space, address[k], k);
    read_mbarrier(w, *at.block, at.address, k);
    std::memset(at.block->shared + at.address, 0, sizeof(uint64_t));
  });
}

// op bit 0: arrives with count b; bit 1: c more bytes are expected; bit 2: c bytes were copied; bit 3: drops out, one
// arrival less in the following phases. d: the state before, if count is 1.
enum : uint8_t { kArrives = 1, kExpects = 2, kCompletes = 4, kDrops = 8 };

void change(const Inst& i, Warp& w) {
  uint64_t address[kLanes];
  addresses(i, w, address);
  each_lane(active(i, w), [&](int k) {
    const SharedPlace at = mbarrier_place(w, i.space, address[k], k);
    Mbarrier m = read_mbarrier(w, *at.block, at.address, k);
    if (i.count) cells<uint64_t>(w, i.d)[k] = m.pack();
    if (i.op & (kExpects | kCompletes)) {
      const int64_t bytes = cells<uint32_t>(w, i.c)[k];
      expect_bytes(w, *at.block, at.address, k, i.op & kExpects ? bytes : -bytes);
    }
    if (i.op & kDrops) {
      m = read_mbarrier(w, *at.block, at.address, k);
      const uint32_t count = cells<uint32_t>(w, i.b)[k];
      if (count > m.pending || count >= m.expected)
        fault(w, kLaunchFailed, fmt::format("{} arrivals drop out of an mbarrier of {}", count, m.expected),
              static_cast<uint32_t>(k));
      m.expected -= count;
      m.pending -= count;
      write_mbarrier(*at.block, at.address, m);
    } else if (i.op & kArrives) {
      arrive_at(w, *at.block, at.address, k, cells<uint32_t>(w, i.b)[k]);
    }
  });
}

void pending_count(const Inst& i, Warp& w) {
  each_lane(active(i, w), [&](int k) {
    Mbarrier m;
    Mbarrier::unpack(cells<uint64_t>(w, i.a)[k], m);
    cells<uint32_t>(w, i.d)[k] = m.pending;
  });
}

void arrival(Builder& b, bool drops) {
  const bool expects = b.flag("expect_tx");
  b.ignore({"noComplete"});
  b.out.op = static_cast<uint8_t>(kArrives | (expects ? kExpects : 0) | (drops ? kDrops : 0));
  b.operands(2, 3);
  const ptx::Operand& state = b.operand(0);
  b.out.count = state.kind != ptx::Operand::Name || state.name != "_";
  if (b.out.count) b.out.d = b.dst(0, Type::B64);
  b.out.b = !expects && b.count() == 3 ? b.src(2, Type::U32) : b.constant(1, 4);
  if (expects) b.out.c = b.src(2, Type::U32);
  b.address(1, b.space());
  b.emit(change, Class::Barrier);
}

}  // namespace

bool select_mbarrier(Builder& b) {
  if (b.in.op != "mbarrier") return false;
  b.ignore({"b64", "release", "acquire", "relaxed", "cta", "cluster"});
  if (b.flag("init")) {
    b.operands(2, 2);
    b.out.b = b.src(1, Type::U32);
    b.address(0, b.space());
    b.emit(init, Class::Barrier);
  } else if (b.flag("inval")) {
    b.operands(1, 1);
    b.address(0, b.space());
    b.emit(invalidate, Class::Barrier);
  } else if (b.flag("arrive")) {
    arrival(b, false);
  } else if (b.flag("arrive_drop")) {
    arrival(b, true);
  } else if (const bool expects = b.flag("expect_tx"); expects || b.flag("complete_tx")) {
    b.operands(2, 2);
    b.out.op = expects ? kExpects : kCompletes;
    b.out.c = b.src(1, Type::U32);
    b.address(0, b.space());
    b.emit(change, Class::Barrier);
  } else if (const bool tests = b.flag("test_wait"); tests || b.flag("try_wait")) {
    b.operands(3, 4);  // the fourth limits the time that try_wait takes
    b.out.plain = b.flag("parity");
    b.out.b = b.src(2, b.out.plain ? Type::U32 : Type::B64);
    b.out.d = b.predicate(b.operand(0), true);
    b.address(1, b.space());
    b.emit_wait(tests ? WaitOp::Test : WaitOp::Try);
  } else if (b.flag("pending_count")) {
    b.operands(2, 2);
    b.out.a = b.src(1, Type::B64);
    b.out.d = b.dst(0, Type::U32);
    b.emit(pending_count, Class::Barrier);
  } else {
    b.unsupported();
  }
  return true;
}

}  // namespace strata::cuda::vgpu
