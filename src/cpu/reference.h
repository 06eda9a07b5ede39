// Building blocks of plain reference kernels: every element by its index, one after the other, in double or int64.
// Tests compare the fast kernels with them; nothing else runs them.
#pragma once
#include <array>

#include "cpu/creation/random.h"
#include "cpu/creation/samplers.h"
#include "cpu/movement/convert.h"
#include "cpu/movement/copy.h"
#include "cpu/nn/grid_sample.h"
#include "cpu/nn/pooling.h"
#include "cpu/nn/resample.h"
#include "cpu/staging.h"

namespace strata::cpu {

using Index = std::array<int64_t, kMaxDims>;

// f(index) for every element of a shape, the last dimension fastest.
template <class F> void each_index(Shape shape, const F& f) {
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  Index at{};
  for (int64_t i = 0; i < count; ++i) {
    f(static_cast<const Index&>(at));
    for (size_t d = shape.size(); d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
}

inline std::byte* element(const TensorImpl& t, const Index& at) {
  int64_t offset = 0;
  for (int d = 0; d < t.ndim; ++d) offset += at[static_cast<size_t>(d)] * t.strides[d];
  return t.data + offset * static_cast<int64_t>(size_of(t.dtype));
}
// Copies one element, converted.
inline void put(const TensorImpl& to, const Index& at, const TensorImpl& from, const Index& source) {
  convert_row(to.dtype, from.dtype)(element(to, at), 1, element(from, source), 1, 1);
}
template <class T> T get(const TensorImpl& t, const Index& at) {
  T value;
  convert_row(dtype_of<T>, t.dtype)(reinterpret_cast<std::byte*>(&value), 1, element(t, at), 1, 1);
  return value;
}
template <class T> void set(const TensorImpl& t, const Index& at, T value) {
  convert_row(t.dtype, dtype_of<T>)(element(t, at), 1, reinterpret_cast<const std::byte*>(&value), 1, 1);
}

// A body compiled for double and int64 serves all real dtypes.
template <class F> void dispatch_wide(DType t, F&& f) {
  if (is_floating(t)) f.template operator()<double>();
  else f.template operator()<int64_t>();
}

void fill_reference(const TensorImpl& dst, Scalar value);

// Reference versions of pooling.h; T is double or int64.
template <class T> void max_windows_reference(const PoolShape& p, const T* x, T* y, int64_t* index);
template <class T> void mean_windows_reference(const PoolShape& p, const T* x, T* y);
template <class T> void mean_windows_backward_reference(const PoolShape& p, const T* g, T* out);

// All dimensions at once: y = the sum over the product of their taps, for each of `planes` planes; and the adjoint.
void resample_reference(std::span<const Taps> taps, int64_t planes, const double* x, double* y);
void resample_backward_reference(std::span<const Taps> taps, int64_t planes, const double* g, double* x);

// Reference versions of random.h: each number from the words of its own Philox block.
void fill_random_reference(const TensorImpl& out, Distribution distribution, double a, double b, Generator& generator);
void fill_integers_reference(const TensorImpl& out, int64_t low, uint64_t range, Generator& generator);
void fill_bernoulli_reference(const TensorImpl& out, const TensorImpl& p, Generator& generator);
void fill_permutation_reference(const TensorImpl& out, Generator& generator);
void draw_by_weight_reference(const TensorImpl& out, const TensorImpl& weights, bool replacement, Generator& generator);
void draw_samples_reference(Sampler sampler, const TensorImpl& out, const TensorImpl& a, const TensorImpl* b,
                            double least, Generator& generator);
void normalize_logs_reference(const TensorImpl& out, const TensorImpl& logs);

}  // namespace strata::cpu
