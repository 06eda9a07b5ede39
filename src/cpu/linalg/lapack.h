// The factorizations of cpu/linalg/factorizations.h by a LAPACK library opened at run time: OpenBLAS, if it is
// installed.
#pragma once
#include "cpu/linalg/factorizations.h"
#include "record/kernel.h"

namespace strata::cpu {

extern const Dense dense_lapack;
// Why LAPACK is not used for matrices of this size, or null. `least`: the measured size from which it is faster than
// our own.
const char* lapack_objection(const TensorImpl& matrices, int64_t least);

template <int64_t least> const char* lapack_when(const Call& c) { return lapack_objection(c.args.tensor(0), least); }

}  // namespace strata::cpu
