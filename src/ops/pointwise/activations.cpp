// Activations of neural networks. Frequent ones have a gradient in one kernel (activations_backward.cpp).
#include "strata/args/pointwise/activations.h"
#include "device/functors/activations.h"
#include "device/functors/complex.h"
#include "ops/check_dtype.h"
#include "ops/pointwise/pointwise.h"

namespace strata {

STRATA_OP(sigmoid, "sigmoid(Tensor input) -> Tensor")
  .doc("1 / (1 + exp(-x)).")
  .pointwise<fn::Sigmoid>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads {
    const Tensor y = c.result();
    if (is_complex(y.dtype())) return {mul(g, conj(mul(y, rsub(y, 1))))};
    return {sigmoid_backward(g, y)};
  })
  .inplace()
  .nn()
  .alias("special.expit")
  .complex<fn::ComplexSigmoid>()
  .samples({"f(3,4)", "f()"});

STRATA_OP(relu, "relu(Tensor input) -> Tensor")
  .doc("max(x, 0).")
  .pointwise<fn::Relu>()
  .dtypes(kNumericTypes)
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads { return {threshold_backward(g, c.result(), 0)}; })
  .inplace()
  .nn()
  .samples({"f(3,4)", "f()", "f(0,2)"})
  .error("b(3)", ErrorKind::NotImplemented, "the bool dtype is not supported");

STRATA_OP(leaky_relu, "nn.functional.leaky_relu(Tensor input, float negative_slope=0.01) -> Tensor")
  .doc("x above zero, negative_slope * x below.")
  .pointwise<fn::LeakyRelu>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::leaky_relu& c, const Tensor& g) -> Grads {
    return {leaky_relu_backward(g, c.input(), c.negative_slope())};
  })
  .inplace()
  .samples({"f(3,4)", "f(3,4), 0.2"});

STRATA_OP(prelu_channels, "prelu_channels(Tensor input, Tensor weight) -> Tensor")
  .doc("x above zero, weight * x below; the weight broadcasts.")
  .pointwise<fn::Prelu>()
  .dtypes(kFloatingTypes)
  .saves({"input", "weight"})
  .grad([](const grads::prelu_channels& c, const Tensor& g) -> Grads {
    const Tensor x = c.input(), above = gt(x, 0);
    return {c.needs_input() ? where(above, g, mul(g, c.weight())) : Tensor(),
            c.needs_weight() ? masked_fill(mul(g, x), above, 0) : Tensor()};
  })
  .helper()
  .samples({"f(3,4), f(4)"});

STRATA_OP(prelu, "prelu(Tensor input, Tensor weight) -> Tensor")
  .doc("x above zero, weight * x below; one weight, or one per channel (dimension 1).")
  .composite([](const Tensor& input, const Tensor& weight) {
    const int64_t channels = input.dim() > 1 ? input.size(1) : 1, n = weight.numel();
    STRATA_CHECK(weight.dim() <= 1 && (n == 1 || n == channels), Runtime,
                 "prelu: expected a weight of 1 or {} elements, found shape {}", channels, to_string(weight.shape()));
    if (n == 1 || input.dim() <= 2) return prelu_channels(input, n == 1 ? reshape(weight, IntList()) : weight);
    std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
    shape[1] = n;
    return prelu_channels(input, reshape(weight, shape));
  })
  .dtypes(kFloatingTypes)
  .nn()
  .autocast(Autocast::Lower)
  .samples({"f(3,4), f(4)", "f(2,3,4), f(3)", "f(3,4), f(1)"})
  .error("f(3,4), f(3)", ErrorKind::Runtime, "expected a weight of 1 or 4 elements");

STRATA_OP(elu_scaled, "elu_scaled(Tensor input, float alpha, float scale, float input_scale) -> Tensor")
  .doc("scale * x above zero, scale * alpha * (exp(input_scale * x) - 1) below.")
  .pointwise<fn::Elu>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::elu_scaled& c, const Tensor& g) -> Grads {
    return {elu_backward(g, c.input(), c.alpha(), c.scale(), c.input_scale())};
  })
  .inplace()
  .helper()
  .samples({"f(3,4), 1.5, 1.1, 0.8"});

STRATA_OP(elu, "nn.functional.elu(Tensor input, float alpha=1.0) -> Tensor")
  .doc("x above zero, alpha * (exp(x) - 1) below.")
  .composite([](const Tensor& input, double alpha) { return elu_scaled(input, alpha, 1, 1); })
  .dtypes(kFloatingTypes)
  .inplace()
  .samples({"f(3,4)", "f(3,4), 0.5"});

