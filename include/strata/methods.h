// Methods of Tensor that are not ops: indexing, moves between devices, comparisons.
#pragma once
#include "autograd/autograd.h"
#include "ops/indexing/expression.h"
#include "strata/functions.h"
#include "strata/ops.h"

namespace strata {

inline Tensor Tensor::operator[](int64_t index) const { return strata::select(*this, 0, index); }
inline Tensor Tensor::operator[](const Tensor& index) const { return get_item(*this, {Index(index)}); }
inline Tensor Tensor::index(std::initializer_list<Index> indices) const { return get_item(*this, indices); }
inline Tensor Tensor::index_put_(std::initializer_list<Index> indices, const Operand& value) const {
  set_item(*this, indices, value);
  return *this;
}
inline Tensor Tensor::slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) const {
  std::vector<Index> indices(static_cast<size_t>(normalize_dim(dim, this->dim(), "slice")), Slice{});
  indices.emplace_back(Slice{start, end, step});
  return get_item(*this, std::span<const Index>(indices));
}
template <std::same_as<TensorOptions> Options> Tensor Tensor::to(const Options& options) const {
  return strata::to(*this, options.device(), options.dtype());
}
inline Tensor Tensor::cpu() const { return strata::to(*this, Device(DeviceType::Cpu)); }
inline Tensor Tensor::cuda() const { return strata::to(*this, Device(DeviceType::Cuda)); }
inline bool Tensor::equal(const Tensor& other) const { return strata::equal(*this, other); }
inline bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return strata::allclose(*this, other, rtol, atol, equal_nan);
}
inline bool Tensor::is_leaf() const { return autograd::is_leaf(*this); }
inline void Tensor::retain_grad() const { autograd::retain_grad(*this); }

inline bool Tensor::is_gpu() const { return device().type == DeviceType::Cuda || device().type == DeviceType::Vgpu; }
inline DType Tensor::scalar_type() const { return dtype(); }
inline DType Tensor::type() const { return dtype(); }
inline size_t Tensor::itemsize() const { return element_size(); }
template <class T>
requires(!std::is_void_v<T>) T* Tensor::data_ptr() const {
  using Element = std::remove_cv_t<T>;
  const TensorImpl& t = checked();
  if (t.dtype != dtype_of<Element> && real_type(t.dtype) != dtype_of<Element>)
    refuse_element_type(t, dtype_of<Element>);
  return reinterpret_cast<T*>(t.data);
}
template <class T> T* Tensor::mutable_data_ptr() const { return data_ptr<T>(); }
template <class T> const T* Tensor::const_data_ptr() const { return data_ptr<const T>(); }

}  // namespace strata
