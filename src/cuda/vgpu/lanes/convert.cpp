// cvt: between all integer and floating-point types, with every rounding, saturation and flush.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>

#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

// The general form has the types in `count` (from) and `op` (to): one loop for the 12 x 12 combinations. Common ones
// have their own loops below.
const Format& format_of(Type t) {
  switch (t) {
    case Type::F16:
    case Type::F16x2: return kF16;
    case Type::BF16:
    case Type::BF16x2: return kBF16;
    case Type::TF32: return kTF32;
    case Type::F64: return kF64;
    case Type::E4M3x2: return kE4M3;
    case Type::E5M2x2: return kE5M2;
    default: return kF32;
  }
}

double number(Type t, uint64_t cell, bool ftz) {
  switch (t) {
    case Type::F16: return half_to_float(static_cast<uint16_t>(cell));
    case Type::BF16: return bf16_to_float(static_cast<uint16_t>(cell));
    case Type::F64: return std::bit_cast<double>(cell);
    default: {
      const float f = std::bit_cast<float>(static_cast<uint32_t>(cell));
      return ftz ? flushed(f) : f;
    }
  }
}

int64_t sign_extended(Type t, uint64_t cell) {
  switch (size_of(t)) {
    case 1: return static_cast<int8_t>(cell);
    case 2: return static_cast<int16_t>(cell);
    case 4: return static_cast<int32_t>(cell);
    default: return static_cast<int64_t>(cell);
  }
}
uint64_t zero_extended(Type t, uint64_t cell) {
  return size_of(t) == 8 ? cell : cell & ((uint64_t{1} << 8 * size_of(t)) - 1);
}

