#include "cpu/runs.h"

namespace strata::cpu {

template <class T> void load_run(T* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  if (std::is_same_v<T, float> && stride == 1) {
    if (type == DType::F16) return half_to_float(reinterpret_cast<const Half*>(src), reinterpret_cast<float*>(dst), n);
    if (type == DType::BF16)
      return bfloat_to_float(reinterpret_cast<const BFloat16*>(src), reinterpret_cast<float*>(dst), n);
  }
  dispatch_dtype(type, [&]<class S>() {
    const S* p = reinterpret_cast<const S*>(src);
    if (stride == 1)
      for (int64_t i = 0; i < n; ++i) dst[i] = convert<T>(p[i]);
    else
      for (int64_t i = 0; i < n; ++i) dst[i] = convert<T>(p[i * stride]);
  });
}

template <class T> void store_run(const T* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  if (std::is_same_v<T, float> && stride == 1) {
    if (type == DType::F16) return float_to_half(reinterpret_cast<const float*>(src), reinterpret_cast<Half*>(dst), n);
    if (type == DType::BF16)
      return float_to_bfloat(reinterpret_cast<const float*>(src), reinterpret_cast<BFloat16*>(dst), n);
  }
  dispatch_dtype(type, [&]<class S>() {
    S* p = reinterpret_cast<S*>(dst);
    if (stride == 1)
      for (int64_t i = 0; i < n; ++i) p[i] = convert<S>(src[i]);
    else
      for (int64_t i = 0; i < n; ++i) p[i * stride] = convert<S>(src[i]);
  });
}

template void load_run(float*, const std::byte*, DType, int64_t, int64_t);
template void load_run(double*, const std::byte*, DType, int64_t, int64_t);
template void load_run(int64_t*, const std::byte*, DType, int64_t, int64_t);
template void store_run(const float*, std::byte*, DType, int64_t, int64_t);
template void store_run(const double*, std::byte*, DType, int64_t, int64_t);
template void store_run(const int64_t*, std::byte*, DType, int64_t, int64_t);

}  // namespace strata::cpu
