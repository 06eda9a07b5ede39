// Symmetric eigenvalues (Householder tridiagonal form, implicit QL) and singular values (bidiagonal form, implicit QR
// after Golub and Kahan). Vectors are stored as rows, so that rotating two of them accesses contiguous memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linalg/spectral_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "cpu/linalg/factorizations.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/vector_ops.inl"

template <class T> constexpr T kEps = std::numeric_limits<T>::epsilon();
constexpr int kMaxIterations = 100;

// The iterations compute their scalars in double, also for float matrices: they are as fast, and add no error to that of the
// reduction before them. Squares of floats neither overflow nor underflow in double.
template <class T> double length(double x, double y) {
  if constexpr (sizeof(T) == 4) return std::sqrt(x * x + y * y);
  else return std::hypot(x, y);
}

template <class T> void transpose_square(T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) std::swap(a[i * n + j], a[j * n + i]);
}

// d and e become the tridiagonal form; z (unless null) the matrix whose rows are the columns of Q.
template <class T> void tridiagonal(T* a, int64_t n, double* d, double* e, T* z) {
  std::vector<T> p(static_cast<size_t>(n)), tau(static_cast<size_t>(n)), w(static_cast<size_t>(n)),
    v(static_cast<size_t>(n));
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t m = n - k - 1;
    T* block = a + (k + 1) * n + k + 1;
    tau[static_cast<size_t>(k)] = m > 1 ? make_reflector(a + (k + 1) * n + k, n, m) : 0;
    d[k] = a[k * n + k];
    e[k] = a[(k + 1) * n + k];
    const T t = tau[static_cast<size_t>(k)];
    if (t == 0) continue;
    v[0] = 1;
    for (int64_t i = 1; i < m; ++i) v[static_cast<size_t>(i)] = a[(k + 1 + i) * n + k];
    for (int64_t i = 0; i < m; ++i) p[static_cast<size_t>(i)] = t * dot(block + i * n, v.data(), m);
    add_scaled(p.data(), -t / 2 * dot(p.data(), v.data(), m), v.data(), m);
    for (int64_t i = 0; i < m; ++i)
      add_two_scaled(block + i * n, -v[static_cast<size_t>(i)], p.data(), -p[static_cast<size_t>(i)], v.data(), m);
  }
  d[n - 1] = a[n * n - 1];
  e[n - 1] = 0;
  if (!z) return;
  std::fill_n(z, n * n, T(0));
  for (int64_t i = 0; i < n; ++i) z[i * n + i] = 1;
  for (int64_t k = n - 1; k-- > 0;)
    reflect_rows(a + (k + 1) * n + k, n, tau[static_cast<size_t>(k)], z + (k + 1) * n + k + 1, n, n - k - 1, n - k - 1,
                 w.data());
  transpose_square(z, n);
}

