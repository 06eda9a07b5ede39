// Integer arithmetic: sums, products, quotients, carries, dot products of bytes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/integer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>

#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

// Unsigned arithmetic wraps; narrow types are promoted by the language and truncated again.
template <class T> using Bits = std::make_unsigned_t<T>;
template <class T>
using Twice =
  std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                     std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                        std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;

struct Add {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(Bits<T>(a) + Bits<T>(b)); }
};
struct Sub {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(Bits<T>(a) - Bits<T>(b)); }
};
template <class T> using Product = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
struct MulLo {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(Product<T>(a) * Product<T>(b)); }
};
struct MulHi {
  template <class T> T operator()(T a, T b) const {
    return static_cast<T>(Twice<T>(a) * Twice<T>(b) >> (8 * sizeof(T)));
  }
};
// A GPU does not trap: a quotient by zero is all ones, a remainder the dividend.
struct Div {
  template <class T> T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return static_cast<T>(0 - Bits<T>(a));
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T> T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
// Quotients through double, which are exact for 32 bits, and for 64 if all numbers are below 2^51: the quotient n - d
// of integers differs from n by more than a rounding, as d / n is at least one over the dividend.
template <class T, class F> void divide(const Inst& i, Warp& w) {
  constexpr bool kRemainder = std::is_same_v<F, Rem>;
  if constexpr (sizeof(T) == 2) return map2<T, T, T>(i, w, F{});
  const uint32_t m = active(i, w);
  const auto *pa = cells<T>(w, i.a), *pb = cells<T>(w, i.b);
  alignas(64) T a[kLanes], b[kLanes], r[kLanes];
  for (int k = 0; k < kLanes; ++k) {
    a[k] = m >> k & 1 ? pa[k] : T(1);
    b[k] = m >> k & 1 ? pb[k] : T(1);
  }
  uint64_t large = 0;
  if constexpr (sizeof(T) == 8)
    for (int k = 0; k < kLanes; ++k) {
      const uint64_t x = static_cast<uint64_t>(std::is_signed_v<T> && a[k] < 0 ? 0 - a[k] : a[k]),
                     y = static_cast<uint64_t>(std::is_signed_v<T> && b[k] < 0 ? 0 - b[k] : b[k]);
      large |= (x | y) >> 51;
    }
  if (large) {
    for (int k = 0; k < kLanes; ++k) r[k] = F{}(a[k], b[k]);
  } else {
    for (int k = 0; k < kLanes; ++k) {
      const double y = b[k] == 0 ? 1.0 : static_cast<double>(b[k]), q = static_cast<double>(a[k]) / y;
      const T whole = static_cast<T>(std::conditional_t<sizeof(T) == 4, int64_t, T>(q));
      r[k] = kRemainder ? static_cast<T>(a[k] - whole * b[k]) : whole;
    }
    for (int k = 0; k < kLanes; ++k) r[k] = b[k] == 0 ? (kRemainder ? a[k] : static_cast<T>(-1)) : r[k];
  }
  keep(cells<T>(w, i.d), r, m);
}
template <class F> Handler division(Type type) {
  return for_integer(type, []<class T>() -> Handler { return divide<T, F>; });
}

struct Min {
  template <class T> T operator()(T a, T b) const { return a < b ? a : b; }
};
struct Max {
  template <class T> T operator()(T a, T b) const { return a > b ? a : b; }
};
struct Abs {
  template <class T> T operator()(T a) const { return a < 0 ? static_cast<T>(0 - Bits<T>(a)) : a; }
};
struct Neg {
  template <class T> T operator()(T a) const { return static_cast<T>(0 - Bits<T>(a)); }
};
struct AddSat {
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX));
  }
};
struct SubSat {
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX));
  }
};
template <class T> void mad_lo(const Inst& i, Warp& w) {
  map3<T, T, T, T>(i, w, [](T a, T b, T c) { return static_cast<T>(Product<T>(a) * Product<T>(b) + Product<T>(c)); });
}
template <class T> void mad_hi(const Inst& i, Warp& w) {
  map3<T, T, T, T>(i, w, [&i](T a, T b, T c) {
    const T high = MulHi{}(a, b);
    if (i.sat) return static_cast<T>(std::clamp<int64_t>(int64_t(high) + int64_t(c), INT32_MIN, INT32_MAX));
    return Add{}(high, c);
  });
}
template <class T> void mul_wide(const Inst& i, Warp& w) {
  map2<Twice<T>, T, T>(i, w, [](T a, T b) { return static_cast<Twice<T>>(Twice<T>(a) * Twice<T>(b)); });
}
template <class T> void mad_wide(const Inst& i, Warp& w) {
  using D = Twice<T>;
  map3<D, T, T, D>(i, w, [](T a, T b, D c) { return Add{}(static_cast<D>(D(a) * D(b)), c); });
}
template <class T> void sad(const Inst& i, Warp& w) {
  map3<T, T, T, T>(i, w, [](T a, T b, T c) {
    return static_cast<T>(Bits<T>(c) + (a < b ? Bits<T>(b) - Bits<T>(a) : Bits<T>(a) - Bits<T>(b)));
  });
}
template <class T> T low24(T a) { return std::is_signed_v<T> ? static_cast<T>(a << 8) >> 8 : a & 0xffffff; }
template <class T> void mul24(const Inst& i, Warp& w) {
  map3<T, T, T, T>(i, w, [&i](T a, T b, T c) {
    const int64_t p = int64_t(low24(a)) * int64_t(low24(b));  // 48 bits
    return static_cast<T>((i.op ? p >> 16 : p) + int64_t(c));
  });
}

