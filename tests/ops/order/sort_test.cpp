// Sorting and selection against the standard library: order, places, ties, NaN, long rows, every thread count.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/parallel.h"
#include "strata/ops.h"

namespace strata {
namespace {

Tensor random_rows(int64_t rows, int64_t n, DType dtype, uint32_t seed, bool ties) {
  const int64_t shape[] = {rows, n};
  Tensor t = make_tensor(Shape(shape, 2), dtype);
  std::mt19937 gen(seed);
  std::normal_distribution<double> normal;
  dispatch_dtype(dtype, [&]<class T>() {
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<T>()[i] = ties || std::is_integral_v<T>
                         ? convert<T>(static_cast<double>(static_cast<int>(gen() % 19)) - (is_signed(dtype) ? 9 : 0))
                         : convert<T>(normal(gen));
  });
  return t;
}

template <class T> double number(T v) { return convert<double>(v); }

void check_sorted(const Tensor& x, bool descending) {
  const auto [values, indices] = sort(x, int64_t{1}, descending);
  const int64_t rows = x.size(0), n = x.size(1);
  dispatch_dtype(x.dtype(), [&]<class T>() {
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x.data<T>() + r * n;
      const auto less = [&](int64_t a, int64_t b) {
        const double p = number(row[a]), q = number(row[b]);
        return p < q || (!std::isnan(p) && std::isnan(q));
      };
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return descending ? less(b, a) : less(a, b); });
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(indices.data<int64_t>()[r * n + i], order[static_cast<size_t>(i)])
          << "row " << r << " place " << i << " of " << n;
        const double got = number(values.data<T>()[r * n + i]), want = number(row[order[static_cast<size_t>(i)]]);
        ASSERT_TRUE(got == want || (std::isnan(want) && std::isnan(got)));
      }
    }
  });
}

TEST(Sort, IsStableForEveryTypeAndLength) {
  for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I16, DType::I8,
                  DType::U8, DType::Bool})
    for (int64_t n : {1, 2, 17, 384, 385, 3000})
      for (bool descending : {false, true})
        for (bool ties : {false, true}) check_sorted(random_rows(3, n, t, static_cast<uint32_t>(n), ties), descending);
}

TEST(Sort, PutsNanLastAndZerosTogether) {
  for (int64_t n : {10, 1000}) {
    Tensor x = random_rows(2, n, DType::F32, 3, false);
    float* p = x.data<float>();
    p[1] = NAN;
    p[4] = -NAN;
    p[5] = INFINITY;
    p[6] = -INFINITY;
    p[7] = 0.0F;
    p[8] = -0.0F;
    p[9] = 0.0F;
    check_sorted(x, false);
    check_sorted(x, true);
  }
}

TEST(Sort, LongRowsAreTheSameForEveryThreadCount) {
  for (DType t : {DType::F32, DType::I64})
    for (int threads : {1, 2, 3}) {
      set_num_threads(threads);
      check_sorted(random_rows(1, 300000, t, 5, true), false);
    }
  set_num_threads(hardware_threads());
}

TEST(Sort, WorksAlongAnyDimensionAndLayout) {
  const Tensor x = random_rows(40, 30, DType::F32, 6, false);
  const auto [by_column, places] = sort(x, int64_t{0});
  const auto [by_row, same] = sort(transpose(x, 0, 1), int64_t{1});
  EXPECT_TRUE(all(eq(by_column, transpose(by_row, 0, 1))).item<bool>());
  EXPECT_TRUE(all(eq(places, transpose(same, 0, 1))).item<bool>());
}

TEST(TopK, EqualsTheHeadOfASort) {
  for (DType t : {DType::F32, DType::BF16, DType::I64})
    for (int64_t k : {1, 5, 64, 65, 300, 1000})
      for (bool largest : {false, true}) {
        const Tensor x = random_rows(4, 1000, t, 7, true);
        const auto [values, places] = topk(x, k, int64_t{1}, largest);
        const auto [sorted, order] = sort(x, int64_t{1}, largest);
        EXPECT_TRUE(all(eq(values, narrow(sorted, 1, 0, k))).item<bool>());
        EXPECT_TRUE(all(eq(places, narrow(order, 1, 0, k))).item<bool>());
      }
}

TEST(Select, KthMedianAndModeAgreeWithASort) {
  const Tensor x = random_rows(5, 101, DType::F32, 8, true);
  const Tensor sorted = sort(x, int64_t{1})[0];
  EXPECT_TRUE(all(eq(kthvalue(x, 13, int64_t{1})[0], select(sorted, 1, 12))).item<bool>());
  EXPECT_TRUE(all(eq(median(x, int64_t{1})[0], select(sorted, 1, 50))).item<bool>());
  const auto [value, place] = mode(x, int64_t{1});
  EXPECT_TRUE(all(eq(squeeze(gather(x, 1, unsqueeze(place, 1)), int64_t{1}), value)).item<bool>());
  const Tensor counts = sum(eq(x, unsqueeze(value, 1)), int64_t{1});
  EXPECT_GE(counts.data<int64_t>()[0], 101 / 19);
}

TEST(Unique, CountsAndInverseRebuildTheInput) {
  const Tensor x = random_rows(6, 50, DType::I64, 9, true);
  const auto [values, inverse, counts] = unique(x, true, true, true);
  EXPECT_TRUE(all(eq(reshape(index_select(values, 0, reshape(inverse, {-1})), x.shape()), x)).item<bool>());
  EXPECT_EQ(sum(counts).item<int64_t>(), 300);
}

TEST(Unique, ReturnsOnlyWhatIsWanted) {
  const Tensor x = random_rows(6, 50, DType::I64, 9, true);
  const auto [values, inverse, counts] = unique(x);
  EXPECT_TRUE(all(eq(values, std::get<0>(unique(x, true, true, true)))).item<bool>());
  EXPECT_EQ(inverse.numel(), 0);
  EXPECT_EQ(counts.numel(), 0);
}

}  // namespace
}  // namespace strata
