// Error functions, gamma functions and stable combinations of logarithms.
#include "strata/args/pointwise/special.h"
#include "device/functors/complex.h"
#include "device/functors/special.h"
#include "ops/pointwise/pointwise.h"

namespace strata {

constexpr double kTwoOverRootPi = 1.12837916709551257390;

STRATA_OP(erf, "erf(Tensor input) -> Tensor")
  .doc("The error function.")
  .pointwise<fn::Erf>()
  .saves({"input"})
  .grad([](const grads::erf& c, const Tensor& g) -> Grads {
    return {mul(g, mul(exp(neg(square(c.input()))), kTwoOverRootPi))};
  })
  .inplace()
  .alias("special.erf")
  .samples({"f(3,4)"});

STRATA_OP(erfc, "erfc(Tensor input) -> Tensor")
  .doc("1 - erf(input), accurate for tiny results.")
  .pointwise<fn::Erfc>()
  .saves({"input"})
  .grad([](const grads::erfc& c, const Tensor& g) -> Grads {
    return {mul(g, mul(exp(neg(square(c.input()))), -kTwoOverRootPi))};
  })
  .inplace()
  .alias("special.erfc")
  .samples({"f(3,4)"});

STRATA_OP(erfcx, "special.erfcx(Tensor input) -> Tensor")
  .doc("exp(input ** 2) * erfc(input), without overflow for large inputs.")
  .pointwise<fn::Erfcx>()
  .saves({"input"})
  .saves_result()
  .grad([](const grads::erfcx& c, const Tensor& g) -> Grads {
    return {mul(g, sub(mul(mul(c.input(), 2), c.result()), kTwoOverRootPi))};
  })
  .samples({"f(3,4)", "o(3,4)"});

STRATA_OP(erfinv, "erfinv(Tensor input) -> Tensor")
  .doc("The inverse of erf; infinite at -1 and 1, NaN beyond.")
  .pointwise<fn::Erfinv>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads { return {mul(g, mul(exp(square(c.result())), 1 / kTwoOverRootPi))}; })
  .inplace()
  .alias("special.erfinv")
  .autocast_cuda(Autocast::Float32)
  .samples({"u(3,4)"});

STRATA_OP(lgamma, "lgamma(Tensor input) -> Tensor")
  .doc("The logarithm of the absolute value of the gamma function.")
  .pointwise<fn::Lgamma>()
  .saves({"input"})
  .grad([](const grads::lgamma& c, const Tensor& g) -> Grads { return {mul(g, digamma(c.input()))}; })
  .inplace()
  .alias("special.gammaln")
  .samples({"p(3,4)"});

STRATA_OP(digamma, "digamma(Tensor input) -> Tensor")
  .doc("The derivative of lgamma.")
  .pointwise<fn::Digamma>()
  .saves({"input"})
  .grad([](const grads::digamma& c, const Tensor& g) -> Grads { return {mul(g, digamma_derivative(c.input(), 1))}; })
  .inplace()
  .alias("special.digamma")
  .alias("special.psi")
  .samples({"p(3,4)"});

STRATA_OP(digamma_derivative, "digamma_derivative(Tensor input, int n) -> Tensor")
  .doc("The n-th derivative of digamma, n >= 1.")
  .pointwise<fn::Polygamma>()
  .saves({"input"})
  .grad([](const grads::digamma_derivative& c, const Tensor& g) -> Grads {
    return {mul(g, digamma_derivative(c.input(), c.n() + 1))};
  })
  .helper()
  .samples({"p(3,4), 1", "p(3), 2"});

STRATA_OP(polygamma, "polygamma(int n, Tensor input) -> Tensor")
  .doc("The n-th derivative of digamma; digamma itself for n = 0.")
  .composite([](int64_t n, const Tensor& input) {
    STRATA_CHECK(n >= 0, Runtime, "polygamma: n must not be negative, got {}", n);
    return n == 0 ? digamma(input) : digamma_derivative(input, n);
  })
  .alias("special.polygamma")
  .samples({"0, p(3,4)", "2, p(3)"})
  .error("-1, p(3)", ErrorKind::Runtime, "must not be negative");

