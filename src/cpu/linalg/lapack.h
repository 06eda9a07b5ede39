// The factorizations of cpu/linalg/factorizations.h by a LAPACK library opened at run time: OpenBLAS, if it is
// installed.
#pragma once
#include "cpu/linalg/factorizations.h"
#include "record/kernel.h"

namespace strata::cpu {

template <class T> const Dense<T>& dense_lapack();
// Why LAPACK is not used for matrices of this size, or null. The arguments are the measured sizes from which it is faster
// than our own, for float and double.
const char* lapack_objection(const TensorImpl& matrices, int64_t least_float, int64_t least_double);

template <int64_t least_float, int64_t least_double> const char* lapack_when(const Call& c) {
  return lapack_objection(c.args.tensor(0), least_float, least_double);
}

}  // namespace strata::cpu
