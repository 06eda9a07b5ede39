// Eigenvalues of general matrices: scaled so that rows and columns have similar norms, reduced to Hessenberg form, then to
// triangular form by QR steps with implicit (real) or explicit (complex) shifts; eigenvectors by back substitution.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/linalg/factorizations.h"
#include "cpu/linalg/reflectors.h"

namespace strata::cpu {
namespace {
using Z = std::complex<double>;
constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr int kMaxSteps = 60;  // per eigenvalue

template <class T> class Schur {
 public:
  Schur(T* a, int64_t n, bool vectors) : h_(a), n_(n), scale_(static_cast<size_t>(n), 1.0) {
    balance();
    hessenberg(vectors);
    for (int64_t i = 0; i < n * n; ++i) norm_ += std::abs(a[i]);
  }

  // To triangular form; real matrices keep 2 x 2 blocks for pairs of complex eigenvalues.
  bool run() {
    int steps = 0;
    for (int64_t last = n_ - 1; last >= 0;) {
      int64_t first = last;
      while (first > 0 && !negligible(first)) --first;
      const int64_t left = last - first;
      if (left == 0 || (left == 1 && kReal)) {
        if constexpr (kReal)
          if (left == 1) separate(first);
        last = first - 1;
        steps = 0;
        continue;
      }
      if (++steps > kMaxSteps) return false;
      step(first, last, steps);
    }
    return true;
  }

  void values(Z* w) const {
    for (int64_t i = 0; i < n_; ++i) {
      w[i] = at(i, i);
      if constexpr (kReal)
        if (i + 1 < n_ && at(i + 1, i) != 0) {
          const double mean = (at(i, i) + at(i + 1, i + 1)) / 2, half = (at(i, i) - at(i + 1, i + 1)) / 2;
          const double size = std::sqrt(-(half * half + at(i, i + 1) * at(i + 1, i)));
          w[i] = {mean, size};
          w[i + 1] = {mean, -size};
          ++i;
        }
    }
  }

  // Rows of z become eigenvectors, for the values w.
  void vectors(const Z* w, Z* z) const {
    for (int64_t k = 0; k < n_; ++k) {
      Z* v = z + k * n_;
      if (kReal && w[k].imag() < 0) {  // the conjugate of the one before it
        for (int64_t i = 0; i < n_; ++i) v[i] = std::conj(v[i - n_]);
        continue;
      }
      const std::vector<Z> y = substitute(k, w[k]);
      for (int64_t i = 0; i < n_; ++i) {
        Z sum = 0;
        for (size_t j = 0; j < y.size(); ++j) sum += times(Z(q_[static_cast<size_t>(i * n_) + j]), y[j]);
        v[i] = sum * scale_[static_cast<size_t>(i)];
      }
    }
  }

 private:
  static constexpr bool kReal = std::is_same_v<T, double>;
  T& at(int64_t i, int64_t j) { return h_[i * n_ + j]; }
  const T& at(int64_t i, int64_t j) const { return h_[i * n_ + j]; }
  static double size(T z) { return std::abs(std::real(z)) + std::abs(imaginary(z)); }

  // A becomes D^-1 A D with powers of two in D, until no row and column differ by much (Parlett and Reinsch).
  void balance() {
    for (bool changed = true; changed;) {
      changed = false;
      for (int64_t i = 0; i < n_; ++i) {
        double row = 0, column = 0;
        for (int64_t j = 0; j < n_; ++j)
          if (j != i) {
            row += size(at(i, j));
            column += size(at(j, i));
          }
        if (!(row > 0) || !(column > 0)) continue;
        const int exponent = static_cast<int>(std::lround(std::log2(row / column) / 2));
        const double factor = std::ldexp(1.0, std::clamp(exponent, -500, 500));
        if (!(row / factor + column * factor < 0.95 * (row + column))) continue;
        changed = true;
        scale_[static_cast<size_t>(i)] *= factor;
        for (int64_t j = 0; j < n_; ++j) at(i, j) /= factor;
        for (int64_t j = 0; j < n_; ++j) at(j, i) *= factor;
      }
    }
  }

  void hessenberg(bool vectors) {
    std::vector<T> tau(static_cast<size_t>(n_));
    for (int64_t k = 0; k + 2 < n_; ++k) {
      const int64_t m = n_ - k - 1;
      T* v = &at(k + 1, k);
      tau[static_cast<size_t>(k)] = make_reflector(v, n_, m);
      reflect_rows(v, n_, conjugate(tau[static_cast<size_t>(k)]), v + 1, n_, m, m);
      reflect_columns(v, n_, tau[static_cast<size_t>(k)], h_ + k + 1, n_, n_, m);
    }
    if (vectors) {
      q_.assign(static_cast<size_t>(n_ * n_), T(0));
      for (int64_t i = 0; i < n_; ++i) q_[static_cast<size_t>(i * n_ + i)] = 1;
      for (int64_t k = n_ - 2; k-- > 0;)
        reflect_rows(&at(k + 1, k), n_, tau[static_cast<size_t>(k)], q_.data() + (k + 1) * n_, n_, n_ - k - 1, n_);
    }
    for (int64_t i = 2; i < n_; ++i) std::fill(h_ + i * n_, h_ + i * n_ + i - 1, T(0));
  }

  // Whether the element left of diagonal element i is negligible, which makes it 0.
  bool negligible(int64_t i) {
    double beside = size(at(i, i)) + size(at(i - 1, i - 1));
    if (beside == 0) beside = norm_;
    if (size(at(i, i - 1)) > kEps * beside) return false;
    at(i, i - 1) = 0;
    return true;
  }

  // The similarity by a reflector of rows and columns k to k + m - 1; rows start at column `from`, columns end before `to`.
  void similar(const T* v, T tau, int64_t k, int64_t m, int64_t from, int64_t to) {
    reflect_rows(v, 1, conjugate(tau), &at(k, from), n_, m, n_ - from);
    reflect_columns(v, 1, tau, h_ + k, n_, to, m);
    if (!q_.empty()) reflect_columns(v, 1, tau, q_.data() + k, n_, n_, m);
  }

  // Francis's double step: the first column of (H - s1)(H - s2) gives a reflector; others restore the Hessenberg form.
  void step(int64_t first, int64_t last, int steps) requires kReal {
    double sum = at(last - 1, last - 1) + at(last, last);
    double product = at(last - 1, last - 1) * at(last, last) - at(last - 1, last) * at(last, last - 1);
    if (steps % 10 == 0) {  // other shifts where these repeat themselves
      const double other = std::abs(at(last, last - 1)) + std::abs(at(last - 1, last - 2));
      sum = 1.5 * other;
      product = other * other;
    }
    const double corner = at(first, first), below = at(first + 1, first);
    double v[3] = {corner * (corner - sum) + at(first, first + 1) * below + product,
                   below * (corner + at(first + 1, first + 1) - sum), below * at(first + 2, first + 1)};
    for (int64_t k = first; k < last; ++k) {
      const int64_t m = std::min<int64_t>(3, last - k + 1);
      if (k > first)
        for (int64_t i = 0; i < m; ++i) v[i] = at(k + i, k - 1);
      const double tau = make_reflector(v, 1, m);
      similar(v, tau, k, m, std::max<int64_t>(k - 1, 0), std::min(k + 4, last + 1));
      for (int64_t i = 1; k > first && i < m; ++i) at(k + i, k - 1) = 0;
    }
  }
  // A QR step with Wilkinson's shift, by rotations.
  void step(int64_t first, int64_t last, int steps) requires(!kReal) {
    const Z a = at(last - 1, last - 1), d = at(last, last), half = (a - d) / 2.0;
    const Z root = std::sqrt(half * half + at(last - 1, last) * at(last, last - 1));
    Z shift = d + half + (std::abs(half + root) < std::abs(half - root) ? root : -root);
    if (steps % 10 == 0) shift = d + std::abs(at(last, last - 1));
    for (int64_t i = first; i <= last; ++i) at(i, i) -= shift;
    std::vector<std::pair<double, Z>> turns;
    for (int64_t k = first; k < last; ++k) {
      const Z x = at(k, k), y = at(k + 1, k);
      const double length = std::hypot(std::abs(x), std::abs(y));
      const double c = length == 0 ? 1 : std::abs(x) / length;
      const Z s = length == 0 ? 0 : x == 0.0 ? std::conj(y) / length : x / std::abs(x) * std::conj(y) / length;
      for (int64_t j = k; j < n_; ++j) {
        const Z p = at(k, j), q = at(k + 1, j);
        at(k, j) = c * p + times(s, q);
        at(k + 1, j) = c * q - times(std::conj(s), p);
      }
      turns.emplace_back(c, s);
    }
    for (int64_t k = first; k < last; ++k) {
      const auto [c, s] = turns[static_cast<size_t>(k - first)];
      const auto turn = [&](Z* row) {
        const Z p = row[k], q = row[k + 1];
        row[k] = c * p + times(std::conj(s), q);
        row[k + 1] = c * q - times(s, p);
      };
      for (int64_t i = 0; i <= k + 1; ++i) turn(h_ + i * n_);
      for (int64_t i = 0; !q_.empty() && i < n_; ++i) turn(q_.data() + i * n_);
    }
    for (int64_t i = first; i <= last; ++i) at(i, i) += shift;
  }

  // Makes the 2 x 2 block at k triangular if its eigenvalues are real.
  void separate(int64_t k) requires kReal {
    const double half = (at(k, k) - at(k + 1, k + 1)) / 2, square = half * half + at(k, k + 1) * at(k + 1, k);
    if (square < 0) return;
    double v[2] = {half + std::copysign(std::sqrt(square), half), at(k + 1, k)};  // an eigenvector
    const double tau = make_reflector(v, 1, 2);
    similar(v, tau, k, 2, k, k + 2);
    at(k + 1, k) = 0;
  }

  bool is_second(int64_t i) const { return kReal && i > 0 && at(i, i - 1) != T(0); }  // of a block
  // The eigenvector of the triangular form for value k.
  std::vector<Z> substitute(int64_t k, Z value) const {
    const bool pair = kReal && value.imag() != 0;
    std::vector<Z> y(static_cast<size_t>(pair ? k + 2 : k + 1));
    const auto number = [&](int64_t i) -> Z& { return y[static_cast<size_t>(i)]; };
    number(k) = 1;
    if (pair) {
      const Z upper = at(k, k + 1), lower = at(k + 1, k);
      const bool by_rows = std::abs(upper) > std::abs(lower);
      number(k) = by_rows ? upper : value - at(k + 1, k + 1);
      number(k + 1) = by_rows ? value - at(k, k) : lower;
    }
    const double tiny = std::max(kEps * norm_, std::numeric_limits<double>::min());
    const auto nonzero = [&](Z d, double least) { return std::abs(d) < least ? Z(least) : d; };
    for (int64_t i = k; i-- > 0;) {
      const auto rest = [&](int64_t row, int64_t from) {
        Z sum = 0;
        for (int64_t j = from; j < static_cast<int64_t>(y.size()); ++j) sum -= times(Z(at(row, j)), number(j));
        return sum;
      };
      if (!is_second(i)) {
        number(i) = rest(i, i + 1) / nonzero(at(i, i) - value, tiny);
      } else {
        const Z r0 = rest(i - 1, i + 1), r1 = rest(i, i + 1), a = at(i - 1, i - 1) - value, d = at(i, i) - value;
        const Z det = nonzero(a * d - Z(at(i - 1, i) * at(i, i - 1)), tiny * tiny);
        number(i - 1) = (d * r0 - at(i - 1, i) * r1) / det;
        number(i) = (a * r1 - at(i, i - 1) * r0) / det;
        --i;
      }
      double largest = 0;
      for (const Z& x : y) largest = std::max(largest, size(x));
      if (largest > 1e100)
        for (Z& x : y) x /= largest;
    }
    return y;
  }
  static double size(Z z) requires kReal { return std::abs(z.real()) + std::abs(z.imag()); }

  T* h_;
  int64_t n_;
  double norm_ = 0;
  std::vector<double> scale_;  // D
  std::vector<T> q_;           // A = Q H Q^H after the scaling
};
}  // namespace

template <class T> bool detail::eigen_by_qr(T* a, int64_t n, Z* w, Z* z) {
  double largest = 0;
  for (int64_t i = 0; i < n * n; ++i)
    largest = std::max({largest, std::abs(std::real(a[i])), std::abs(imaginary(a[i]))});
  int exponent = 0;
  if (largest > 0) std::frexp(largest, &exponent);
  const double scale = std::ldexp(1.0, std::clamp(exponent, -1000, 1000));  // so that squares do not overflow
  for (int64_t i = 0; i < n * n; ++i) a[i] /= scale;
  Schur<T> form(a, n, z != nullptr);
  if (!form.run()) return false;
  form.values(w);
  if (z) form.vectors(w, z);
  for (int64_t i = 0; i < n; ++i) w[i] *= scale;
  return true;
}
template bool detail::eigen_by_qr(double*, int64_t, Z*, Z*);
template bool detail::eigen_by_qr(Z*, int64_t, Z*, Z*);

bool detail::eigen_by_qr_in_double(float* a, int64_t n, std::complex<float>* w, std::complex<float>* z) {
  std::vector<double> copy(a, a + n * n);
  std::vector<Z> values(static_cast<size_t>(n)), vectors(static_cast<size_t>(z ? n * n : 0));
  if (!eigen_by_qr(copy.data(), n, values.data(), z ? vectors.data() : nullptr)) return false;
  std::ranges::copy(values, w);
  for (size_t i = 0; i < vectors.size(); ++i) z[i] = std::complex<float>(vectors[i]);
  return true;
}

}  // namespace strata::cpu
