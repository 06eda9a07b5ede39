// The geometry of a convolution, shared by all back ends. `big` is the side the window moves over ([n, c, in…]),
// `small` the other side ([n, o, out…]), weight is [o, c / groups, kernel…].
#pragma once
#include <cstdint>

namespace strata {

struct ConvShape {
  int dims = 2;  // spatial
  int64_t n = 0, c = 0, o = 0, groups = 1;
  int64_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
};

// What is written: small, big or weight. A transposed convolution and the gradient of an input write big.
enum class ConvMode : uint8_t { Forward, Data, Weight };

}  // namespace strata
