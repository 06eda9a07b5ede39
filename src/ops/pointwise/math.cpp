// Exponentials, logarithms, roots, circular and hyperbolic functions, rounding. Integers give floating-point results,
// except that rounding leaves them unchanged.
#include "strata/args/pointwise/math.h"
#include "device/functors/arithmetic.h"
#include "device/functors/complex.h"
#include "device/functors/unary_math.h"
#include "ops/pointwise/pointwise.h"

namespace strata {

STRATA_OP(exp, "exp(Tensor input) -> Tensor")
  .doc("e to the power of each element.")
  .pointwise<fn::Exp>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads { return {mul(g, conjugated(c.result()))}; })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexExp>()
  .samples({"f(3,4)", "f()", "f(0,3)"});

STRATA_OP(exp2, "exp2(Tensor input) -> Tensor")
  .doc("2 to the power of each element.")
  .pointwise<fn::Exp2>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads { return {mul(g, conjugated(mul(c.result(), M_LN2)))}; })
  .inplace()
  .alias("special.exp2")
  .complex<fn::ComplexExp2>()
  .samples({"f(3,4)"});

STRATA_OP(expm1, "expm1(Tensor input) -> Tensor")
  .doc("exp(input) - 1, accurate near zero.")
  .pointwise<fn::Expm1>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads { return {mul(g, conjugated(add(c.result(), 1)))}; })
  .inplace()
  .alias("special.expm1")
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexExpm1>()
  .samples({"f(3,4)"});

STRATA_OP(log, "log(Tensor input) -> Tensor")
  .doc("The natural logarithm of each element; NaN for negative ones.")
  .pointwise<fn::Log>()
  .saves({"input"})
  .grad([](const grads::log& c, const Tensor& g) -> Grads { return {div(g, conjugated(c.input()))}; })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexLog>()
  .samples({"p(3,4)", "p()"});

STRATA_OP(log2, "log2(Tensor input) -> Tensor")
  .doc("The logarithm to base 2.")
  .pointwise<fn::Log2>()
  .saves({"input"})
  .grad([](const grads::log2& c, const Tensor& g) -> Grads { return {div(g, conjugated(mul(c.input(), M_LN2)))}; })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexLog2>()
  .samples({"p(3,4)"});

STRATA_OP(log10, "log10(Tensor input) -> Tensor")
  .doc("The logarithm to base 10.")
  .pointwise<fn::Log10>()
  .saves({"input"})
  .grad([](const grads::log10& c, const Tensor& g) -> Grads { return {div(g, conjugated(mul(c.input(), M_LN10)))}; })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexLog10>()
  .samples({"p(3,4)"});

STRATA_OP(log1p, "log1p(Tensor input) -> Tensor")
  .doc("log(1 + input), accurate near zero.")
  .pointwise<fn::Log1p>()
  .saves({"input"})
  .grad([](const grads::log1p& c, const Tensor& g) -> Grads { return {div(g, conjugated(add(c.input(), 1)))}; })
  .inplace()
  .alias("special.log1p")
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexLog1p>()
  .samples({"p(3,4)", "u(3)"});

STRATA_OP(sqrt, "sqrt(Tensor input) -> Tensor")
  .doc("The square root; NaN for negative elements.")
  .pointwise<fn::Sqrt>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads { return {div(g, conjugated(mul(c.result(), 2)))}; })
  .inplace()
  .complex<fn::ComplexSqrt>()
  .samples({"p(3,4)"});

STRATA_OP(root_of_positive, "_root_of_positive(Tensor input) -> Tensor")
  .doc("The square root, 0 for negative elements; the gradient of elements whose root is 0 is 0.")
  .pointwise<fn::RootOfPositive>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads {
    const Tensor none = eq(c.result(), 0);  // no division by 0, so that second derivatives are finite too
    return {masked_fill(div(g, mul(masked_fill(c.result(), none, 1), 2)), none, 0)};
  })
  .helper()
  .samples({"p(3,4)", "f(3,4)"});

STRATA_OP(rsqrt, "rsqrt(Tensor input) -> Tensor")
  .doc("1 / sqrt(input).")
  .pointwise<fn::Rsqrt>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads {
    const Tensor r = c.result();
    return {mul(mul(g, -0.5), conjugated(mul(square(r), r)))};
  })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexRsqrt>()
  .samples({"p(3,4)"});