// Eigenvalues d of a tridiagonal matrix with diagonal d and the elements e beside it; rotates the rows of z.
template <class T> bool implicit_ql(int64_t n, double* d, double* e, T* z) {
  for (int64_t l = 0; l < n; ++l)
    for (int iteration = 0;; ++iteration) {
      int64_t m = l;
      while (m + 1 < n && std::abs(e[m]) > kEps<T> * (std::abs(d[m]) + std::abs(d[m + 1]))) ++m;
      if (m == l) break;
      if (iteration == kMaxIterations) return false;
      double g = (d[l + 1] - d[l]) / (2 * e[l]), r = length<T>(g, 1);
      g = d[m] - d[l] + e[l] / (g + std::copysign(r, g));
      double s = 1, c = 1, p = 0;
      int64_t i = m - 1;
      for (; i >= l; --i) {
        const double f = s * e[i], b = c * e[i];
        e[i + 1] = r = length<T>(f, g);
        if (r == 0) {
          d[i + 1] -= p;
          e[m] = 0;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        rotate(z + (i + 1) * n, z + i * n, static_cast<T>(c), static_cast<T>(s), n);
      }
      if (r == 0 && i >= l) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  return true;
}

// The same without vectors and without square roots (Pal, Walker and Kahan). `squares` are those of the elements beside the
// diagonal.
bool rational_ql(int64_t n, double* d, double* squares, double eps) {
  for (int64_t l = 0; l < n; ++l)
    for (int iteration = 0;; ++iteration) {
      int64_t m = l;
      while (m + 1 < n && squares[m] > eps * eps * std::abs(d[m] * d[m + 1])) ++m;
      if (m < n) squares[m] = 0;
      if (m == l) break;
      if (iteration == kMaxIterations) return false;
      const double root = std::sqrt(squares[l]), half = (d[l + 1] - d[l]) / (2 * root);
      const double sigma = d[l] - root / (half + std::copysign(std::hypot(half, 1.0), half));
      double c = 1, s = 0, gamma = d[m] - sigma, p = gamma * gamma;
      for (int64_t i = m - 1; i >= l; --i) {
        const double beside = squares[i], r = p + beside, c_before = c, gamma_before = gamma, alpha = d[i];
        if (i != m - 1) squares[i + 1] = s * r;
        c = p / r;
        s = beside / r;
        gamma = c * (alpha - sigma) - s * gamma_before;
        d[i + 1] = gamma_before + (alpha - gamma);
        p = c != 0 ? gamma * gamma / c : c_before * beside;
      }
      squares[l] = s * p;
      d[l] = sigma + gamma;
    }
  return true;
}

// Divides by the largest magnitude, so that squares neither overflow nor underflow.
template <class T> T normalize(T* a, int64_t count) {
  T scale = 0;
  for (int64_t i = 0; i < count; ++i) scale = std::max(scale, std::abs(a[i]));
  if (scale > 0) divide(a, scale, count);
  return scale;
}

template <class T> bool eigen_ql(T* a, int64_t n, T* w, T* z) {
  if (n == 0) return true;
  std::vector<double> d(static_cast<size_t>(n)), e(static_cast<size_t>(n));
  const T scale = normalize(a, n * n);
  tridiagonal(a, n, d.data(), e.data(), z);
  if (z) {
    if (!implicit_ql(n, d.data(), e.data(), z)) return false;
  } else {
    for (double& x : e) x *= x;
    if (!rational_ql(n, d.data(), e.data(), kEps<T>)) return false;
    std::ranges::sort(d);
  }
  for (int64_t i = 0; i < n; ++i) w[i] = static_cast<T>(d[static_cast<size_t>(i)] * scale);
  for (int64_t i = 0; z && i + 1 < n; ++i) {  // ascending
    const int64_t least = std::min_element(w + i, w + n) - w;
    if (least == i) continue;
    std::swap(w[i], w[least]);
    std::swap_ranges(z + i * n, z + i * n + n, z + least * n);
  }
  return true;
}

// d, e: the bidiagonal form; rows of ut and vt: the columns of its U and V.
template <class T> void bidiagonal(T* a, int64_t m, int64_t n, double* d, double* e, T* ut, int64_t columns, T* vt) {
  std::vector<T> left(static_cast<size_t>(n)), right(static_cast<size_t>(n)), w(static_cast<size_t>(std::max(m, n)));
  for (int64_t k = 0; k < n; ++k) {
    T* v = a + k * n + k;
    left[static_cast<size_t>(k)] = make_reflector(v, n, m - k);
    reflect_rows(v, n, left[static_cast<size_t>(k)], v + 1, n, m - k, n - k - 1, w.data());
    d[k] = *v;
    e[k] = 0;
    if (k + 1 >= n) continue;
    T* row = v + 1;
    const T t = right[static_cast<size_t>(k)] = make_reflector(row, 1, n - k - 1);
    e[k] = *row;
    if (t == 0) continue;
    *row = 1;
    for (int64_t i = 1; i < m - k; ++i) add_scaled(row + i * n, -t * dot(row + i * n, row, n - k - 1), row, n - k - 1);
  }
  if (!ut) return;
  std::vector<T> u(static_cast<size_t>(m * columns));
  for (int64_t i = 0; i < std::min(m, columns); ++i) u[static_cast<size_t>(i * columns + i)] = 1;
  for (int64_t k = n; k-- > 0;)
    reflect_rows(a + k * n + k, n, left[static_cast<size_t>(k)], u.data() + k * columns, columns, m - k, columns,
                 w.data());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < columns; ++j) ut[j * m + i] = u[static_cast<size_t>(i * columns + j)];
  std::fill_n(vt, n * n, T(0));
  for (int64_t i = 0; i < n; ++i) vt[i * n + i] = 1;
  for (int64_t k = n - 1; k-- > 0;)
    reflect_rows(a + k * n + k + 1, 1, right[static_cast<size_t>(k)], vt + (k + 1) * n + k + 1, n, n - k - 1, n - k - 1,
                 w.data());
  transpose_square(vt, n);
}

template <class T> struct Bidiagonal {
  int64_t m, n;
  double *s, *e;
  T *ut, *vt;
  void turn_u(int64_t i, int64_t j, double c, double sn) const {
    if (ut) rotate(ut + i * m, ut + j * m, static_cast<T>(c), static_cast<T>(sn), m);
  }
  void turn_v(int64_t i, int64_t j, double c, double sn) const {
    if (vt) rotate(vt + i * n, vt + j * n, static_cast<T>(c), static_cast<T>(sn), n);
  }

  void deflate_last(int64_t k, int64_t p) const {  // s[p-1] is negligible
    double f = std::exchange(e[p - 2], 0);
    for (int64_t j = p - 2; j >= k; --j) {
      const double t = length<T>(s[j], f), c = s[j] / t, sn = f / t;
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
      const double t = length<T>(s[j], f), c = s[j] / t, sn = f / t;
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
      double t = length<T>(f, g), c = t == 0 ? 1 : f / t, sn = t == 0 ? 0 : g / t;
      if (j != k) e[j - 1] = t;
      f = c * s[j] + sn * e[j];
      e[j] = c * e[j] - sn * s[j];
      g = sn * s[j + 1];
      s[j + 1] *= c;
      turn_v(j, j + 1, c, sn);
      t = length<T>(f, g);
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
    constexpr double kTiny = std::numeric_limits<T>::min() / kEps<T>;
    int iteration = 0;
    for (int64_t p = n; p > 0;) {
      int64_t k = p - 2;
      for (; k >= 0; --k)
        if (std::abs(e[k]) <= kTiny + kEps<T> * (std::abs(s[k]) + std::abs(s[k + 1]))) {
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
        if (std::abs(s[z]) <= kTiny + kEps<T> * beside) {
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

// Singular values (descending) of an upper bidiagonal matrix B with elements of float precision: the roots of the eigenvalues
// of B^T B. Its squares are rounded to double, so the error is 1e-8 of the largest value, less than that of the reduction.
bool roots_of_squares(int64_t n, double* d, double* e) {
  double before = 0;  // the square of the element above the diagonal
  for (int64_t i = 0; i < n; ++i) {
    const double square = d[i] * d[i], beside = e[i] * e[i];
    e[i] = square * beside;
    d[i] = square + before;
    before = beside;
  }
  if (!rational_ql(n, d, e, kEps<double>)) return false;
  std::sort(d, d + n, std::greater<>());
  for (int64_t i = 0; i < n; ++i) d[i] = std::sqrt(std::max(d[i], 0.0));
  return true;
}

template <class T> bool golub_kahan(T* a, int64_t m, int64_t n, T* s, T* ut, int64_t columns, T* vt) {
  if (n == 0) {
    for (int64_t i = 0; ut && i < columns; ++i)
      for (int64_t j = 0; j < m; ++j) ut[i * m + j] = i == j;
    return true;
  }
  std::vector<double> d(static_cast<size_t>(n)), e(static_cast<size_t>(n));
  const T scale = normalize(a, m * n);
  bidiagonal(a, m, n, d.data(), e.data(), ut, columns, vt);
  bool done;
  if (sizeof(T) == 4 && !ut) {
    done = roots_of_squares(n, d.data(), e.data());
  } else {
    done = Bidiagonal<T>{m, n, d.data(), e.data(), ut, vt}.run();
  }
  for (int64_t i = 0; i < n; ++i) s[i] = static_cast<T>(d[static_cast<size_t>(i)] * scale);
  return done;
}

void FillSpectral(Dense<float>& single, Dense<double>& twice) {
  single.eigen_symmetric = eigen_ql<float>;
  single.singular_values = golub_kahan<float>;
  twice.eigen_symmetric = eigen_ql<double>;
  twice.singular_values = golub_kahan<double>;
}
}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(FillSpectral);
void detail::fill_spectral(Dense<float>& single, Dense<double>& twice) {
  HWY_DYNAMIC_DISPATCH(FillSpectral)(single, twice);
}
}  // namespace strata::cpu
#endif
