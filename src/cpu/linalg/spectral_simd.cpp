// Symmetric eigenvalues (Householder tridiagonal form, implicit QL) and singular values (bidiagonal form, implicit QR
// after Golub and Kahan). Vectors are stored as rows, so that rotating two of them accesses contiguous memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linalg/spectral_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "cpu/linalg/factorizations.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/vector_ops.inl"

constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr int kMaxIterations = 100;

void transpose_square(double* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) std::swap(a[i * n + j], a[j * n + i]);
}

// d and e become the tridiagonal form; z (unless null) the matrix whose rows are the columns of Q.
void tridiagonal(double* a, int64_t n, double* d, double* e, double* z) {
  std::vector<double> p(static_cast<size_t>(n)), tau(static_cast<size_t>(n)), w(static_cast<size_t>(n)),
    v(static_cast<size_t>(n));
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t m = n - k - 1;
    double* block = a + (k + 1) * n + k + 1;
    tau[static_cast<size_t>(k)] = m > 1 ? make_reflector(a + (k + 1) * n + k, n, m) : 0;
    d[k] = a[k * n + k];
    e[k] = a[(k + 1) * n + k];
    const double t = tau[static_cast<size_t>(k)];
    if (t == 0) continue;
    v[0] = 1;
    for (int64_t i = 1; i < m; ++i) v[static_cast<size_t>(i)] = a[(k + 1 + i) * n + k];
    for (int64_t i = 0; i < m; ++i) p[static_cast<size_t>(i)] = t * dot(block + i * n, v.data(), m);
    add_scaled(p.data(), -t / 2 * dot(p.data(), v.data(), m), v.data(), m);
    for (int64_t i = 0; i < m; ++i) {
      add_scaled(block + i * n, -v[static_cast<size_t>(i)], p.data(), m);
      add_scaled(block + i * n, -p[static_cast<size_t>(i)], v.data(), m);
    }
  }
  d[n - 1] = a[n * n - 1];
  e[n - 1] = 0;
  if (!z) return;
  std::fill_n(z, n * n, 0.0);
  for (int64_t i = 0; i < n; ++i) z[i * n + i] = 1;
  for (int64_t k = n - 1; k-- > 0;)
    reflect_rows(a + (k + 1) * n + k, n, tau[static_cast<size_t>(k)], z + (k + 1) * n + k + 1, n, n - k - 1, n - k - 1,
                 w.data());
  transpose_square(z, n);
}

