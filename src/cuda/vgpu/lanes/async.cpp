// cp.async: copies into shared memory that are executed when they are waited for, so that a missing wait is detected.
#include <algorithm>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"

namespace strata::cuda::vgpu {

namespace {

void issue(const Inst& i, Warp& w) {  // a: the shared address, b: the device address, c: bytes given; count: bytes
  const uint32_t m = active(i, w);
  if (!m) return;
  uint64_t to[kLanes], from[kLanes];
  addresses(i, w, to);
  const auto* source = cells<uint64_t>(w, i.b);
  const auto* given = cells<uint32_t>(w, i.c);
  for (int k = 0; k < kLanes; ++k)
    from[k] = source[k] + static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(i.d)));
  each_lane(m, [&](int k) {
    AsyncCopy copy{};
    copy.bytes = i.count;
    copy.given = static_cast<uint8_t>(std::min<uint32_t>(given[k], i.count));
    copy.to = resolve(w, Space::Shared, to[k], i.count, k, Access::Write);
    if (copy.given == i.count) {
      copy.from = resolve(w, Space::Global, from[k], i.count, k, Access::Read);
    } else if (copy.given) {  // the bytes after those given need not exist
      copy.from = resolve(w, Space::Global, from[k], 1, k, Access::Read);
      resolve(w, Space::Global, from[k] + copy.given - 1, 1, k, Access::Read);
    }
    copy.lane = static_cast<uint32_t>(k);
    copy.group = w.copy_group[static_cast<size_t>(k)];
    w.copies.push_back(copy);
  });
  count_request(i, w, Space::Global, from, m, i.count);
}

void commit(const Inst& i, Warp& w) {
  each_lane(active(i, w), [&](int k) { ++w.copy_group[static_cast<size_t>(k)]; });
}

void wait(const Inst& i, Warp& w) {  // imm: groups that may remain open; -1: wait for all, committed or not
  const uint32_t m = active(i, w);
  std::erase_if(w.copies, [&](const AsyncCopy& c) {
    const bool done = m >> c.lane & 1 && (i.imm < 0 || c.group + i.imm < w.copy_group[c.lane]);
    if (!done) return false;
    if (c.given) std::memcpy(c.to, c.from, c.given);
    std::memset(c.to + c.given, 0, static_cast<size_t>(c.bytes - c.given));
    return true;
  });
}

}  // namespace

bool select_async(Builder& b) {
  if (b.in.op != "cp") return false;
  if (!b.flag("async")) b.unsupported();
  if (b.flag("commit_group")) {
    b.emit(commit, Class::Control);
    return true;
  }
  if (b.flag("wait_all")) {
    b.out.imm = -1;
    b.emit(wait, Class::Control);
    return true;
  }
  if (b.flag("wait_group")) {
    b.operands(1, 1);
    if (b.operand(0).kind != ptx::Operand::Integer) b.wrong("cp.async.wait_group takes a number");
    b.out.imm = static_cast<int64_t>(b.operand(0).bits & 0x7fffffff);
    b.emit(wait, Class::Control);
    return true;
  }
  b.ignore({"ca", "cg", "shared", "shared::cta", "global", "L2::64B", "L2::128B", "L2::256B"});
  b.operands(3, 4);
  const auto& size = b.operand(2);
  if (size.kind != ptx::Operand::Integer || (size.bits != 4 && size.bits != 8 && size.bits != 16))
    b.wrong("cp.async copies 4, 8 or 16 bytes");
  b.out.count = static_cast<uint8_t>(size.bits);
  b.out.c = b.count() == 4 ? b.src(3, Type::U32) : b.constant(size.bits, 4);
  b.address(1, Space::Global);
  if (b.out.a_bytes != 8) b.wrong("a device address has 64 bits");
  const int64_t offset = b.out.imm;
  if (offset != static_cast<int32_t>(offset)) b.unsupported();
  b.out.b = b.out.a;
  b.out.d = static_cast<uint32_t>(offset);  // the offset of the device address: both addresses have one
  b.address(0, Space::Shared);
  b.memory(Space::Global);
  b.emit(issue, Class::Global);
  return true;
}

}  // namespace strata::cuda::vgpu