double rounded(double x, Rounding r) {
  switch (r) {
    case Rounding::Zero: return std::trunc(x);
    case Rounding::Down: return std::floor(x);
    case Rounding::Up: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}

// Out of range gives the nearest number of the type; NaN gives 0, or only the top bit for 64-bit types, as on a GPU.
uint64_t to_integer(Type t, double x, Rounding r) {
  const int bits = 8 * size_of(t);
  if (x != x) return bits == 64 ? uint64_t{1} << 63 : 0;
  x = rounded(x, r);
  const double top = std::ldexp(1.0, is_signed(t) ? bits - 1 : bits);
  if (is_signed(t)) {
    if (x < -top) return static_cast<uint64_t>(INT64_MIN >> (64 - bits));
    if (x >= top) return static_cast<uint64_t>(INT64_MAX) >> (64 - bits);
    return static_cast<uint64_t>(static_cast<int64_t>(x));
  }
  if (x <= 0) return 0;
  if (x >= top) return ~uint64_t{0} >> (64 - bits);
  return static_cast<uint64_t>(x);
}

uint64_t integer_saturated(Type to, Type from, uint64_t cell) {
  const __int128 v = is_signed(from) ? static_cast<__int128>(sign_extended(from, cell))
                                     : static_cast<__int128>(zero_extended(from, cell));
  const int bits = 8 * size_of(to);
  const __int128 one = 1, high = is_signed(to) ? (one << (bits - 1)) - 1 : (one << bits) - 1,
                 low = is_signed(to) ? -(one << (bits - 1)) : 0;
  return static_cast<uint64_t>(v < low ? low : v > high ? high : v);
}

uint64_t flushed_bits(Type t, uint64_t bits) {
  const Format& f = format_of(t);
  const uint64_t exponent = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  return bits & exponent ? bits : bits & (uint64_t{1} << (f.exponent_bits + f.mantissa_bits));
}

uint64_t to_float(const Inst& i, Type to, double x) {
  if (i.sat && to != Type::E4M3x2 && to != Type::E5M2x2) x = x > 0 ? (x < 1 ? x : 1) : 0;
  if (i.relu && !(x > 0) && x == x) x = 0;
  uint64_t bits = encode(x, format_of(to), i.rounding, i.nan);
  if (to == Type::TF32) bits <<= 13;
  if (i.ftz && to == Type::F32) bits = flushed_bits(to, bits);
  return bits;
}

uint64_t convert(const Inst& i, Type to, Type from, uint64_t cell) {
  if (is_float(from)) {
    double x = number(from, cell, i.ftz);
    if (!is_float(to)) return to_integer(to, x, i.rounding);
    if (i.imm) {  // to an integral value in the same format
      x = rounded(x, i.rounding);
      Inst exact = i;
      exact.rounding = Rounding::Nearest;
      return to_float(exact, to, x);
    }
    return to_float(i, to, x);
  }
  if (is_float(to)) {
    const bool negative = is_signed(from) && sign_extended(from, cell) < 0;
    const uint64_t magnitude =
      negative ? 0 - static_cast<uint64_t>(sign_extended(from, cell)) : zero_extended(from, cell);
    const uint64_t bits = encode(negative, magnitude, 0, format_of(to), i.rounding);
    return i.sat ? to_float(i, to, decode(bits, format_of(to))) : bits;
  }
  if (i.sat) return integer_saturated(to, from, cell);
  return is_signed(from) ? static_cast<uint64_t>(sign_extended(from, cell)) : zero_extended(from, cell);
}

void put(Warp& w, const Inst& i, Type to, int lane, uint64_t value) {
  // Into the whole register: a narrower integer is sign-extended.
  if (!is_float(to)) value = is_signed(to) ? static_cast<uint64_t>(sign_extended(to, value)) : zero_extended(to, value);
  if (i.d_bytes == 8) cells<uint64_t>(w, i.d)[lane] = value;
  else cells<uint32_t>(w, i.d)[lane] = static_cast<uint32_t>(value);
}

void general(const Inst& i, Warp& w) {
  const auto to = static_cast<Type>(i.op), from = static_cast<Type>(i.count);
  each_lane(active(i, w), [&](int k) { put(w, i, to, k, convert(i, to, from, wide(w, i.a, i.a_bytes, k))); });
}

// Two floats into a pair: a is the upper half.
void pair(const Inst& i, Warp& w) {
  const auto to = static_cast<Type>(i.op);
  const int bits = to == Type::E4M3x2 || to == Type::E5M2x2 ? 8 : 16;
  const auto *a = cells<float>(w, i.a), *b = cells<float>(w, i.b);
  each_lane(active(i, w), [&](int k) {
    cells<uint32_t>(w, i.d)[k] = static_cast<uint32_t>(to_float(i, to, a[k]) << bits | to_float(i, to, b[k]));
  });
}
// A pair of 8-bit floats into a pair of f16, or back.
void unpack_pair(const Inst& i, Warp& w) {
  const auto from = static_cast<Type>(i.count), to = static_cast<Type>(i.op);
  const auto* a = cells<uint32_t>(w, i.a);
  each_lane(active(i, w), [&](int k) {
    uint32_t r = 0;
    for (int h = 0; h < 2; ++h)
      if (to == Type::F16x2)
        r |= static_cast<uint32_t>(to_float(i, to, decode(a[k] >> 8 * h & 0xff, format_of(from)))) << 16 * h;
      else r |= static_cast<uint32_t>(to_float(i, to, half_to_float(static_cast<uint16_t>(a[k] >> 16 * h)))) << 8 * h;
    cells<uint32_t>(w, i.d)[k] = r;
  });
}

template <class D, class A> void simple(const Inst& i, Warp& w) {
  map1<D, A>(i, w, [](A a) { return static_cast<D>(a); });
}
void half_float(const Inst& i, Warp& w) { map1<float, uint16_t>(i, w, half_to_float); }
void float_half(const Inst& i, Warp& w) { map1<uint16_t, float>(i, w, float_to_half); }
void brain_float(const Inst& i, Warp& w) { map1<float, uint16_t>(i, w, bf16_to_float); }
void float_brain(const Inst& i, Warp& w) { map1<uint16_t, float>(i, w, float_to_bf16); }

// Loops for the conversions that are frequent in index arithmetic and mixed precision.
Handler quick(const Inst& i, Type to, Type from) {
  if (i.sat || i.ftz || i.relu || i.imm || i.nan || i.rounding != Rounding::Nearest) return nullptr;
  if (i.d_bytes != (size_of(to) == 8 ? 8 : 4) || i.a_bytes != (size_of(from) == 8 ? 8 : 4)) return nullptr;
  const auto is = [&](Type d, Type a) { return to == d && from == a; };
  if (is(Type::U64, Type::U32) || is(Type::S64, Type::U32)) return simple<uint64_t, uint32_t>;
  if (is(Type::S64, Type::S32) || is(Type::U64, Type::S32)) return simple<int64_t, int32_t>;
  if (size_of(to) == 4 && size_of(from) == 8 && !is_float(to) && !is_float(from)) return simple<uint32_t, uint64_t>;
  if (is(Type::F32, Type::S32)) return simple<float, int32_t>;
  if (is(Type::F32, Type::U32)) return simple<float, uint32_t>;
  if (is(Type::F64, Type::F32)) return simple<double, float>;
  if (is(Type::F32, Type::F64)) return simple<float, double>;
  if (is(Type::F64, Type::S32)) return simple<double, int32_t>;
  if (is(Type::F32, Type::F16)) return half_float;
  if (is(Type::F16, Type::F32)) return float_half;
  if (is(Type::F32, Type::BF16)) return brain_float;
  if (is(Type::BF16, Type::F32)) return float_brain;
  return nullptr;
}

}  // namespace

