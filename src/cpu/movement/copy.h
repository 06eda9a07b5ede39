// Copies elements between any two layouts and converts their type.
#pragma once
#include "tensor/tensor.h"

namespace strata::cpu {

// dst = src, converted; src's shape broadcasts to dst's. The two do not overlap, unless they are the same view.
STRATA_API void copy(const TensorImpl& dst, const TensorImpl& src);
STRATA_API void copy_reference(const TensorImpl& dst, const TensorImpl& src);  // one element after the other
STRATA_API void fill(const TensorImpl& dst, Scalar value);

// The dimensions of two layouts to iterate over: without size 1, sorted by the first one's strides, adjacent ones
// merged.
struct PairWalk {
  int n = 0;
  int64_t size[kMaxDims], a[kMaxDims], b[kMaxDims];  // strides in elements
  int64_t count = 1;                                 // elements in all
  PairWalk(Shape shape, const int64_t* strides_a, const int64_t* strides_b);
};

// Iterates over the outer dimensions of a PairWalk: position of row i, and from there row by row.
class PairRows {
 public:
  PairRows(const PairWalk& w, int outer, int64_t row);
  void next() {
    for (int d = outer_; d-- > 0;) {
      a += w_.a[d];
      b += w_.b[d];
      if (++index_[d] < w_.size[d]) return;
      a -= w_.a[d] * w_.size[d];
      b -= w_.b[d] * w_.size[d];
      index_[d] = 0;
    }
  }
  int64_t a = 0, b = 0;  // offsets in elements

 private:
  const PairWalk& w_;
  int outer_;
  int64_t index_[kMaxDims];
};

}  // namespace strata::cpu
