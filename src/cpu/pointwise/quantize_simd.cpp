// Bound by memory: 5 bytes per element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/quantize_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/parallel.h"
#include "cpu/pointwise/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <class Byte> void ToBytes(const ByteFormat& f, const float* x, Byte* to, int64_t count) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<Byte, D> db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = static_cast<float>(f.zero);
  const V scale = hn::Set(d, f.scale), shift = hn::Set(d, zero),
          low = hn::Set(d, std::is_signed_v<Byte> ? -128.f : 0.f),
          high = hn::Set(d, std::is_signed_v<Byte> ? 127.f : 255.f);
  const auto convert = [&](V v) {
    const V q = hn::Add(hn::Round(hn::Div(v, scale)), shift);
    const V limited = hn::IfThenElse(hn::IsNaN(q), shift, hn::Min(hn::Max(q, low), high));
    return hn::DemoteTo(db, hn::ConvertTo(di, limited));
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(convert(hn::LoadU(d, x + i)), db, to + i);
  if (i == count) return;
  float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  Byte bytes[HWY_MAX_BYTES / sizeof(float)];
  std::copy(x + i, x + count, rest);
  hn::StoreU(convert(hn::LoadU(d, rest)), db, bytes);
  std::copy_n(bytes, count - i, to + i);
}
template <class Byte> void FromBytes(const ByteFormat& f, const Byte* from, float* x, int64_t count) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<Byte, D> db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Set(di, f.zero);
  const V scale = hn::Set(d, f.scale);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::Sub(hn::PromoteTo(di, hn::LoadU(db, from + i)), zero)), scale), d, x + i);
  for (; i < count; ++i) x[i] = static_cast<float>(static_cast<int32_t>(from[i]) - f.zero) * f.scale;
}

void ToBytesOf(const ByteFormat& f, const float* x, void* to, int64_t at, int64_t count) {
  if (f.is_unsigned) ToBytes(f, x + at, static_cast<uint8_t*>(to) + at, count);
  else ToBytes(f, x + at, static_cast<int8_t*>(to) + at, count);
}
void FromBytesOf(const ByteFormat& f, const void* from, float* x, int64_t at, int64_t count) {
  if (f.is_unsigned) FromBytes(f, static_cast<const uint8_t*>(from) + at, x + at, count);
  else FromBytes(f, static_cast<const int8_t*>(from) + at, x + at, count);
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(ToBytesOf);
HWY_EXPORT(FromBytesOf);
constexpr int64_t kBytesGrain = 32768;

void quantize(const ByteFormat& f, const float* x, void* bytes, int64_t count) {
  parallel_for(count, kBytesGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(ToBytesOf)(f, x, bytes, begin, end - begin);
  });
}
void dequantize(const ByteFormat& f, const void* bytes, float* x, int64_t count) {
  parallel_for(count, kBytesGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(FromBytesOf)(f, bytes, x, begin, end - begin);
  });
}
}  // namespace strata::cpu
#endif
