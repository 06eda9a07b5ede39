// The loops of rows.h. Four rows are read at a time, so that a row that all of them need is read once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/rows_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "cpu/nn/rows.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T> void add_four(T* y, const T* a, const T* b, const T* c, const T* e, int64_t d) {
  const hn::ScalableTag<T> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t k = 0;
  for (; k + lanes <= d; k += lanes) {
    const auto sum = hn::Add(hn::Add(hn::LoadU(tag, a + k), hn::LoadU(tag, b + k)),
                             hn::Add(hn::LoadU(tag, c + k), hn::LoadU(tag, e + k)));
    hn::StoreU(hn::Add(hn::LoadU(tag, y + k), sum), tag, y + k);
  }
  for (; k < d; ++k) y[k] += (a[k] + b[k]) + (c[k] + e[k]);
}
// Eight vectors of y stay in registers while the rows are added, in the order of the loop below.
template <class T> HWY_INLINE void sum_of_columns(const T* table, int64_t d, const int64_t* rows, int64_t count, T* y) {
  const hn::ScalableTag<T> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  auto s0 = hn::Zero(tag), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  const auto each = [&](auto more) HWY_ATTR {
    more(s0, 0);
    more(s1, lanes);
    more(s2, 2 * lanes);
    more(s3, 3 * lanes);
    more(s4, 4 * lanes);
    more(s5, 5 * lanes);
    more(s6, 6 * lanes);
    more(s7, 7 * lanes);
  };
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const T *a = table + rows[i] * d, *b = table + rows[i + 1] * d, *c = table + rows[i + 2] * d,
            *e = table + rows[i + 3] * d;
    each([&](auto& sum, int64_t at) HWY_ATTR {
      sum = hn::Add(sum, hn::Add(hn::Add(hn::LoadU(tag, a + at), hn::LoadU(tag, b + at)),
                                 hn::Add(hn::LoadU(tag, c + at), hn::LoadU(tag, e + at))));
    });
  }
  for (; i < count; ++i) {
    const T* a = table + rows[i] * d;
    each([&](auto& sum, int64_t at) HWY_ATTR { sum = hn::Add(sum, hn::LoadU(tag, a + at)); });
  }
  each([&](auto& sum, int64_t at) HWY_ATTR { hn::StoreU(sum, tag, y + at); });
}
template <class T> void sum_of_rows(const T* table, int64_t d, const int64_t* rows, int64_t count, T* y, int64_t n) {
  std::fill_n(y, n, T(0));
  int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    add_four(y, table + rows[i] * d, table + rows[i + 1] * d, table + rows[i + 2] * d, table + rows[i + 3] * d, n);
  for (; i < count; ++i)
    for (int64_t k = 0; k < n; ++k) y[k] += table[rows[i] * d + k];
}
template <class T> void sum_rows_of(const T* table, int64_t d, const int64_t* rows, int64_t count, T* y) {
  const int64_t width = 8 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t k = 0;
  for (; count >= 8 && k + width <= d; k += width) sum_of_columns(table + k, d, rows, count, y + k);
  sum_of_rows(table + k, d, rows, count, y + k, d - k);
}
void SumFloat(const float* table, int64_t d, const int64_t* rows, int64_t count, float* y) {
  sum_rows_of(table, d, rows, count, y);
}
void SumDouble(const double* table, int64_t d, const int64_t* rows, int64_t count, double* y) {
  sum_rows_of(table, d, rows, count, y);
}

