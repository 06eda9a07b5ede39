// Products of integers, which wrap: tiles of c in registers. Bound by the rate of 64-bit multiplications.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linalg/gemm_integers_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/parallel.h"
#include "cpu/linalg/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kRows = 4, kVectors = 2;  // of a register tile

// The tile of c at (i, j), of kTall rows and `width` columns: two whole vectors, or less.
template <int kTall>
void tile(const Gemm& g, const uint64_t* a, const uint64_t* b, uint64_t* c, uint64_t alpha, int64_t i, int64_t j,
          int64_t width) {
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const uint64_t *x = a + i * g.a_m, *y = b + j;
  const bool whole = width == kVectors * lanes;
  const auto low = hn::FirstN(d, static_cast<size_t>(HWY_MIN(width, lanes))),
             high = hn::FirstN(d, static_cast<size_t>(HWY_MAX(width - lanes, int64_t{0})));
  hn::Vec<decltype(d)> sums[kTall][kVectors];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(d);
  for (int64_t p = 0; p < g.k; ++p, x += g.a_k, y += g.b_k) {
    const auto y0 = whole ? hn::LoadU(d, y) : hn::MaskedLoad(low, d, y),
               y1 = whole ? hn::LoadU(d, y + lanes) : hn::MaskedLoad(high, d, y + lanes);
    for (int r = 0; r < kTall; ++r) {
      const auto f = hn::Set(d, x[r * g.a_m]);
      sums[r][0] = hn::Add(sums[r][0], hn::Mul(f, y0));
      sums[r][1] = hn::Add(sums[r][1], hn::Mul(f, y1));
    }
  }
  const auto factor = hn::Set(d, alpha);
  for (int r = 0; r < kTall; ++r) {
    uint64_t* out = c + (i + r) * g.c_m + j;
    auto z0 = hn::Mul(factor, sums[r][0]), z1 = hn::Mul(factor, sums[r][1]);
    if (whole) {
      if (g.accumulate) {
        z0 = hn::Add(z0, hn::LoadU(d, out));
        z1 = hn::Add(z1, hn::LoadU(d, out + lanes));
      }
      hn::StoreU(z0, d, out);
      hn::StoreU(z1, d, out + lanes);
      continue;
    }
    if (g.accumulate) {
      z0 = hn::Add(z0, hn::MaskedLoad(low, d, out));
      z1 = hn::Add(z1, hn::MaskedLoad(high, d, out + lanes));
    }
    hn::BlendedStore(z0, low, d, out);
    hn::BlendedStore(z1, high, d, out + lanes);
  }
}

// Rows [first, last): all of them along a strip of b, which stays in the cache; short sums are bound by the memory of c, which
// is written row by row.
void IntegerRows(const Gemm& g, const uint64_t* a, const uint64_t* b, uint64_t* c, int64_t first, int64_t last) {
  const auto alpha = static_cast<uint64_t>(static_cast<int64_t>(g.alpha));
  const auto strip = kVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<uint64_t>()));
  if (g.k <= kShallow) {
    for (int64_t i = first; i < last;) {
      const bool tall = i + kRows <= last;
      for (int64_t j = 0; j < g.n; j += strip)
        (tall ? tile<kRows> : tile<1>)(g, a, b, c, alpha, i, j, HWY_MIN(strip, g.n - j));
      i += tall ? kRows : 1;
    }
    return;
  }
  for (int64_t j = 0; j < g.n; j += strip) {
    const int64_t width = HWY_MIN(strip, g.n - j);
    int64_t i = first;
    for (; i + kRows <= last; i += kRows) tile<kRows>(g, a, b, c, alpha, i, j, width);
    for (; i < last; ++i) tile<1>(g, a, b, c, alpha, i, j, width);
  }
}
}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(IntegerRows);
void integer_rows(const Gemm& g, const int64_t* a, const int64_t* b, int64_t* c, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(IntegerRows)
  (g, reinterpret_cast<const uint64_t*>(a), reinterpret_cast<const uint64_t*>(b), reinterpret_cast<uint64_t*>(c), first,
   last);
}

void gemm_rows(const Gemm& g, const int64_t* a, const int64_t* b, int64_t* c) {
  const auto alpha = static_cast<int64_t>(g.alpha);
  if (g.n == 1 && g.batch_dims == 0)  // a loop over n would have one step
    return parallel_for(g.m, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, g.k)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        uint64_t sum = 0;  // unsigned: wraps, as in PyTorch
        for (int64_t p = 0; p < g.k; ++p)
          sum += static_cast<uint64_t>(a[r * g.a_m + p * g.a_k]) * static_cast<uint64_t>(b[p * g.b_k]);
        int64_t& out = c[r * g.c_m];
        out = static_cast<int64_t>(static_cast<uint64_t>(alpha) * sum + static_cast<uint64_t>(g.accumulate ? out : 0));
      }
    });
  if (g.c_n == 1 && g.b_n == 1) {
    constexpr int64_t kTogether = 32;  // rows of one piece of work
    const int64_t pieces = (g.m + kTogether - 1) / kTogether, work = std::min(g.m, kTogether) * g.n * g.k;
    return parallel_for(g.batches() * pieces, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            int64_t ao, bo, co;
                            g.offsets(i / pieces, ao, bo, co);
                            const int64_t first = i % pieces * kTogether;
                            integer_rows(g, a + ao, b + bo, c + co, first, std::min(g.m, first + kTogether));
                          }
                        });
  }
  parallel_for(
    g.batches() * g.m, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, g.n * g.k)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t ao, bo, co;
        g.offsets(r / g.m, ao, bo, co);
        const int64_t* x = a + ao + r % g.m * g.a_m;
        int64_t* out = c + co + r % g.m * g.c_m;
        for (int64_t j = 0; !g.accumulate && j < g.n; ++j) out[j * g.c_n] = 0;
        for (int64_t p = 0; p < g.k; ++p) {
          const uint64_t f =
            static_cast<uint64_t>(alpha) * static_cast<uint64_t>(x[p * g.a_k]);  // unsigned: wraps, as in PyTorch
          const int64_t* y = b + bo + p * g.b_k;
          for (int64_t j = 0; j < g.n; ++j)
            out[j * g.c_n] =
              static_cast<int64_t>(static_cast<uint64_t>(out[j * g.c_n]) + f * static_cast<uint64_t>(y[j * g.b_n]));
        }
      }
    });
}
}  // namespace strata::cpu
#endif
