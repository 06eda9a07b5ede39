// Comparisons into predicates and numbers, and selection by them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/compare.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

enum Cmp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };
constexpr std::string_view kNames[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                       "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

template <Cmp C, class T> HWY_INLINE bool holds(T a, T b) {
  if constexpr (C == kEq) return a == b;
  else if constexpr (C == kNe) return a < b || a > b;
  else if constexpr (C == kLt) return a < b;
  else if constexpr (C == kLe) return a <= b;
  else if constexpr (C == kGt) return a > b;
  else if constexpr (C == kGe) return a >= b;
  else if constexpr (C == kEqu) return !(a < b || a > b);
  else if constexpr (C == kNeu) return !(a == b);
  else if constexpr (C == kLtu) return !(a >= b);
  else if constexpr (C == kLeu) return !(a > b);
  else if constexpr (C == kGtu) return !(a <= b);
  else if constexpr (C == kGeu) return !(a < b);
  else if constexpr (C == kNum) return a == a && b == b;
  else return a != a || b != b;
}

struct HalfBits {
  uint16_t bits;
};
struct BrainBits {
  uint16_t bits;
};
inline float value(HalfBits h) { return half_to_float(h.bits); }
inline float value(BrainBits h) { return bf16_to_float(h.bits); }
template <class T> inline T value(T v) { return v; }

template <class T, Cmp C> HWY_INLINE uint32_t compare(const Inst& i, Warp& w) {
  const auto *a = cells<Cell<T>>(w, i.a), *b = cells<Cell<T>>(w, i.b);
  if constexpr (std::is_same_v<T, float>)
    if (i.ftz) return mask_of([=](int k) { return holds<C>(flushed(unpack<T>(a[k])), flushed(unpack<T>(b[k]))); });
  return mask_of([=](int k) { return holds<C>(value(unpack<T>(a[k])), value(unpack<T>(b[k]))); });
}

// op: 0 none, 1 and, 2 or, 3 xor with the predicate c. places[more] is the second result, of the opposite comparison.
uint32_t combine(uint8_t op, uint32_t r, uint32_t c) { return op == 1 ? r & c : op == 2 ? r | c : op == 3 ? r ^ c : r; }

template <class T, Cmp C> void setp(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w), r = compare<T, C>(i, w), c = i.op ? mask_at(w, i.c) : 0;
  set_mask(w, i.d, m, combine(i.op, r, c));
  if (i.count) set_mask(w, w.block->program->places[i.more], m, combine(i.op, ~r, c));
}
template <class T> bool holds_now(int64_t comparison, T u, T v) {  // for rare forms, one loop for all comparisons
  const bool unordered = u != u || v != v;
  if (comparison == kNum || comparison == kNan) return unordered == (comparison == kNan);
  const bool or_nan = comparison >= kEqu;
  switch (or_nan ? comparison - kEqu : comparison) {
    case kEq: return u == v || (or_nan && unordered);
    case kNe: return u < v || u > v || (or_nan && unordered);
    case kLt: return u < v || (or_nan && unordered);
    case kLe: return u <= v || (or_nan && unordered);
    case kGt: return u > v || (or_nan && unordered);
    default: return u >= v || (or_nan && unordered);
  }
}
template <class T> void set(const Inst& i, Warp& w) {  // imm: the bits of "true" | the comparison << 32
  const auto *a = cells<Cell<T>>(w, i.a), *b = cells<Cell<T>>(w, i.b);
  uint32_t r = 0;
  for (int k = 0; k < kLanes; ++k) {
    auto x = value(unpack<T>(a[k])), y = value(unpack<T>(b[k]));
    if constexpr (std::is_same_v<T, float>)
      if (i.ftz) {
        x = flushed(x);
        y = flushed(y);
      }
    r |= static_cast<uint32_t>(holds_now(i.imm >> 32, x, y)) << k;
  }
  r = combine(i.op, r, i.op ? mask_at(w, i.c) : 0);
  each_lane(active(i, w), [&](int k) { cells<uint32_t>(w, i.d)[k] = r >> k & 1 ? static_cast<uint32_t>(i.imm) : 0; });
}
Handler set_of(Type t, size_t c) {
  switch (t) {
    case Type::F32: return set<float>;
    case Type::F64: return set<double>;
    case Type::F16: return set<HalfBits>;
    case Type::BF16: return set<BrainBits>;
    default: return c >= kEqu ? nullptr : for_integer(t, []<class T>() -> Handler { return set<T>; });
  }
}
// f16x2 and bf16x2: a mask of lanes per half; comparison: a Cmp, nan: bf16.
void compare_pairs(const Inst& i, Warp& w, int64_t comparison, uint32_t* r) {
  r[0] = r[1] = 0;
  const auto *a = cells<uint32_t>(w, i.a), *b = cells<uint32_t>(w, i.b);
  for (int k = 0; k < kLanes; ++k)
    for (int h = 0; h < 2; ++h) {
      const auto x = static_cast<uint16_t>(a[k] >> 16 * h), y = static_cast<uint16_t>(b[k] >> 16 * h);
      const float u = i.nan ? bf16_to_float(x) : half_to_float(x), v = i.nan ? bf16_to_float(y) : half_to_float(y);
      const bool t = holds_now(comparison, u, v);
      r[h] |= static_cast<uint32_t>(t) << k;
    }
}
void setp_pair(const Inst& i, Warp& w) {  // imm: the comparison
  const uint32_t m = active(i, w);
  uint32_t r[2];
  compare_pairs(i, w, i.imm, r);
  const uint32_t c = i.op ? mask_at(w, i.c) : 0;
  set_mask(w, i.d, m, combine(i.op, r[0], c));
  set_mask(w, w.block->program->places[i.more], m, combine(i.op, r[1], c));
}

