// Conversions, compiled for each SIMD target. The narrow floats have their own instructions, but Highway's conversion
// to bfloat16 truncates, so rounding to nearest even is done on the bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/movement/runs_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "cpu/movement/runs.h"

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::convert_element;

void HalfToFloat(const Half* src, float* dst, size_t n) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(src) + i)), d, dst + i);
#endif
  for (; i < n; ++i) dst[i] = static_cast<float>(src[i]);
}

void FloatToHalf(const float* src, Half* dst, size_t n) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, src + i)), dh, reinterpret_cast<hwy::float16_t*>(dst) + i);
#endif
  for (; i < n; ++i) dst[i] = Half(src[i]);
}

#include "cpu/movement/bfloat_vectors.inl"

void BfloatToFloat(const BFloat16* src, float* dst, size_t n) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) hn::StoreU(load_bfloats(src + i), d, dst + i);
#endif
  for (; i < n; ++i) dst[i] = static_cast<float>(src[i]);
}

void FloatToBfloat(const float* src, BFloat16* dst, size_t n) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<uint32_t, decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> dn;
  const size_t lanes = hn::Lanes(d);
  for (; i + 2 * lanes <= n; i += 2 * lanes)
    store_bfloats(hn::LoadU(d, src + i), hn::LoadU(d, src + i + lanes), dst + i);
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(d, src + i);
    const auto u = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1u));
    const auto rounded = hn::Add(u, hn::Add(hn::Set(du, 0x7fffu), odd));
    const auto quiet = hn::Or(u, hn::Set(du, 0x400000u));
    const auto bits =
      hn::ShiftRight<16>(hn::BitCast(du, hn::IfThenElse(hn::IsNaN(x), hn::BitCast(d, quiet), hn::BitCast(d, rounded))));
    hn::StoreU(hn::DemoteTo(dn, hn::BitCast(di, bits)), dn, reinterpret_cast<uint16_t*>(dst) + i);
  }
#endif
  for (; i < n; ++i) dst[i] = BFloat16(src[i]);
}

constexpr int64_t kSome = 256;  // halves that are brought together before they are converted, since one by one is slow

template <class T> void load(T* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  if (std::is_same_v<T, float> && (stride == 1 || (type == DType::F16 && n > 1))) {
    auto* to = reinterpret_cast<float*>(dst);
    if (type == DType::BF16) return BfloatToFloat(reinterpret_cast<const BFloat16*>(src), to, n);
    if (type == DType::F16) {
      const Half* p = reinterpret_cast<const Half*>(src);
      if (stride == 1) return HalfToFloat(p, to, n);
      Half some[kSome];
      for (int64_t done = 0, m; done < n; done += m) {
        m = HWY_MIN(kSome, n - done);
        for (int64_t i = 0; i < m; ++i) some[i] = p[(done + i) * stride];
        HalfToFloat(some, to + done, m);
      }
      return;
    }
  }
  dispatch_real(type, [&]<class S>() {
    const S* p = reinterpret_cast<const S*>(src);
    if (stride == 1)
      for (int64_t i = 0; i < n; ++i) dst[i] = convert_element<T>(p[i]);
    else
      for (int64_t i = 0; i < n; ++i) dst[i] = convert_element<T>(p[i * stride]);
  });
}

template <class T> void store(const T* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  if (std::is_same_v<T, float> && (stride == 1 || (type == DType::F16 && n > 1))) {
    const auto* from = reinterpret_cast<const float*>(src);
    if (type == DType::BF16) return FloatToBfloat(from, reinterpret_cast<BFloat16*>(dst), n);
    if (type == DType::F16) {
      Half* p = reinterpret_cast<Half*>(dst);
      if (stride == 1) return FloatToHalf(from, p, n);
      Half some[kSome];
      for (int64_t done = 0, m; done < n; done += m) {
        m = HWY_MIN(kSome, n - done);
        FloatToHalf(from + done, some, m);
        for (int64_t i = 0; i < m; ++i) p[(done + i) * stride] = some[i];
      }
      return;
    }
  }
  dispatch_real(type, [&]<class S>() {
    S* p = reinterpret_cast<S*>(dst);
    if (stride == 1)
      for (int64_t i = 0; i < n; ++i) p[i] = convert<S>(src[i]);
    else
      for (int64_t i = 0; i < n; ++i) p[i * stride] = convert<S>(src[i]);
  });
}

void LoadF32(float* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  load(dst, src, type, stride, n);
}
void StoreF32(const float* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  store(src, dst, type, stride, n);
}
void LoadF64(double* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  load(dst, src, type, stride, n);
}
void StoreF64(const double* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  store(src, dst, type, stride, n);
}
void LoadI64(int64_t* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  load(dst, src, type, stride, n);
}
void StoreI64(const int64_t* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  store(src, dst, type, stride, n);
}
void CopyRun(void* dst, const void* src, size_t bytes) {
  auto* to = static_cast<uint8_t*>(dst);
  const auto* from = static_cast<const uint8_t*>(src);
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  const size_t step = hn::Lanes(d);
  if (bytes >= step && bytes <= (size_t{1} << 18)) {
    size_t i = 0;
    for (; i + 4 * step <= bytes; i += 4 * step) {
      const auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + step), c = hn::LoadU(d, from + i + 2 * step),
                 e = hn::LoadU(d, from + i + 3 * step);
      hn::StoreU(a, d, to + i);
      hn::StoreU(b, d, to + i + step);
      hn::StoreU(c, d, to + i + 2 * step);
      hn::StoreU(e, d, to + i + 3 * step);
    }
    for (; i + step <= bytes; i += step) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    if (i < bytes) hn::StoreU(hn::LoadU(d, from + bytes - step), d, to + bytes - step);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}