// x^(a-1) e^-x / Gamma(a), the slope of igamma in its second argument.
static Tensor gamma_density(G c) {
  const grads::igamma arg(c);
  STRATA_CHECK(
    !arg.needs_input(), NotImplemented,
    "{}: the derivative with respect to input is not implemented; detach() it, or differentiate with respect "
    "to other only",
    c.node().name());
  const Tensor a = arg.input(), x = arg.other();
  return exp(sub(sub(mul(sub(a, 1.0), log(x)), x), lgamma(a)));
}
STRATA_OP(igamma, "igamma(Tensor input, Tensor other) -> Tensor")
  .doc("The regularised lower incomplete gamma function of order input at other.")
  .pointwise<fn::Igamma>()
  .saves({"input", "other"})
  .grad([](G c, const Tensor& g) -> Grads {
    return {Tensor(), mul(g, gamma_density(c))};
  })
  .inplace()
  .alias("special.gammainc")
  .remove_dtypes({DType::U64})
  .samples({"i5(3,4), p(3,4)", "!p(3,4), p(4)"});

STRATA_OP(igammac, "igammac(Tensor input, Tensor other) -> Tensor")
  .doc("The regularised upper incomplete gamma function of order input at other: 1 - igamma.")
  .pointwise<fn::Igammac>()
  .saves({"input", "other"})
  .grad([](G c, const Tensor& g) -> Grads {
    return {Tensor(), neg(mul(g, gamma_density(c)))};
  })
  .inplace()
  .alias("special.gammaincc")
  .remove_dtypes({DType::U64})
  .samples({"i5(3,4), p(3,4)", "!p(3,4), p(4)"});

STRATA_OP(_standard_gamma_grad, "_standard_gamma_grad(Tensor input, Tensor output) -> Tensor")
  .doc(
    "How a gamma number with shape parameter input grows with that parameter, at the same value of the distribution "
    "function: the implicit gradient of _standard_gamma.")
  .pointwise<fn::StandardGammaGrad>()
  .no_grad_inputs({"input", "output"})
  .no_method()
  .samples({"p(3,4), p(3,4)", "p(3,1), p(4)", "p(0), p(0)"});
STRATA_OP(_standard_log_gamma_grad, "_standard_log_gamma_grad(Tensor input, Tensor output) -> Tensor")
  .doc("The same for the logarithm of a gamma number.")
  .pointwise<fn::StandardLogGammaGrad>()
  .no_grad_inputs({"input", "output"})
  .helper()
  .samples({"p(3,4), f(3,4)"});

STRATA_OP(special_ndtr, "special.ndtr(Tensor input) -> Tensor")
  .doc("The distribution function of the standard normal distribution.")
  .pointwise<fn::Ndtr>()
  .saves({"input"})
  .grad([](const grads::special_ndtr& c, const Tensor& g) -> Grads {
    return {mul(g, mul(exp(mul(square(c.input()), -0.5)), 0.39894228040143267794))};
  })
  .samples({"f(3,4)"});

STRATA_OP(sinc, "sinc(Tensor input) -> Tensor")
  .doc("sin(pi x) / (pi x), and 1 at zero.")
  .pointwise<fn::Sinc>()
  .saves({"input"})
  .grad([](const grads::sinc& c, const Tensor& g) -> Grads {
    const Tensor x = c.input(), zero = eq(x, 0), safe = masked_fill(x, zero, 1), y = mul(safe, M_PI);
    return {masked_fill(mul(g, conjugated(div(sub(cos(y), div(sin(y), y)), safe))), zero, 0)};
  })
  .inplace()
  .alias("special.sinc")
  .complex<fn::ComplexSinc>()
  .samples({"f(3,4)"});

STRATA_OP(logit, "logit(Tensor input, float? eps=None) -> Tensor")
  .doc("log(x / (1 - x)), the inverse of sigmoid; eps limits x to [eps, 1 - eps] first.")
  .pointwise<fn::Logit>()
  .saves({"input"})
  .grad([](const grads::logit& c, const Tensor& g) -> Grads {
    const Tensor x = c.input(), slope = div(g, mul(x, rsub(x, 1)));
    if (!c.eps()) return {masked_fill(slope, logical_or(lt(x, 0), gt(x, 1)), NAN)};
    const double eps = *c.eps();
    return {masked_fill(slope, logical_or(lt(x, eps), gt(x, 1 - eps)), 0)};
  })
  .inplace()
  .alias("special.logit")
  .samples({"u(3,4), eps=0.2"});

STRATA_OP(xlogy, "xlogy(Tensor input, Tensor other) -> Tensor")
  .doc("input * log(other), and 0 where input is 0.")
  .pointwise<fn::Xlogy>()
  .saves({"input", "other"})
  .grad([](const grads::xlogy& c, const Tensor& g) -> Grads {
    grads::xlogy::Result out;
    if (c.needs_input()) {
      const Tensor x = c.input(), flat = logical_and(eq(x, 0), call(op_le, Args(c.other_operand(), 0)));
      out.input = masked_fill(mul(g, call(op_log, Args(c.other_operand()))), flat, 0);
    }
    if (c.needs_other()) out.other = div(mul(g, c.input_operand()), c.other());
    return out;
  })
  .inplace()
  .alias("special.xlogy")
  .samples({"f(3,4), p(4)", "f(3), 2.5"});