// a + b + carry, and the carry out. Subtraction adds the complement; the condition code then means "no borrow".
template <class T> void add_carry(const Inst& i, Warp& w) {
  const bool subtract = i.op & 1, with = i.op & 2, sets = i.op & 4;
  const uint32_t m = active(i, w);
  auto *d = cells<Cell<T>>(w, i.d), *a = cells<Cell<T>>(w, i.a), *b = cells<Cell<T>>(w, i.b);
  each_lane(m, [&](int k) {
    const T x = a[k], y = subtract ? static_cast<T>(~b[k]) : b[k];
    const bool in = with ? w.carry >> k & 1 : subtract;
    const unsigned __int128 sum = static_cast<unsigned __int128>(x) + y + in;
    d[k] = static_cast<T>(sum);
    if (sets) w.carry = (w.carry & ~(1u << k)) | static_cast<uint32_t>(sum >> (8 * sizeof(T)) & 1) << k;
  });
}
template <class T> void mad_carry(const Inst& i, Warp& w) {  // op: 1 high half, 2 carry in, 4 carry out
  const uint32_t m = active(i, w);
  auto *d = cells<Cell<T>>(w, i.d), *a = cells<Cell<T>>(w, i.a), *b = cells<Cell<T>>(w, i.b),
       *c = cells<Cell<T>>(w, i.c);
  each_lane(m, [&](int k) {
    const T x = std::bit_cast<T>(a[k]), y = std::bit_cast<T>(b[k]);
    const Bits<T> p = static_cast<Bits<T>>(i.op & 1 ? MulHi{}(x, y) : MulLo{}(x, y));
    const unsigned __int128 sum =
      static_cast<unsigned __int128>(p) + static_cast<Bits<T>>(c[k]) + (i.op & 2 ? w.carry >> k & 1 : 0);
    d[k] = static_cast<Bits<T>>(sum);
    if (i.op & 4) w.carry = (w.carry & ~(1u << k)) | static_cast<uint32_t>(sum >> (8 * sizeof(T)) & 1) << k;
  });
}