void CopyRuns(void* dst, int64_t dst_step, const void* src, int64_t src_step, int64_t rows, size_t bytes) {
  auto* to = static_cast<uint8_t*>(dst);
  const auto* from = static_cast<const uint8_t*>(src);
  for (int64_t r = 0; r < rows; ++r, to += dst_step, from += src_step) CopyRun(to, from, bytes);
}
void RepeatBlock(void* dst, const void* block, size_t bytes) {
  auto* to = static_cast<uint8_t*>(dst);
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  const size_t step = hn::Lanes(d);
  const auto v = hn::LoadDup128(d, static_cast<const uint8_t*>(block));
  for (; i + 4 * step <= bytes; i += 4 * step) {
    hn::StoreU(v, d, to + i);
    hn::StoreU(v, d, to + i + step);
    hn::StoreU(v, d, to + i + 2 * step);
    hn::StoreU(v, d, to + i + 3 * step);
  }
  for (; i + step <= bytes; i += step) hn::StoreU(v, d, to + i);
#endif
  for (; i < bytes; i += 16) std::memcpy(to + i, block, HWY_MIN(bytes - i, size_t{16}));
}
template <class T> void reverse(T* HWY_RESTRICT to, const T* HWY_RESTRICT last, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) > 1) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Reverse(d, hn::LoadU(d, last - i - lanes + 1)), d, to + i);
  }
#endif
  for (; i < n; ++i) to[i] = last[-i];
}
void ReverseRun(void* dst, const void* last, int64_t n, size_t size) {
  if (size == 1) reverse(static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(last), n);
  else if (size == 2) reverse(static_cast<uint16_t*>(dst), static_cast<const uint16_t*>(last), n);
  else if (size == 4) reverse(static_cast<uint32_t*>(dst), static_cast<const uint32_t*>(last), n);
  else reverse(static_cast<uint64_t*>(dst), static_cast<const uint64_t*>(last), n);
}
void LoadBools(uint8_t* dst, const std::byte* src, int64_t stride, int64_t n) {
  if (stride == 1)
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i] != std::byte{0};
  else
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * stride] != std::byte{0};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {
HWY_EXPORT(HalfToFloat);
HWY_EXPORT(FloatToHalf);
HWY_EXPORT(BfloatToFloat);
HWY_EXPORT(FloatToBfloat);
HWY_EXPORT(LoadF32);
HWY_EXPORT(StoreF32);
HWY_EXPORT(LoadF64);
HWY_EXPORT(StoreF64);
HWY_EXPORT(LoadI64);
HWY_EXPORT(StoreI64);
HWY_EXPORT(LoadBools);
HWY_EXPORT(CopyRun);
HWY_EXPORT(CopyRuns);
HWY_EXPORT(RepeatBlock);
HWY_EXPORT(ReverseRun);
}  // namespace
namespace cpu {
void copy_run(void* dst, const void* src, size_t bytes) { HWY_DYNAMIC_DISPATCH(CopyRun)(dst, src, bytes); }
void copy_runs(void* dst, int64_t dst_step, const void* src, int64_t src_step, int64_t rows, size_t bytes) {
  HWY_DYNAMIC_DISPATCH(CopyRuns)(dst, dst_step, src, src_step, rows, bytes);
}
void repeat_block(void* dst, const void* block, size_t bytes) { HWY_DYNAMIC_DISPATCH(RepeatBlock)(dst, block, bytes); }
void reverse_run(void* dst, const void* last, int64_t n, size_t size) {
  HWY_DYNAMIC_DISPATCH(ReverseRun)(dst, last, n, size);
}
void half_to_float(const Half* src, float* dst, size_t n) { HWY_DYNAMIC_DISPATCH(HalfToFloat)(src, dst, n); }
void float_to_half(const float* src, Half* dst, size_t n) { HWY_DYNAMIC_DISPATCH(FloatToHalf)(src, dst, n); }
void bfloat_to_float(const BFloat16* src, float* dst, size_t n) { HWY_DYNAMIC_DISPATCH(BfloatToFloat)(src, dst, n); }
void float_to_bfloat(const float* src, BFloat16* dst, size_t n) { HWY_DYNAMIC_DISPATCH(FloatToBfloat)(src, dst, n); }
template <> void load_run(float* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  HWY_DYNAMIC_DISPATCH(LoadF32)(dst, src, type, stride, n);
}
template <> void store_run(const float* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  HWY_DYNAMIC_DISPATCH(StoreF32)(src, dst, type, stride, n);
}
template <> void load_run(double* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  HWY_DYNAMIC_DISPATCH(LoadF64)(dst, src, type, stride, n);
}
template <> void store_run(const double* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  HWY_DYNAMIC_DISPATCH(StoreF64)(src, dst, type, stride, n);
}
template <> void load_run(int64_t* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  HWY_DYNAMIC_DISPATCH(LoadI64)(dst, src, type, stride, n);
}
template <> void load_run(uint8_t* dst, const std::byte* src, DType, int64_t stride, int64_t n) {
  HWY_DYNAMIC_DISPATCH(LoadBools)(dst, src, stride, n);
}
template <> void store_run(const uint8_t* src, std::byte* dst, DType, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i * stride] = std::byte{src[i]};
}
template <> void store_run(const int64_t* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  HWY_DYNAMIC_DISPATCH(StoreI64)(src, dst, type, stride, n);
}
}  // namespace cpu
}  // namespace strata
#endif
