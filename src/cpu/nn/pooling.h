// Pooling over windows of up to three spatial dimensions, for planes of one image and channel each.
#pragma once
#include "record/pooling.h"

namespace strata::cpu {

// The maximum of each window and its index within the plane; NaN wins.
template <class T> void max_windows(const PoolShape& p, const T* x, T* y, int64_t* index);
template <class T> void mean_windows(const PoolShape& p, const T* x, T* y);
template <class T> void mean_windows_backward(const PoolShape& p, const T* g, T* out);
// Planes of `in` values, each with `out` indices into them.
template <class T> void plane_gather(int64_t planes, int64_t in, int64_t out, const T* x, const int64_t* index, T* y);
template <class T>
void plane_scatter(int64_t planes, int64_t in, int64_t out, const T* values, const int64_t* index, T* x, bool add);

}  // namespace strata::cpu
