// Factorizations of complex matrices, with LAPACK's reflectors: H = I - tau v v^H, and H^H x = (beta, 0, ...) with a real
// beta, so that R has a real diagonal and the reduced forms of the spectral decompositions are real.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/linalg/factorizations.h"
#include "cpu/linalg/reflectors.h"

namespace strata::cpu {
namespace {
using Z = std::complex<double>;
using Numbers = std::vector<Z>;

size_t at(int64_t i) { return static_cast<size_t>(i); }

int64_t lu(Z* a, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  int64_t info = 0;
  // As in BLAS: the sum of the parts is the size of a number.
  const auto size = [](Z z) { return std::abs(z.real()) + std::abs(z.imag()); };
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; pivot && i < m; ++i)
      if (size(a[i * n + k]) > size(a[best * n + k])) best = i;
    if (pivots) pivots[k] = static_cast<int32_t>(best + 1);
    if (best != k) std::swap_ranges(a + k * n, a + k * n + n, a + best * n);
    if (a[k * n + k] == 0.0) {
      if (!info) info = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < m; ++i) {
      a[i * n + k] /= a[k * n + k];
      subtract_scaled(a + i * n + k + 1, a[i * n + k], a + k * n + k + 1, n - k - 1);
    }
  }
  return info;
}

int64_t cholesky(Z* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      Z v = a[i * n + j];
      for (int64_t k = 0; k < j; ++k) v -= times(a[i * n + k], std::conj(a[j * n + k]));
      if (i == j && !(v.real() > 0)) return i + 1;
      a[i * n + j] = i == j ? Z(std::sqrt(v.real())) : v / a[j * n + j].real();
    }
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + i * n + n, Z(0));
  return 0;
}

void substitute(const Z* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, Z* b, int64_t r) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j)
      subtract_scaled(b + i * r, a[i * row + j * column], b + j * r, r);
    const Z d = a[i * row + i * column];
    for (int64_t c = 0; !unit && c < r; ++c) b[i * r + c] /= d;
  }
}

void qr(Z* a, int64_t m, int64_t n, Z* tau) {
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    Z* v = a + k * n + k;
    tau[k] = make_reflector(v, n, m - k);
    reflect_rows(v, n, std::conj(tau[k]), v + 1, n, m - k, n - k - 1);
  }
}
void form_q(const Z* a, int64_t m, int64_t n, const Z* tau, int64_t count, Z* q, int64_t columns) {
  std::fill_n(q, m * columns, Z(0));
  for (int64_t i = 0; i < std::min(m, columns); ++i) q[i * columns + i] = 1;
  for (int64_t k = count; k-- > 0;) reflect_rows(a + k * n + k, n, tau[k], q + k * columns, columns, m - k, columns);
}
void apply_q(const Z* a, int64_t m, int64_t n, const Z* tau, int64_t count, bool adjoint, Z* b, int64_t r) {
  for (int64_t step = 0; step < count; ++step) {
    const int64_t k = adjoint ? step : count - 1 - step;
    reflect_rows(a + k * n + k, n, adjoint ? std::conj(tau[k]) : tau[k], b + k * r, r, m - k, r);
  }
}

// A = Q T Q^H with a real tridiagonal T, whose eigenvectors Q maps to those of A.
bool eigen_hermitian(Z* a, int64_t n, double* w, Z* z) {
  Numbers tau(at(n));
  for (int64_t i = 0; i < n; ++i) a[i * n + i] = a[i * n + i].real();
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t m = n - k - 1;
    Z *v = a + (k + 1) * n + k, *block = v + 1;
    tau[at(k)] = make_reflector(v, n, m);
    reflect_rows(v, n, std::conj(tau[at(k)]), block, n, m, m);
    reflect_columns(v, n, tau[at(k)], block, n, m, m);
  }
  std::vector<double> reduced(at(n * n)), vectors(at(z ? n * n : 0));
  for (int64_t i = 0; i < n; ++i) {
    reduced[at(i * n + i)] = a[i * n + i].real();
    if (i + 1 < n) reduced[at(i * n + i + 1)] = reduced[at((i + 1) * n + i)] = a[(i + 1) * n + i].real();
  }
  if (!dense_fast<double>().eigen_symmetric(reduced.data(), n, w, z ? vectors.data() : nullptr)) return false;
  if (!z) return true;
  Numbers x(at(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) x[at(j * n + i)] = vectors[at(i * n + j)];
  for (int64_t k = n - 1; k-- > 0;)
    reflect_rows(a + (k + 1) * n + k, n, tau[at(k)], x.data() + (k + 1) * n, n, n - k - 1, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) z[i * n + j] = x[at(j * n + i)];
  return true;
}

// A = Q B P^H with a real upper bidiagonal B.
bool singular_values(Z* a, int64_t m, int64_t n, double* s, Z* ut, int64_t columns, Z* vt) {
  Numbers left(at(n)), right(at(n));
  std::vector<double> reduced(at(n * n)), u(at(ut ? n * n : 0)), v(at(ut ? n * n : 0));
  for (int64_t k = 0; k < n; ++k) {
    Z *column = a + k * n + k, *row = column + 1;
    left[at(k)] = make_reflector(column, n, m - k);
    reflect_rows(column, n, std::conj(left[at(k)]), row, n, m - k, n - k - 1);
    reduced[at(k * n + k)] = column->real();
    if (k + 1 == n) continue;
    for (int64_t j = 0; j < n - k - 1; ++j) row[j] = std::conj(row[j]);
    right[at(k)] = make_reflector(row, 1, n - k - 1);
    reflect_columns(row, 1, right[at(k)], row + n, n, m - k - 1, n - k - 1);
    reduced[at(k * n + k + 1)] = row->real();
  }
  double* none = nullptr;
  if (!dense_fast<double>().singular_values(reduced.data(), n, n, s, ut ? u.data() : none, n, ut ? v.data() : none))
    return false;
  if (!ut) return true;
  Numbers x(at(m * columns)), y(at(n * n));
  for (int64_t i = 0; i < columns; ++i)
    if (i >= n) x[at(i * columns + i)] = 1;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      x[at(j * columns + i)] = u[at(i * n + j)];
      y[at(j * n + i)] = v[at(i * n + j)];
    }
  for (int64_t k = n; k-- > 0;)
    reflect_rows(a + k * n + k, n, left[at(k)], x.data() + k * columns, columns, m - k, columns);
  for (int64_t k = n - 1; k-- > 0;)
    reflect_rows(a + k * n + k + 1, 1, right[at(k)], y.data() + (k + 1) * n, n, n - k - 1, n);
  for (int64_t i = 0; i < columns; ++i)
    for (int64_t j = 0; j < m; ++j) ut[i * m + j] = x[at(j * columns + i)];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) vt[i * n + j] = std::conj(y[at(j * n + i)]);
  return true;
}
}  // namespace

constinit const Dense<Z> dense_complex{
  lu, cholesky, substitute, qr, form_q, apply_q, eigen_hermitian, singular_values, detail::eigen_by_qr<Z>};

}  // namespace strata::cpu
