// Samples images [n, c, in…] at the positions of a grid [n, out…, dims], in two or three dimensions.
#pragma once
#include <cstdint>

namespace strata::cpu {

struct GridSample {
  int dims = 2;
  int64_t n, c, in[3], out;  // `out`: positions per image
  enum class Mode : uint8_t { Linear, Nearest, Cubic } mode;
  enum class Padding : uint8_t { Zeros, Border, Reflection } padding;
  bool align_corners;
};
template <class T> void grid_sample(const GridSample& s, const T* x, const T* grid, T* y);
template <class T>
void grid_sample_backward(const GridSample& s, const T* g, const T* x, const T* grid, T* gx, T* ggrid);

}  // namespace strata::cpu
