// Activations that draw random numbers while training.
#include "strata/ops.h"

namespace strata {

STRATA_OP(rrelu,
          "nn.functional.rrelu(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
          "bool inplace=False) -> Tensor")
  .doc("x where positive, a x elsewhere: a is drawn from [lower, upper) in training, their mean otherwise.")
  .composite([](const Tensor& input, double lower, double upper, bool training, bool inplace) {
    STRATA_CHECK(lower <= upper, Runtime,
                 "rrelu: lower bound should be less than or equal to the upper bound, got {} and {}", lower, upper);
    const Tensor out = training
                         ? mul(input, where(gt(input, 0), ones_like(input), uniform_(empty_like(input), lower, upper)))
                         : nn::functional::leaky_relu(input, (lower + upper) / 2);
    return inplace ? copy_(input, out) : out;
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes)
  .samples({"f(3,4)", "f(3,4), 0.1, 0.2, True"})
  .error("f(3), 0.5, 0.1", ErrorKind::Runtime, "lower bound");

}  // namespace strata
