// Dense factorizations of one matrix: row-major, in place, in float, double, or complex numbers of them.
#pragma once
#include <complex>
#include <cstdint>

#include "base/api.h"

namespace strata::cpu {

template <class T> struct RealPart { using type = T; };
template <class T> struct RealPart<std::complex<T>> { using type = T; };

// One implementation of all of them. For complex numbers a transpose of the formulas is a conjugate transpose.
template <class T> struct Dense {
  using Real = typename RealPart<T>::type;
  using Number = std::complex<Real>;
  // P A = L U with partial pivoting, L below the diagonal (unit), U on and above. pivots[i] (from 1) is the row exchanged
  // with row i. Returns 0, or the position (from 1) of the first zero pivot.
  int64_t (*lu_factor)(T* a, int64_t m, int64_t n, int32_t* pivots, bool pivot);
  // A = L L^T: the lower triangle becomes L, the upper zero. Returns 0, or the order of the first minor that is not positive
  // definite.
  int64_t (*cholesky_factor)(T* a, int64_t n);
  // b (n x r) becomes A^-1 b. Element (i, j) of A is a[i * row + j * column], so a transpose costs nothing.
  void (*solve_triangle)(const T* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, T* b, int64_t r);
  // A = Q R: R on and above the diagonal, the reflectors below it, in LAPACK's format.
  void (*qr_factor)(T* a, int64_t m, int64_t n, T* tau);
  // The first `columns` columns of Q = H(1) ... H(count), from reflectors below the diagonal of a (m x n).
  void (*form_q)(const T* a, int64_t m, int64_t n, const T* tau, int64_t count, T* q, int64_t columns);
  // b (m x r) becomes Q b, or Q^T b.
  void (*apply_q)(const T* a, int64_t m, int64_t n, const T* tau, int64_t count, bool transposed, T* b, int64_t r);
  // Eigenvalues w (ascending) of a symmetric matrix; eigenvectors as rows of z unless null. Destroys a. False: no convergence.
  bool (*eigen_symmetric)(T* a, int64_t n, Real* w, T* z);
  // A (m x n, m >= n) = U diag(s) V^T; ut holds `columns` (n or m) columns of U as rows of length m, vt is V^T; or both are
  // null.
  bool (*singular_values)(T* a, int64_t m, int64_t n, Real* s, T* ut, int64_t columns, T* vt);
  // Eigenvalues of any square matrix; eigenvectors of any length as rows of z unless null. Destroys a. False: no convergence.
  bool (*eigen_general)(T* a, int64_t n, Number* w, Number* z);
};

template <class T> const Dense<T>& dense_fast();  // blocked and vectorized
extern const Dense<double> dense_reference;       // textbook loops, Jacobi rotations for the spectral ones
// Complex numbers: loops over rows; the spectral ones reduce to a real tridiagonal or bidiagonal matrix.
extern const Dense<std::complex<double>> dense_complex;

// Exchanges rows of b according to the pivots, or undoes it.
template <class T> void apply_pivots(T* b, int64_t n, int64_t r, const int32_t* pivots, int64_t count, bool back);

namespace detail {  // the parts of dense_fast() for this processor
void fill_factors(Dense<float>& single, Dense<double>& twice);
void fill_reflectors(Dense<float>& single, Dense<double>& twice);
void fill_spectral(Dense<float>& single, Dense<double>& twice);
// Hessenberg form, then QR steps: with two shifts at once for real matrices, so that complex eigenvalues are exact pairs.
template <class T> bool eigen_by_qr(T* a, int64_t n, std::complex<double>* w, std::complex<double>* z);
bool eigen_by_qr_in_double(float* a, int64_t n, std::complex<float>* w, std::complex<float>* z);
}  // namespace detail

}  // namespace strata::cpu
