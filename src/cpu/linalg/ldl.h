// A = L D L^T (or L D L^H) of one symmetric (or Hermitian) matrix with Bunch and Kaufman's pivots; D has blocks of 1 or 2
// rows. Row-major, in LAPACK's format: pivots[k] (from 1) is the row exchanged with row k; two equal negative ones mark a
// block, whose second row was exchanged. T is double or complex<double>.
#pragma once
#include <cstdint>

namespace strata::cpu {

// The lower triangle becomes L (below the blocks) and D. Returns 0, or the position (from 1) of the first zero in D.
template <class T> int64_t ldl_factor(T* a, int64_t n, int32_t* pivots, bool hermitian);
// b (n x r) becomes A^-1 b.
template <class T> void ldl_solve(const T* a, int64_t n, const int32_t* pivots, bool hermitian, T* b, int64_t r);

}  // namespace strata::cpu
