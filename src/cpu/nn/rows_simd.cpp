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

// Squares of very large and very small floats overflow and vanish: such distances are computed in double.
float exact_where_needed(float squares, const float* a, const float* b, int64_t d) {
  if (HWY_LIKELY(squares > 1e-30F && squares < 1e38F)) return std::sqrt(squares);
  double sum = 0;
  for (int64_t k = 0; k < d; ++k) {
    const double difference = static_cast<double>(a[k]) - static_cast<double>(b[k]);
    sum += difference * difference;
  }
  return static_cast<float>(std::sqrt(sum));
}
double exact_where_needed(double squares, const double* a, const double* b, int64_t d) {
  if (HWY_LIKELY(squares > 1e-280 && squares < 1e300)) return std::sqrt(squares);
  double length = 0;
  for (int64_t k = 0; k < d; ++k) length = std::hypot(length, a[k] - b[k]);
  return length;
}

template <class T, int kRows> void distances_of(const T* a, const T* b, int64_t d, T* out) {
  const hn::ScalableTag<T> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  auto s0 = hn::Zero(tag), s1 = s0, s2 = s0, s3 = s0;
  const auto step = [&](auto load, int64_t k) HWY_ATTR {
    const auto x = load(a + k);
    const auto square = [&](int row, auto& sum) HWY_ATTR {
      if (row >= kRows) return;
      const auto difference = hn::Sub(x, load(b + row * d + k));
      sum = hn::MulAdd(difference, difference, sum);
    };
    square(0, s0);
    square(1, s1);
    square(2, s2);
    square(3, s3);
  };
  int64_t k = 0;
  for (; k + lanes <= d; k += lanes) step([&](const T* p) HWY_ATTR { return hn::LoadU(tag, p); }, k);
  if (k < d) {
    const auto rest = hn::FirstN(tag, static_cast<size_t>(d - k));
    step([&](const T* p) HWY_ATTR { return hn::MaskedLoad(rest, tag, p); }, k);
  }
  const T sums[] = {hn::GetLane(hn::SumOfLanes(tag, s0)), hn::GetLane(hn::SumOfLanes(tag, s1)),
                    hn::GetLane(hn::SumOfLanes(tag, s2)), hn::GetLane(hn::SumOfLanes(tag, s3))};
  for (int row = 0; row < kRows; ++row) out[row] = exact_where_needed(sums[row], a, b + row * d, d);
}
template <class T> void distances_from(const T* x, int64_t n, int64_t d, int64_t i, T* out) {
  int64_t j = i + 1;
  for (; j + 4 <= n; j += 4) distances_of<T, 4>(x + i * d, x + j * d, d, out + j - i - 1);
  for (; j < n; ++j) distances_of<T, 1>(x + i * d, x + j * d, d, out + j - i - 1);
}
void DistancesFloat(const float* x, int64_t n, int64_t d, int64_t i, float* out) { distances_from(x, n, d, i, out); }
void DistancesDouble(const double* x, int64_t n, int64_t d, int64_t i, double* out) { distances_from(x, n, d, i, out); }

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
template <class T> void sum_of_rows(const T* table, int64_t d, const int64_t* rows, int64_t count, T* y) {
  std::fill_n(y, d, T(0));
  int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    add_four(y, table + rows[i] * d, table + rows[i + 1] * d, table + rows[i + 2] * d, table + rows[i + 3] * d, d);
  for (; i < count; ++i)
    for (int64_t k = 0; k < d; ++k) y[k] += table[rows[i] * d + k];
}
void SumFloat(const float* table, int64_t d, const int64_t* rows, int64_t count, float* y) {
  sum_of_rows(table, d, rows, count, y);
}
void SumDouble(const double* table, int64_t d, const int64_t* rows, int64_t count, double* y) {
  sum_of_rows(table, d, rows, count, y);
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
HWY_EXPORT(DistancesFloat);
HWY_EXPORT(DistancesDouble);
HWY_EXPORT(SumFloat);
HWY_EXPORT(SumDouble);
HWY_EXPORT(SumWeightedFloat);
HWY_EXPORT(SumWeightedDouble);
HWY_EXPORT(ProductFloat);
HWY_EXPORT(ProductDouble);
void distances_after(const float* x, int64_t n, int64_t d, int64_t i, float* out) {
  HWY_DYNAMIC_DISPATCH(DistancesFloat)(x, n, d, i, out);
}
void distances_after(const double* x, int64_t n, int64_t d, int64_t i, double* out) {
  HWY_DYNAMIC_DISPATCH(DistancesDouble)(x, n, d, i, out);
}
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
