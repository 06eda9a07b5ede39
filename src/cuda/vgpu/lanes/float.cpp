// Arithmetic in float and double, with every rounding direction, .ftz and .sat, and the approximate functions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>

#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

struct Add {
  template <class T> T operator()(T a, T b) const { return a + b; }
};
struct Sub {
  template <class T> T operator()(T a, T b) const { return a - b; }
};
struct Mul {
  template <class T> T operator()(T a, T b) const { return a * b; }
};
struct Div {
  template <class T> T operator()(T a, T b) const { return a / b; }
};
// A number wins over NaN, and -0 is less than +0.
struct Min {
  template <class T> T operator()(T a, T b) const {
    if (a != a) return b;
    if (b != b) return a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Max {
  template <class T> T operator()(T a, T b) const {
    if (a != a) return b;
    if (b != b) return a;
    return a > b || (a == b && std::signbit(b)) ? a : b;
  }
};
struct CopySign {
  template <class T> T operator()(T a, T b) const { return std::copysign(b, a); }
};
struct Fma {
  template <class T> T operator()(T a, T b, T c) const { return std::fma(a, b, c); }
};
struct Neg {
  template <class T> T operator()(T a) const { return -a; }
};
struct Abs {
  template <class T> T operator()(T a) const { return std::fabs(a); }
};
struct Sqrt {
  template <class T> T operator()(T a) const { return std::sqrt(a); }
};
struct Rcp {
  template <class T> T operator()(T a) const { return T(1) / a; }
};
// A GPU's tables are within about 2 ulp of these; the bits differ.
struct Rsqrt {
  template <class T> T operator()(T a) const { return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a))); }
};
// The .ftz form for double is a first guess for Newton's method: it only uses the upper half of its operand.
double upper_half(double v) { return std::bit_cast<double>(std::bit_cast<uint64_t>(v) & ~uint64_t{0xffffffff}); }
double no_subnormal(double v) { return std::fabs(v) < 0x1p-1022 ? std::copysign(0.0, v) : v; }
struct GuessRcp {
  double operator()(double a) const { return upper_half(no_subnormal(1 / no_subnormal(upper_half(a)))); }
};
struct GuessRsqrt {
  double operator()(double a) const { return upper_half(1 / std::sqrt(no_subnormal(upper_half(a)))); }
};
// 2^n times a polynomial of the rest, without FMA: the same bits on every host, within 1.5 ulp.
struct Ex2 {
  float operator()(float a) const {
    float x = a > 130.0f ? 130.0f : a;
    x = x < -160.0f ? -160.0f : x;
    const float shifted = x + 12582912.0f, r = x - (shifted - 12582912.0f);
    const int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(12582912.0f), half = n >> 1,
                  rest = n - half;
    float p = 1.5353362e-4f;
    p = p * r + 1.3398874e-3f;
    p = p * r + 9.6184374e-3f;
    p = p * r + 5.5503325e-2f;
    p = p * r + 2.4022648e-1f;
    p = p * r + 6.9314720e-1f;
    p = p * r + 1.0f;
    // In two steps, as neither the largest nor a subnormal power fits a float.
    p = p * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((rest + 127) << 23);
    return a == a ? p : a;
  }
};
// The exponent, and the series of the logarithm for s = (m - 1) / (m + 1) in double.
struct Lg2 {
  float operator()(float a) const {
    const bool small = a < 0x1p-126f;
    const float x = small ? a * 0x1p24f : a;
    const int32_t bits = std::bit_cast<int32_t>(x), shifted = bits - 0x3f3504f3;  // sqrt(1/2)
    const int32_t exponent = shifted >> 23;
    const double m = std::bit_cast<float>(bits - exponent * (1 << 23)), s = (m - 1) / (m + 1), q = s * s;
    double p = 2.0 / 13;
    p = p * q + 2.0 / 11;
    p = p * q + 2.0 / 9;
    p = p * q + 2.0 / 7;
    p = p * q + 2.0 / 5;
    p = p * q + 2.0 / 3;
    p = p * q + 2.0;
    float r = static_cast<float>(static_cast<double>(exponent - (small ? 24 : 0)) + p * s * 1.4426950408889634);
    r = x == std::numeric_limits<float>::infinity() ? x : r;
    r = x == 0 ? -std::numeric_limits<float>::infinity() : r;
    return x >= 0 ? r : std::numeric_limits<float>::quiet_NaN();
  }
};
struct Sin {
  float operator()(float a) const { return std::sin(a); }
};
struct Cos {
  float operator()(float a) const { return std::cos(a); }
};
struct Tanh {
  float operator()(float a) const { return std::tanh(a); }
};

