// Gradients of activations in one kernel each; their own gradients are composed of other ops.
#include "strata/args/pointwise/activations_backward.h"
#include "device/functors/activations_backward.h"
#include "ops/pointwise/pointwise.h"

namespace strata {

STRATA_OP(sigmoid_backward, "sigmoid_backward(Tensor grad, Tensor result) -> Tensor")
  .doc("grad * y * (1 - y), where y is the result of sigmoid.")
  .pointwise<fn::SigmoidBackward>()
  .dtypes(kFloatingTypes)
  .saves({"grad", "result"})
  .grad([](const grads::sigmoid_backward& c, const Tensor& g) -> Grads {
    const Tensor y = c.result();
    return {c.needs_grad() ? sigmoid_backward(g, y) : Tensor(),
            c.needs_result() ? mul(mul(g, c.grad()), rsub(mul(y, 2), 1)) : Tensor()};
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

STRATA_OP(tanh_backward, "tanh_backward(Tensor grad, Tensor result) -> Tensor")
  .doc("grad * (1 - y * y), where y is the result of tanh.")
  .pointwise<fn::TanhBackward>()
  .dtypes(kFloatingTypes)
  .saves({"grad", "result"})
  .grad([](const grads::tanh_backward& c, const Tensor& g) -> Grads {
    const Tensor y = c.result();
    return {c.needs_grad() ? tanh_backward(g, y) : Tensor(),
            c.needs_result() ? mul(mul(g, c.grad()), mul(y, -2)) : Tensor()};
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

// The gradients of piecewise linear functions: linear in grad, and piecewise constant in input.
STRATA_OP(threshold_backward, "threshold_backward(Tensor grad, Tensor input, float threshold) -> Tensor")
  .doc("grad where input is above the threshold; the gradient of relu and threshold.")
  .pointwise<fn::ThresholdBackward>()
  .saves({"input"})
  .grad([](const grads::threshold_backward& c, const Tensor& g) -> Grads {
    return {threshold_backward(g, c.input(), c.threshold())};
  })
  .helper()
  .remove_dtypes({DType::U64})
  .samples({"f(3,4), f(3,4), 0.0"});

STRATA_OP(leaky_relu_backward, "leaky_relu_backward(Tensor grad, Tensor input, float negative_slope) -> Tensor")
  .doc("The gradient of leaky_relu.")
  .pointwise<fn::LeakyReluBackward>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::leaky_relu_backward& c, const Tensor& g) -> Grads {
    return {leaky_relu_backward(g, c.input(), c.negative_slope())};
  })
  .helper()
  .samples({"f(3,4), f(3,4), 0.1"});

STRATA_OP(hardshrink_backward, "hardshrink_backward(Tensor grad, Tensor input, float lambd) -> Tensor")
  .doc("The gradient of hardshrink and softshrink.")
  .pointwise<fn::HardshrinkBackward>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::hardshrink_backward& c, const Tensor& g) -> Grads {
    return {hardshrink_backward(g, c.input(), c.lambd())};
  })
  .helper()
  .samples({"f(3,4), f(3,4), 0.5"});

namespace {
int clamp_backward_variant(const Args& args) {
  const args::clamp_backward a(args);
  return a.has_min() || a.has_max();
}
}  // namespace

STRATA_OP(clamp_backward, "clamp_backward(Tensor grad, Tensor input, Tensor? min, Tensor? max) -> Tensor")
  .doc("The gradient of clamp: passes where input is within the bounds, half where it equals a tensor bound.")
  .pointwise<fn::ClampBackward, fn::ClampShareBackward>(clamp_backward_variant)
  .saves({"input", "min", "max"})
  .grad([](const grads::clamp_backward& c, const Tensor& g) -> Grads {
    return {call(op_clamp_backward, Args(g, c.input_operand(), c.min_value() ? c.min_operand().value : Value(),
                                         c.max_value() ? c.max_operand().value : Value()))};
  })
  .helper()
  .samples({"f(3,4), f(3,4), -0.5, 0.5", "f(3,4), f(3,4), f(4), None"});

STRATA_OP(hardtanh_backward, "hardtanh_backward(Tensor grad, Tensor input, float min_val, float max_val) -> Tensor")
  .doc("grad where input is between the bounds.")
  .pointwise<fn::HardtanhBackward>()
  .saves({"input"})
  .grad([](const grads::hardtanh_backward& c, const Tensor& g) -> Grads {
    return {hardtanh_backward(g, c.input(), c.min_val(), c.max_val())};
  })
  .helper()
  .remove_dtypes({DType::U64})
  .samples({"f(3,4), f(3,4), -1.0, 1.0"});

STRATA_OP(hardswish_backward, "hardswish_backward(Tensor grad, Tensor input) -> Tensor")
  .doc("The gradient of hardswish.")
  .pointwise<fn::HardswishBackward>()
  .dtypes(kFloatingTypes)
  .saves({"grad", "input"})
  .grad([](const grads::hardswish_backward& c, const Tensor& g) -> Grads {
    return {c.needs_grad() ? hardswish_backward(g, c.input()) : Tensor(),
            c.needs_input() ? clamp_backward(mul(mul(g, c.grad()), 1.0 / 3), c.input(), -3, 3) : Tensor()};
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

STRATA_OP(elu_backward,
          "elu_backward(Tensor grad, Tensor input, float alpha, float scale, float input_scale) -> Tensor")
  .doc("The gradient of elu, selu and celu.")
  .pointwise<fn::EluBackward>()
  .dtypes(kFloatingTypes)
  .saves({"grad", "input"})
  .grad([](const grads::elu_backward& c, const Tensor& g) -> Grads {
    const double alpha = c.alpha(), scale = c.scale(), input_scale = c.input_scale();
    grads::elu_backward::Result out;
    const Tensor x = c.input();
    if (c.needs_grad()) out.grad = elu_backward(g, x, alpha, scale, input_scale);
    if (c.needs_input()) {
      const Tensor slope = mul(exp(mul(clamp_max(x, 0), input_scale)), scale * alpha * input_scale * input_scale);
      out.input = masked_fill(mul(mul(g, c.grad()), slope), ge(x, 0), 0);
    }
    return out;
  })
  .helper()
  .samples({"f(3,4), f(3,4), 1.5, 1.1, 0.8"});

namespace {
int gelu_backward_variant(const Args& args) {
  const args::gelu_backward a(args);
  return a.approximate() == "tanh";
}

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
  .saves({"grad", "input"})
  .grad([](const grads::gelu_backward& c, const Tensor& g) -> Grads {
    const std::string_view kind = c.approximate();
    return {c.needs_grad() ? gelu_backward(g, c.input(), kind) : Tensor(),
            c.needs_input() ? mul(mul(g, c.grad()), gelu_second(c.input(), kind == "tanh")) : Tensor()};
  })
  .helper()
  .samples({"f(3,4), f(3,4), 'none'", "f(3,4), f(3,4), 'tanh'"});

STRATA_OP(silu_backward, "silu_backward(Tensor grad, Tensor input) -> Tensor")
  .doc("The gradient of silu.")
  .pointwise<fn::SiluBackward>()
  .dtypes(kFloatingTypes)
  .saves({"grad", "input"})
  .grad([](const grads::silu_backward& c, const Tensor& g) -> Grads {
    grads::silu_backward::Result out;
    const Tensor x = c.input();
    if (c.needs_grad()) out.grad = silu_backward(g, x);
    if (c.needs_input()) {  // s (1 - s) (2 + x (1 - 2 s))
      const Tensor s = sigmoid(x), slope = mul(mul(s, rsub(s, 1)), add(mul(x, rsub(mul(s, 2), 1)), 2));
      out.input = mul(mul(g, c.grad()), slope);
    }
    return out;
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

STRATA_OP(mish_backward, "mish_backward(Tensor grad, Tensor input) -> Tensor")
  .doc("The gradient of mish.")
  .pointwise<fn::MishBackward>()
  .dtypes(kFloatingTypes)
  .saves({"grad", "input"})
  .grad([](const grads::mish_backward& c, const Tensor& g) -> Grads {
    grads::mish_backward::Result out;
    const Tensor x = c.input();
    if (c.needs_grad()) out.grad = mish_backward(g, x);
    if (c.needs_input()) {  // with t = tanh(softplus(x)): s (1 - t^2) (2 + x (1 - s) - 2 x s t)
      const Tensor s = sigmoid(x), t = tanh(nn::functional::softplus(x));
      const Tensor inner = add(mul(x, sub(rsub(s, 1), mul(mul(s, t), 2))), 2);
      out.input = mul(mul(g, c.grad()), mul(mul(s, rsub(square(t), 1)), inner));
    }
    return out;
  })
  .helper()
  .samples({"f(3,4), f(3,4)"});

STRATA_OP(softplus_backward, "softplus_backward(Tensor grad, Tensor input, float beta, float threshold) -> Tensor")
  .doc("The gradient of softplus.")
  .pointwise<fn::SoftplusBackward>()
  .dtypes(kFloatingTypes)
  .saves({"grad", "input"})
  .grad([](const grads::softplus_backward& c, const Tensor& g) -> Grads {
    const double beta = c.beta(), threshold = c.threshold();
    grads::softplus_backward::Result out;
    const Tensor x = c.input();
    if (c.needs_grad()) out.grad = softplus_backward(g, x, beta, threshold);
    if (c.needs_input()) {
      const Tensor scaled = mul(x, beta), s = sigmoid(scaled);
      out.input = masked_fill(mul(mul(g, c.grad()), mul(mul(s, rsub(s, 1)), beta)), gt(scaled, threshold), 0);
    }
    return out;
  })
  .helper()
  .samples({"f(3,4), f(3,4), 1.0, 20.0"});

}  // namespace strata
