// Logic, shifts, fields and counts of bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/bits.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

struct And {
  template <class T> T operator()(T a, T b) const { return a & b; }
};
struct Or {
  template <class T> T operator()(T a, T b) const { return a | b; }
};
struct Xor {
  template <class T> T operator()(T a, T b) const { return a ^ b; }
};
struct Not {
  template <class T> T operator()(T a) const { return static_cast<T>(~a); }
};
struct CNot {
  template <class T> T operator()(T a) const { return a == 0; }
};

template <class T> void shl(const Inst& i, Warp& w) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  map2<T, T, uint32_t>(
    i, w, [](T a, uint32_t n) { return static_cast<T>(n >= kBits ? T(0) : static_cast<T>(uint64_t(a) << (n & 63))); });
}
template <class T> void shr(const Inst& i, Warp& w) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  map2<T, T, uint32_t>(i, w, [](T a, uint32_t n) {
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (n >= kBits ? kBits - 1 : n));
    else return static_cast<T>(n >= kBits ? T(0) : a >> n);
  });
}
void funnel(const Inst& i, Warp& w) {  // op: 1 right, 2 wrap
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(i, w, [&i](uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = i.op & 2 ? c & 31 : c > 32 ? 32 : c;
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    if (i.op & 1) return static_cast<uint32_t>(both >> n);
    return n == 32 ? a : static_cast<uint32_t>(both << n >> 32);
  });
}
void lop3(const Inst& i, Warp& w) {
  const auto table = static_cast<uint32_t>(i.imm);
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(i, w, [table](uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r = 0;
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k)
      r |= (table >> k & 1 ? kFull : 0) & (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
  });
}
void prmt(const Inst& i, Warp& w) {  // op: 0 by index, else a mode
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(i, w, [&i](uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    uint32_t r = 0;
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t s = c & 3;
      uint32_t index = c >> 4 * k & 15;
      switch (i.op) {
        case 1: index = s + k; break;                  // f4e
        case 2: index = (s - k) & 7; break;            // b4e
        case 3: index = s; break;                      // rc8
        case 4: index = k > s ? k : s; break;          // ecl
        case 5: index = k < s ? k : s; break;          // ecr
        case 6: index = (s & 1) * 2 + (k & 1); break;  // rc16
        default: break;
      }
      uint32_t byte = static_cast<uint32_t>(bytes >> 8 * (index & 7)) & 0xff;
      if (i.op == 0 && index & 8) byte = byte & 0x80 ? 0xff : 0;  // replicates the sign
      r |= byte << 8 * k;
    }
    return r;
  });
}