STRATA_OP(selu, "selu(Tensor input) -> Tensor")
  .doc("The self-normalizing elu, with its fixed scale and alpha.")
  .composite([](const Tensor& input) {
    return elu_scaled(input, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
  })
  .dtypes(kFloatingTypes)
  .inplace()
  .nn()
  .samples({"f(3,4)"});

STRATA_OP(celu, "celu(Tensor input, float alpha=1.0) -> Tensor")
  .doc("max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).")
  .composite([](const Tensor& input, double alpha) {
    STRATA_CHECK(alpha != 0, Runtime, "celu: alpha must not be 0");
    return elu_scaled(input, alpha, 1, 1 / alpha);
  })
  .dtypes(kFloatingTypes)
  .inplace()
  .nn()
  .samples({"f(3,4)", "f(3,4), 0.5"})
  .error("f(3), 0", ErrorKind::Runtime, "alpha must not be 0");

namespace {
int gelu_variant(const Args& args) {
  const args::gelu a(args);
  const std::string_view kind = a.approximate();
  if (kind == "none") return 0;
  STRATA_CHECK(kind == "tanh", Runtime, "gelu: approximate '{}' is unknown; expected 'none' or 'tanh'", kind);
  return 1;
}
}  // namespace

STRATA_OP(gelu, "nn.functional.gelu(Tensor input, *, str approximate='none') -> Tensor")
  .doc("x times the normal distribution function of x; approximate='tanh' uses the tanh approximation.")
  .pointwise<fn::Gelu, fn::GeluTanh>(gelu_variant)
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::gelu& c, const Tensor& g) -> Grads { return {gelu_backward(g, c.input(), c.approximate())}; })
  .samples({"f(3,4)", "f(3,4), approximate='tanh'", "f()"})
  .error("f(3), approximate='x'", ErrorKind::Runtime, "expected 'none' or 'tanh'");

STRATA_OP(silu, "nn.functional.silu(Tensor input) -> Tensor")
  .doc("x * sigmoid(x), also known as swish.")
  .pointwise<fn::Silu>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::silu& c, const Tensor& g) -> Grads {
    const Tensor z = c.input();
    if (!is_complex(z.dtype())) return {silu_backward(g, z)};
    const Tensor s = sigmoid(z);
    return {mul(g, conj(mul(s, add(mul(z, rsub(s, 1)), 1))))};
  })
  .inplace()
  .complex<fn::ComplexSilu>()
  .samples({"f(3,4)"});

STRATA_OP(mish, "nn.functional.mish(Tensor input) -> Tensor")
  .doc("x * tanh(softplus(x)).")
  .pointwise<fn::Mish>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::mish& c, const Tensor& g) -> Grads { return {mish_backward(g, c.input())}; })
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(softplus, "nn.functional.softplus(Tensor input, float beta=1.0, float threshold=20.0) -> Tensor")
  .doc("log(1 + exp(beta * x)) / beta; x itself where beta * x exceeds the threshold.")
  .pointwise<fn::Softplus>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::softplus& c, const Tensor& g) -> Grads {
    return {softplus_backward(g, c.input(), c.beta(), c.threshold())};
  })
  .autocast_cuda(Autocast::Float32)
  .samples({"f(3,4)", "f(3,4), 2.0, 1.0"});

STRATA_OP(logsigmoid, "nn.functional.logsigmoid(Tensor input) -> Tensor")
  .doc("log(sigmoid(x)) without overflow.")
  .pointwise<fn::LogSigmoid>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::logsigmoid& c, const Tensor& g) -> Grads { return {mul(g, sigmoid(neg(c.input())))}; })
  .samples({"f(3,4)"});

namespace {
// g / below, less what |x| in the denominator takes away in the direction of x.
Tensor complex_softsign_grad(const Tensor& g, const Tensor& x, const Tensor& below) {
  return sub(div(g, below), mul(sgn(x), div(real(mul(g, conj(x))), square(below))));
}
}  // namespace

STRATA_OP(softsign, "nn.functional.softsign(Tensor input) -> Tensor")
  .doc("x / (1 + |x|).")
  .pointwise<fn::Softsign>()
  .saves({"input"})
  .grad([](const grads::softsign& c, const Tensor& g) -> Grads {
    const Tensor x = c.input(), below = add(abs(x), 1);
    return {is_complex(x.dtype()) ? complex_softsign_grad(g, x, below) : div(g, square(below))};
  })
  .complex<fn::ComplexSoftsign>()
  .samples({"f(3,4)"});

STRATA_OP(tanhshrink, "nn.functional.tanhshrink(Tensor input) -> Tensor")
  .doc("x - tanh(x).")
  .pointwise<fn::Tanhshrink>()
  .saves({"input"})
  .grad([](const grads::tanhshrink& c, const Tensor& g) -> Grads {
    return {mul(g, conjugated(square(tanh(c.input()))))};
  })
  .complex<fn::ComplexTanhshrink>()
  .samples({"f(3,4)"});

