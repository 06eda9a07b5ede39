// Shared parts of the indexing ops.
#pragma once
#include <vector>

#include "record/op.h"

namespace strata {

// Indexing by tensors, in the form of the kernels: `input` with its dimensions reordered if necessary, int64 index
// tensors of one shape for the dimensions [first, first + size).
struct IndexPlan {
  Tensor input;
  std::vector<Tensor> indices;
  int64_t first = 0;
};
// Masks become positions, and index tensors are broadcast; if they are not adjacent, their dimensions move to the
// front. `values` are to be written there. They determine how many elements a meta mask selects; a read has none and
// raises.
STRATA_API IndexPlan plan_index(const Tensor& input, std::span<const Tensor> indices, const char* op,
                                const Tensor& values = {});

// Throws Index unless every element of an int64 index is in [0, size), or [-size, size) with `wrap`; on a device, the
// next time the host waits for it.
void check_positions(const Tensor& index, int64_t size, bool wrap, int dim, const char* op);
STRATA_API Tensor index_tensor(const std::vector<int64_t>& values);  // one-dimensional, int64
// checks that it is int64 or int32, returns contiguous int64
STRATA_API Tensor as_index(const Tensor& index, const char* op);
STRATA_API Tensor positions_of(const Tensor& mask);  // of the true elements, flat, one-dimensional

// How many elements are not zero; waits for a device.
int64_t number_of_nonzero(const TensorImpl& t);

}  // namespace strata
