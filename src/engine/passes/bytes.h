// Weights of bytes in graphs.
#pragma once
#include <map>

#include "engine/passes/rewriter.h"

namespace strata::engine {

struct ByteWeight {
  Tensor bytes, scales;  // [out, ...] of int8; one scale for each of the first dimension, or one for all
  int64_t dim = 0;       // of a model's weight: that of the scales
};
using ByteWeights = std::map<graph::ValueId, ByteWeight>;

// The weights of a model that are bytes with scales, by the value of the floats, before these are computed as constants.
ByteWeights find_byte_weights(const graph::Graph& g);
// Gives layers whose weight is one of these constants the conversion of the bytes again.
void restore_byte_weights(graph::Graph& g, const ByteWeights& weights, const PassOptions& options);
// Makes a product of a matrix with a constant a linear layer, whose weight has a row per channel. False if it is none.
bool make_linear(Rewriter& r, size_t at);
// Makes the weight of a layer the conversion of these bytes. The weight is the second argument of its op.
void use_byte_weight(Rewriter& r, size_t at, const ByteWeight& w);

}  // namespace strata::engine
