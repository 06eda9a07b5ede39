// Communication between the lanes of a warp: shuffles, votes, matches, reductions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/exchange.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

enum Mode : uint8_t { kUp, kDown, kButterfly, kIndex };

// d[k] = from[index[k]]
HWY_INLINE void pick_lanes(uint32_t* d, const uint32_t* from, const int32_t* index) {
#if HWY_TARGET <= HWY_AVX3
  const __m512i low = _mm512_loadu_si512(from), high = _mm512_loadu_si512(from + 16);
  for (int k = 0; k < kLanes; k += 16)
    _mm512_storeu_si512(d + k, _mm512_permutex2var_epi32(low, _mm512_loadu_si512(index + k), high));
#else
  for (int k = 0; k < kLanes; ++k) d[k] = from[index[k]];
#endif
}

void shuffle(const Inst& i, Warp& w) {  // places: [more] the clamp, [more + 1] the predicate if count is 1
  const uint32_t m = active(i, w);
  const auto& places = w.block->program->places;
  uint32_t from[kLanes], inside = 0;
  std::memcpy(from, cells<uint32_t>(w, i.a), sizeof from);
  const auto *b = cells<uint32_t>(w, i.b), *c = cells<uint32_t>(w, places[i.more]);
  auto* d = cells<uint32_t>(w, i.d);
  if (m == kFull) {
    alignas(64) int32_t index[kLanes];
    const uint8_t mode = i.op;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int value = static_cast<int>(b[lane] & 31), clamp = static_cast<int>(c[lane] & 31),
                segment = static_cast<int>(c[lane] >> 8 & 31);
      const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
      const int j = mode == kUp          ? lane - value
                    : mode == kDown      ? lane + value
                    : mode == kButterfly ? lane ^ value
                                         : (first | (value & ~segment));
      index[lane] = (mode == kUp ? j >= last : j <= last) ? j : -1;
    }
    inside = mask_of([&](int k) { return index[k] >= 0; });
    for (int k = 0; k < kLanes; ++k) index[k] = index[k] >= 0 ? index[k] : k;
    pick_lanes(d, from, index);
    if (i.count) set_mask(w, places[i.more + 1], m, inside);
    return;
  }
  each_lane(m, [&](int lane) {
    const int value = static_cast<int>(b[lane] & 31), clamp = static_cast<int>(c[lane] & 31),
              segment = static_cast<int>(c[lane] >> 8 & 31);
    const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    int j = 0;
    bool in = false;
    switch (i.op) {
      case kUp:
        j = lane - value;
        in = j >= last;
        break;
      case kDown:
        j = lane + value;
        in = j <= last;
        break;
      case kButterfly:
        j = lane ^ value;
        in = j <= last;
        break;
      default:
        j = first | (value & ~segment);
        in = j <= last;
        break;
    }
    if (!in) j = lane;
    d[lane] = from[j];
    inside |= static_cast<uint32_t>(in) << lane;
  });
  if (i.count) set_mask(w, places[i.more + 1], m, inside);
}

void vote(const Inst& i, Warp& w) {  // op: 0 all, 1 any, 2 uni, 3 ballot
  const uint32_t m = active(i, w), p = mask_at(w, i.a) & m;
  if (i.op == 3) return each_lane(m, [&](int k) { cells<uint32_t>(w, i.d)[k] = p; });
  const bool r = i.op == 0 ? p == m : i.op == 1 ? p != 0 : p == m || p == 0;
  set_mask(w, i.d, m, r ? kFull : 0);
}

template <class T> void match(const Inst& i, Warp& w) {  // op 1: all, with a predicate if count is 1
  const uint32_t m = active(i, w);
  T v[kLanes];
  std::memcpy(v, cells<T>(w, i.a), sizeof v);
  auto* d = cells<uint32_t>(w, i.d);
  if (i.op) {
    bool same = true;
    each_lane(m, [&](int k) { same = same && v[k] == v[std::countr_zero(m)]; });
    each_lane(m, [&](int k) { d[k] = same ? m : 0; });
    if (i.count) set_mask(w, w.block->program->places[i.more], m, same ? kFull : 0);
    return;
  }
  each_lane(m, [&](int k) {
    uint32_t r = 0;
    each_lane(m, [&](int j) { r |= static_cast<uint32_t>(v[j] == v[k]) << j; });
    d[k] = r;
  });
}

template <class T> void redux(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (!m) return;
  const auto* a = cells<uint32_t>(w, i.a);
  T r = std::bit_cast<T>(a[std::countr_zero(m)]);
  each_lane(m & (m - 1), [&](int k) {
    const T v = std::bit_cast<T>(a[k]);
    switch (i.op) {
      case 0: r = static_cast<T>(static_cast<uint32_t>(r) + static_cast<uint32_t>(v)); break;
      case 1: r = std::min(r, v); break;
      case 2: r = std::max(r, v); break;
      case 3: r &= v; break;
      case 4: r |= v; break;
      default: r ^= v; break;
    }
  });
  each_lane(m, [&](int k) { cells<uint32_t>(w, i.d)[k] = std::bit_cast<uint32_t>(r); });
}

