// Dense factorizations of one matrix: row-major, in place, in float or double.
#pragma once
#include <cstdint>

#include "base/api.h"

namespace strata::cpu {

// One implementation of all of them.
template <class T> struct Dense {
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
  bool (*eigen_symmetric)(T* a, int64_t n, T* w, T* z);
  // A (m x n, m >= n) = U diag(s) V^T; ut holds `columns` (n or m) rows of length m, vt n rows of length n, or both are null.
  bool (*singular_values)(T* a, int64_t m, int64_t n, T* s, T* ut, int64_t columns, T* vt);
};

template <class T> const Dense<T>& dense_fast();  // blocked and vectorized
extern const Dense<double> dense_reference;       // textbook loops, Jacobi rotations for the spectral ones

// Exchanges rows of b according to the pivots, or undoes it.
template <class T> void apply_pivots(T* b, int64_t n, int64_t r, const int32_t* pivots, int64_t count, bool back);

namespace detail {  // the parts of dense_fast() for this processor
void fill_factors(Dense<float>& single, Dense<double>& twice);
void fill_spectral(Dense<float>& single, Dense<double>& twice);
}  // namespace detail

}  // namespace strata::cpu