template <class T> void popc(const Inst& i, Warp& w) {
  map1<uint32_t, T>(i, w, [](T a) { return static_cast<uint32_t>(std::popcount(a)); });
}
template <class T> void clz(const Inst& i, Warp& w) {
  map1<uint32_t, T>(i, w, [](T a) { return static_cast<uint32_t>(std::countl_zero(a)); });
}
template <class T> void brev(const Inst& i, Warp& w) {
  map1<T, T>(i, w, [](T a) {
    constexpr T kOnes = static_cast<T>(~T(0));
    for (T mask : {static_cast<T>(kOnes / 3), static_cast<T>(kOnes / 5), static_cast<T>(kOnes / 17)}) {
      const int shift = mask == kOnes / 3 ? 1 : mask == kOnes / 5 ? 2 : 4;
      a = static_cast<T>((a >> shift & mask) | (a & mask) << shift);
    }
    if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(a));
    else return static_cast<T>(__builtin_bswap32(a));
  });
}
template <class T> void bfind(const Inst& i, Warp& w) {
  using U = std::make_unsigned_t<T>;
  map1<uint32_t, T>(i, w, [&i](T a) {
    const U v = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
    if (v == 0) return kFull;
    const auto zeros = static_cast<uint32_t>(std::countl_zero(v));
    return i.op ? zeros : static_cast<uint32_t>(8 * sizeof(T) - 1) - zeros;
  });
}
template <class T> void bfe(const Inst& i, Warp& w) {
  map3<T, T, uint32_t, uint32_t>(i, w, [](T a, uint32_t position, uint32_t length) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t kTop = 8 * sizeof(T) - 1;
    const uint32_t p = position & 255, n = length & 255, end = std::min(p + n - 1, kTop);
    const bool sign = std::is_signed_v<T> && n != 0 && (a >> end & 1);
    const U moved = p > kTop ? U(0) : static_cast<U>(static_cast<U>(a) >> (p & kTop));
    // Bits beyond the field or the top are copies of the sign.
    const uint32_t have = p > kTop ? 0 : std::min(n, kTop + 1 - p);
    const U field = have > kTop ? static_cast<U>(~U(0)) : static_cast<U>((U(1) << (have & kTop)) - 1);
    return static_cast<T>((moved & field) | (sign ? static_cast<U>(~field) : U(0)));
  });
}
template <class T> void bfi(const Inst& i, Warp& w) {  // a into b at c; the length is in places[more]
  const auto* length = cells<uint32_t>(w, w.block->program->places[i.more]);
  const uint32_t m = active(i, w);
  auto *d = cells<Cell<T>>(w, i.d), *a = cells<Cell<T>>(w, i.a), *b = cells<Cell<T>>(w, i.b);
  const auto* c = cells<uint32_t>(w, i.c);
  each_lane(m, [&](int k) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const uint32_t p = c[k] & 255, n = length[k] & 255;
    T field = n >= kBits ? static_cast<T>(~T(0)) : static_cast<T>((T(1) << n) - 1);
    field = p >= kBits ? 0 : field << p;
    d[k] = (b[k] & ~field) | (p >= kBits ? 0 : a[k] << p & field);
  });
}
void bmsk(const Inst& i, Warp& w) {  // op 1: wrap
  map2<uint32_t, uint32_t, uint32_t>(i, w, [&i](uint32_t a, uint32_t b) {
    const uint32_t p = i.op ? a & 31 : a, n = i.op ? b & 31 : b;
    if (p >= 32) return 0u;
    return static_cast<uint32_t>((n >= 32 ? uint64_t{kFull} : (uint64_t{1} << n) - 1) << p);
  });
}

template <int Op> void predicate_logic(const Inst& i, Warp& w) {
  const uint32_t a = mask_at(w, i.a), b = mask_at(w, i.b);
  set_mask(w, i.d, active(i, w), Op == 0 ? a & b : Op == 1 ? a | b : Op == 2 ? a ^ b : ~a);
}

bool finish(Builder& b, Handler h) {
  if (!h) b.unsupported();
  b.emit(h, Class::Integer);
  return true;
}
template <class F> Handler by_size2(Type t) {
  return size_of(t) == 2   ? Handler(binary<uint16_t, F>)
         : size_of(t) == 4 ? binary<uint32_t, F>
         : size_of(t) == 8 ? binary<uint64_t, F>
                           : nullptr;
}
template <class F> Handler by_size1(Type t) {
  return size_of(t) == 2   ? Handler(unary<uint16_t, F>)
         : size_of(t) == 4 ? unary<uint32_t, F>
         : size_of(t) == 8 ? unary<uint64_t, F>
                           : nullptr;
}

bool logic(Builder& b) {
  const std::string& op = b.in.op;
  const Type t = b.type();
  const bool one = op == "not" || op == "cnot";
  if (t == Type::Pred) {
    b.operands(one ? 2 : 3, one ? 2 : 3);
    b.out.a = b.predicate(b.operand(1), false);
    if (!one) b.out.b = b.predicate(b.operand(2), false);
    b.out.d = b.predicate(b.operand(0), true);
    if (op == "cnot") b.unsupported();
    b.emit(op == "and"   ? predicate_logic<0>
           : op == "or"  ? predicate_logic<1>
           : op == "xor" ? predicate_logic<2>
                         : predicate_logic<3>,
           Class::Predicate);
    return true;
  }
  if (one) {
    places2(b, t);
    return finish(b, op == "not" ? by_size1<Not>(t) : by_size1<CNot>(t));
  }
  places3(b, t);
  return finish(b, op == "and" ? by_size2<And>(t) : op == "or" ? by_size2<Or>(t) : by_size2<Xor>(t));
}

