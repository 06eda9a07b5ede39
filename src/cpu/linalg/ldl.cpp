#include "cpu/linalg/ldl.h"

#include <cmath>
#include <vector>

#include "cpu/linalg/reflectors.h"

namespace strata::cpu {
namespace {

template <class T> struct Ldl {
  T* a;
  int64_t n;
  bool hermitian;
  T* factors;  // for 2 n numbers

  T& at(int64_t i, int64_t j) const { return a[i * n + j]; }
  T turned(T z) const { return hermitian ? conjugate(z) : z; }
  static double size(T z) { return std::abs(std::real(z)) + std::abs(imaginary(z)); }
  double diagonal_size(int64_t k) const { return hermitian ? std::abs(std::real(at(k, k))) : size(at(k, k)); }
  void make_real(int64_t k) const {
    if (hermitian) at(k, k) = std::real(at(k, k));
  }

  // Rows and columns i < j of the part that is left are exchanged.
  void exchange(int64_t i, int64_t j) const {
    for (int64_t k = j + 1; k < n; ++k) std::swap(at(k, i), at(k, j));
    for (int64_t k = i + 1; k < j; ++k) {
      const T old = at(k, i);
      at(k, i) = turned(at(j, k));
      at(j, k) = turned(old);
    }
    at(j, i) = turned(at(j, i));
    std::swap(at(i, i), at(j, j));
  }
  // By rows, whose elements are adjacent: `factors` has the factor of each column.
  void eliminate_one(int64_t k) const {
    const T inverse = T(1) / at(k, k);
    for (int64_t j = k + 1; j < n; ++j) factors[j] = times(inverse, turned(at(j, k)));
    for (int64_t i = k + 1; i < n; ++i) {
      const T x = at(i, k);
      T* row = a + i * n;
      for (int64_t j = k + 1; j <= i; ++j) row[j] -= times(x, factors[j]);
      make_real(i);
    }
    for (int64_t i = k + 1; i < n; ++i) at(i, k) *= inverse;
  }
  void eliminate_two(int64_t k) const {
    const T beside = at(k + 1, k), first = at(k, k), second = at(k + 1, k + 1);
    const T determinant = first * second - beside * turned(beside);
    T *left = factors, *right = factors + n;  // a row of L is the row of A times the inverse of the block
    for (int64_t j = k + 2; j < n; ++j) {
      const T x = at(j, k), y = at(j, k + 1);
      left[j] = turned((x * second - y * beside) / determinant);
      right[j] = turned((y * first - x * turned(beside)) / determinant);
    }
    for (int64_t i = k + 2; i < n; ++i) {
      const T x = at(i, k), y = at(i, k + 1);
      T* row = a + i * n;
      for (int64_t j = k + 2; j <= i; ++j) row[j] -= times(x, left[j]) + times(y, right[j]);
      make_real(i);
    }
    for (int64_t j = k + 2; j < n; ++j) {
      at(j, k) = turned(left[j]);
      at(j, k + 1) = turned(right[j]);
    }
  }

  int64_t run(int32_t* pivots) const {
    const double alpha = (1 + std::sqrt(17.0)) / 8;
    int64_t info = 0;
    for (int64_t k = 0; k < n;) {
      int64_t other = k, rows = 1, best = k;
      const double here = diagonal_size(k);
      double column = 0;
      for (int64_t i = k + 1; i < n; ++i)
        if (size(at(i, k)) > column) {
          column = size(at(i, k));
          best = i;
        }
      if (!(std::max(here, column) > 0)) {
        if (!info) info = k + 1;
        make_real(k);
      } else {
        if (here < alpha * column) {
          double row = 0;
          for (int64_t j = k; j < best; ++j) row = std::max(row, size(at(best, j)));
          for (int64_t i = best + 1; i < n; ++i) row = std::max(row, size(at(i, best)));
          if (here < alpha * column * (column / row)) {
            other = best;
            if (diagonal_size(best) < alpha * row) rows = 2;
          }
        }
        const int64_t last = k + rows - 1;
        if (other != last) {
          exchange(last, other);
          if (rows == 2) std::swap(at(k + 1, k), at(other, k));
        }
        for (int64_t i = k; i <= last; ++i) make_real(i);
        if (rows == 1) eliminate_one(k);
        else eliminate_two(k);
      }
      for (int64_t i = 0; i < rows; ++i) pivots[k + i] = static_cast<int32_t>(rows == 1 ? other + 1 : -(other + 1));
      k += rows;
    }
    return info;
  }
};
}  // namespace

template <class T> int64_t ldl_factor(T* a, int64_t n, int32_t* pivots, bool hermitian) {
  std::vector<T> factors(static_cast<size_t>(2 * n));
  return Ldl<T>{a, n, hermitian, factors.data()}.run(pivots);
}
template int64_t ldl_factor(double*, int64_t, int32_t*, bool);
template int64_t ldl_factor(std::complex<double>*, int64_t, int32_t*, bool);

template <class T> void ldl_solve(const T* a, int64_t n, const int32_t* pivots, bool hermitian, T* b, int64_t r) {
  const auto at = [&](int64_t i, int64_t j) { return a[i * n + j]; };
  const auto turned = [&](T z) { return hermitian ? conjugate(z) : z; };
  const auto exchange = [&](int64_t i, int64_t j) {
    if (i != j) std::swap_ranges(b + i * r, b + (i + 1) * r, b + j * r);
  };
  const auto block_at = [&](int64_t k) { return pivots[k] < 0 && k + 1 < n; };
  for (int64_t k = 0; k < n;) {
    const int64_t rows = block_at(k) ? 2 : 1, last = k + rows - 1;
    exchange(last, std::abs(pivots[k]) - 1);
    for (int64_t i = last + 1; i < n; ++i)
      for (int64_t j = k; j <= last; ++j) subtract_scaled(b + i * r, at(i, j), b + j * r, r);
    const T beside = rows == 2 ? at(k + 1, k) : T(0), first = hermitian ? T(std::real(at(k, k))) : at(k, k),
            second = rows == 2 ? at(k + 1, k + 1) : T(1), determinant = first * second - beside * turned(beside);
    for (int64_t c = 0; c < r; ++c) {
      const T x = b[k * r + c];
      if (rows == 1) {
        b[k * r + c] = x / first;
        continue;
      }
      const T y = b[(k + 1) * r + c];
      b[k * r + c] = (second * x - turned(beside) * y) / determinant;
      b[(k + 1) * r + c] = (first * y - beside * x) / determinant;
    }
    k += rows;
  }
  for (int64_t k = n - 1; k >= 0;) {
    const int64_t first = k > 0 && pivots[k] < 0 ? k - 1 : k;
    for (int64_t i = k + 1; i < n; ++i)
      for (int64_t j = first; j <= k; ++j) subtract_scaled(b + j * r, turned(at(i, j)), b + i * r, r);
    exchange(k, std::abs(pivots[k]) - 1);
    k = first - 1;
  }
}
template void ldl_solve(const double*, int64_t, const int32_t*, bool, double*, int64_t);
template void ldl_solve(const std::complex<double>*, int64_t, const int32_t*, bool, std::complex<double>*, int64_t);

}  // namespace strata::cpu
