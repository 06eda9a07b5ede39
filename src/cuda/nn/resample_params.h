// Parameters of the kernels of resizing, grid sampling and sliding windows; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

// y[outer, o, inner] = sum of weight[k] * x[outer, index[k], inner] over k in [begin[o], begin[o + 1]).
struct ResampleParams {
  uint64_t x, y, begin, index, weight;  // begin and index: int32_t; the others of the compute type
  int64_t in;                           // size of x along the dimension
  int32_t precision;                    // of bytes: the weights are int32_t, in units of 2^-precision
  FastDivisor out, inner;
  uint32_t count;  // threads of the launch, below 2^31
  int64_t first;   // its first outer index
};

// y[plane, a, b, c] = x[plane, i(a), j(b), k(c)], for units of any type. A thread copies kNearestItems neighbours.
struct NearestParams {
  uint64_t x, y;
  uint64_t index[3];  // int32_t, per output coordinate; the last one is padded to whole threads
  int32_t in[3];
  int32_t width;            // outputs of a row
  int32_t vectors;          // rows of y are aligned to those of a thread
  FastDivisor out[2], row;  // coordinates; threads of a row
  uint32_t count;           // threads of the launch, below 2^31
  int64_t first;            // its first plane
};
constexpr int kNearestItems = 4;

// Samples images [n, c, in…] at positions [n, out…, dims]; coordinates as a volume, the fastest last.
struct GridParams {
  uint64_t x, grid, y;               // y: [n, c, out…]
  uint64_t grad, grad_x, grad_grid;  // for the backward pass
  int32_t dims, mode, padding, corners;
  int32_t in[3];
  int64_t n, c, out;
};

// Windows of [planes, h, w] as columns [planes, kernel, windows].
struct WindowParams {
  uint64_t image, columns;
  int32_t type;
  int32_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
  FastDivisor size[4];  // sizes that the threads iterate over, the slowest first
  uint32_t count;       // threads of the launch, below 2^31
  int64_t first;        // its first plane
};

}  // namespace strata::cuda
