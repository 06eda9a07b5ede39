// LU, Cholesky and triangular solves. Vector loops factor a few columns; matrix products update the others, which is
// most of the work for large matrices.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linalg/factor_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "cpu/linalg/factorizations.h"
#include "cpu/linalg/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/vector_ops.inl"

constexpr int64_t kLeaf = 16;            // columns that are factored without a product
constexpr int64_t kSolveWork = 1 << 18;  // multiplications of a thread that solves

// c -= a b
template <class T>
void subtract_product(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_m, int64_t a_k, const T* b, int64_t b_k,
                      int64_t b_n, T* c, int64_t ld) {
  if (m == 0 || n == 0 || k == 0) return;
  Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a_m = a_m;
  g.a_k = a_k;
  g.b_k = b_k;
  g.b_n = b_n;
  g.c_m = ld;
  g.c_n = 1;
  g.accumulate = true;
  g.alpha = -1;
  gemm_simd(g, a, b, c);
}

// The first part of a range that is factored in two halves, in whole vectors.
int64_t first_half(int64_t n) { return (n / 2 + kLeaf - 1) / kLeaf * kLeaf; }

// Rows of b (n x r, `ld` apart) become A^-1 b: half of the rows first, which a product subtracts from the others.
template <class T>
void solve_rows(const T* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, T* b, int64_t ld,
                int64_t r) {
  if (n > kLeaf) {
    const int64_t top = first_half(n), rest = n - top;
    const T* across = upper ? a + top * column : a + top * row;
    T *above = b, *below = b + top * ld;
    const T* corner = a + top * (row + column);
    if (upper) {
      solve_rows(corner, row, column, rest, upper, unit, below, ld, r);
      subtract_product(top, r, rest, across, row, column, below, ld, 1, above, ld);
      return solve_rows(a, row, column, top, upper, unit, above, ld, r);
    }
    solve_rows(a, row, column, top, upper, unit, above, ld, r);
    subtract_product(rest, r, top, across, row, column, above, ld, 1, below, ld);
    return solve_rows(corner, row, column, rest, upper, unit, below, ld, r);
  }
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step, from = upper ? i + 1 : 0, to = upper ? n : i;
    T* y = b + i * ld;
    subtract_rows(y, a + i * row + from * column, column, b + from * ld, ld, to - from, r);
    if (unit) continue;
    const T d = a[i * row + i * column];
    for (int64_t k = 0; k < r; ++k) y[k] /= d;
  }
}
// The same on all threads, which take some columns of b each.
template <class T>
void solve_columns(const T* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, T* b, int64_t ld,
                   int64_t r) {
  constexpr int64_t kColumns = 64;
  const int64_t pieces = (r + kColumns - 1) / kColumns;
  parallel_for(pieces, std::max<int64_t>(1, kSolveWork / (n * n * kColumns)), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      solve_rows(a, row, column, n, upper, unit, b + k * kColumns, ld, std::min(kColumns, r - k * kColumns));
  });
}
template <class T>
void solve_triangle_blocks(const T* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, T* b, int64_t r) {
  if (n > 0) solve_columns(a, row, column, n, upper, unit, b, r, r);
}