STRATA_OP(softshrink, "nn.functional.softshrink(Tensor input, float lambd=0.5) -> Tensor")
  .doc("x moved towards zero by lambd, and 0 within [-lambd, lambd].")
  .pointwise<fn::Softshrink>()
  .infer([](const args::softshrink& c) {
    STRATA_CHECK(!(c.lambd() < 0), Runtime, "softshrink: lambda must be greater or equal to 0, but found {}",
                 c.lambd());
    infer_pointwise(c);
  })
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::softshrink& c, const Tensor& g) -> Grads {
    return {hardshrink_backward(g, c.input(), c.lambd())};
  })
  .samples({"f(3,4)", "f(3,4), 0.2"})
  .error("f(3), -0.5", ErrorKind::Runtime, "greater or equal to 0");

STRATA_OP(hardshrink, "hardshrink(Tensor input, float lambd=0.5) -> Tensor")
  .doc("x outside [-lambd, lambd], and 0 within.")
  .pointwise<fn::Hardshrink>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::hardshrink& c, const Tensor& g) -> Grads {
    return {hardshrink_backward(g, c.input(), c.lambd())};
  })
  .nn()
  .samples({"f(3,4)", "f(3,4), 0.2"});

STRATA_OP(threshold, "threshold(Tensor input, float threshold, float value) -> Tensor")
  .doc("x above the threshold, and value at or below it.")
  .pointwise<fn::Threshold>()
  .dtypes(kNumericTypes)
  .saves({"input"})
  .grad([](const grads::threshold& c, const Tensor& g) -> Grads {
    return {threshold_backward(g, c.input(), c.threshold_())};
  })
  .inplace()
  .nn()
  .remove_dtypes({DType::U64})
  .samples({"f(3,4), 0.1, 20.0"});

STRATA_OP(hardtanh, "nn.functional.hardtanh(Tensor input, float min_val=-1.0, float max_val=1.0) -> Tensor")
  .doc("x limited to [min_val, max_val].")
  .pointwise<fn::Hardtanh>()
  .infer([](const args::hardtanh& c) {
    STRATA_CHECK(!(c.min_val() > c.max_val()), Value, "hardtanh: min_val cannot be greater than max_val, got {} and {}",
                 c.min_val(), c.max_val());
    infer_pointwise(c);
  })
  .dtypes(kNumericTypes)
  .saves({"input"})
  .grad([](const grads::hardtanh& c, const Tensor& g) -> Grads {
    return {hardtanh_backward(g, c.input(), c.min_val(), c.max_val())};
  })
  .inplace()
  .remove_dtypes({DType::U64})
  .samples({"f(3,4)", "f(3,4), -0.5, 0.25"})
  .error("f(3), 0.5, -0.5", ErrorKind::Value, "min_val cannot be greater");

STRATA_OP(relu6, "nn.functional.relu6(Tensor input) -> Tensor")
  .doc("x limited to [0, 6].")
  .composite([](const Tensor& input) { return nn::functional::hardtanh(input, 0, 6); })
  .dtypes(kNumericTypes)
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(hardsigmoid, "nn.functional.hardsigmoid(Tensor input) -> Tensor")
  .doc("(x + 3) / 6 limited to [0, 1].")
  .pointwise<fn::Hardsigmoid>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::hardsigmoid& c, const Tensor& g) -> Grads {
    return {div(clamp_backward(g, c.input(), -3, 3), 6)};
  })
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(hardswish, "nn.functional.hardswish(Tensor input) -> Tensor")
  .doc("x * hardsigmoid(x).")
  .pointwise<fn::Hardswish>()
  .dtypes(kFloatingTypes)
  .saves({"input"})
  .grad([](const grads::hardswish& c, const Tensor& g) -> Grads { return {hardswish_backward(g, c.input())}; })
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(glu, "nn.functional.glu(Tensor input, int dim=-1) -> Tensor")
  .doc("The first half of input along dim, times the sigmoid of the second half.")
  .composite([](const Tensor& input, int64_t dim) {
    refuse_integers(input, "glu");
    STRATA_CHECK(input.dim() > 0, Runtime, "glu: a zero-dimensional tensor has no halves");
    const int64_t n = input.size(dim);
    STRATA_CHECK(n % 2 == 0, Runtime, "glu: the size of dimension {} must be even, found {}", dim, n);
    return mul(narrow(input, dim, 0, n / 2), sigmoid(narrow(input, dim, n / 2, n / 2)));
  })
  .dtypes(kFloatingTypes)
  .samples({"f(3,4)", "f(4,3), 0"})
  .error("f(3,5)", ErrorKind::Runtime, "must be even")
  .error("i5(3,4)", ErrorKind::NotImplemented, "not implemented for 'int64'");

}  // namespace strata
