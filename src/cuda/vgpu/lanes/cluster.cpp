// Instructions of clusters: mapa, getctarank, barrier.cluster.arrive; and hints that change nothing here.
#include "cuda/vgpu/cluster.h"

#include <fmt/core.h>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"

namespace strata::cuda::vgpu {

namespace {

void nothing(const Inst&, Warp&) {}

void map_address(const Inst& i, Warp& w) {  // a: an address, b: the rank of a block; imm: the window, for generic ones
  const size_t blocks = w.block->cluster->blocks.size();
  each_lane(active(i, w), [&](int k) {
    const uint32_t rank = cells<uint32_t>(w, i.b)[k];
    if (rank >= blocks)
      fault(w, kIllegalAddress, fmt::format("mapa for block {} of a cluster of {}", rank, blocks),
            static_cast<uint32_t>(k));
    const uint64_t offset = wide(w, i.a, i.a_bytes, k) - static_cast<uint64_t>(i.imm);
    const uint64_t mapped = static_cast<uint64_t>(i.imm) + ((offset & kOffsetMask) | uint64_t{rank + 1} << kRankAt);
    if (i.d_bytes == 8) cells<uint64_t>(w, i.d)[k] = mapped;
    else cells<uint32_t>(w, i.d)[k] = static_cast<uint32_t>(mapped);
  });
}

void rank_of(const Inst& i, Warp& w) {
  const auto& blocks = w.block->cluster->blocks;
  const auto own = static_cast<uint32_t>(std::find(blocks.begin(), blocks.end(), w.block) - blocks.begin());
  each_lane(active(i, w), [&](int k) {
    const uint64_t rank = (wide(w, i.a, i.a_bytes, k) - static_cast<uint64_t>(i.imm)) >> kRankAt;
    cells<uint32_t>(w, i.d)[k] = rank ? static_cast<uint32_t>(rank - 1) : own;
  });
}

void arrive(const Inst& i, Warp& w) {
  if (const uint32_t m = active(i, w)) arrive_cluster(w, m);
}

}  // namespace

bool select_cluster(Builder& b) {
  const std::string& op = b.in.op;
  if (op == "mapa" || op == "getctarank") {
    const bool maps = op == "mapa";
    b.out.imm = b.flag("shared::cluster") ? 0 : static_cast<int64_t>(kSharedWindow);
    const Type t = b.type();
    b.operands(maps ? 3 : 2, maps ? 3 : 2);
    b.out.a = b.any_src(b.operand(1), t, b.out.a_bytes);
    if (maps) {
      b.out.b = b.src(2, Type::U32);
      b.out.d = b.any_dst(b.operand(0), b.out.d_bytes);
    } else {
      b.out.d = b.dst(0, Type::U32);
    }
    b.emit(maps ? map_address : rank_of, Class::Move);
    return true;
  }
  if (op == "barrier" && b.flag("arrive")) {
    b.ignore({"cluster", "release", "relaxed", "aligned"});
    b.operands(0, 0);
    b.emit(arrive, Class::Barrier);
    return true;
  }
  if (op == "setmaxnreg") {  // registers are not limited here
    b.ignore({"inc", "dec", "sync", "aligned", "u32"});
    b.operands(1, 1);
    const ptx::Operand& n = b.operand(0);
    if (n.kind != ptx::Operand::Integer || n.bits < 24 || n.bits > 256 || n.bits % 8)
      b.wrong("setmaxnreg takes a multiple of 8 from 24 to 256");
    b.emit(nothing, Class::Control);
    return true;
  }
  if (op == "griddepcontrol") {  // launches of a stream run one after the other
    b.ignore({"launch_dependents", "wait"});
    b.emit(nothing, Class::Control);
    return true;
  }
  return false;
}

}  // namespace strata::cuda::vgpu
