// Parameters of the kernels of moments and of the norms over channels; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

// Two numbers for each result, reduced over some dimensions: mean and squared deviations, or two sums of a gradient.
struct PairParams {
  uint64_t x, grad;
  uint64_t mean, rstd;  // of the compute type, for gradients: of a result (channels) or of a reduced element (columns)
  uint64_t first, second;  // doubles: [parts, results]
  int32_t x_type, grad_type;
  int32_t per_block;  // results per block: a power of two (columns.cu: times 8)
  int32_t columns;    // neighbouring threads process neighbouring results instead of neighbouring elements
  int32_t vectors;    // use the widest accesses: the fastest reduced dimension is contiguous, all others are multiples
  int64_t part;       // elements of a result per block; the grid's y counts the parts
  AxesParams kept, gone;
};

// Merges the parts of a result, and computes the outputs.
struct FinishParams {
  uint64_t first, second;  // from PairParams
  int64_t parts, part, count, results;
  int32_t threads;  // per result: a power of two, at most 32
  // moments
  uint64_t variance, average;  // either may be 0
  int32_t variance_type, average_type, root;
  double correction;
  AxesParams kept;
  int64_t out_stride[kAxesMost];
  // norms over channels
  uint64_t weight, bias, running_mean, running_var, mean, rstd, center, scale, shift, slope, grad_weight, grad_bias;
  int32_t weight_type, bias_type, running_mean_type, running_var_type, grad_weight_type, grad_bias_type;
  double momentum, eps;
};

// With d = x - center[c]: out = d * scale[c] + shift[c], or with a gradient g: g * scale[c] + d * slope[c] + shift[c]. If
// `adds`, g is a tensor to be added to the former; if `relu`, negative results become 0. x is [n, c, s] or, for columns.cu, rows of channels [rows, c].
struct ChannelParams {
  uint64_t x, grad, out, center, scale, slope, shift;
  int32_t x_type, grad_type, out_type, vectors;
  uint32_t channels, spatial;
  int32_t fast;                         // fewer than 2^31 vectors, or elements: their numbers are divided by
  FastDivisor by_channels, by_spatial;  // these, the second in vectors or elements
  int64_t count;
  int32_t lanes;  // columns.cu: threads per row, a power of two
  int64_t part;   // columns.cu: rows per block
  // With given statistics center, scale and shift come from these; weight and bias may be 0.
  int32_t given;
  int32_t mean_type, variance_type, weight_type, bias_type;
  uint64_t mean, variance, weight, bias;
  double eps;
  int32_t adds, relu;
};

}  // namespace strata::cuda
