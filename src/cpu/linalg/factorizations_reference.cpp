// Factorizations by textbook loops. Signs and orders match the fast ones: LAPACK's reflectors, ascending eigenvalues,
// descending singular values.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "cpu/linalg/factorizations.h"

namespace strata::cpu {
namespace {

// Gaussian elimination with partial pivoting.
int64_t lu(double* a, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  int64_t info = 0;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; pivot && i < m; ++i)
      if (std::abs(a[i * n + k]) > std::abs(a[best * n + k])) best = i;
    if (pivots) pivots[k] = static_cast<int32_t>(best + 1);
    if (best != k) std::swap_ranges(a + k * n, a + k * n + n, a + best * n);
    if (a[k * n + k] == 0) {
      if (!info) info = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < m; ++i) {
      a[i * n + k] /= a[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
  }
  return info;
}

int64_t cholesky(double* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double v = a[i * n + j];
      for (int64_t k = 0; k < j; ++k) v -= a[i * n + k] * a[j * n + k];
      if (i == j && !(v > 0)) return i + 1;
      a[i * n + j] = i == j ? std::sqrt(v) : v / a[j * n + j];
    }
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + i * n + n, 0.0);
  return 0;
}

// Substitution, from the first row down (lower) or the last row up (upper).
void substitute(const double* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, double* b, int64_t r) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    for (int64_t c = 0; c < r; ++c) {
      double v = b[i * r + c];
      for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) v -= a[i * row + j * column] * b[j * r + c];
      b[i * r + c] = unit ? v : v / a[i * row + i * column];
    }
  }
}

// H = 1 - tau v v^T with v = (1, column k of a below the diagonal), applied from the left to rows k… of b.
void reflect(const double* a, int64_t n, int64_t k, int64_t m, double tau, double* b, int64_t ld, int64_t from,
             int64_t to) {
  for (int64_t c = from; c < to; ++c) {
    double sum = b[k * ld + c];
    for (int64_t i = k + 1; i < m; ++i) sum += a[i * n + k] * b[i * ld + c];
    b[k * ld + c] -= tau * sum;
    for (int64_t i = k + 1; i < m; ++i) b[i * ld + c] -= tau * sum * a[i * n + k];
  }
}
void qr(double* a, int64_t m, int64_t n, double* tau) {
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < m; ++i) below += a[i * n + k] * a[i * n + k];
    tau[k] = 0;
    if (below == 0) continue;
    const double alpha = a[k * n + k], beta = -std::copysign(std::sqrt(alpha * alpha + below), alpha);
    tau[k] = (beta - alpha) / beta;
    for (int64_t i = k + 1; i < m; ++i) a[i * n + k] /= alpha - beta;
    a[k * n + k] = beta;
    reflect(a, n, k, m, tau[k], a, n, k + 1, n);
  }
}
void q_of(const double* a, int64_t m, int64_t n, const double* tau, int64_t count, double* q, int64_t columns) {
  std::fill_n(q, m * columns, 0.0);
  for (int64_t i = 0; i < std::min(m, columns); ++i) q[i * columns + i] = 1;
  for (int64_t k = count; k-- > 0;) reflect(a, n, k, m, tau[k], q, columns, 0, columns);
}
void q_times(const double* a, int64_t m, int64_t n, const double* tau, int64_t count, bool transposed, double* b,
             int64_t r) {
  for (int64_t step = 0; step < count; ++step) {
    const int64_t k = transposed ? step : count - 1 - step;
    reflect(a, n, k, m, tau[k], b, r, 0, r);
  }
}

// The rotation that zeroes the off-diagonal element p of [[x, p], [p, y]].
struct Rotation {
  double c, s;
  Rotation(double x, double y, double p) {
    const double theta = (y - x) / (2 * p), t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(theta, 1.0));
    c = 1 / std::hypot(t, 1.0);
    s = t * c;
  }
  void turn(double& a, double& b) const {
    const double old = a;
    a = c * old - s * b;
    b = s * old + c * b;
  }
};

constexpr int kSweeps = 60;

