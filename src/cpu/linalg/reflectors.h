// Householder reflectors in LAPACK's form, for double and complex<double>: H = I - tau v v^H with v[0] = 1, and
// H^H x = (beta, 0, ...) with a real beta.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

namespace strata::cpu {

inline double conjugate(double x) { return x; }
inline std::complex<double> conjugate(std::complex<double> z) { return std::conj(z); }
inline double imaginary(double) { return 0; }
inline double imaginary(std::complex<double> z) { return z.imag(); }

// The product without the checks for infinities of std::complex, so that loops are vectorized.
inline double times(double a, double b) { return a * b; }
inline std::complex<double> times(std::complex<double> a, std::complex<double> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <class T> void subtract_scaled(T* y, T factor, const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] -= times(factor, x[i]);
}

// The reflector of x (n elements `stride` apart): x becomes (beta, v[1..]). Returns tau.
template <class T> T make_reflector(T* x, int64_t stride, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i)
    largest = std::max({largest, std::abs(std::real(x[i * stride])), std::abs(imaginary(x[i * stride]))});
  double below = 0;
  for (int64_t i = 1; i < n && largest > 0; ++i) below += std::norm(x[i * stride] / largest);
  const T alpha = x[0];
  if (below == 0 && imaginary(alpha) == 0) return 0;
  const double beta = -std::copysign(largest * std::sqrt(std::norm(alpha / largest) + below), std::real(alpha));
  for (int64_t i = 1; i < n; ++i) x[i * stride] /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}

// Rows of b (m x n, `ld` apart) become (I - tau v v^H) b; the elements of v are `stride` apart.
template <class T> void reflect_rows(const T* v, int64_t stride, T tau, T* b, int64_t ld, int64_t m, int64_t n) {
  if (tau == 0.0 || n == 0) return;
  std::vector<T> w(b, b + n);
  for (int64_t i = 1; i < m; ++i) subtract_scaled(w.data(), -conjugate(v[i * stride]), b + i * ld, n);
  subtract_scaled(b, tau, w.data(), n);
  for (int64_t i = 1; i < m; ++i) subtract_scaled(b + i * ld, times(tau, v[i * stride]), w.data(), n);
}
// Columns of b (m x n) become b (I - tau v v^H).
template <class T> void reflect_columns(const T* v, int64_t stride, T tau, T* b, int64_t ld, int64_t m, int64_t n) {
  if (tau == 0.0) return;
  for (int64_t i = 0; i < m; ++i) {
    T* row = b + i * ld;
    T sum = row[0];
    for (int64_t j = 1; j < n; ++j) sum += times(row[j], v[j * stride]);
    sum = times(sum, tau);
    row[0] -= sum;
    for (int64_t j = 1; j < n; ++j) row[j] -= times(sum, conjugate(v[j * stride]));
  }
}

}  // namespace strata::cpu