template <class T> HWY_INLINE T into(bool ftz, T v) {
  if constexpr (std::is_same_v<T, float>) return ftz ? flushed(v) : v;
  else return v;
}
template <class T> HWY_INLINE T outof(const Inst& i, T v) {
  if constexpr (std::is_same_v<T, float>) {
    if (i.ftz) v = flushed(v);
    if (i.sat) v = v > 0 ? (v < 1 ? v : 1.0f) : 0.0f;  // NaN becomes 0
  }
  return v;
}

// With all modifiers: operands are flushed first, all lanes computed in the host's rounding mode, results modified
// last.
template <class T, int N, class F> HWY_INLINE void modified(const Inst& i, Warp& w, const F& f) {
  const uint32_t m = active(i, w), places[3] = {i.a, i.b, i.c};
  alignas(64) T x[3][kLanes], r[kLanes];
  for (int n = 0; n < N; ++n) {
    const auto* from = cells<T>(w, places[n]);
    if (i.ftz)
      for (int k = 0; k < kLanes; ++k) x[n][k] = into(true, from[k]);
    else
      for (int k = 0; k < kLanes; ++k) x[n][k] = from[k];
  }
  {
    const HostRounding mode(i.rounding);
    stay(x);
    stay(r);
    for (int k = 0; k < kLanes; ++k) r[k] = f(x[0][k], x[1][k], x[2][k]);
    stay(r);
  }
  if (i.ftz || i.sat)
    for (int k = 0; k < kLanes; ++k) r[k] = outof(i, r[k]);
  keep(cells<T>(w, i.d), r, m);
}

// `plain` is the common case.
template <class T, class F> void float1(const Inst& i, Warp& w) {
  if (i.plain) return map1<T, T>(i, w, F{});
  modified<T, 1>(i, w, [](T a, T, T) { return F{}(a); });
}
template <class T, class F> void float2(const Inst& i, Warp& w) {
  if (i.plain) return map2<T, T, T>(i, w, F{});
  modified<T, 2>(i, w, [](T a, T b, T) { return F{}(a, b); });
}
template <class T, class F> void float3(const Inst& i, Warp& w) {
  if (i.plain) return map3<T, T, T, T>(i, w, F{});
  modified<T, 3>(i, w, [](T a, T b, T c) { return F{}(a, b, c); });
}
// Functions of the C library, lane by lane.
template <class F> void library(const Inst& i, Warp& w) {
  map1_slow<float, float>(i, w, [&i](float a) { return outof(i, F{}(into(i.ftz, a))); });
}
template <class F> void extreme(const Inst& i, Warp& w) {  // min and max with .NaN or .xorsign.abs
  map2<float, float, float>(i, w, [&i](float a, float b) {
    a = into(i.ftz, a);
    b = into(i.ftz, b);
    if (i.nan && (a != a || b != b)) return std::bit_cast<float>(0x7fffffffu);
    if (!i.op) return outof(i, F{}(a, b));
    const bool negative = std::signbit(a) != std::signbit(b);
    const float r = F{}(std::fabs(a), std::fabs(b));
    return outof(i, negative ? -r : r);
  });
}

template <class F> Handler pick1(Type t) {
  return t == Type::F32 ? Handler(float1<float, F>) : t == Type::F64 ? float1<double, F> : nullptr;
}
template <class F> Handler pick2(Type t) {
  return t == Type::F32 ? Handler(float2<float, F>) : t == Type::F64 ? float2<double, F> : nullptr;
}