// Jacobi: each rotation zeroes one pair of off-diagonal elements.
bool eigen(double* a, int64_t n, double* w, double* z) {
  std::vector<double> v(static_cast<size_t>(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i) v[static_cast<size_t>(i * n + i)] = 1;
  double scale = 0;
  for (int64_t i = 0; i < n * n; ++i) scale = std::max(scale, std::abs(a[i]));
  bool done = false;
  for (int sweep = 0; sweep < kSweeps && !done; ++sweep) {
    done = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (std::abs(a[p * n + q]) <= 1e-17 * scale) continue;
        done = false;
        const Rotation r(a[p * n + p], a[q * n + q], a[p * n + q]);
        for (int64_t i = 0; i < n; ++i) r.turn(a[i * n + p], a[i * n + q]);
        for (int64_t i = 0; i < n; ++i) r.turn(a[p * n + i], a[q * n + i]);
        for (int64_t i = 0; i < n; ++i) r.turn(v[static_cast<size_t>(p * n + i)], v[static_cast<size_t>(q * n + i)]);
      }
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return a[i * n + i] < a[j * n + j]; });
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = order[static_cast<size_t>(i)];
    w[i] = a[from * n + from];
    if (z) std::copy_n(v.data() + from * n, n, z + i * n);
  }
  return done;
}

// Another unit vector of length m, orthogonal to the `count` rows of u.
void complete(double* u, int64_t count, int64_t m) {
  std::vector<double> best(static_cast<size_t>(m));
  double longest = 0;
  for (int64_t axis = 0; axis < m; ++axis) {
    std::vector<double> x(static_cast<size_t>(m), 0.0);
    x[static_cast<size_t>(axis)] = 1;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t k = 0; k < count; ++k) {
        const double dot = std::inner_product(x.begin(), x.end(), u + k * m, 0.0);
        for (int64_t i = 0; i < m; ++i) x[static_cast<size_t>(i)] -= dot * u[k * m + i];
      }
    const double length = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
    if (length > longest) {
      longest = length;
      best = x;
    }
  }
  for (int64_t i = 0; i < m; ++i) u[count * m + i] = best[static_cast<size_t>(i)] / longest;
}

// One-sided Jacobi (Hestenes): columns are rotated until they are orthogonal; their lengths are the singular values.
bool svd(double* a, int64_t m, int64_t n, double* s, double* ut, int64_t columns, double* vt) {
  std::vector<double> g(static_cast<size_t>(n * m)), v(static_cast<size_t>(n * n), 0.0);  // columns of A and V as rows
  for (int64_t k = 0; k < n; ++k) {
    v[static_cast<size_t>(k * n + k)] = 1;
    for (int64_t i = 0; i < m; ++i) g[static_cast<size_t>(k * m + i)] = a[i * n + k];
  }
  const auto dot = [&](int64_t p, int64_t q) {
    return std::inner_product(g.data() + p * m, g.data() + p * m + m, g.data() + q * m, 0.0);
  };
  double scale = 0;
  for (int64_t k = 0; k < n; ++k) scale = std::max(scale, dot(k, k));
  bool done = false;
  for (int sweep = 0; sweep < kSweeps && !done; ++sweep) {
    done = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        const double x = dot(p, p), y = dot(q, q), cross = dot(p, q);
        if (std::abs(cross) <= 1e-15 * std::sqrt(x * y) || std::abs(cross) <= 1e-33 * scale) continue;
        done = false;
        const Rotation r(x, y, cross);
        for (int64_t i = 0; i < m; ++i) r.turn(g[static_cast<size_t>(p * m + i)], g[static_cast<size_t>(q * m + i)]);
        for (int64_t i = 0; i < n; ++i) r.turn(v[static_cast<size_t>(p * n + i)], v[static_cast<size_t>(q * n + i)]);
      }
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return dot(i, i) > dot(j, j); });
  for (int64_t k = 0; k < n; ++k) {
    const int64_t from = order[static_cast<size_t>(k)];
    s[k] = std::sqrt(dot(from, from));
    if (vt) std::copy_n(v.data() + from * n, n, vt + k * n);
    if (!ut) continue;
    if (s[k] > 1e-14 * std::sqrt(scale))
      for (int64_t i = 0; i < m; ++i) ut[k * m + i] = g[static_cast<size_t>(from * m + i)] / s[k];
    else complete(ut, k, m);
  }
  for (int64_t k = n; ut && k < columns; ++k) complete(ut, k, m);
  return done;
}
}  // namespace

constinit const Dense<double> dense_reference{
  lu, cholesky, substitute, qr, q_of, q_times, eigen, svd, detail::eigen_by_qr<double>};

}  // namespace strata::cpu
