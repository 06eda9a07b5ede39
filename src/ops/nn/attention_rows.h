// Tensors in the form that the CPU kernels of attention take: matrices of float or double with contiguous features.
#pragma once
#include "cpu/nn/attention.h"
#include "cpu/staging.h"
#include "strata/ops.h"

namespace strata {

// Starts of sequences, lengths and pages as the int32 of the kernels. Those that int32 cannot hold saturate, so that they
// are reported as out of range. Other dtypes stay, for the shape rule to refuse.
inline Tensor int32_indices(const Tensor& t) {
  return contiguous(t.dtype() == DType::I64 ? to(clamp(t, INT32_MIN, INT32_MAX), DType::I32) : t);
}

// A tensor as float or double with contiguous features: in place if possible.
template <class T> struct AttentionRows {
  Tensor tensor;
  explicit AttentionRows(const TensorImpl& t) {
    const bool plain = t.dtype == dtype_of<T> && (t.shape[t.ndim - 1] == 1 || t.strides[t.ndim - 1] == 1);
    tensor = plain ? cpu::borrow(t) : cpu::staged(t, dtype_of<T>);
  }
  cpu::Matrices<const T> get() const { return matrices<const T>(*tensor); }
  template <class E> static cpu::Matrices<E> matrices(const TensorImpl& t) {
    cpu::Matrices<E> m;
    m.data = reinterpret_cast<E*>(t.data);
    m.row = t.strides[t.ndim - 2];
    for (int d = 0; d < t.ndim - 2; ++d) m.step[d] = t.strides[d];
    return m;
  }
};
// An output, or a contiguous temporary of another dtype.
template <class T> struct AttentionOutRows {
  const Tensor& user;
  Tensor tensor;
  explicit AttentionOutRows(const Tensor& t)
      : user(t), tensor(t.dtype() == dtype_of<T> ? t : make_tensor(t.shape(), dtype_of<T>)) {}
  cpu::Matrices<T> get() const { return AttentionRows<T>::template matrices<T>(*tensor); }
  void finish() const {
    if (tensor.get() != user.get()) cpu::copy_values(*user, *tensor);
  }
};

}  // namespace strata