template <class T> struct WeightedRow {
  const T* at;
  T weight;
};
// y becomes the sum of weighted rows, or is added to it: up to four of them, so that y is read and written once.
template <class T, int kRows> void add_weighted(T* y, const WeightedRow<T>* rows, bool add, int64_t d) {
  const hn::ScalableTag<T> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t k = 0;
  for (; k + lanes <= d; k += lanes) {
    auto sum = add ? hn::LoadU(tag, y + k) : hn::Zero(tag);
    for (int row = 0; row < kRows; ++row)
      sum = hn::MulAdd(hn::Set(tag, rows[row].weight), hn::LoadU(tag, rows[row].at + k), sum);
    hn::StoreU(sum, tag, y + k);
  }
  for (; k < d; ++k) {
    T sum = add ? y[k] : T(0);
    for (int row = 0; row < kRows; ++row) sum = std::fma(rows[row].weight, rows[row].at[k], sum);
    y[k] = sum;
  }
}
template <class T>
void sum_of_weighted_rows(const T* table, int64_t d, const int64_t* rows, const T* weights, int64_t count, T* y) {
  if (count == 0) std::fill_n(y, d, T(0));
  WeightedRow<T> some[4];
  for (int64_t i = 0; i < count; i += 4) {
    const int64_t n = std::min<int64_t>(4, count - i);
    for (int64_t r = 0; r < n; ++r) some[r] = {table + rows[i + r] * d, weights[i + r]};
    if (n == 4) add_weighted<T, 4>(y, some, i > 0, d);
    for (int64_t r = 0; n < 4 && r < n; ++r) add_weighted<T, 1>(y, some + r, i + r > 0, d);
  }
}
void SumWeightedFloat(const float* table, int64_t d, const int64_t* rows, const float* weights, int64_t count,
                      float* y) {
  sum_of_weighted_rows(table, d, rows, weights, count, y);
}
void SumWeightedDouble(const double* table, int64_t d, const int64_t* rows, const double* weights, int64_t count,
                       double* y) {
  sum_of_weighted_rows(table, d, rows, weights, count, y);
}

template <class T> T product_of_rows(const T* a, const T* b, int64_t d) {
  const hn::ScalableTag<T> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  auto sum = hn::Zero(tag);
  int64_t k = 0;
  for (; k + lanes <= d; k += lanes) sum = hn::MulAdd(hn::LoadU(tag, a + k), hn::LoadU(tag, b + k), sum);
  if (k < d) {
    const auto rest = hn::FirstN(tag, static_cast<size_t>(d - k));
    sum = hn::MulAdd(hn::MaskedLoad(rest, tag, a + k), hn::MaskedLoad(rest, tag, b + k), sum);
  }
  return hn::GetLane(hn::SumOfLanes(tag, sum));
}
float ProductFloat(const float* a, const float* b, int64_t d) { return product_of_rows(a, b, d); }
double ProductDouble(const double* a, const double* b, int64_t d) { return product_of_rows(a, b, d); }
}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(SumFloat);
HWY_EXPORT(SumDouble);
HWY_EXPORT(SumWeightedFloat);
HWY_EXPORT(SumWeightedDouble);
HWY_EXPORT(ProductFloat);
HWY_EXPORT(ProductDouble);
void sum_rows(const float* table, int64_t d, const int64_t* rows, int64_t count, float* y) {
  HWY_DYNAMIC_DISPATCH(SumFloat)(table, d, rows, count, y);
}
void sum_rows(const double* table, int64_t d, const int64_t* rows, int64_t count, double* y) {
  HWY_DYNAMIC_DISPATCH(SumDouble)(table, d, rows, count, y);
}
void sum_weighted_rows(const float* table, int64_t d, const int64_t* rows, const float* weights, int64_t count,
                       float* y) {
  HWY_DYNAMIC_DISPATCH(SumWeightedFloat)(table, d, rows, weights, count, y);
}
void sum_weighted_rows(const double* table, int64_t d, const int64_t* rows, const double* weights, int64_t count,
                       double* y) {
  HWY_DYNAMIC_DISPATCH(SumWeightedDouble)(table, d, rows, weights, count, y);
}
float row_product(const float* a, const float* b, int64_t d) { return HWY_DYNAMIC_DISPATCH(ProductFloat)(a, b, d); }
double row_product(const double* a, const double* b, int64_t d) { return HWY_DYNAMIC_DISPATCH(ProductDouble)(a, b, d); }
}  // namespace strata::cpu
#endif
