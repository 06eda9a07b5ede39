// Lines of a tensor along one dimension, for sorts, scans and selections.
#pragma once
#include <algorithm>

#include "cpu/reduce/reduce.h"

namespace strata::cpu {

class Lines {
 public:
  // Row i of every tensor of the same outer shape is the same line, whatever the strides.
  Lines(const TensorImpl& t, int dim) : t_(t), element_(static_cast<int64_t>(size_of(t.dtype))) {
    if (t.ndim > 0) {
      length_ = t.shape[dim];
      stride_ = t.strides[dim];
    }
    for (int d = 0; d < t.ndim; ++d)
      if (d != dim) outer_.add(t.shape[d], t.strides[d]);
  }
  int64_t count() const { return outer_.count; }
  int64_t length() const { return length_; }
  int64_t stride() const { return stride_; }
  DType dtype() const { return t_.dtype; }
  std::byte* at(int64_t row) const { return t_.data + outer_.offset(row) * element_; }
  template <class T> T* data(int64_t row) const { return reinterpret_cast<T*>(at(row)); }
  // The row as contiguous T: in place if it already is, otherwise converted into the buffer (length() elements).
  template <class T> const T* read(int64_t row, T* buffer) const {
    if (stride_ == 1 && t_.dtype == dtype_of<T>) return data<T>(row);
    load_block<T>(t_.dtype, at(row), stride_, length_, buffer);
    return buffer;
  }
  // Stores the first n elements of a row, converted.
  template <class T> void write(int64_t row, const T* values, int64_t n) const {
    store_run<T>(values, at(row), t_.dtype, stride_, n);
  }
  int64_t grain(int64_t work = 1 << 15) const { return std::max<int64_t>(1, work / std::max<int64_t>(1, length_)); }

 private:
  const TensorImpl& t_;
  Axes outer_;
  int64_t length_ = 1, stride_ = 1, element_;
};

// A copy of x in which the elements of a line are adjacent: with that dimension last, which `dim` becomes. Undefined if they
// already are, or x is small. Copying pays if each element is read several times.
Tensor with_adjacent_lines(const TensorImpl& x, int& dim);

// A contiguous tensor with x's elements in its compute type; x itself (as another object) if it already is that.
STRATA_API Tensor packed(const TensorImpl& x);

}  // namespace strata::cpu