bool implicit_ql(int64_t n, double* d, double* e, double* z) {
  for (int64_t l = 0; l < n; ++l)
    for (int iteration = 0;; ++iteration) {
      int64_t m = l;
      while (m + 1 < n && std::abs(e[m]) > kEps * (std::abs(d[m]) + std::abs(d[m + 1]))) ++m;
      if (m == l) break;
      if (iteration == kMaxIterations) return false;
      double g = (d[l + 1] - d[l]) / (2 * e[l]), r = std::hypot(g, 1.0);
      g = d[m] - d[l] + e[l] / (g + std::copysign(r, g));
      double s = 1, c = 1, p = 0;
      int64_t i = m - 1;
      for (; i >= l; --i) {
        const double f = s * e[i], b = c * e[i];
        e[i + 1] = r = std::hypot(f, g);
        if (r == 0) {
          d[i + 1] -= p;
          e[m] = 0;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        d[i + 1] = g + (p = s * r);
        g = c * r - b;
        if (z) rotate(z + (i + 1) * n, z + i * n, c, s, n);
      }
      if (r == 0 && i >= l) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  return true;
}

bool Eigen(double* a, int64_t n, double* w, double* z) {
  if (n == 0) return true;
  std::vector<double> e(static_cast<size_t>(n));
  double scale = 0;  // so that squares neither overflow nor underflow
  for (int64_t i = 0; i < n * n; ++i) scale = std::max(scale, std::abs(a[i]));
  if (scale > 0)
    for (int64_t i = 0; i < n * n; ++i) a[i] /= scale;
  tridiagonal(a, n, w, e.data(), z);
  if (!implicit_ql(n, w, e.data(), z)) return false;
  for (int64_t i = 0; i < n; ++i) w[i] *= scale;
  for (int64_t i = 0; i + 1 < n; ++i) {  // ascending
    const int64_t least = std::min_element(w + i, w + n) - w;
    if (least == i) continue;
    std::swap(w[i], w[least]);
    if (z) std::swap_ranges(z + i * n, z + i * n + n, z + least * n);
  }
  return true;
}

// d, e: the bidiagonal form; rows of ut and vt: the columns of its U and V.
void bidiagonal(double* a, int64_t m, int64_t n, double* d, double* e, double* ut, int64_t columns, double* vt) {
  std::vector<double> left(static_cast<size_t>(n)), right(static_cast<size_t>(n)),
    w(static_cast<size_t>(std::max(m, n)));
  for (int64_t k = 0; k < n; ++k) {
    double* v = a + k * n + k;
    left[static_cast<size_t>(k)] = make_reflector(v, n, m - k);
    reflect_rows(v, n, left[static_cast<size_t>(k)], v + 1, n, m - k, n - k - 1, w.data());
    d[k] = *v;
    e[k] = 0;
    if (k + 1 >= n) continue;
    double* row = v + 1;
    const double t = right[static_cast<size_t>(k)] = make_reflector(row, 1, n - k - 1);
    e[k] = *row;
    if (t == 0) continue;
    *row = 1;
    for (int64_t i = 1; i < m - k; ++i) add_scaled(row + i * n, -t * dot(row + i * n, row, n - k - 1), row, n - k - 1);
  }
  if (!ut) return;
  std::vector<double> u(static_cast<size_t>(m * columns));
  for (int64_t i = 0; i < std::min(m, columns); ++i) u[static_cast<size_t>(i * columns + i)] = 1;
  for (int64_t k = n; k-- > 0;)
    reflect_rows(a + k * n + k, n, left[static_cast<size_t>(k)], u.data() + k * columns, columns, m - k, columns,
                 w.data());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < columns; ++j) ut[j * m + i] = u[static_cast<size_t>(i * columns + j)];
  std::fill_n(vt, n * n, 0.0);
  for (int64_t i = 0; i < n; ++i) vt[i * n + i] = 1;
  for (int64_t k = n - 1; k-- > 0;)
    reflect_rows(a + k * n + k + 1, 1, right[static_cast<size_t>(k)], vt + (k + 1) * n + k + 1, n, n - k - 1, n - k - 1,
                 w.data());
  transpose_square(vt, n);
}

struct Bidiagonal {
  int64_t m, n;
  double *s, *e, *ut, *vt;
  void turn_u(int64_t i, int64_t j, double c, double sn) const {
    if (ut) rotate(ut + i * m, ut + j * m, c, sn, m);
  }
  void turn_v(int64_t i, int64_t j, double c, double sn) const {
    if (vt) rotate(vt + i * n, vt + j * n, c, sn, n);
  }

  void deflate_last(int64_t k, int64_t p) const {  // s[p-1] is negligible
    double f = std::exchange(e[p - 2], 0);
    for (int64_t j = p - 2; j >= k; --j) {
      const double t = std::hypot(s[j], f), c = s[j] / t, sn = f / t;
      s[j] = t;
      if (j != k) {
        f = -sn * e[j - 1];
        e[j - 1] *= c;
      }
      turn_v(j, p - 1, c, sn);
    }
  }
  void split(int64_t k, int64_t p) const {  // s[k-1] is negligible
    double f = std::exchange(e[k - 1], 0);
    for (int64_t j = k; j < p; ++j) {
      const double t = std::hypot(s[j], f), c = s[j] / t, sn = f / t;
      s[j] = t;
      f = -sn * e[j];
      e[j] *= c;
      turn_u(j, k - 1, c, sn);
    }
  }
  void qr_step(int64_t k, int64_t p) const {
    const double scale =
      std::max({std::abs(s[p - 1]), std::abs(s[p - 2]), std::abs(e[p - 2]), std::abs(s[k]), std::abs(e[k])});
    const double sp = s[p - 1] / scale, before = s[p - 2] / scale, ep = e[p - 2] / scale, sk = s[k] / scale,
                 ek = e[k] / scale;
    const double b = ((before + sp) * (before - sp) + ep * ep) / 2, c2 = sp * ep * (sp * ep);
    double shift = 0;
    if (b != 0 || c2 != 0) shift = c2 / (b + std::copysign(std::sqrt(b * b + c2), b));
    double f = (sk + sp) * (sk - sp) + shift, g = sk * ek;
    for (int64_t j = k; j < p - 1; ++j) {
      double t = std::hypot(f, g), c = t == 0 ? 1 : f / t, sn = t == 0 ? 0 : g / t;
      if (j != k) e[j - 1] = t;
      f = c * s[j] + sn * e[j];
      e[j] = c * e[j] - sn * s[j];
      g = sn * s[j + 1];
      s[j + 1] *= c;
      turn_v(j, j + 1, c, sn);
      t = std::hypot(f, g);
      c = t == 0 ? 1 : f / t;
      sn = t == 0 ? 0 : g / t;
      s[j] = t;
      f = c * e[j] + sn * s[j + 1];
      s[j + 1] = c * s[j + 1] - sn * e[j];
      g = sn * e[j + 1];
      e[j + 1] *= c;
      turn_u(j, j + 1, c, sn);
    }
    e[p - 2] = f;
  }
  void settle(int64_t k) const {  // s[k] has converged: make it positive and move it to its sorted position
    if (s[k] < 0) {
      s[k] = -s[k];
      if (vt)
        for (int64_t i = 0; i < n; ++i) vt[k * n + i] = -vt[k * n + i];
    }
    for (; k + 1 < n && s[k] < s[k + 1]; ++k) {
      std::swap(s[k], s[k + 1]);
      if (vt) std::swap_ranges(vt + k * n, vt + k * n + n, vt + (k + 1) * n);
      if (ut) std::swap_ranges(ut + k * m, ut + k * m + m, ut + (k + 1) * m);
    }
  }

  bool run() const {
    constexpr double kTiny = 1e-290;
    int iteration = 0;
    for (int64_t p = n; p > 0;) {
      int64_t k = p - 2;
      for (; k >= 0; --k)
        if (std::abs(e[k]) <= kTiny + kEps * (std::abs(s[k]) + std::abs(s[k + 1]))) {
          e[k] = 0;
          break;
        }
      if (k == p - 2) {
        settle(p - 1);
        --p;
        iteration = 0;
        continue;
      }
      int64_t z = p - 1;
      for (; z > k; --z) {
        const double beside = (z != p - 1 ? std::abs(e[z]) : 0) + (z != k + 1 ? std::abs(e[z - 1]) : 0);
        if (std::abs(s[z]) <= kTiny + kEps * beside) {
          s[z] = 0;
          break;
        }
      }
      if (z == k) {
        if (++iteration > kMaxIterations) return false;
        qr_step(k + 1, p);
      } else if (z == p - 1) {
        deflate_last(k + 1, p);
      } else {
        split(z + 1, p);
      }
    }
    return true;
  }
};

bool Singular(double* a, int64_t m, int64_t n, double* s, double* ut, int64_t columns, double* vt) {
  if (n == 0) {
    for (int64_t i = 0; ut && i < columns; ++i)
      for (int64_t j = 0; j < m; ++j) ut[i * m + j] = i == j;
    return true;
  }
  std::vector<double> e(static_cast<size_t>(n));
  double scale = 0;
  for (int64_t i = 0; i < m * n; ++i) scale = std::max(scale, std::abs(a[i]));
  if (scale > 0)
    for (int64_t i = 0; i < m * n; ++i) a[i] /= scale;
  bidiagonal(a, m, n, s, e.data(), ut, columns, vt);
  const bool done = Bidiagonal{m, n, s, e.data(), ut, vt}.run();
  for (int64_t i = 0; i < n; ++i) s[i] *= scale;
  return done;
}
}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(Eigen);
HWY_EXPORT(Singular);
bool eigen_symmetric(double* a, int64_t n, double* w, double* z) { return HWY_DYNAMIC_DISPATCH(Eigen)(a, n, w, z); }
bool singular_values(double* a, int64_t m, int64_t n, double* s, double* ut, int64_t columns, double* vt) {
  return HWY_DYNAMIC_DISPATCH(Singular)(a, m, n, s, ut, columns, vt);
}
}  // namespace strata::cpu
#endif
