// The passes of inference graphs, in files of their own. Each keeps the results within rounding, ends with verify(), notes its
// decisions, and returns how many nodes are gone.
#pragma once
#include "engine/passes.h"

namespace strata::engine {

// Batch norms, and products and sums per channel with constants, become part of the weights of the convolution or linear layer
// beside them: after it, or before it if nothing is padded.
STRATA_API size_t fold_norms(graph::Graph& g, const PassOptions& options);
// Pads of zeros become padding of the convolution after them.
STRATA_API size_t fold_pads(graph::Graph& g, const PassOptions& options);
// Activations and norms as exporters write them (erf, tanh, mean, pow, sqrt) become one op: gelu, silu, hardswish, layer_norm.
STRATA_API size_t join_patterns(graph::Graph& g, const PassOptions& options);
// softmax(q k^T * s + mask) v becomes scaled_dot_product_attention.
STRATA_API size_t join_attention(graph::Graph& g, const PassOptions& options);
// A convolution or product with a constant weight, its bias, a residual and an activation become one op.
STRATA_API size_t fuse_products(graph::Graph& g, const PassOptions& options);
// Transposes after transposes become one, or none.
STRATA_API size_t cancel_transposes(graph::Graph& g, const PassOptions& options);
// Two-dimensional convolutions compute with the channels of a pixel adjacent, and so does what is between them.
STRATA_API size_t lay_out_channels_last(graph::Graph& g, const PassOptions& options);

// Layers and what is between them compute in float16 or bfloat16; norms, softmax and sums stay in float32, and so does what would
// leave the range of float16 by the table, if there is one. Outputs keep their dtypes.
STRATA_API size_t lower_precision(graph::Graph& g, DType low, const CalibrationTable* table,
                                  const PassOptions& options);
// Layers whose input, weight and perhaps result are bytes that are converted become layers of bytes.
STRATA_API size_t fuse_bytes(graph::Graph& g, const PassOptions& options);

}  // namespace strata::engine
