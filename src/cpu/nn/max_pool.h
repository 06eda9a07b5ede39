// Maxima of two-dimensional windows, and their position within the window: one byte, which is all a gradient needs.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/api.h"

namespace strata::cpu {

// Images of h x w pixels with `inner` adjacent values each: channels-last tensors have inner = channels, others have
// one image per channel and inner = 1.
struct MaxPool {
  int64_t images = 1, inner = 1;
  int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];

  static constexpr int64_t kMostCodes = 255;  // positions that fit a byte
  int64_t in_size() const { return in[0] * in[1] * inner; }
  int64_t out_size() const { return out[0] * out[1] * inner; }
  // The positions of window o along dimension d that are inside the image.
  int64_t first(int d, int64_t o) const {
    const int64_t start = o * stride[d] - padding[d];
    return start >= 0 ? 0 : (-start + dilation[d] - 1) / dilation[d];
  }
  int64_t last(int d, int64_t o) const {
    const int64_t room = in[d] - 1 - (o * stride[d] - padding[d]);
    if (room >= (kernel[d] - 1) * dilation[d]) return kernel[d];  // inside: avoids the division
    return room < 0 ? 0 : std::min(kernel[d], room / dilation[d] + 1);
  }
  int64_t at(int d, int64_t o, int64_t k) const { return o * stride[d] - padding[d] + k * dilation[d]; }
  // Windows do not overlap.
  bool apart() const {
    return stride[0] >= dilation[0] * (kernel[0] - 1) + 1 && stride[1] >= dilation[1] * (kernel[1] - 1) + 1;
  }
};

// codes may be null. NaN wins; of equal values the first.
template <class T> STRATA_API void max_pool(const MaxPool& p, const T* x, T* y, uint8_t* codes);
// Adds each gradient at the position of its maximum; the rest of `out` becomes zero.
template <class T> STRATA_API void max_pool_backward(const MaxPool& p, const T* grad, const uint8_t* codes, T* out);
// The values at the positions given by the codes.
template <class T> STRATA_API void max_pool_gather(const MaxPool& p, const T* x, const uint8_t* codes, T* y);
// Reference version, one window after the other.
template <class T> STRATA_API void max_pool_reference(const MaxPool& p, const T* x, T* y, uint8_t* codes);
template <class T>
STRATA_API void max_pool_backward_reference(const MaxPool& p, const T* grad, const uint8_t* codes, T* out);
template <class T> STRATA_API void max_pool_gather_reference(const MaxPool& p, const T* x, const uint8_t* codes, T* y);

}  // namespace strata::cpu
