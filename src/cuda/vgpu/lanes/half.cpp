// Arithmetic in f16 and bf16, single and in pairs. Each result is the exact one, rounded once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/vgpu/lanes/half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cuda/vgpu/lanes/pick.h"

#include "cuda/vgpu/lanes/loops.inl"

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {

namespace {

enum Op : uint8_t { kAdd, kSub, kMul, kFma, kMin, kMax, kNeg, kAbs, kEx2, kTanh };

struct Half {
  static constexpr Format kFormat = kF16;
  static float wide(uint16_t h) { return half_to_float(h); }
  static uint16_t narrow(float f) { return float_to_half(f); }
};
struct Brain {
  static constexpr Format kFormat = kBF16;
  static float wide(uint16_t b) { return bf16_to_float(b); }
  static uint16_t narrow(float f) { return float_to_bf16(f); }
};

template <class H> uint16_t flush(const Inst& i, uint16_t v) {
  constexpr uint16_t kExponent = ((1 << H::kFormat.exponent_bits) - 1) << H::kFormat.mantissa_bits;
  return i.ftz && (v & kExponent) == 0 ? v & 0x8000 : v;
}

// float holds sums and products of two 16-bit numbers with enough spare bits that rounding twice is rounding once; a
// fused multiply-add does not fit, and is rounded to odd first.
template <class H> uint16_t compute(const Inst& i, uint16_t ha, uint16_t hb, uint16_t hc) {
  if (i.op == kNeg) return flush<H>(i, ha) ^ 0x8000;
  if (i.op == kAbs) return flush<H>(i, ha) & 0x7fff;
  const float a = H::wide(flush<H>(i, ha)), b = H::wide(flush<H>(i, hb)), c = H::wide(flush<H>(i, hc));
  uint16_t r = 0;
  switch (i.op) {
    case kAdd: r = H::narrow(a + b); break;
    case kSub: r = H::narrow(a - b); break;
    case kMul: r = H::narrow(a * b); break;
    case kFma:
      r = static_cast<uint16_t>(encode(add_to_odd(static_cast<double>(a) * b, c), H::kFormat, Rounding::Nearest));
      break;
    case kMin:
    case kMax: {
      if (a != a || b != b) {
        r = i.nan || (a != a && b != b) ? 0x7fff : H::narrow(a != a ? b : a);
        break;
      }
      const bool first = a == b ? std::signbit(a) == (i.op == kMin) : (a < b) == (i.op == kMin);
      r = H::narrow(first ? a : b);
      break;
    }
    case kEx2: r = H::narrow(std::exp2(a)); break;
    case kTanh: r = H::narrow(std::tanh(a)); break;
    default: break;
  }
  r = flush<H>(i, r);
  const float value = H::wide(r);
  if (i.sat) r = value > 0 ? (value < 1 ? r : H::narrow(1.0f)) : 0;
  if (i.relu && !(value > 0)) r = value != value ? 0x7fff : 0;
  return r;
}

template <class H> void single(const Inst& i, Warp& w) {
  map3<uint16_t, uint16_t, uint16_t, uint16_t>(
    i, w, [&i](uint16_t a, uint16_t b, uint16_t c) { return compute<H>(i, a, b, c); });
}
template <class H> void both(const Inst& i, Warp& w) {
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(i, w, [&i](uint32_t a, uint32_t b, uint32_t c) {
    const auto half = [&](int s) {
      return static_cast<uint32_t>(
        compute<H>(i, static_cast<uint16_t>(a >> s), static_cast<uint16_t>(b >> s), static_cast<uint16_t>(c >> s)));
    };
    return half(0) | half(16) << 16;
  });
}

}  // namespace

bool select_half(Builder& b) {
  struct Row {
    std::string_view name;
    Op op;
    size_t sources;
  };
  static constexpr Row kRows[] = {{"add", kAdd, 2}, {"sub", kSub, 2},  {"mul", kMul, 2}, {"fma", kFma, 3},
                                  {"min", kMin, 2}, {"max", kMax, 2},  {"neg", kNeg, 1}, {"abs", kAbs, 1},
                                  {"ex2", kEx2, 1}, {"tanh", kTanh, 1}};
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == b.in.op; });
  if (row == std::end(kRows)) return false;
  b.out.ftz = b.flag("ftz");
  b.out.sat = b.flag("sat");
  b.out.relu = b.flag("relu");
  b.out.nan = b.flag("NaN");
  b.ignore({"rn", "approx", "noftz"});
  const Type t = b.type();
  const bool half = t == Type::F16 || t == Type::F16x2, pair = t == Type::F16x2 || t == Type::BF16x2;
  if (!half && t != Type::BF16 && t != Type::BF16x2) return false;
  b.operands(row->sources + 1, row->sources + 1);
  b.out.op = row->op;
  b.out.a = b.out.b = b.out.c = b.src(1, t);
  if (row->sources > 1) b.out.b = b.src(2, t);
  if (row->sources > 2) b.out.c = b.src(3, t);
  b.out.d = b.dst(0, t);
  b.emit(half ? (pair ? both<Half> : single<Half>) : (pair ? both<Brain> : single<Brain>), Class::F16);
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cuda::vgpu {
HWY_EXPORT(select_half);
bool select_half(Builder& b) { return HWY_DYNAMIC_DISPATCH(select_half)(b); }
}  // namespace strata::cuda::vgpu
#endif
