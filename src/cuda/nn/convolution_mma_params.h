// Parameters of the convolution kernels for mma.sync; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"
#include "cuda/linalg/gemm_mma_params.h"

namespace strata::cuda {

constexpr int kConvPhases = 8;  // per dimension: the largest stride of a convolution whose larger side is computed

// One spatial dimension. Result number q is at position out_first + q * out_step, and sums over taps j: kernel position
// tap_first + j * tap_step times the element at q * stride + shift_first + j * shift_step.
struct ConvMmaDim {
  int32_t count;  // of results
  FastDivisor divisor;
  int32_t taps, tap_first, tap_step, shift_first, shift_step, out_first;
};

// `from` is gathered along windows: the larger side, or the smaller one if the larger one is computed. `other` is the
// weight [o, kernel…, c] or, for the gradient of the weight, the smaller side. Channels are the last dimension, and
// positions of `from` and `other` start at multiples of 16 bytes.
struct ConvMmaParams {
  uint64_t from, other, to, bias;  // bias may be 0
  uint64_t added;                  // to the rounded result, in the order of `to`; may be 0
  int32_t relu;                    // of the sum
  ConvMmaDim dims[3][kConvPhases];
  int32_t phases[3];
  int32_t images, from_size[3], to_size[3], stride[3], out_step[3], kernel[3];
  int32_t from_channels, from_pitch;  // pitch: elements from one position to the next
  int32_t to_channels, aligned;       // aligned: positions of `to` start at multiples of 16 bytes
  int64_t other_row;                  // elements from one o of the weight to the next, or between positions of small
  int32_t other_tap;                  // elements from one kernel position of the weight to the next
  int32_t depth, positions;           // of the gradient of the weight: positions per block, and of all images
};

}  // namespace strata::cuda
