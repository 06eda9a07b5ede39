// Conversion blocks: a run of elements of any dtype and stride becomes contiguous float, double or int64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/load.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "cpu/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, class From> HWY_INLINE T as(From v) {
  if constexpr (std::is_same_v<From, BFloat16>) {
    const uint32_t bits = static_cast<uint32_t>(v.bits) << 16;
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return static_cast<T>(f);
  } else {
    return convert<T>(v);
  }
}

HWY_INLINE void halves(const Half* x, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* p = reinterpret_cast<const hwy::float16_t*>(x);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, p + i)), d, out + i);
  for (; i < n; ++i) out[i] = static_cast<float>(x[i]);
}

template <class T, class From> HWY_INLINE void load_as(const From* x, int64_t stride, int64_t n, T* out) {
  if (stride == 1) {
    if constexpr (std::is_same_v<T, From>) {
      std::memcpy(out, x, static_cast<size_t>(n) * sizeof(T));
    } else if constexpr (std::is_same_v<From, Half> && std::is_same_v<T, float>) {
      halves(x, n, out);
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = as<T>(x[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = as<T>(x[i * stride]);
  }
}

template <class T> void Load(DType from, const std::byte* x, int64_t stride, int64_t n, T* out) {
  dispatch_dtype(from, [&]<class From>() { load_as<T>(reinterpret_cast<const From*>(x), stride, n, out); });
}
void LoadFloat(DType from, const std::byte* x, int64_t stride, int64_t n, float* out) { Load(from, x, stride, n, out); }
void LoadDouble(DType from, const std::byte* x, int64_t stride, int64_t n, double* out) { Load(from, x, stride, n, out); }
void LoadInt(DType from, const std::byte* x, int64_t stride, int64_t n, int64_t* out) { Load(from, x, stride, n, out); }

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(LoadFloat);
HWY_EXPORT(LoadDouble);
HWY_EXPORT(LoadInt);
template <> void load_block<float>(DType from, const std::byte* x, int64_t stride, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(LoadFloat)(from, x, stride, n, out);
}
template <> void load_block<double>(DType from, const std::byte* x, int64_t stride, int64_t n, double* out) {
  HWY_DYNAMIC_DISPATCH(LoadDouble)(from, x, stride, n, out);
}
template <> void load_block<int64_t>(DType from, const std::byte* x, int64_t stride, int64_t n, int64_t* out) {
  HWY_DYNAMIC_DISPATCH(LoadInt)(from, x, stride, n, out);
}
}  // namespace strata::cpu
#endif
