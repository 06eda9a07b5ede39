// Gamma, Poisson and binomial numbers (device/samplers.h), one element at a time. Compiled for each SIMD target because
// fma is an instruction only there; all targets give the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/creation/samplers_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/creation/samplers.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {

void DrawRow(Sampler sampler, const double* a, const double* b, uint64_t seed, uint64_t first, int64_t n, double* out) {
  const auto each = [&](auto draw) HWY_ATTR {
    for (int64_t i = 0; i < n; ++i) {
      samplers::Stream stream{seed, first + static_cast<uint64_t>(i)};
      out[i] = draw(i, stream);
    }
  };
  switch (sampler) {
    case Sampler::Gamma:
      return each([&](int64_t i, samplers::Stream& s) HWY_ATTR { return samplers::gamma<false>(a[i], s); });
    case Sampler::LogGamma:
      return each([&](int64_t i, samplers::Stream& s) HWY_ATTR { return samplers::gamma<true>(a[i], s); });
    case Sampler::Poisson:
      return each([&](int64_t i, samplers::Stream& s) HWY_ATTR { return samplers::poisson(a[i], s); });
    case Sampler::Binomial:
      return each([&](int64_t i, samplers::Stream& s) HWY_ATTR { return samplers::binomial(a[i], b[i], s); });
  }
}

void NormalizeRow(double* row, int64_t n) {
  samplers::normalize_logs(
    n, [&](int64_t i) HWY_ATTR { return row[i]; }, [&](int64_t i, double x) HWY_ATTR { row[i] = x; });
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(DrawRow);
HWY_EXPORT(NormalizeRow);
void normalize_row(double* row, int64_t n) { HWY_DYNAMIC_DISPATCH(NormalizeRow)(row, n); }
void draw_row(Sampler sampler, const double* a, const double* b, uint64_t seed, uint64_t first, int64_t n,
              double* out) {
  HWY_DYNAMIC_DISPATCH(DrawRow)(sampler, a, b, seed, first, n, out);
}
}  // namespace strata::cpu
#endif
