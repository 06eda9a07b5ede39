// LU, Cholesky, triangular solves and QR. Vector loops factor blocks of columns; a matrix product updates the rest of
// the matrix, which is most of the work for large matrices.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linalg/factor_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/linalg/factorizations.h"
#include "cpu/linalg/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/vector_ops.inl"

// Columns of a block. Small matrices leave more of their work to the products if blocks are narrow.
int64_t panel_of(int64_t n) { return n <= 256 ? 16 : 48; }

// c -= a b
void subtract_product(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_m, int64_t a_k, const double* b,
                      int64_t b_k, int64_t b_n, double* c, int64_t ld) {
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

int64_t Lu(double* a, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  int64_t info = 0;
  const int64_t count = std::min(m, n), panel = panel_of(count);
  for (int64_t k0 = 0; k0 < count; k0 += panel) {
    const int64_t k1 = std::min(count, k0 + panel);
    for (int64_t k = k0; k < k1; ++k) {
      int64_t best = k;
      if (pivot)
        for (int64_t i = k + 1; i < m; ++i)
          if (std::abs(a[i * n + k]) > std::abs(a[best * n + k])) best = i;
      if (pivots) pivots[k] = static_cast<int32_t>(best + 1);
      if (best != k) std::swap_ranges(a + k * n, a + k * n + n, a + best * n);
      const double p = a[k * n + k];
      if (p == 0) {
        if (!info) info = k + 1;
        continue;
      }
      for (int64_t i = k + 1; i < m; ++i) {
        const double l = a[i * n + k] /= p;
        if (l != 0) add_scaled(a + i * n + k + 1, -l, a + k * n + k + 1, k1 - k - 1);
      }
    }
    for (int64_t i = k0; i < k1; ++i)
      for (int64_t j = k0; j < i; ++j) add_scaled(a + i * n + k1, -a[i * n + j], a + j * n + k1, n - k1);
    subtract_product(m - k1, n - k1, k1 - k0, a + k1 * n + k0, n, 1, a + k0 * n + k1, n, 1, a + k1 * n + k1, n);
  }
  return info;
}

int64_t Cholesky(double* a, int64_t n) {
  const int64_t panel = panel_of(n);
  for (int64_t k0 = 0; k0 < n; k0 += panel) {
    const int64_t k1 = std::min(n, k0 + panel);
    subtract_product(n - k0, k1 - k0, k0, a + k0 * n, n, 1, a + k0 * n, 1, n, a + k0 * n + k0, n);
    for (int64_t i = k0; i < n; ++i)
      for (int64_t j = k0; j < std::min(i + 1, k1); ++j) {
        const double v = a[i * n + j] - dot(a + i * n + k0, a + j * n + k0, j - k0);
        if (i != j) {
          a[i * n + j] = v / a[j * n + j];
        } else {
          if (!(v > 0)) return i + 1;
          a[i * n + i] = std::sqrt(v);
        }
      }
  }
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + i * n + n, 0.0);
  return 0;
}

void SolveTriangle(const double* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, double* b,
                   int64_t r) {
  const int64_t panel = panel_of(n), blocks = (n + panel - 1) / panel;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t k0 = (upper ? blocks - 1 - block : block) * panel, k1 = std::min(n, k0 + panel);
    // The part already solved, above (lower) or below (upper).
    if (upper)
      subtract_product(k1 - k0, r, n - k1, a + k0 * row + k1 * column, row, column, b + k1 * r, r, 1, b + k0 * r, r);
    else subtract_product(k1 - k0, r, k0, a + k0 * row, row, column, b, r, 1, b + k0 * r, r);
    for (int64_t step = k0; step < k1; ++step) {
      const int64_t i = upper ? k0 + k1 - 1 - step : step;
      double* y = b + i * r;
      for (int64_t j = upper ? i + 1 : k0; j < (upper ? k1 : i); ++j)
        add_scaled(y, -a[i * row + j * column], b + j * r, r);
      if (unit) continue;
      const double d = a[i * row + i * column];
      for (int64_t c = 0; c < r; ++c) y[c] /= d;
    }
  }
}

void Qr(double* a, int64_t m, int64_t n, double* tau) {
  std::vector<double> w(static_cast<size_t>(n));
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    double* v = a + k * n + k;
    tau[k] = make_reflector(v, n, m - k);
    reflect_rows(v, n, tau[k], v + 1, n, m - k, n - k - 1, w.data());
  }
}

void FormQ(const double* a, int64_t m, int64_t n, const double* tau, int64_t count, double* q, int64_t columns) {
  std::vector<double> w(static_cast<size_t>(columns));
  std::fill_n(q, m * columns, 0.0);
  for (int64_t i = 0; i < std::min(m, columns); ++i) q[i * columns + i] = 1;
  for (int64_t k = count; k-- > 0;)
    reflect_rows(a + k * n + k, n, tau[k], q + k * columns, columns, m - k, columns, w.data());
}
}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(Lu);
HWY_EXPORT(Cholesky);
HWY_EXPORT(SolveTriangle);
HWY_EXPORT(Qr);
HWY_EXPORT(FormQ);
int64_t lu_factor(double* a, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  return HWY_DYNAMIC_DISPATCH(Lu)(a, m, n, pivots, pivot);
}
int64_t cholesky_factor(double* a, int64_t n) { return HWY_DYNAMIC_DISPATCH(Cholesky)(a, n); }
void solve_triangle(const double* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, double* b,
                    int64_t r) {
  HWY_DYNAMIC_DISPATCH(SolveTriangle)(a, row, column, n, upper, unit, b, r);
}
void qr_factor(double* a, int64_t m, int64_t n, double* tau) { HWY_DYNAMIC_DISPATCH(Qr)(a, m, n, tau); }
void form_q(const double* a, int64_t m, int64_t n, const double* tau, int64_t count, double* q, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(FormQ)(a, m, n, tau, count, q, columns);
}
void apply_pivots(double* b, int64_t n, int64_t r, const int32_t* pivots, int64_t count, bool back) {
  for (int64_t k = 0; k < count; ++k) {
    const int64_t i = back ? count - 1 - k : k, j = pivots[i] - 1;
    if (j != i && j >= 0 && j < n) std::swap_ranges(b + i * r, b + i * r + r, b + j * r);
  }
}
}  // namespace strata::cpu
#endif
