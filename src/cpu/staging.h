// Staging: kernels for contiguous float, double or int64 data serve every dtype and layout. An operand that already has
// that form is used directly; others are converted into a buffer first, and results are converted back.
#pragma once
#include <algorithm>

#include "base/parallel.h"
#include "tensor/tensor.h"

namespace strata::cpu {

// Writes src, which may broadcast, into dst: any strides; one of the two dtypes is a compute type, or both are equal.
void copy_values(const TensorImpl& dst, const TensorImpl& src);
// A contiguous copy in the given dtype, or the tensor itself if it already is that.
Tensor staged(const TensorImpl& t, DType dtype);
// The same with the memory order of `like`, which has its shape.
Tensor staged_like(const TensorImpl& t, const TensorImpl& like, DType dtype);
// Where a kernel writes the result for `out`: memory in the order of `like`, or `out` itself if it already has that
// order.
Tensor place_for(const TensorImpl& out, const TensorImpl& like, DType dtype);
// [n, c, h, w] or [n, c, d, h, w] with the channels of a pixel adjacent, and the pixels in order. False if the memory
// is also that of a contiguous tensor (one channel, one pixel, no elements), so that each layout has one name.
bool channels_last(const TensorImpl& t);
Tensor channels_last_form(const TensorImpl& t);  // the shape of t in that order, of any rank from 3 on, without memory
Tensor borrow(const TensorImpl& t);              // an owning pointer to a tensor of an Args
// dst = factor * src, broadcast; factor 0 gives zeros whatever src holds.
void copy_scaled(const Tensor& dst, const TensorImpl& src, double factor);

template <class T> class In {
 public:
  explicit In(const TensorImpl& t) : t_(staged(t, dtype_of<T>)), p_(t_.data<T>()) {}
  const T* get() const { return p_; }
  operator const T*() const { return p_; }
  const T& operator[](int64_t i) const { return p_[i]; }

 private:
  Tensor t_;
  const T* p_;
};

// Call finish() after writing the values; if a kernel throws, the output stays undefined and is not used.
template <class T> class Out {
 public:
  explicit Out(const Tensor& t)
      : user_(t),
        t_(t.dtype() == dtype_of<T> && t->contiguous ? t : make_tensor(t.shape(), dtype_of<T>)),
        p_(t_.template data<T>()) {}
  T* get() const { return p_; }
  operator T*() const { return p_; }
  T& operator[](int64_t i) const { return p_[i]; }
  void fill(T value) const {
    parallel_for(t_.numel(), 1 << 15, [&](int64_t begin, int64_t end) { std::fill(p_ + begin, p_ + end, value); });
  }
  void finish() const {
    if (t_.get() != user_.get()) cpu::copy_values(*user_, *t_);
  }

 private:
  const Tensor& user_;
  Tensor t_;
  T* p_;
};

// For a kernel body that is compiled for float and double only.
template <class F> decltype(auto) dispatch_float(DType t, F&& f) {
  if (t == DType::F64) return f.template operator()<double>();
  return f.template operator()<float>();
}

}  // namespace strata::cpu
