// Grouped products on a device (grouped.cuh).
#pragma once
#include "cuda/linalg/grouped_params.h"
#include "record/kernel.h"

namespace strata::cuda {

// What is divided into groups: rows (or columns, of the transposed product), or the sums. Checks the sizes.
struct GroupedCall {
  GroupedParams params;
  bool by_depth;
  bool a_along_k, b_along_k;  // the dense dimension of the factors is k
  bool aligned;               // both have a dense dimension, and rows that are aligned to 16 bytes
};
GroupedCall describe_groups(const TensorImpl& a, const TensorImpl& b, const TensorImpl& offsets, const TensorImpl& out);

// out = a b by groups, whose ends are `offsets` (int32, dense): rows of a for [t, k] x [g, k, n], columns of b for
// [g, m, k] x [k, t], parts of the sums for [m, t] x [t, n].
void grouped_product(const TensorImpl& a, const TensorImpl& b, const TensorImpl& offsets, const TensorImpl& out);

const char* grouped_product_rejects(const TensorImpl& out);  // null, or the reason

// The same on Hopper (grouped_hopper.cuh): 16-bit floats, aligned rows. Null, or the reason.
const char* plan_grouped_hopper(const GroupedCall& g, const TensorImpl& out, Plan& plan);
void run_grouped_hopper(const GroupedCall& g, const TensorImpl& out, const Plan& plan);

}  // namespace strata::cuda
