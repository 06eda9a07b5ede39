// Resampling along one dimension after the other: each output is a weighted sum of a few inputs.
#pragma once
#include <cstdint>
#include <vector>

namespace strata::cpu {

struct Taps {                          // of one dimension
  int64_t in = 0, out = 0, count = 1;  // `count` inputs per output
  std::vector<int64_t> index;          // [out][count]
  std::vector<double> weight;
};

// NearestInPlane: Nearest, but where the sizes are equal or one is twice the other, a given factor does not matter. PyTorch
// does so in images, not in signals and volumes.
enum class Filter : uint8_t { Nearest, NearestInPlane, NearestExact, Linear, Cubic };
constexpr bool is_nearest(Filter f) { return f <= Filter::NearestExact; }
// `scale` is input size per output size if the caller gave a factor; 0: from the sizes.
Taps make_taps(int64_t in, int64_t out, Filter filter, bool align_corners, double scale, bool antialias,
               bool single_precision);

// y[outer, out, inner] from x[outer, in, inner], and the adjoint.
template <class T> void resample_along(const Taps& t, int64_t outer, int64_t inner, const T* x, T* y);
template <class T> void resample_along_backward(const Taps& t, int64_t outer, int64_t inner, const T* g, T* x);

}  // namespace strata::cpu
