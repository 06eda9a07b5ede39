// Means and variances in one pass over memory.
#pragma once
#include "cpu/reduce.h"

namespace strata::cpu {

// Variance divided by (count - correction), or its root, and the mean; either output may be null. Floating inputs.
STRATA_API void moments(const TensorImpl& x, uint32_t reduced, double correction, bool root, const TensorImpl* variance,
                        const TensorImpl* mean);
STRATA_API void moments_reference(const TensorImpl& x, uint32_t reduced, double correction, bool root,
                                  const TensorImpl* variance, const TensorImpl* mean);

// --- what the SIMD file gives ---------------------------------------------------------------------------------------

template <class T> T squared_deviation(const T* x, int64_t n, T mean);
template <class T> void squared_deviation_columns(const T* const* rows, int count, int64_t n, const T* mean, T* acc);

}  // namespace strata::cpu