void set_pair(const Inst& i, Warp& w) {  // imm: the bits of "true" | the comparison << 32
  uint32_t r[2];
  compare_pairs(i, w, i.imm >> 32, r);
  const uint32_t c = i.op ? mask_at(w, i.c) : 0, low = combine(i.op, r[0], c), high = combine(i.op, r[1], c);
  const auto yes = static_cast<uint32_t>(i.imm & 0xffff);
  each_lane(active(i, w),
            [&](int k) { cells<uint32_t>(w, i.d)[k] = (low >> k & 1 ? yes : 0) | (high >> k & 1 ? yes : 0) << 16; });
}

template <class T> void selp(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w), p = mask_at(w, i.c);
  auto *d = cells<T>(w, i.d), *a = cells<T>(w, i.a), *b = cells<T>(w, i.b);
#pragma GCC ivdep
  for (int k = 0; k < kLanes; ++k) {
    const T r = p >> k & 1 ? a[k] : b[k];
    d[k] = m >> k & 1 ? r : d[k];
  }
}
template <class T, class C> void slct(const Inst& i, Warp& w) {
  map3<T, T, T, C>(i, w, [&i](T a, T b, C c) {
    if constexpr (std::is_same_v<C, float>)
      if (i.ftz) c = flushed(c);
    return c >= 0 ? a : b;
  });
}
template <class T> void testp(const Inst& i, Warp& w) {
  uint32_t r = 0;
  for (int k = 0; k < kLanes; ++k) {
    const T v = unpack<T>(cells<Cell<T>>(w, i.a)[k]);
    const int c = std::fpclassify(v);
    const bool t = i.op == 0   ? std::isfinite(v)
                   : i.op == 1 ? c == FP_INFINITE
                   : i.op == 2 ? c != FP_NAN
                   : i.op == 3 ? c == FP_NAN
                   : i.op == 4 ? c == FP_NORMAL || c == FP_ZERO
                               : c == FP_SUBNORMAL;
    r |= static_cast<uint32_t>(t) << k;
  }
  set_mask(w, i.d, active(i, w), r);
}

template <class T, size_t... K> Handler from_table(size_t c, std::index_sequence<K...>) {
  static constexpr Handler kTable[] = {setp<T, static_cast<Cmp>(K)>...};
  return kTable[c];
}
Handler setp_of(Type t, size_t c) {
  if (t == Type::F32) return from_table<float>(c, std::make_index_sequence<14>{});
  if (t == Type::F64) return from_table<double>(c, std::make_index_sequence<14>{});
  if (t == Type::F16) return from_table<HalfBits>(c, std::make_index_sequence<14>{});
  if (t == Type::BF16) return from_table<BrainBits>(c, std::make_index_sequence<14>{});
  if (c >= kEqu) return nullptr;
  return for_integer(t, [&]<class T>() -> Handler { return from_table<T>(c, std::make_index_sequence<6>{}); });
}

size_t comparison(Builder& b, Type& t) {
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (b.flag(kNames[k])) return k;
  // The unsigned forms have their own names.
  constexpr std::string_view kUnsigned[] = {"lo", "ls", "hi", "hs"};
  for (size_t k = 0; k < 4; ++k)
    if (b.flag(kUnsigned[k])) {
      t = size_of(t) == 8 ? Type::U64 : size_of(t) == 4 ? Type::U32 : Type::U16;
      return kLt + k;
    }
  b.unsupported();
}

