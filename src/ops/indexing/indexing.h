// What the definitions of indexing ops share.
#pragma once
#include <vector>

#include "record/op.h"

namespace strata {

// An index by tensors, in the form the kernels take: `input` with its dimensions reordered if need be, int64 index tensors of one
// shape for the dimensions [first, first + size).
struct IndexPlan {
  Tensor input;
  std::vector<Tensor> indices;
  int64_t first = 0;
};
// Masks become positions, index tensors are broadcast; where they are not neighbours their dimensions move to the front.
// `values` are what will be written there. They say how many elements a mask on device meta selects; a read has none and refuses.
STRATA_API IndexPlan plan_index(const Tensor& input, std::span<const Tensor> indices, const char* op,
                                const Tensor& values = {});

// Throws Index unless every element of an int64 index is in [0, size), or [-size, size) with `wrap`; on a device, where the host
// next waits for it.
void check_positions(const Tensor& index, int64_t size, bool wrap, int dim, const char* op);
STRATA_API Tensor index_tensor(const std::vector<int64_t>& values);  // one-dimensional, int64
STRATA_API Tensor as_index(const Tensor& index, const char* op);  // checked to be int64 or int32, made contiguous int64
STRATA_API Tensor positions_of(const Tensor& mask);               // of the true elements, flat, one-dimensional

}  // namespace strata
