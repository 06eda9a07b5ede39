// mov, packing and unpacking, addresses of variables and clocks.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/move.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <chrono>

#include "cuda/vgpu/lanes/access.h"
#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

template <class T> void copy(const Inst& i, Warp& w) {
  map1<T, T>(i, w, [](T v) { return v; });
}
void copy_predicate(const Inst& i, Warp& w) { set_mask(w, i.d, active(i, w), mask_at(w, i.a)); }

// {places} <-> one register: `count` parts of 8 * d_bytes / count bits (imm of them).
void pack_parts(const Inst& i, Warp& w) {
  const uint32_t* p = &w.block->program->places[i.more];
  const auto bits = static_cast<uint32_t>(i.imm);
  each_lane(active(i, w), [&](int k) {
    uint64_t v = 0;
    for (uint32_t e = 0; e < i.count; ++e)
      v |= (static_cast<uint64_t>(cells<uint32_t>(w, p[e])[k]) & ((uint64_t{1} << bits) - 1)) << bits * e;
    if (i.d_bytes == 8) cells<uint64_t>(w, i.d)[k] = v;
    else cells<uint32_t>(w, i.d)[k] = static_cast<uint32_t>(v);
  });
}
void unpack_parts(const Inst& i, Warp& w) {
  const uint32_t* p = &w.block->program->places[i.more];
  const auto bits = static_cast<uint32_t>(i.imm);
  each_lane(active(i, w), [&](int k) {
    const uint64_t v = wide(w, i.a, i.a_bytes, k);
    for (uint32_t e = 0; e < i.count; ++e)
      cells<uint32_t>(w, p[e])[k] = static_cast<uint32_t>(v >> bits * e & ((uint64_t{1} << bits) - 1));
  });
}

// op 0: warp instructions of this block so far, the same in every run; 1: nanoseconds.
void clock(const Inst& i, Warp& w) {
  const uint64_t now =
    i.op ? static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) : ++w.block->instructions;
  each_lane(active(i, w), [&](int k) {
    if (i.d_bytes == 8) cells<uint64_t>(w, i.d)[k] = now;
    else cells<uint32_t>(w, i.d)[k] = static_cast<uint32_t>(now);
  });
}

void two_words(const Inst& i, Warp& w) {  // {a, b} into 64 bits, b in the upper half
  map2<uint64_t, uint32_t, uint32_t>(i, w, [](uint32_t a, uint32_t b) { return static_cast<uint64_t>(b) << 32 | a; });
}
void split_words(const Inst& i, Warp& w) {  // the reverse: d and b
  const uint32_t m = active(i, w);
  const auto* a = cells<uint64_t>(w, i.a);
  alignas(64) uint32_t low[kLanes], high[kLanes];
  for (int k = 0; k < kLanes; ++k) {
    low[k] = static_cast<uint32_t>(a[k]);
    high[k] = static_cast<uint32_t>(a[k] >> 32);
  }
  keep(cells<uint32_t>(w, i.d), low, m);
  keep(cells<uint32_t>(w, i.b), high, m);
}

// cvta: imm is added: the window of the space or its negative.
void convert_address(const Inst& i, Warp& w) {
  each_lane(active(i, w), [&](int k) {
    const uint64_t v = wide(w, i.a, i.a_bytes, k) + static_cast<uint64_t>(i.imm);
    if (i.d_bytes == 8) cells<uint64_t>(w, i.d)[k] = v;
    else cells<uint32_t>(w, i.d)[k] = static_cast<uint32_t>(v);
  });
}
void is_space(const Inst& i, Warp& w) {
  uint32_t r = 0;
  for (int k = 0; k < kLanes; ++k) {
    const uint64_t v = wide(w, i.a, i.a_bytes, k);
    const bool shared = v - kSharedWindow < kWindow, local = v - kLocalWindow < kWindow;
    r |= static_cast<uint32_t>(i.space == Space::Shared  ? shared
                               : i.space == Space::Local ? local
                                                         : !shared && !local)
         << k;
  }
  set_mask(w, i.d, active(i, w), r);
}
void nothing(const Inst&, Warp&) {}

