// Weighted sums of rows of bytes, in 32-bit integers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/resample_bytes_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/nn/resample_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using DI = hn::ScalableTag<int32_t>;
using DB = hn::Rebind<uint8_t, DI>;

void SumByteRows(const int32_t* weight, int64_t count, int precision, int64_t n, const uint8_t* x, uint8_t* y) {
  const DI d;
  const DB bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, precision ? 1 << (precision - 1) : 0);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    auto a = half, b = half;
    for (int64_t k = 0; k < count; ++k) {
      const auto w = hn::Set(d, weight[k]);
      const uint8_t* const from = x + k * n + i;
      a = hn::Add(a, hn::Mul(w, hn::PromoteTo(d, hn::LoadU(bytes, from))));
      b = hn::Add(b, hn::Mul(w, hn::PromoteTo(d, hn::LoadU(bytes, from + lanes))));
    }
    hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRightSame(a, precision)), bytes, y + i);  // to 0 ... 255
    hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRightSame(b, precision)), bytes, y + i + lanes);
  }
  for (; i < n; ++i) {
    int32_t sum = precision ? 1 << (precision - 1) : 0;
    for (int64_t k = 0; k < count; ++k) sum += weight[k] * x[k * n + i];
    sum >>= precision;
    y[i] = static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
  }
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(SumByteRows);
void sum_byte_rows(const int32_t* weight, int64_t count, int precision, int64_t n, const uint8_t* x, uint8_t* y) {
  HWY_DYNAMIC_DISPATCH(SumByteRows)(weight, count, precision, n, x, y);
}
}  // namespace strata::cpu
#endif
