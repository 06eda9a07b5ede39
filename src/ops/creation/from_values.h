// Tensors from values of C++: tensor({{1, 2}, {3, 4}}), tensor(std::vector<float>{...}), from_blob(pointer, {2, 3}).
#pragma once
#include <functional>
#include <initializer_list>
#include <vector>

#include "tensor/tensor.h"

namespace strata {

// Numbers in nested braces. All lists of a level must have the same length.
class STRATA_API TensorValues {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> TensorValues(T value) : values_{Scalar(value)} {}
  TensorValues(std::initializer_list<TensorValues> rows);

  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<Scalar>& values() const { return values_; }

 private:
  std::vector<int64_t> shape_;
  std::vector<Scalar> values_;
};

// A new tensor. Unless the options say otherwise, integers become int64 and floats the default dtype, as in Python.
STRATA_API Tensor tensor(const TensorValues& values, const TensorOptions& options = {});
inline Tensor tensor(const TensorValues& values, DType dtype) { return tensor(values, TensorOptions(dtype)); }

// A one-dimensional tensor with a copy of `count` elements of dtype `from`.
STRATA_API Tensor tensor_from_memory(const void* data, int64_t count, DType from, const TensorOptions& options);
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::span<const T> values, const TensorOptions& options = {}) {
  return tensor_from_memory(values.data(), static_cast<int64_t>(values.size()), dtype_of<T>, options);
}
template <class T>
requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) Tensor
  tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return tensor(std::span<const T>(values), options);
}

// A tensor over memory of the caller, which must stay valid as long as the tensor and its views; `deleter`, if given, is
// called with `data` when the last of them is gone. The options give the dtype (the default dtype if not); the memory is
// the host's. Strides count elements and are not negative.
STRATA_API Tensor from_blob(void* data, IntList sizes, IntList strides, std::function<void(void*)> deleter,
                            const TensorOptions& options = {});
inline Tensor from_blob(void* data, IntList sizes, const TensorOptions& options = {}) {
  return from_blob(data, sizes, {}, nullptr, options);
}
inline Tensor from_blob(void* data, IntList sizes, DType dtype) { return from_blob(data, sizes, TensorOptions(dtype)); }
inline Tensor from_blob(void* data, IntList sizes, IntList strides, const TensorOptions& options = {}) {
  return from_blob(data, sizes, strides, nullptr, options);
}
inline Tensor from_blob(void* data, IntList sizes, std::function<void(void*)> deleter,
                        const TensorOptions& options = {}) {
  return from_blob(data, sizes, {}, std::move(deleter), options);
}

}  // namespace strata
