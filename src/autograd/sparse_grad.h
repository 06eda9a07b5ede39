// Sparse gradients: those of embedding(sparse=True), of which only the rows that were used are stored.
//
// A sparse gradient is a tensor of the parameter's shape and dtype on the device `meta`, with its coordinates and values
// beside it. So an op that does not know about it finds a tensor without memory and raises, instead of reading memory.
// Sparse gradients go from an op to a leaf; on the way to another op they become dense.
#pragma once
#include "autograd/autograd.h"

namespace strata::autograd {

// values [count, sizes of the other dimensions] at the coordinates in the columns of indices [sparse dimensions, count].
struct SparseParts {
  Tensor indices, values;
  bool coalesced = false;  // in order, each once
};

STRATA_API Tensor make_sparse(SparseParts parts, Shape size);
// The parts of a sparse tensor, which may be replaced; null for others.
STRATA_API SparseParts* sparse_parts(const TensorImpl& t);
STRATA_API Tensor sparse_to_dense(const Tensor& sparse);
// A copy with its own parts.
STRATA_API Tensor copy_sparse(const Tensor& sparse);
// The sum of two gradients, at least one of which is sparse. It is sparse if both are.
STRATA_API Tensor add_sparse(const Tensor& a, const Tensor& b);
// The same, in place; false if the sum is another kind of tensor than `sum`.
bool add_sparse_in_place(const Tensor& sum, const Tensor& g);

}  // namespace strata::autograd