STRATA_OP(sin, "sin(Tensor input) -> Tensor")
  .doc("The sine of angles in radians.")
  .pointwise<fn::Sin>()
  .saves({"input"})
  .grad([](const grads::sin& c, const Tensor& g) -> Grads { return {mul(g, conjugated(cos(c.input())))}; })
  .inplace()
  .complex<fn::ComplexSin>()
  .samples({"f(3,4)"});

STRATA_OP(cos, "cos(Tensor input) -> Tensor")
  .doc("The cosine of angles in radians.")
  .pointwise<fn::Cos>()
  .saves({"input"})
  .grad([](const grads::cos& c, const Tensor& g) -> Grads { return {neg(mul(g, conjugated(sin(c.input()))))}; })
  .inplace()
  .complex<fn::ComplexCos>()
  .samples({"f(3,4)"});

STRATA_OP(tan, "tan(Tensor input) -> Tensor")
  .doc("The tangent of angles in radians.")
  .pointwise<fn::Tan>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads { return {mul(g, conjugated(add(square(c.result()), 1)))}; })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexTan>()
  .samples({"u(3,4)"});

STRATA_OP(asin, "asin(Tensor input) -> Tensor")
  .doc("The angle whose sine is input; NaN outside [-1, 1].")
  .pointwise<fn::Asin>()
  .saves({"input"})
  .grad([](const grads::asin& c, const Tensor& g) -> Grads {
    return {mul(g, conjugated(rsqrt(rsub(square(c.input()), 1))))};
  })
  .inplace()
  .alias("arcsin")
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexAsin>()
  .samples({"u(3,4)"});

STRATA_OP(acos, "acos(Tensor input) -> Tensor")
  .doc("The angle whose cosine is input; NaN outside [-1, 1].")
  .pointwise<fn::Acos>()
  .saves({"input"})
  .grad([](const grads::acos& c, const Tensor& g) -> Grads {
    return {neg(mul(g, conjugated(rsqrt(rsub(square(c.input()), 1)))))};
  })
  .inplace()
  .alias("arccos")
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexAcos>()
  .samples({"u(3,4)"});

STRATA_OP(atan, "atan(Tensor input) -> Tensor")
  .doc("The angle whose tangent is input.")
  .pointwise<fn::Atan>()
  .saves({"input"})
  .grad([](const grads::atan& c, const Tensor& g) -> Grads { return {div(g, conjugated(add(square(c.input()), 1)))}; })
  .inplace()
  .alias("arctan")
  .complex<fn::ComplexAtan>()
  .samples({"f(3,4)"});

STRATA_OP(sinh, "sinh(Tensor input) -> Tensor")
  .doc("The hyperbolic sine.")
  .pointwise<fn::Sinh>()
  .saves({"input"})
  .grad([](const grads::sinh& c, const Tensor& g) -> Grads { return {mul(g, conjugated(cosh(c.input())))}; })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexSinh>()
  .samples({"f(3,4)"});

STRATA_OP(cosh, "cosh(Tensor input) -> Tensor")
  .doc("The hyperbolic cosine.")
  .pointwise<fn::Cosh>()
  .saves({"input"})
  .grad([](const grads::cosh& c, const Tensor& g) -> Grads { return {mul(g, conjugated(sinh(c.input())))}; })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexCosh>()
  .samples({"f(3,4)"});

STRATA_OP(tanh, "tanh(Tensor input) -> Tensor")
  .doc("The hyperbolic tangent.")
  .pointwise<fn::Tanh>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads {
    if (is_complex(c.result().dtype())) return {mul(g, conj(rsub(square(c.result()), 1)))};
    return {tanh_backward(g, c.result())};
  })
  .inplace()
  .nn()
  .complex<fn::ComplexTanh>()
  .samples({"f(3,4)", "f()", "f(0,2)"});

STRATA_OP(asinh, "asinh(Tensor input) -> Tensor")
  .doc("The inverse of sinh.")
  .pointwise<fn::Asinh>()
  .saves({"input"})
  .grad([](const grads::asinh& c, const Tensor& g) -> Grads {
    return {mul(g, conjugated(rsqrt(add(square(c.input()), 1))))};
  })
  .inplace()
  .alias("arcsinh")
  .complex<fn::ComplexAsinh>()
  .samples({"f(3,4)"});