bool move(Builder& b) {
  const Type t = b.type();
  b.operands(2, 2);
  const ptx::Operand &to = b.operand(0), &from = b.operand(1);
  if (t == Type::Pred) {
    b.out.a = b.predicate(from, false);
    b.out.d = b.predicate(to, true);
    b.emit(copy_predicate, Class::Predicate);
    return true;
  }
  if (to.kind == ptx::Operand::Vector || from.kind == ptx::Operand::Vector) {
    const auto& items = to.kind == ptx::Operand::Vector ? to.items : from.items;
    const auto parts = static_cast<int>(items.size());
    if ((parts != 2 && parts != 4) || size_of(t) < parts || size_of(t) > 8) b.unsupported();
    const Type part = size_of(t) / parts == 4 ? Type::B32 : size_of(t) / parts == 2 ? Type::B16 : Type::B8;
    b.out.count = static_cast<uint8_t>(parts);
    b.out.imm = 8 * size_of(part);
    b.out.d_bytes = b.out.a_bytes = size_of(t) == 8 ? 8 : 4;
    const bool packs = from.kind == ptx::Operand::Vector;
    std::vector<uint32_t> places;
    places.reserve(items.size());
    for (const auto& item : items) places.push_back(packs ? b.src(item, part) : b.dst(item, part));
    if (packs) b.out.d = b.dst(to, t);
    else b.out.a = b.src(from, t);
    if (parts == 2 && size_of(t) == 8) {
      (packs ? b.out.a : b.out.d) = places[0];
      b.out.b = places[1];
      b.emit(packs ? two_words : split_words, Class::Move);
      return true;
    }
    b.out.more = b.place_all(places);
    b.emit(packs ? pack_parts : unpack_parts, Class::Move);
    return true;
  }
  if (from.name == "%clock" || from.name == "%clock64" || from.name == "%clock_hi" || from.name == "%globaltimer") {
    b.out.op = from.name == "%globaltimer";
    b.out.d_bytes = size_of(t) == 8 ? 8 : 4;
    b.out.d = b.dst(to, t);
    b.emit(clock, Class::Move);
    return true;
  }
  b.out.a = b.src(from, t);
  b.out.d = b.dst(to, t);
  if (size_of(t) == 0 || size_of(t) > 8) b.unsupported();
  b.emit(size_of(t) == 8 ? copy<uint64_t> : copy<uint32_t>, Class::Move);
  return true;
}

}  // namespace

bool select_move(Builder& b) {
  const std::string& op = b.in.op;
  if (op == "mov") return move(b);
  if (op == "cvta") {
    const bool to = b.flag("to");
    const Space space = b.space();
    b.type();
    b.operands(2, 2);
    b.out.a = b.any_src(b.operand(1), Type::U64, b.out.a_bytes);
    b.out.d = b.any_dst(b.operand(0), b.out.d_bytes);
    const auto window = static_cast<int64_t>(window_of(space));
    if (window == 0 && b.out.d_bytes == b.out.a_bytes) {
      b.emit(b.out.d_bytes == 8 ? copy<uint64_t> : copy<uint32_t>, Class::Move);
      return true;
    }
    b.out.imm = to ? -window : window;
    b.emit(convert_address, Class::Move);
    return true;
  }
  if (op == "isspacep") {
    b.out.space = b.space();
    b.operands(2, 2);
    b.out.a = b.any_src(b.operand(1), Type::U64, b.out.a_bytes);
    b.out.d = b.predicate(b.operand(0), true);
    if (b.out.space == Space::Param) b.unsupported();
    b.emit(is_space, Class::Predicate);
    return true;
  }
  if (op == "membar" || op == "fence") {  // lanes and blocks see each other's writes at once
    b.ignore({"gl", "cta", "sys", "gpu", "cluster", "sc", "acq_rel", "acquire", "release", "mbarrier_init", "proxy",
              "async", "async::generic", "alias", "global", "shared::cta", "shared::cluster",
              "sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    b.emit(nothing, Class::Control);
    return true;
  }
  if (op == "nanosleep" || op == "pmevent") {
    b.ignore({"u32", "mask"});
    b.emit(nothing, Class::Control);
    return true;
  }
  if (op == "prefetch" || op == "prefetchu") {
    b.ignore({"global", "local", "param", "tensormap", "L1", "L2", "L2::evict_last", "L2::evict_normal"});
    b.emit(nothing, Class::Control);
    return true;
  }
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_move);
bool select_move(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_move)(b); }
}  // namespace strata::cuda::vgpu
#endif
