// Resampling images of uint8 along one dimension after the other, in integers: each pass rounds to uint8, as PyTorch and
// Pillow do, so that results have their bits.
#pragma once
#include "cpu/nn/resample.h"

namespace strata::cpu {

struct ByteTaps {                     // of one dimension
  int64_t in = 0, out = 0, size = 1;  // at most `size` neighbouring inputs per output
  std::vector<int64_t> first, count;  // [out]
  std::vector<int32_t> weight;        // [out][size], in units of 2^-precision
  int precision = 0;
};
// `scale` is input size per output size if the caller gave a factor; 0: from the sizes.
ByteTaps make_byte_taps(int64_t in, int64_t out, Filter filter, bool align_corners, double scale, bool antialias);

// y[outer, out, inner] from x[outer, in, inner].
void resample_bytes_along(const ByteTaps& t, int64_t outer, int64_t inner, const uint8_t* x, uint8_t* y);
void resample_bytes_reference(const ByteTaps& t, int64_t outer, int64_t inner, const uint8_t* x, uint8_t* y);

// A row of n outputs: the sum over k < count of weight[k] times x[k * n + i], rounded.
void sum_byte_rows(const int32_t* weight, int64_t count, int precision, int64_t n, const uint8_t* x, uint8_t* y);

}  // namespace strata::cpu
