// Means and variances in one pass over memory.
#pragma once
#include "cpu/reduce/reduce.h"

namespace strata::cpu {

// Variance divided by (count - correction), or its root, and the mean; either output may be null. Floating inputs.
STRATA_API void moments(const TensorImpl& x, DimMask reduced, double correction, bool root, const TensorImpl* variance,
                        const TensorImpl* mean);
// The same of each row of a contiguous tensor, in a group of deferred ops. `outputs`: 1 (variance) or 2 (and mean).
STRATA_API std::optional<RowOp> rows_of_moments(const TensorImpl& x, DimMask reduced, double correction, bool root,
                                                size_t outputs);
STRATA_API void moments_reference(const TensorImpl& x, DimMask reduced, double correction, bool root,
                                  const TensorImpl* variance, const TensorImpl* mean);

// --- from the SIMD file -------------------------------------------------------------------------------------------

// Sums of x - centre and of its square. The first gives the distance of the rounded centre from the mean.
template <class T> struct Deviations { T sum, squares; };
template <class T> Deviations<T> deviations(const T* x, int64_t n, T centre);
// The same of each of n columns of `count` rows.
template <class T>
void deviation_columns(const T* const* rows, int count, int64_t n, const T* centre, T* sum, T* squares);

}  // namespace strata::cpu
