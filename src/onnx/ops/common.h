// Helpers of the ops of ONNX.
#pragma once
#include <algorithm>

#include "base/checked.h"
#include "onnx/registry.h"
#include "ops/creation/from_values.h"
#include "record/op.h"
#include "strata/ops.h"

namespace strata::onnx {

namespace F = nn::functional;
using Ints = std::vector<int64_t>;

inline Values one(Tensor t) { return {Value(std::move(t))}; }
inline Ints sizes_of(const Tensor& t) { return {t.shape().begin(), t.shape().end()}; }
// An axis of a tensor with so many dimensions, counted from the front.
inline int64_t axis_of(int64_t axis, int64_t dims) {
  STRATA_CHECK(axis >= -dims && axis < dims, Index, "axis {} is out of range for {} dimensions", axis, dims);
  return axis < 0 ? axis + dims : axis;
}
inline Ints axes_of(Ints axes, int64_t dims) {
  for (int64_t& a : axes) a = axis_of(a, dims);
  Ints sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  STRATA_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), Value, "an axis is given twice");
  return axes;
}
// A tensor of integers on the host: shapes and the like.
Tensor host_ints(const Ints& values);
Tensor host_int(int64_t value);
Tensor cast(const Tensor& t, DType dtype);  // the same tensor if it has the dtype
Tensor moved(const Tensor& t, Device device);
// Of a floating tensor: computed in f32 unless it is f64.
inline DType wide_type(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }
inline TensorOptions like(const Tensor& t) { return TensorOptions(t.dtype()).device(t.device()); }

}  // namespace strata::onnx