template <class T> struct LuRange {
  T* a;
  int64_t m, n;  // of the whole matrix
  int32_t* pivots;
  bool pivot;
  T* scratch;  // for m * kLeaf elements

  // Factors columns begin to end, to which the columns before them have been applied.
  int64_t run(int64_t begin, int64_t end) const {
    if (end - begin <= kLeaf) return leaf(begin, end);
    const int64_t middle = begin + first_half(end - begin);
    const int64_t first = run(begin, middle);
    finish_rows(begin, middle, end);
    subtract_product(m - middle, end - middle, middle - begin, at(middle, begin), n, 1, at(begin, middle), n, 1,
                     at(middle, middle), n);
    const int64_t second = run(middle, end);
    return first ? first : second;
  }
  // Columns middle to end of U, in the rows of the factored columns.
  void finish_rows(int64_t begin, int64_t middle, int64_t end) const {
    solve_columns(at(begin, begin), n, int64_t{1}, middle - begin, false, true, at(begin, middle), n, end - middle);
  }

 private:
  T* at(int64_t i, int64_t j) const { return a + i * n + j; }
  // The columns are copied, so that those of the copy are contiguous: the work is in vectors along them.
  int64_t leaf(int64_t begin, int64_t end) const {
    int64_t info = 0;
    const int64_t rows = m - begin, width = end - begin;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; ++j) scratch[j * rows + i] = *at(begin + i, begin + j);
    for (int64_t k = 0; k < width; ++k) {
      T* column = scratch + k * rows;
      const int64_t best = pivot ? k + largest(column + k, rows - k) : k;
      if (pivots) pivots[begin + k] = static_cast<int32_t>(begin + best + 1);
      if (best != k) {
        for (int64_t j = 0; j < width; ++j) std::swap(scratch[j * rows + k], scratch[j * rows + best]);
        std::swap_ranges(at(begin + k, 0), at(begin + k, begin), at(begin + best, 0));
        std::swap_ranges(at(begin + k, end), at(begin + k, n), at(begin + best, end));
      }
      if (column[k] == 0) {
        if (!info) info = begin + k + 1;
        continue;
      }
      divide(column + k + 1, column[k], rows - k - 1);
      for (int64_t j = k + 1; j < width; ++j)
        add_scaled(scratch + j * rows + k + 1, -scratch[j * rows + k], column + k + 1, rows - k - 1);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; ++j) *at(begin + i, begin + j) = scratch[j * rows + i];
    return info;
  }
};
template <class T> int64_t lu_halves(T* a, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  const int64_t count = std::min(m, n);
  std::vector<T> scratch(static_cast<size_t>(m * std::min(count, kLeaf)));
  const LuRange<T> range{a, m, n, pivots, pivot, scratch.data()};
  const int64_t info = range.run(0, count);
  if (n > count && count > 0) range.finish_rows(0, count, n);
  return info;
}

// Columns begin to end of L, like the columns of an LU decomposition. The products also update the upper triangle, which is
// zeroed at the end.
template <class T> struct CholeskyRange {
  T* a;
  int64_t n;
  T* scratch;  // for n * kLeaf elements

  int64_t run(int64_t begin, int64_t end) const {
    if (end - begin <= kLeaf) return leaf(begin, end);
    const int64_t middle = begin + first_half(end - begin);
    if (const int64_t info = run(begin, middle)) return info;
    subtract_product(n - middle, end - middle, middle - begin, at(middle, begin), n, 1, at(middle, begin), 1, n,
                     at(middle, middle), n);
    return run(middle, end);
  }

 private:
  T* at(int64_t i, int64_t j) const { return a + i * n + j; }
  int64_t leaf(int64_t begin, int64_t end) const {
    const int64_t rows = n - begin, width = end - begin;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; ++j) scratch[j * rows + i] = *at(begin + i, begin + j);
    int64_t info = 0;
    for (int64_t k = 0; k < width && !info; ++k) {
      T* column = scratch + k * rows;
      if (!(column[k] > 0)) {
        info = begin + k + 1;
        continue;
      }
      column[k] = std::sqrt(column[k]);
      divide(column + k + 1, column[k], rows - k - 1);
      for (int64_t j = k + 1; j < width; ++j) add_scaled(scratch + j * rows + j, -column[j], column + j, rows - j);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; ++j) *at(begin + i, begin + j) = scratch[j * rows + i];
    return info;
  }
};
template <class T> int64_t cholesky_halves(T* a, int64_t n) {
  std::vector<T> scratch(static_cast<size_t>(n * std::min(n, kLeaf)));
  const int64_t info = CholeskyRange<T>{a, n, scratch.data()}.run(0, n);
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + i * n + n, T(0));
  return info;
}

template <class T> void fill_with_factors(Dense<T>& dense) {
  dense.lu_factor = lu_halves<T>;
  dense.cholesky_factor = cholesky_halves<T>;
  dense.solve_triangle = solve_triangle_blocks<T>;
}
void FillFactors(Dense<float>& single, Dense<double>& twice) {
  fill_with_factors(single);
  fill_with_factors(twice);
}
}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(FillFactors);
void detail::fill_factors(Dense<float>& single, Dense<double>& twice) {
  HWY_DYNAMIC_DISPATCH(FillFactors)(single, twice);
}
}  // namespace strata::cpu
#endif
