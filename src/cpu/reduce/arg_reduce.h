// argmax, argmin, and max and min with their indices.
#pragma once
#include "cpu/reduce/reduce.h"

namespace strata::cpu {

// The first index of the maximum (minimum) along dim, with NaN as the largest and the smallest. `values` may be null.
// Both outputs are contiguous; x is a tensor with at least one dimension and one element.
STRATA_API void arg_reduce(bool largest, const TensorImpl& x, int dim, const TensorImpl* values,
                           const TensorImpl& indices);
STRATA_API void arg_reduce_reference(bool largest, const TensorImpl& x, int dim, const TensorImpl* values,
                                     const TensorImpl& indices);

// --- from the SIMD file -------------------------------------------------------------------------------------------

template <class T> struct PlaceOf { using type = int64_t; };
template <> struct PlaceOf<float> { using type = int32_t; };
template <class T> using Place = typename PlaceOf<T>::type;

template <class T> int64_t find_value(const T* x, int64_t n, T value);  // its first index, NaN equal to NaN; n: none
// Rows first .. first + count of n columns, `stride` elements apart: updates best and the row it came from.
template <class T>
void arg_columns(bool largest, const T* rows, int64_t stride, Place<T> first, int count, int64_t n, T* best,
                 Place<T>* place);

}  // namespace strata::cpu