bool field(Builder& b) {
  const Type t = b.type();
  const bool insert = b.in.op == "bfi";
  b.operands(insert ? 5 : 4, insert ? 5 : 4);
  b.out.a = b.src(1, t);
  if (insert) {
    b.out.b = b.src(2, t);
    b.out.c = b.src(3, Type::U32);
    b.out.more = b.place(b.src(4, Type::U32));
  } else {
    b.out.b = b.src(2, Type::U32);
    b.out.c = b.src(3, Type::U32);
  }
  b.out.d = b.dst(0, t);
  if (insert) return finish(b, size_of(t) == 4 ? Handler(bfi<uint32_t>) : size_of(t) == 8 ? bfi<uint64_t> : nullptr);
  return finish(b, t == Type::U32   ? Handler(bfe<uint32_t>)
                   : t == Type::S32 ? bfe<int32_t>
                   : t == Type::U64 ? bfe<uint64_t>
                   : t == Type::S64 ? bfe<int64_t>
                                    : nullptr);
}

bool counts(Builder& b) {
  const std::string& op = b.in.op;
  b.out.op = op == "bfind" && b.flag("shiftamt");
  const Type t = b.type();
  b.operands(2, 2);
  b.out.a = b.src(1, t);
  b.out.d = b.dst(0, op == "brev" ? t : Type::U32);
  const bool wide = size_of(t) == 8;
  if (size_of(t) < 4) b.unsupported();
  if (op == "popc") return finish(b, wide ? popc<uint64_t> : popc<uint32_t>);
  if (op == "clz") return finish(b, wide ? clz<uint64_t> : clz<uint32_t>);
  if (op == "brev") return finish(b, wide ? brev<uint64_t> : brev<uint32_t>);
  return finish(b,
                is_signed(t) ? (wide ? bfind<int64_t> : bfind<int32_t>) : (wide ? bfind<uint64_t> : bfind<uint32_t>));
}

}  // namespace

bool select_bits(Builder& b) {
  const std::string& op = b.in.op;
  if (op == "and" || op == "or" || op == "xor" || op == "not" || op == "cnot") return logic(b);
  if (op == "shl" || op == "shr") {
    const Type t = b.type();
    b.operands(3, 3);
    b.out.a = b.src(1, t);
    b.out.b = b.src(2, Type::U32);
    b.out.d = b.dst(0, t);
    return finish(b, for_integer(t, [&]<class T>() -> Handler { return op == "shl" ? shl<T> : shr<T>; }));
  }
  if (op == "popc" || op == "clz" || op == "brev" || op == "bfind") return counts(b);
  if (op == "bfe" || op == "bfi") return field(b);
  if (op == "shf") {
    b.out.op = static_cast<uint8_t>((b.flag("r") ? 1 : 0) | (b.flag("wrap") ? 2 : 0));
    b.ignore({"l", "clamp"});
    places4(b, b.type());
    return finish(b, funnel);
  }
  if (op == "lop3") {
    b.operands(5, 5);
    if (b.operand(4).kind != ptx::Operand::Integer) b.wrong("the table of lop3 is a number");
    b.out.imm = static_cast<int64_t>(b.operand(4).bits & 255);
    const Type t = b.type();
    b.out.a = b.src(1, t);
    b.out.b = b.src(2, t);
    b.out.c = b.src(3, t);
    b.out.d = b.dst(0, t);
    return finish(b, size_of(t) == 4 ? lop3 : nullptr);
  }
  if (op == "prmt") {
    const char* modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    for (uint8_t k = 0; k < 6; ++k)
      if (b.flag(modes[k])) b.out.op = static_cast<uint8_t>(k + 1);
    places4(b, b.type());
    return finish(b, prmt);
  }
  if (op == "bmsk") {
    b.out.op = b.flag("wrap");
    b.ignore({"clamp"});
    places3(b, b.type());
    return finish(b, bmsk);
  }
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_bits);
bool select_bits(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_bits)(b); }
}  // namespace strata::cuda::vgpu
#endif
