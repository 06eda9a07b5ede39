// Walk: merges the dimensions of several tensors of one (broadcast) shape, in the memory order of the first.
#pragma once
#include "record/op.h"

namespace strata {

struct STRATA_API Walk {
  static constexpr int kMaxViews = 5;
  struct View {
    std::byte* data;
    DType type;
    int64_t step[kMaxDims];  // in elements
  };

  int ndim = 0, views = 0;
  int64_t total = 1;
  bool plain = true;  // all views are contiguous and have the full shape
  int64_t shape[kMaxDims];
  View view[kMaxViews];

  explicit Walk(const TensorImpl& out);
  Walk& operator=(const Walk&) = delete;
  // The indices [begin, begin + size) of dimension d, after collapse().
  Walk part(int d, int64_t begin, int64_t size) const;
  // A tensor that broadcasts to the output's shape.
  void add(const TensorImpl& t);
  // Drops dimensions of size 1, orders the others by the output's strides, and merges dimensions that are adjacent in
  // all views. At least one dimension remains.
  void collapse();
  int64_t inner() const { return shape[ndim - 1]; }
  bool constant(int k) const {
    for (int d = 0; d < ndim; ++d)
      if (view[k].step[d] != 0) return false;
    return true;
  }
  // The multi-index of an element, and its offset in a view.
  void locate(int64_t position, int64_t* index) const {
    for (int d = ndim; d-- > 0; position /= shape[d]) index[d] = position % shape[d];
  }
  int64_t offset(int k, const int64_t* index) const {
    int64_t sum = 0;
    for (int d = 0; d < ndim; ++d) sum += index[d] * view[k].step[d];
    return sum;
  }
  // Advances an index by n elements that stay inside a row, or reach its end.
  void advance(int64_t* index, int64_t n) const {
    index[ndim - 1] += n;
    for (int d = ndim - 1; d > 0 && index[d] >= shape[d]; --d) {
      index[d] -= shape[d];
      ++index[d - 1];
    }
  }

 private:
  Walk(const Walk&) = default;
};

}  // namespace strata