STRATA_OP(special_xlog1py, "special.xlog1py(Tensor input, Tensor other) -> Tensor")
  .doc("input * log1p(other), and 0 where input is 0.")
  .pointwise<fn::Xlog1py>()
  .saves({"input", "other"})
  .grad([](const grads::special_xlog1py& c, const Tensor& g) -> Grads {
    grads::special_xlog1py::Result out;
    if (c.needs_input()) {
      const Tensor x = c.input(), flat = logical_and(eq(x, 0), call(op_le, Args(c.other_operand(), -1)));
      out.input = masked_fill(mul(g, call(op_log1p, Args(c.other_operand()))), flat, 0);
    }
    if (c.needs_other()) out.other = div(mul(g, c.input_operand()), add(c.other(), 1));
    return out;
  })
  .samples({"f(3,4), p(4)"});

STRATA_OP(special_entr, "special.entr(Tensor input) -> Tensor")
  .doc("The entropy -x log(x) of each element: 0 at zero, -inf below.")
  .pointwise<fn::Entr>()
  .saves({"input"})
  .grad([](const grads::special_entr& c, const Tensor& g) -> Grads { return {mul(g, neg(add(log(c.input()), 1)))}; })
  .samples({"p(3,4)"});

STRATA_OP(logaddexp, "logaddexp(Tensor input, Tensor other) -> Tensor")
  .doc("log(exp(input) + exp(other)) without overflow.")
  .pointwise<fn::Logaddexp>()
  .saves({"input", "other"})
  .grad([](const grads::logaddexp& c, const Tensor& g) -> Grads {
    const Tensor d = conjugated(call(op_sub, Args(c.input_operand(), c.other_operand(), 1)));
    return {c.needs_input() ? mul(g, sigmoid(d)) : Tensor(), c.needs_other() ? mul(g, sigmoid(neg(d))) : Tensor()};
  })
  .complex<fn::ComplexLogaddexp>()
  .samples({"f(3,4), f(4)"});

STRATA_OP(logaddexp2, "logaddexp2(Tensor input, Tensor other) -> Tensor")
  .doc("log2(2^input + 2^other) without overflow.")
  .pointwise<fn::Logaddexp2>()
  .saves({"input", "other"})
  .grad([](const grads::logaddexp2& c, const Tensor& g) -> Grads {
    const Tensor d = mul(call(op_sub, Args(c.input_operand(), c.other_operand(), 1)), M_LN2);
    return {c.needs_input() ? mul(g, sigmoid(d)) : Tensor(), c.needs_other() ? mul(g, sigmoid(neg(d))) : Tensor()};
  })
  .samples({"f(3,4), f(4)"});

STRATA_OP(replace_nonfinite, "replace_nonfinite(Tensor input, float nan, float posinf, float neginf) -> Tensor")
  .doc("input with NaN and infinities replaced.")
  .pointwise<fn::NanToNum>()
  .saves({"input"})
  .grad([](const grads::replace_nonfinite& c, const Tensor& g) -> Grads {
    return {masked_fill(g, logical_not(isfinite(c.input())), 0)};
  })
  .helper()
  .samples({"f(3,4), 0, 1, 2"});

STRATA_OP(nan_to_num, "nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor")
  .doc("NaN becomes 0, infinities the largest and smallest finite numbers of the dtype, or what is given.")
  .composite([](const Tensor& input, std::optional<double> nan, std::optional<double> posinf,
                std::optional<double> neginf) {
    const DType t = input.dtype();
    const double largest = t == DType::F64    ? 1.7976931348623157e308
                           : t == DType::F16  ? 65504
                           : t == DType::BF16 ? 3.3895313892515355e38
                                              : 3.4028234663852886e38;
    return replace_nonfinite(input, nan.value_or(0), posinf.value_or(largest), neginf.value_or(-largest));
  })
  .inplace()
  .complex_composite([](const Tensor& input, std::optional<double> nan, std::optional<double> posinf,
                        std::optional<double> neginf) {
    return complex(nan_to_num(real(input), nan, posinf, neginf), nan_to_num(imag(input), nan, posinf, neginf));
  })
  .samples({"f(3,4)", "f(3,4), 1.0, posinf=2.0"});

}  // namespace strata
