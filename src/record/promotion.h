// The common dtype of an op's operands, by PyTorch's rule: tensors with dimensions before zero-dimensional ones before
// plain numbers; a lower rank only matters if it is of a higher category (bool, integer, floating).
#pragma once
#include "record/args.h"

namespace strata {

// Of the first `count` arguments, without None and those in the mask `skip`.
STRATA_API DType result_type(const Args& args, uint32_t count, uint32_t skip = 0);

// The shape that all tensors among the first `count` arguments broadcast to, into out; throws "op: shapes … do not
// broadcast".
STRATA_API void broadcast_shape(const Args& args, uint32_t count, TensorImpl& out, const char* op);

// [2, 3] and [3] give [2, 3]: broadcasts `shape` (of *ndim sizes, with room for kMaxDims) with `other`; false if
// impossible.
STRATA_API bool broadcast_into(int64_t* shape, int* ndim, Shape other);

// Throws if t cannot hold the number: an integer out of range (negative ones down to -max wrap in an unsigned type),
// NaN as an integer, a finite number that becomes infinite. Fills of 16-bit floats allow the last.
STRATA_API void check_in_range(Scalar s, DType t, const char* op, bool fill = false);
// The same for the integers [low, high) as values of t.
STRATA_API void check_in_range(int64_t low, int64_t high, DType t, const char* op);

}  // namespace strata