bool select_convert(Builder& b) {
  if (b.in.op != "cvt") return false;
  constexpr std::pair<std::string_view, Rounding> kWhole[] = {
    {"rni", Rounding::Nearest}, {"rzi", Rounding::Zero}, {"rmi", Rounding::Down}, {"rpi", Rounding::Up}};
  b.rounding();
  if (b.flag("rna")) b.out.rounding = Rounding::NearestAway;
  for (const auto& [name, rounding] : kWhole)
    if (b.flag(name)) {
      b.out.rounding = rounding;
      b.out.imm = 1;
    }
  b.out.ftz = b.flag("ftz");
  b.out.sat = b.flag("sat");
  b.out.relu = b.flag("relu");
  b.out.nan = b.flag("satfinite");  // the largest number instead of infinity
  const Type to = b.type(), from = b.type();
  if (to == Type::None || from == Type::None) b.wrong("cvt names two types");
  b.out.op = static_cast<uint8_t>(to);
  b.out.count = static_cast<uint8_t>(from);
  const bool eight = to == Type::E4M3x2 || to == Type::E5M2x2;
  if ((to == Type::F16x2 || to == Type::BF16x2 || eight) && from == Type::F32) {
    b.operands(3, 3);
    b.out.a = b.src(1, Type::F32);
    b.out.b = b.src(2, Type::F32);
    b.out.d = b.dst(0, eight ? Type::B16 : Type::B32);
    b.emit(pair, Class::Convert);
    return true;
  }
  if ((to == Type::F16x2 && (from == Type::E4M3x2 || from == Type::E5M2x2)) || (eight && from == Type::F16x2)) {
    b.operands(2, 2);
    b.out.a = b.src(1, eight ? Type::B32 : Type::B16);
    b.out.d = b.dst(0, eight ? Type::B16 : Type::B32);
    b.emit(unpack_pair, Class::Convert);
    return true;
  }
  const auto scalar = [](Type t) {
    return is_integer(t) || t == Type::F16 || t == Type::BF16 || t == Type::F32 || t == Type::F64;
  };
  if (!scalar(from) || !(scalar(to) || to == Type::TF32)) b.unsupported();
  b.operands(2, 2);
  b.out.a = b.any_src(b.operand(1), from, b.out.a_bytes);
  b.out.d = b.any_dst(b.operand(0), b.out.d_bytes);
  const Handler fast = quick(b.out, to, from);
  b.emit(fast ? fast : general, Class::Convert);
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_convert);
bool select_convert(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_convert)(b); }
}  // namespace strata::cuda::vgpu
#endif