bool compare_into(Builder& b) {
  const bool predicate = b.in.op == "setp";
  b.out.ftz = b.flag("ftz");
  const Type d = predicate ? Type::Pred : b.type();
  Type t = b.type();
  const size_t c = comparison(b, t);
  b.out.op = b.flag("and") ? 1 : b.flag("or") ? 2 : b.flag("xor") ? 3 : 0;
  b.operands(b.out.op ? 4 : 3, b.out.op ? 4 : 3);
  b.out.a = b.src(1, t);
  b.out.b = b.src(2, t);
  if (b.out.op) b.out.c = b.predicate(b.operand(3), false);
  if (!predicate) {
    if (size_of(d) != 4 && size_of(d) != 2) b.unsupported();
    b.out.d = b.dst(0, d);
    const bool half = d == Type::F16 || d == Type::F16x2, brain = d == Type::BF16 || d == Type::BF16x2;
    b.out.imm = d == Type::F32 ? 0x3f800000 : half ? 0x3c00 : brain ? 0x3f80 : size_of(d) == 2 ? 0xffff : kFull;
    if (t == Type::F16x2 || t == Type::BF16x2) {
      b.out.nan = t == Type::BF16x2;
      b.out.imm |= static_cast<int64_t>(c) << 32;
      b.emit(set_pair, Class::Integer);
      return true;
    }
    b.out.imm |= static_cast<int64_t>(c) << 32;
    const Handler h = set_of(t, c);
    if (!h) b.unsupported();
    b.emit(h, Class::Integer);
    return true;
  }
  ptx::Operand first = b.operand(0), second = first;
  second.name = first.pair;
  first.pair.clear();
  second.pair.clear();
  b.out.d = first.name == "_" ? b.scratch(4) : b.predicate(first, true);
  if (!second.name.empty()) {
    b.out.more = b.place(second.name == "_" ? b.scratch(4) : b.predicate(second, true));
    b.out.count = 1;
  }
  if (t == Type::F16x2 || t == Type::BF16x2) {
    if (!b.out.count) b.wrong("a comparison of pairs has two results");
    b.out.imm = static_cast<int64_t>(c);
    b.out.nan = t == Type::BF16x2;
    b.emit(setp_pair, Class::Predicate);
    return true;
  }
  const Handler h = setp_of(t, c);
  if (!h) b.unsupported();
  b.emit(h, Class::Predicate);
  return true;
}

}  // namespace

bool select_compare(Builder& b) {
  const std::string& op = b.in.op;
  if (op == "setp" || op == "set") return compare_into(b);
  if (op == "selp") {
    const Type t = b.type();
    b.operands(4, 4);
    b.out.a = b.src(1, t);
    b.out.b = b.src(2, t);
    b.out.c = b.predicate(b.operand(3), false);
    b.out.d = b.dst(0, t);
    b.emit(size_of(t) == 8 ? selp<uint64_t> : selp<uint32_t>, Class::Move);
    return true;
  }
  if (op == "slct") {
    b.out.ftz = b.flag("ftz");
    const Type t = b.type(), c = b.type();
    b.operands(4, 4);
    b.out.a = b.src(1, t);
    b.out.b = b.src(2, t);
    b.out.c = b.src(3, c);
    b.out.d = b.dst(0, t);
    const bool wide = size_of(t) == 8, number = c == Type::F32;
    if (!number && c != Type::S32) b.unsupported();
    b.emit(wide ? (number ? slct<uint64_t, float> : slct<uint64_t, int32_t>)
                : (number ? slct<uint32_t, float> : slct<uint32_t, int32_t>),
           Class::Move);
    return true;
  }
  if (op == "testp") {
    const char* kinds[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    for (uint8_t k = 0; k < 6; ++k)
      if (b.flag(kinds[k])) b.out.op = k;
    const Type t = b.type();
    b.operands(2, 2);
    b.out.a = b.src(1, t);
    b.out.d = b.predicate(b.operand(0), true);
    if (!is_float(t) || size_of(t) < 4) b.unsupported();
    b.emit(t == Type::F32 ? testp<float> : testp<double>, Class::Predicate);
    return true;
  }
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_compare);
bool select_compare(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_compare)(b); }
}  // namespace strata::cuda::vgpu
#endif
