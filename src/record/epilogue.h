// What follows the sums of a product or a convolution in the same kernel: a residual, an activation, and the conversion to bytes.
#pragma once
#include <cstdint>

namespace strata {

enum class Activation : uint8_t {
  None,
  Relu,
  Clamp,        // low, high
  LeakyRelu,    // slope
  Elu,          // alpha
  HardSigmoid,  // clamp(alpha * x + beta, 0, 1)
  HardSwish,    // x * HardSigmoid(x) with 1/6 and 1/2
  Sigmoid,
  Silu,
  Gelu,
  GeluTanh,
  Tanh,
  Mish
};

// activation(sum + other), or activation(sum) + other.
struct Epilogue {
  Activation activation = Activation::None;
  double first = 0, second = 0;  // the numbers of the activation, in the order above
  bool add_last = false;
};

// The values that bytes stand for: scale * (byte - zero).
struct ByteScales {
  double input = 1, other = 1, result = 1;
  int32_t input_zero = 0, other_zero = 0, result_zero = 0;
};

}  // namespace strata
