// The geometry of a pooling op, the same for all back ends.
#pragma once
#include <algorithm>
#include <cstdint>

namespace strata {

// Along one dimension: inputs lo, lo + step, … below hi.
struct PoolWindow {
  int64_t lo, hi, step;
  int64_t full;  // number of inputs, including padding
};

// Windows of up to three spatial dimensions, right-aligned (a missing dimension has size 1), over planes of one image and
// channel each.
struct PoolShape {
  int64_t planes = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  bool adaptive = false;  // the windows partition the input; kernel and the other sizes are not used
  bool include_pad = true;
  int64_t divisor = 0;  // of means; 0: the number of inputs

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  PoolWindow window(int d, int64_t o) const {
    if (adaptive) {
      const int64_t lo = o * in[d] / out[d], hi = ((o + 1) * in[d] + out[d] - 1) / out[d];
      return {lo, hi, 1, hi - lo};
    }
    const int64_t step = dilation[d], begin = o * stride[d] - padding[d],
                  end = std::min(begin + (kernel[d] - 1) * step + 1, in[d] + padding[d]);
    const int64_t lo = begin >= 0 ? begin : begin + (-begin + step - 1) / step * step;
    return {lo, std::min(end, in[d]), step, end - begin};
  }
};

}  // namespace strata
