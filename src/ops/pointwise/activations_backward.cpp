// Gradients of activations in one kernel each; their own gradients are composed of other ops.
#include "device/functors/activations_backward.h"
#include "ops/pointwise/pointwise.h"

namespace strata {

STRATA_OP(sigmoid_backward, "sigmoid_backward(Tensor grad, Tensor result) -> Tensor")
  .doc("grad * y * (1 - y), y being the result of sigmoid.")
  .pointwise<fn::SigmoidBackward>()
  .dtypes(kFloatingTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    const Tensor y = c.input(1);
    return {c.needs(0) ? sigmoid_backward(g, y) : Tensor(),
            c.needs(1) ? mul(mul(g, c.input(0)), rsub(mul(y, 2), 1)) : Tensor()};
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

STRATA_OP(tanh_backward, "tanh_backward(Tensor grad, Tensor result) -> Tensor")
  .doc("grad * (1 - y * y), y being the result of tanh.")
  .pointwise<fn::TanhBackward>()
  .dtypes(kFloatingTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    const Tensor y = c.input(1);
    return {c.needs(0) ? tanh_backward(g, y) : Tensor(), c.needs(1) ? mul(mul(g, c.input(0)), mul(y, -2)) : Tensor()};
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

// The gradients of piecewise linear functions: linear in grad, and flat in input.
STRATA_OP(threshold_backward, "threshold_backward(Tensor grad, Tensor input, float threshold) -> Tensor")
  .doc("grad where input is above the threshold; the gradient of relu and threshold.")
  .pointwise<fn::ThresholdBackward>()
  .saves({1})
  .grad([](G c, const Tensor& g) -> Grads { return {threshold_backward(g, c.input(1), c.arg(2).number())}; })
  .helper()
  .samples({"f(3,4), f(3,4), 0.0"});

STRATA_OP(leaky_relu_backward, "leaky_relu_backward(Tensor grad, Tensor input, float negative_slope) -> Tensor")
  .doc("The gradient of leaky_relu.")
  .pointwise<fn::LeakyReluBackward>()
  .dtypes(kFloatingTypes)
  .saves({1})
  .grad([](G c, const Tensor& g) -> Grads { return {leaky_relu_backward(g, c.input(1), c.arg(2).number())}; })
  .helper()
  .samples({"f(3,4), f(3,4), 0.1"});

STRATA_OP(hardshrink_backward, "hardshrink_backward(Tensor grad, Tensor input, float lambd) -> Tensor")
  .doc("The gradient of hardshrink and softshrink.")
  .pointwise<fn::HardshrinkBackward>()
  .dtypes(kFloatingTypes)
  .saves({1})
  .grad([](G c, const Tensor& g) -> Grads { return {hardshrink_backward(g, c.input(1), c.arg(2).number())}; })
  .helper()
  .samples({"f(3,4), f(3,4), 0.5"});

namespace {
int clamp_backward_variant(const Args& args) { return args.is_tensor(2) || args.is_tensor(3); }
}  // namespace

STRATA_OP(clamp_backward, "clamp_backward(Tensor grad, Tensor input, Tensor? min, Tensor? max) -> Tensor")
  .doc("The gradient of clamp: passes where input lies within the bounds, half where it equals one that is a tensor.")
  .pointwise<fn::ClampBackward, fn::ClampShareBackward>(clamp_backward_variant)
  .saves({1, 2, 3})
  .grad([](G c, const Tensor& g) -> Grads {
    return {call(op_clamp_backward, Args(g, c.operand(1), c.arg(2) ? c.operand(2).value : Value(),
                                         c.arg(3) ? c.operand(3).value : Value()))};
  })
  .helper()
  .samples({"f(3,4), f(3,4), -0.5, 0.5", "f(3,4), f(3,4), f(4), None"});

STRATA_OP(hardtanh_backward, "hardtanh_backward(Tensor grad, Tensor input, float min_val, float max_val) -> Tensor")
  .doc("grad where input lies between the bounds.")
  .pointwise<fn::HardtanhBackward>()
  .saves({1})
  .grad([](G c, const Tensor& g) -> Grads {
    return {hardtanh_backward(g, c.input(1), c.arg(2).number(), c.arg(3).number())};
  })
  .helper()
  .samples({"f(3,4), f(3,4), -1.0, 1.0"});

STRATA_OP(hardswish_backward, "hardswish_backward(Tensor grad, Tensor input) -> Tensor")
  .doc("The gradient of hardswish.")
  .pointwise<fn::HardswishBackward>()
  .dtypes(kFloatingTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    return {c.needs(0) ? hardswish_backward(g, c.input(1)) : Tensor(),
            c.needs(1) ? hardtanh_backward(mul(mul(g, c.input(0)), 1.0 / 3), c.input(1), -3, 3) : Tensor()};
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

STRATA_OP(elu_backward,
          "elu_backward(Tensor grad, Tensor input, float alpha, float scale, float input_scale) -> Tensor")
  .doc("The gradient of elu, selu and celu.")
  .pointwise<fn::EluBackward>()
  .dtypes(kFloatingTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    const double alpha = c.arg(2).number(), scale = c.arg(3).number(), input_scale = c.arg(4).number();
    Grads out;
    const Tensor x = c.input(1);
    if (c.needs(0)) out.t[0] = elu_backward(g, x, alpha, scale, input_scale);
    if (c.needs(1)) {
      const Tensor slope = mul(exp(mul(clamp_max(x, 0), input_scale)), scale * alpha * input_scale * input_scale);
      out.t[1] = masked_fill(mul(mul(g, c.input(0)), slope), ge(x, 0), 0);
    }
    return out;
  })
  .helper()
  .samples({"f(3,4), f(3,4), 1.5, 1.1, 0.8"});

namespace {
int gelu_backward_variant(const Args& args) { return args[2].string() == "tanh"; }

// The second derivative of gelu: pdf(x) (2 - x^2), or that of 0.5 x (1 + tanh u).
Tensor gelu_second(const Tensor& x, bool approximate) {
  const Tensor square_x = square(x);
  if (!approximate) return mul(mul(exp(mul(square_x, -0.5)), 0.39894228040143267794), rsub(square_x, 2));
  const double k = 0.79788456080286536, b = 0.044715;
  const Tensor t = tanh(mul(mul(x, k), add(mul(square_x, b), 1))), u1 = mul(add(mul(square_x, 3 * b), 1), k);
  const Tensor t1 = mul(rsub(square(t), 1), u1);                                                   // dt/dx
  const Tensor t2 = sub(mul(rsub(square(t), 1), mul(x, 6 * b * k)), mul(mul(mul(t, t1), u1), 2));  // d2t/dx2
  return add(t1, mul(mul(x, t2), 0.5));
}
}  // namespace

STRATA_OP(gelu_backward, "gelu_backward(Tensor grad, Tensor input, str approximate) -> Tensor")
  .doc("The gradient of gelu.")
  .pointwise<fn::GeluBackward, fn::GeluTanhBackward>(gelu_backward_variant)
  .dtypes(kFloatingTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    const std::string_view kind = c.arg(2).string();
    return {c.needs(0) ? gelu_backward(g, c.input(1), kind) : Tensor(),
            c.needs(1) ? mul(mul(g, c.input(0)), gelu_second(c.input(1), kind == "tanh")) : Tensor()};
  })
  .helper()
  .samples({"f(3,4), f(3,4), 'none'", "f(3,4), f(3,4), 'tanh'"});

STRATA_OP(silu_backward, "silu_backward(Tensor grad, Tensor input) -> Tensor")
  .doc("The gradient of silu.")
  .pointwise<fn::SiluBackward>()
  .dtypes(kFloatingTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    Grads out;
    const Tensor x = c.input(1);
    if (c.needs(0)) out.t[0] = silu_backward(g, x);
    if (c.needs(1)) {  // s (1 - s) (2 + x (1 - 2 s))
      const Tensor s = sigmoid(x), slope = mul(mul(s, rsub(s, 1)), add(mul(x, rsub(mul(s, 2), 1)), 2));
      out.t[1] = mul(mul(g, c.input(0)), slope);
    }
    return out;
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

STRATA_OP(mish_backward, "mish_backward(Tensor grad, Tensor input) -> Tensor")
  .doc("The gradient of mish.")
  .pointwise<fn::MishBackward>()
  .dtypes(kFloatingTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    Grads out;
    const Tensor x = c.input(1);
    if (c.needs(0)) out.t[0] = mish_backward(g, x);
    if (c.needs(1)) {  // with t = tanh(softplus(x)): s (1 - t^2) (2 + x (1 - s) - 2 x s t)
      const Tensor s = sigmoid(x), t = tanh(nn::functional::softplus(x));
      const Tensor inner = add(mul(x, sub(rsub(s, 1), mul(mul(s, t), 2))), 2);
      out.t[1] = mul(mul(g, c.input(0)), mul(mul(s, rsub(square(t), 1)), inner));
    }
    return out;
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

STRATA_OP(softplus_backward, "softplus_backward(Tensor grad, Tensor input, float beta, float threshold) -> Tensor")
  .doc("The gradient of softplus.")
  .pointwise<fn::SoftplusBackward>()
  .dtypes(kFloatingTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    const double beta = c.arg(2).number(), threshold = c.arg(3).number();
    Grads out;
    const Tensor x = c.input(1);
    if (c.needs(0)) out.t[0] = softplus_backward(g, x, beta, threshold);
    if (c.needs(1)) {
      const Tensor scaled = mul(x, beta), s = sigmoid(scaled);
      out.t[1] = masked_fill(mul(mul(g, c.input(0)), mul(mul(s, rsub(s, 1)), beta)), gt(scaled, threshold), 0);
    }
    return out;
  })
  .helper()
  .samples({"f(3,4), f(3,4), 1.0, 20.0"});

}  // namespace strata