void active_mask(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  each_lane(m, [&](int k) { cells<uint32_t>(w, i.d)[k] = m; });
}
void elect(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (!m) return;
  const auto leader = static_cast<uint32_t>(std::countr_zero(m));
  each_lane(m, [&](int k) { cells<uint32_t>(w, i.d)[k] = leader; });
  set_mask(w, w.block->program->places[i.more], m, 1u << leader);
}
void nothing(const Inst&, Warp&) {}

uint32_t second(Builder& b) {
  ptx::Operand o = b.operand(0);
  o.name = o.pair;
  o.pair.clear();
  return o.name == "_" ? b.scratch(4) : b.predicate(o, true);
}
uint32_t first(Builder& b) {
  ptx::Operand o = b.operand(0);
  o.pair.clear();
  return b.dst(o, Type::B32);
}

bool shuffles(Builder& b) {
  if (!b.flag("sync")) b.unsupported("the form without .sync left PTX with sm_70");
  b.out.op = b.flag("up") ? kUp : b.flag("down") ? kDown : b.flag("bfly") ? kButterfly : kIndex;
  b.ignore({"idx"});
  b.type();
  b.operands(5, 5);
  b.out.a = b.src(1, Type::B32);
  b.out.b = b.src(2, Type::B32);
  b.out.more = b.place(b.src(3, Type::B32));
  const uint32_t members = b.src(4, Type::B32);
  b.out.d = first(b);
  b.out.count = !b.operand(0).pair.empty();
  if (b.out.count) b.place(second(b));
  b.emit_together(shuffle, Class::Exchange, members);
  return true;
}

bool votes(Builder& b) {
  if (!b.flag("sync")) b.unsupported("the form without .sync left PTX with sm_70");
  b.out.op = b.flag("all") ? 0 : b.flag("any") ? 1 : b.flag("uni") ? 2 : 3;
  b.ignore({"ballot"});
  b.type();
  b.operands(3, 3);
  b.out.a = b.predicate(b.operand(1), false);
  b.out.d = b.out.op == 3 ? b.dst(0, Type::B32) : b.predicate(b.operand(0), true);
  b.emit_together(vote, Class::Exchange, b.src(2, Type::B32));
  return true;
}

bool matches(Builder& b) {
  b.ignore({"sync", "any"});
  b.out.op = b.flag("all");
  const Type t = b.type();
  b.operands(3, 3);
  b.out.a = b.src(1, t);
  b.out.d = first(b);
  b.out.count = !b.operand(0).pair.empty();
  if (b.out.count) b.out.more = b.place(second(b));
  b.emit_together(size_of(t) == 8 ? match<uint64_t> : match<uint32_t>, Class::Exchange, b.src(2, Type::B32));
  return true;
}

bool reductions(Builder& b) {
  b.ignore({"sync"});
  constexpr std::string_view kNames[] = {"add", "min", "max", "and", "or", "xor"};
  uint8_t op = 0;
  while (op < 6 && !b.flag(kNames[op])) ++op;
  const Type t = b.type();
  if (op == 6 || is_float(t) || size_of(t) != 4) b.unsupported();
  b.operands(3, 3);
  b.out.op = op;
  b.out.a = b.src(1, t);
  b.out.d = b.dst(0, t);
  b.emit_together(t == Type::S32 ? redux<int32_t> : redux<uint32_t>, Class::Exchange, b.src(2, Type::B32));
  return true;
}

}  // namespace

bool select_exchange(Builder& b) {
  const std::string& op = b.in.op;
  if (op == "shfl") return shuffles(b);
  if (op == "vote") return votes(b);
  if (op == "match") return matches(b);
  if (op == "redux") return reductions(b);
  if (op == "activemask") {
    b.type();
    b.operands(1, 1);
    b.out.d = b.dst(0, Type::B32);
    b.emit(active_mask, Class::Exchange);
    return true;
  }
  if (op == "elect") {
    b.ignore({"sync"});
    b.operands(2, 2);
    b.out.d = first(b);
    if (b.operand(0).pair.empty()) b.wrong("elect.sync has a predicate");
    b.out.more = b.place(second(b));
    b.emit_together(elect, Class::Exchange, b.src(1, Type::B32));
    return true;
  }
  if (op == "bar" && b.flag("warp")) {
    b.ignore({"sync"});
    b.operands(1, 1);
    b.emit_together(nothing, Class::Barrier, b.src(0, Type::B32));
    return true;
  }
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_exchange);
bool select_exchange(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_exchange)(b); }
}  // namespace strata::cuda::vgpu
#endif
