// Padding of a tensor with its own elements: reflected, repeated or circular.
#pragma once
#include <vector>

#include "tensor/tensor.h"

namespace strata::cpu {

// For each padded dimension, which are the last ones, the index in the input of each element of the result.
using EdgeSources = std::vector<std::vector<int64_t>>;

void pad_edges(const TensorImpl& in, const EdgeSources& sources, const TensorImpl& out);
// The gradient: each element of `out` is the sum of those of g that were copied from it.
void sum_edges(const TensorImpl& g, const EdgeSources& sources, const TensorImpl& out);
void pad_edges_reference(const TensorImpl& in, const EdgeSources& sources, const TensorImpl& out);
void sum_edges_reference(const TensorImpl& g, const EdgeSources& sources, const TensorImpl& out);

}  // namespace strata::cpu
