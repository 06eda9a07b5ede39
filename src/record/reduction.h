// Reductions for back ends: the operation, and the tensor's dimensions split into kept and reduced ones.
#pragma once
#include "tensor/tensor.h"

namespace strata {

enum class Fold : uint8_t { Sum, NanSum, CountNonzero, SumAbs, SumSquares, Prod, Max, Min, MaxAbs, MinAbs, Any, All };
constexpr int kFoldCount = 12;

// Applied to the reduced value in the last step.
struct Finish {
  double divide = 1;
  bool root = false;
};

// One reduction: x over the dimensions of the mask, computed as dtype `cast`, into out.
struct Reduction {
  Fold fold;
  const TensorImpl& x;
  DimMask reduced;
  DType cast;
  const TensorImpl& out;
  Finish finish = {};
};

// The dimensions of x, split into kept and reduced ones, with adjacent ones merged, the innermost last.
struct STRATA_API Axes {
  int dims = 0;
  int64_t size[kMaxDims], stride[kMaxDims], out_stride[kMaxDims];
  int64_t count = 1;
  void add(int64_t n, int64_t s, int64_t o = 0) {
    size[dims] = n;
    stride[dims] = s;
    out_stride[dims++] = o;
    count *= n;
  }
  void arrange();  // sorts by stride and merges
  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (int d = dims; d-- > 0; index /= size[d]) at += index % size[d] * stride[d];
    return at;
  }
  int64_t out_offset(int64_t index) const {
    int64_t at = 0;
    for (int d = dims; d-- > 0; index /= size[d]) at += index % size[d] * out_stride[d];
    return at;
  }
};
struct STRATA_API ReducePlan {
  Axes kept, gone;
  ReducePlan(const TensorImpl& x, DimMask reduced);
};

}  // namespace strata