bool finish(Builder& b, Type t, Handler h, Class c = Class::Count) {
  if (!h) b.unsupported();
  b.out.plain = !b.out.ftz && !b.out.sat && b.out.rounding == Rounding::Nearest;
  b.emit(h, c != Class::Count ? c : t == Type::F64 ? Class::F64 : Class::F32);
  return true;
}

bool extremes(Builder& b, Type t) {
  b.out.nan = b.flag("NaN");
  b.out.op = b.flag("xorsign");
  if (b.out.op && !b.flag("abs")) b.unsupported();
  places3(b, t);
  const bool smallest = b.in.op == "min";
  if (!b.out.nan && !b.out.op) return finish(b, t, smallest ? pick2<Min>(t) : pick2<Max>(t));
  return finish(b, t, t != Type::F32 ? nullptr : smallest ? extreme<Min> : extreme<Max>);
}

bool approximate(Builder& b, Type t) {
  const std::string& op = b.in.op;
  const bool approx = b.flag("approx");
  places2(b, t);
  if (t == Type::F64 && b.out.ftz) {
    if (!approx || (op != "rcp" && op != "rsqrt")) b.unsupported();
    b.out.ftz = false;
    return finish(b, t, op == "rcp" ? float1<double, GuessRcp> : float1<double, GuessRsqrt>, Class::Special);
  }
  if (op == "rcp") return finish(b, t, pick1<Rcp>(t), Class::Special);
  if (op == "sqrt") return finish(b, t, pick1<Sqrt>(t), Class::Special);
  if (op == "rsqrt") return finish(b, t, approx ? pick1<Rsqrt>(t) : nullptr, Class::Special);
  if (t != Type::F32 || (!approx && op != "tanh")) b.unsupported();
  return finish(b, t,
                op == "ex2"   ? float1<float, Ex2>
                : op == "lg2" ? float1<float, Lg2>
                : op == "sin" ? library<Sin>
                : op == "cos" ? library<Cos>
                              : library<Tanh>,
                Class::Special);
}

}  // namespace

bool select_float(Builder& b) {
  const std::string& op = b.in.op;
  static constexpr std::string_view kOps[] = {"add", "sub", "mul", "fma",  "mad",     "div",   "min",
                                              "max", "neg", "abs", "sqrt", "rcp",     "rsqrt", "ex2",
                                              "lg2", "sin", "cos", "tanh", "copysign"};
  if (std::find(std::begin(kOps), std::end(kOps), op) == std::end(kOps)) return false;
  b.out.ftz = b.flag("ftz");
  b.out.sat = b.flag("sat");
  b.rounding();
  const Type t = b.type();
  if (t != Type::F32 && t != Type::F64) return false;
  const bool guess = op == "rcp" || op == "rsqrt";
  if (t == Type::F64 && ((b.out.ftz && !guess) || b.out.sat)) b.unsupported();
  if (op == "min" || op == "max") return extremes(b, t);
  if (op == "fma" || op == "mad") {
    places4(b, t);
    return finish(b, t, t == Type::F32 ? Handler(float3<float, Fma>) : float3<double, Fma>);
  }
  if (op == "neg" || op == "abs") {
    places2(b, t);
    return finish(b, t, op == "neg" ? pick1<Neg>(t) : pick1<Abs>(t));
  }
  if (op == "add" || op == "sub" || op == "mul" || op == "div" || op == "copysign") {
    if (op == "div") b.ignore({"approx", "full"});
    places3(b, t);
    return finish(b, t,
                  op == "add"   ? pick2<Add>(t)
                  : op == "sub" ? pick2<Sub>(t)
                  : op == "mul" ? pick2<Mul>(t)
                  : op == "div" ? pick2<Div>(t)
                                : pick2<CopySign>(t));
  }
  return approximate(b, t);
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_float);
bool select_float(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_float)(b); }
}  // namespace strata::cuda::vgpu
#endif
