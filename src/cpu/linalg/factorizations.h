// Dense factorizations of one matrix: row-major, double precision, in place. Narrower types are computed in double.
#pragma once
#include <cstdint>

#include "base/api.h"

namespace strata::cpu {

// P A = L U with partial pivoting, L below the diagonal (unit), U on and above. pivots[i] (from 1) is the row exchanged
// with row i. Returns 0, or the position (from 1) of the first zero pivot.
int64_t lu_factor(double* a, int64_t m, int64_t n, int32_t* pivots, bool pivot = true);
// A = L L^T: the lower triangle becomes L, the upper zero. Returns 0, or the order of the first minor that is not positive definite.
int64_t cholesky_factor(double* a, int64_t n);
// b (n x r) becomes A^-1 b. Element (i, j) of A is a[i * row + j * column], so a transpose costs nothing.
void solve_triangle(const double* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, double* b,
                    int64_t r);
// Exchanges rows of b according to the pivots, or undoes it.
void apply_pivots(double* b, int64_t n, int64_t r, const int32_t* pivots, int64_t count, bool back);
// A = Q R: R on and above the diagonal, the reflectors below it, in LAPACK's format.
void qr_factor(double* a, int64_t m, int64_t n, double* tau);
// The first `columns` columns of Q = H(1) ... H(count), from reflectors below the diagonal of a (m x n).
void form_q(const double* a, int64_t m, int64_t n, const double* tau, int64_t count, double* q, int64_t columns);
// Eigenvalues w (ascending) of a symmetric matrix; eigenvectors as rows of z unless null. Destroys a. False: no convergence.
bool eigen_symmetric(double* a, int64_t n, double* w, double* z);
// A (m x n, m >= n) = U diag(s) V^T; ut holds `columns` (n or m) rows of length m, vt n rows of length n, or both are null.
bool singular_values(double* a, int64_t m, int64_t n, double* s, double* ut, int64_t columns, double* vt);

// The above as a table, and its reference version: textbook loops, Jacobi rotations for the spectral ones.
struct Dense {
  decltype(&cpu::lu_factor) lu_factor;
  decltype(&cpu::cholesky_factor) cholesky_factor;
  decltype(&cpu::solve_triangle) solve_triangle;
  decltype(&cpu::qr_factor) qr_factor;
  decltype(&cpu::form_q) form_q;
  decltype(&cpu::eigen_symmetric) eigen_symmetric;
  decltype(&cpu::singular_values) singular_values;
};
extern const Dense dense_fast, dense_reference;

}  // namespace strata::cpu