template <class A, class B, int Step> int32_t dot(uint32_t a, uint32_t b, int32_t c, int from) {
  auto sum = static_cast<uint32_t>(c);
  for (int e = 0; e < 4 / Step; ++e) {
    const int32_t x = Step == 1
                        ? A(a >> 8 * e)
                        : static_cast<int32_t>(std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>(a >> 16 * e));
    sum += static_cast<uint32_t>(x * int32_t(B(b >> 8 * (e + from))));
  }
  return static_cast<int32_t>(sum);
}
template <class A, class B> void dp4a(const Inst& i, Warp& w) {
  map3<int32_t, uint32_t, uint32_t, int32_t>(
    i, w, [](uint32_t a, uint32_t b, int32_t c) { return dot<A, B, 1>(a, b, c, 0); });
}
template <class A, class B> void dp2a(const Inst& i, Warp& w) {
  map3<int32_t, uint32_t, uint32_t, int32_t>(
    i, w, [&i](uint32_t a, uint32_t b, int32_t c) { return dot<A, B, 2>(a, b, c, i.op ? 2 : 0); });
}

// Two 16-bit numbers in a word.
template <class T, class F> void pairs(const Inst& i, Warp& w) {
  map2<uint32_t, uint32_t, uint32_t>(i, w, [](uint32_t a, uint32_t b) {
    const auto low = static_cast<uint16_t>(F{}(static_cast<T>(a), static_cast<T>(b)));
    const auto high = static_cast<uint16_t>(F{}(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return low | static_cast<uint32_t>(high) << 16;
  });
}
template <class F> Handler pair_handler(Type t) {
  return t == Type::S16x2 ? Handler(pairs<int16_t, F>) : t == Type::U16x2 ? Handler(pairs<uint16_t, F>) : nullptr;
}

Type twice(Type t) {
  switch (t) {
    case Type::U16: return Type::U32;
    case Type::S16: return Type::S32;
    case Type::U32: return Type::U64;
    case Type::S32: return Type::S64;
    default: return Type::None;
  }
}

bool finish(Builder& b, Handler h) {
  if (!h) b.unsupported();
  b.emit(h, Class::Integer);
  return true;
}

bool product(Builder& b, bool mad) {
  const bool wide = b.flag("wide"), high = b.flag("hi"), low = b.flag("lo"), sets = b.flag("cc");
  b.out.sat = b.flag("sat");
  const bool with = b.in.op == "madc";
  const Type t = b.type();
  if (is_float(t) || !(wide || high || low)) return false;
  if (b.out.sat && (t != Type::S32 || !high || !mad)) b.unsupported();
  b.operands(mad ? 4 : 3, mad ? 4 : 3);
  const Type d = wide ? twice(t) : t;
  if (d == Type::None) b.unsupported();
  b.out.a = b.src(1, t);
  b.out.b = b.src(2, t);
  if (mad) b.out.c = b.src(3, d);
  b.out.d = b.dst(0, d);
  if (sets || with) {
    b.out.op = static_cast<uint8_t>((high ? 1 : 0) | (with ? 2 : 0) | (sets ? 4 : 0));
    if (wide || size_of(t) < 4) b.unsupported();
    return finish(b, for_integer(t, []<class T>() -> Handler {
                    if constexpr (sizeof(T) >= 4) return mad_carry<T>;
                    else return nullptr;
                  }));
  }
  return finish(b, for_integer(t, [&]<class T>() -> Handler {
                  if (!wide) return mad ? (high ? mad_hi<T> : mad_lo<T>) : (high ? binary<T, MulHi> : binary<T, MulLo>);
                  if constexpr (sizeof(T) <= 4) return mad ? mad_wide<T> : mul_wide<T>;
                  else return nullptr;
                }));
}

bool sum(Builder& b, bool subtract, bool with) {
  const bool sets = b.flag("cc"), sat = b.flag("sat");
  const Type t = b.type();
  if (is_float(t)) return false;
  places3(b, t);
  if (sets || with) {
    b.out.op = static_cast<uint8_t>((subtract ? 1 : 0) | (with ? 2 : 0) | (sets ? 4 : 0));
    return finish(b, size_of(t) == 8   ? Handler(add_carry<uint64_t>)
                     : size_of(t) == 4 ? Handler(add_carry<uint32_t>)
                                       : nullptr);
  }
  if (sat)
    return finish(b, t != Type::S32 ? nullptr : subtract ? Handler(binary<int32_t, SubSat>) : binary<int32_t, AddSat>);
  if (t == Type::U16x2 || t == Type::S16x2) return finish(b, subtract ? nullptr : pair_handler<Add>(t));
  return finish(b, subtract ? binary_integer<Sub>(t) : binary_integer<Add>(t));
}

bool dots(Builder& b, bool four) {
  const bool high = !four && b.flag("hi");
  if (!four && !high && !b.flag("lo")) b.unsupported();
  const Type ta = b.type(), tb = b.type();
  b.operands(4, 4);
  b.out.op = high;
  b.out.a = b.src(1, Type::B32);
  b.out.b = b.src(2, Type::B32);
  b.out.c = b.src(3, Type::S32);
  b.out.d = b.dst(0, Type::S32);
  const bool sa = ta == Type::S32, sb = tb == Type::S32;
  if ((!sa && ta != Type::U32) || (!sb && tb != Type::U32)) b.unsupported();
  if (four)
    return finish(
      b,
      sa ? (sb ? dp4a<int8_t, int8_t> : dp4a<int8_t, uint8_t>) : (sb ? dp4a<uint8_t, int8_t> : dp4a<uint8_t, uint8_t>));
  return finish(
    b,
    sa ? (sb ? dp2a<int8_t, int8_t> : dp2a<int8_t, uint8_t>) : (sb ? dp2a<uint8_t, int8_t> : dp2a<uint8_t, uint8_t>));
}

bool product24(Builder& b, bool mad) {
  b.out.op = b.flag("hi");
  if (!b.out.op && !b.flag("lo")) b.unsupported();
  const Type t = b.type();
  b.operands(mad ? 4 : 3, mad ? 4 : 3);
  b.out.a = b.src(1, t);
  b.out.b = b.src(2, t);
  b.out.c = mad ? b.src(3, t) : b.constant(0, 4);
  b.out.d = b.dst(0, t);
  return finish(b, t == Type::S32 ? Handler(mul24<int32_t>) : t == Type::U32 ? Handler(mul24<uint32_t>) : nullptr);
}

}  // namespace

bool select_integer(Builder& b) {
  const std::string& op = b.in.op;
  if (op == "add" || op == "sub") return sum(b, op == "sub", false);
  if (op == "addc" || op == "subc") return sum(b, op == "subc", true);
  if (op == "mul") return product(b, false);
  if (op == "mad" || op == "madc") return product(b, true);
  if (op == "mul24" || op == "mad24") return product24(b, op == "mad24");
  if (op == "dp4a" || op == "dp2a") return dots(b, op == "dp4a");
  if (op == "div" || op == "rem" || op == "min" || op == "max") {
    const Type t = b.type();
    if (is_float(t)) return false;
    b.out.relu = b.flag("relu");
    if (b.out.relu) b.unsupported();
    places3(b, t);
    if (t == Type::U16x2 || t == Type::S16x2)
      return finish(b, op == "min" ? pair_handler<Min>(t) : op == "max" ? pair_handler<Max>(t) : nullptr);
    return finish(b, op == "div"   ? division<Div>(t)
                     : op == "rem" ? division<Rem>(t)
                     : op == "min" ? binary_integer<Min>(t)
                                   : binary_integer<Max>(t));
  }
  if (op == "abs" || op == "neg") {
    const Type t = b.type();
    if (is_float(t)) return false;
    places2(b, t);
    return finish(b, op == "abs" ? unary_integer<Abs>(t) : unary_integer<Neg>(t));
  }
  if (op == "sad") {
    const Type t = b.type();
    places4(b, t);
    return finish(b, for_integer(t, []<class T>() -> Handler { return sad<T>; }));
  }
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_integer);
bool select_integer(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_integer)(b); }
}  // namespace strata::cuda::vgpu
#endif
