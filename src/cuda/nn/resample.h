// Resizing, grid sampling and sliding windows on a device. Tensors are contiguous.
#pragma once
#include <span>

#include "record/kernel.h"

namespace strata::cuda {

// Weighted sums along one dimension: output o is the sum over k in [begin[o], begin[o + 1]) of weight[k] times input index[k].
struct Mixture {
  int64_t in = 0, out = 0;
  std::vector<int32_t> begin, index;
  std::vector<double> weight;
  int precision = 0;
};
// y[outer, out, inner] from x[outer, in, inner], both float, both double, or both uint8: then the weights are integers in
// units of 2^-precision, and sums are rounded.
void mix_along(const Mixture& m, int64_t outer, int64_t inner, const TensorImpl& x, const TensorImpl& y,
               Workspace& workspace);

// The input at index[d][o] for each output coordinate o of the last three dimensions, of sizes `in`.
struct Nearest {
  int64_t planes, in[3];
  std::vector<int32_t> index[3];
};
// x and y are of one dtype, of 1 to 8 bytes.
void take_nearest(const Nearest& n, const TensorImpl& x, const TensorImpl& y, Workspace& workspace);

struct GridSizes {
  int dims = 2;
  int64_t n, c, in[3], out;  // `out`: positions per image
  int mode, padding;         // linear, nearest, cubic; zeros, border, reflection
  bool align_corners;
};
// All tensors are float, or all double.
void grid_sample(const GridSizes& s, const TensorImpl& x, const TensorImpl& grid, const TensorImpl& y);
void grid_sample_backward(const GridSizes& s, const TensorImpl& grad, const TensorImpl& x, const TensorImpl& grid,
                          const TensorImpl& grad_x, const TensorImpl& grad_grid);

struct WindowSizes {
  int64_t planes, in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
};
void unfold(const WindowSizes& s, const TensorImpl& image, const TensorImpl& columns);
void fold(const WindowSizes& s, const TensorImpl& columns, const TensorImpl& image);  // the adjoint

}  // namespace strata::cuda