STRATA_OP(acosh, "acosh(Tensor input) -> Tensor")
  .doc("The inverse of cosh; NaN below 1.")
  .pointwise<fn::Acosh>()
  .saves({"input"})
  .grad([](const grads::acosh& c, const Tensor& g) -> Grads {
    const Tensor x = c.input();
    if (is_complex(x.dtype())) return {mul(g, conj(mul(rsqrt(sub(x, 1)), rsqrt(add(x, 1)))))};  // its branch cut
    return {mul(g, rsqrt(sub(square(x), 1)))};
  })
  .inplace()
  .alias("arccosh")
  .complex<fn::ComplexAcosh>()
  .samples({"o(3,4)"});

STRATA_OP(atanh, "atanh(Tensor input) -> Tensor")
  .doc("The inverse of tanh; NaN outside [-1, 1].")
  .pointwise<fn::Atanh>()
  .saves({"input"})
  .grad([](const grads::atanh& c, const Tensor& g) -> Grads {
    return {div(g, conjugated(rsub(square(c.input()), 1)))};
  })
  .inplace()
  .alias("arctanh")
  .complex<fn::ComplexAtanh>()
  .samples({"u(3,4)"});

STRATA_OP(deg2rad, "deg2rad(Tensor input) -> Tensor")
  .doc("Degrees to radians.")
  .pointwise<fn::Deg2Rad>()
  .grad([](G, const Tensor& g) -> Grads { return {deg2rad(g)}; })
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(rad2deg, "rad2deg(Tensor input) -> Tensor")
  .doc("Radians to degrees.")
  .pointwise<fn::Rad2Deg>()
  .grad([](G, const Tensor& g) -> Grads { return {rad2deg(g)}; })
  .inplace()
  .samples({"f(3,4)"});

// --- rounding -------------------------------------------------------------------------------------------------------

STRATA_OP(floor, "floor(Tensor input) -> Tensor")
  .doc("The largest integer that is not greater.")
  .pointwise<fn::Floor>()
  .dtypes(kNumericTypes)
  .grad([](G, const Tensor& g) -> Grads { return {no_slope(g)}; })
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(ceil, "ceil(Tensor input) -> Tensor")
  .doc("The smallest integer that is not smaller.")
  .pointwise<fn::Ceil>()
  .dtypes(kNumericTypes)
  .grad([](G, const Tensor& g) -> Grads { return {no_slope(g)}; })
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(trunc, "trunc(Tensor input) -> Tensor")
  .doc("The integer part, towards zero.")
  .pointwise<fn::Trunc>()
  .dtypes(kNumericTypes)
  .grad([](G, const Tensor& g) -> Grads { return {no_slope(g)}; })
  .inplace()
  .alias("fix")
  .samples({"f(3,4)"});

STRATA_OP(frac, "frac(Tensor input) -> Tensor")
  .doc("The fractional part, with the sign of the input.")
  .pointwise<fn::Frac>()
  .dtypes(kFloatingTypes)
  .grad([](G, const Tensor& g) -> Grads { return {g}; })
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(round_integer, "round_integer(Tensor input) -> Tensor")
  .doc("The nearest integer; halves go to the even one.")
  .pointwise<fn::Round>()
  .dtypes(kNumericTypes)
  .grad([](G, const Tensor& g) -> Grads { return {no_slope(g)}; })
  .helper()
  .samples({"f(3,4)"});

STRATA_OP(round_scaled, "round_scaled(Tensor input, float scale, bool negative) -> Tensor")
  .doc("round(input * scale) / scale, or round(input / scale) * scale when negative.")
  .pointwise<fn::RoundScaled>()
  .dtypes(kFloatingTypes)
  .grad([](G, const Tensor& g) -> Grads { return {no_slope(g)}; })
  .helper()
  .samples({"f(3,4), 100, False"});

STRATA_OP(round, "round(Tensor input, *, int decimals=0) -> Tensor")
  .doc("Rounded to a number of decimals, by default to integers; halves go to the even neighbour.")
  .composite([](const Tensor& input, int64_t decimals) {
    STRATA_CHECK(decimals == 0 || is_floating(input.dtype()), Runtime,
                 "round: decimals is for floating-point tensors, the input is {}", name_of(input.dtype()));
    if (decimals == 0) return round_integer(input);
    return round_scaled(input, std::pow(10.0, std::abs(static_cast<double>(decimals))), decimals < 0);
  })
  .dtypes(kNumericTypes)
  .inplace()
  .alias("special.round")
  .samples({"f(3,4)", "~f(3,4), decimals=2", "~f(3,4), decimals=-1"})
  .error("i5(3), decimals=2", ErrorKind::Runtime, "decimals is for floating-point tensors");

}  // namespace strata
