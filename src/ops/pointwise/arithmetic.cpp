// Sums, products, quotients, extrema, powers and signs.
#include "device/functors/arithmetic.h"
#include "ops/pointwise/pointwise.h"

namespace strata {

STRATA_OP(add, "add(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor")
  .doc("input + alpha * other, with broadcasting and type promotion.")
  .pointwise<fn::Add>()
  .grad([](G c, const Tensor& g) -> Grads {
    const Value& alpha = c.arg(2);
    return {g, !c.needs(1) ? Tensor() : alpha.number() == 1 ? g : mul(g, alpha.scalar())};
  })
  .inplace()
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4), alpha=2", "f(2,1,3), f(4,1)", "f(2,3), 2.5", "f(), f(3)", "f(0,3), f(3)"})
  .error("f(2,3), f(4)", ErrorKind::Runtime, "do not broadcast");

STRATA_OP(sub, "sub(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor")
  .doc("input - alpha * other, with broadcasting and type promotion.")
  .pointwise<fn::Sub>()
  .dtypes(kNumericTypes, "use logical_xor for bool tensors")
  .grad([](G c, const Tensor& g) -> Grads {
    const Value& alpha = c.arg(2);
    return {g, !c.needs(1) ? Tensor() : alpha.number() == 1 ? neg(g) : mul(g, -alpha.number())};
  })
  .inplace()
  .alias("subtract")
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4), alpha=2", "f(2,3), 2", "f(), f(2)"})
  .error("b(3), b(3)", ErrorKind::NotImplemented, "use logical_xor");

STRATA_OP(rsub, "rsub(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor")
  .doc("other - alpha * input: sub with its operands exchanged.")
  .pointwise<fn::Rsub>()
  .dtypes(kNumericTypes, "use logical_xor for bool tensors")
  .grad([](G c, const Tensor& g) -> Grads {
    const Value& alpha = c.arg(2);
    return {!c.needs(0) ? Tensor() : alpha.number() == 1 ? neg(g) : mul(g, -alpha.number()), g};
  })
  .samples({"f(3,4), f(4)", "f(3), 1.5, alpha=2"});

STRATA_OP(mul, "mul(Tensor input, Tensor other) -> Tensor")
  .doc("input * other, with broadcasting and type promotion.")
  .pointwise<fn::Mul>()
  .saves_each_for_the_other()
  .grad([](G c, const Tensor& g) -> Grads {
    return {c.needs(0) ? mul(g, c.operand(1)) : Tensor(), c.needs(1) ? mul(g, c.operand(0)) : Tensor()};
  })
  .inplace()
  .alias("multiply")
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)", "f(2,3), -1.5", "f(2,1), f(3)", "f(), f()"})
  .error("f(2,3), f(4)", ErrorKind::Runtime, "do not broadcast");

namespace {
int rounding_variant(const Args& args) {
  if (!args[2]) return 0;
  const std::string_view mode = args[2].string();
  if (mode == "trunc") return 1;
  if (mode == "floor") return 2;
  fail(ErrorKind::Runtime, fmt::format("div: rounding_mode '{}' is unknown; expected None, 'trunc' or 'floor'", mode));
}
// d(a / b)/db = -a / b^2
Tensor divisor_grad(const Tensor& g, const Operand& a, const Tensor& b) {
  return neg(mul(div(g, b), call(op_div, Args(a, b, Value()))));
}
}  // namespace

STRATA_OP(div, "div(Tensor input, Tensor other, *, str? rounding_mode=None) -> Tensor")
  .doc(
    "input / other. Integers give a floating-point quotient, unless rounding_mode is 'trunc' (towards zero) or "
    "'floor'.")
  .pointwise<fn::Div, fn::DivTrunc, fn::DivFloor>(rounding_variant)
  .saves({1})
  .saves_for_second({0})
  .grad([](G c, const Tensor& g) -> Grads {
    if (c.arg(2)) {  // steps: the slope is 0 everywhere
      return {c.needs(0) ? no_slope(g) : Tensor(), c.needs(1) ? no_slope(g) : Tensor()};
    }
    return {c.needs(0) ? div(g, c.operand(1)) : Tensor(),
            c.needs(1) ? divisor_grad(g, c.operand(0), c.input(1)) : Tensor()};
  })
  .inplace()
  .alias("divide")
  .alias("true_divide")
  .samples({"f(3,4), p(3,4)", "f(3,4), p(4)", "f(2,3), 4", "f(3,4), p(3,4), rounding_mode='floor'",
            "f(3,4), p(4), rounding_mode='trunc'"})
  .error("f(3), f(3), rounding_mode='up'", ErrorKind::Runtime, "expected None, 'trunc' or 'floor'");

STRATA_OP(floor_divide, "floor_divide(Tensor input, Tensor other) -> Tensor")
  .doc("The quotient rounded down, as Python's //.")
  .pointwise<fn::DivFloor>()
  .dtypes(kNumericTypes)
  .grad([](G, const Tensor& g) -> Grads {
    return {no_slope(g), no_slope(g)};
  })
  .inplace()
  .samples({"f(3,4), p(4)", "f(5), 0.7"})
  .error("i5(3), 0", ErrorKind::Runtime, "ZeroDivisionError");

STRATA_OP(remainder, "remainder(Tensor input, Tensor other) -> Tensor")
  .doc("What is left after floor division, with the sign of the divisor, as Python's %.")
  .pointwise<fn::Remainder>()
  .dtypes(kNumericTypes)
  .saves_for_second({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    if (!c.needs(1)) return {g};
    return {g, neg(mul(g, call(op_floor_divide, Args(c.operand(0), c.operand(1)))))};
  })
  .inplace()
  .samples({"f(3,4), p(4)", "f(5), 0.7"})
  .error("i5(3), 0", ErrorKind::Runtime, "ZeroDivisionError");

STRATA_OP(fmod, "fmod(Tensor input, Tensor other) -> Tensor")
  .doc("What is left after division towards zero, with the sign of the input, as C's fmod.")
  .pointwise<fn::Fmod>()
  .dtypes(kNumericTypes)
  .saves_for_second({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    if (!c.needs(1)) return {g};
    return {g, neg(mul(g, call(op_div, Args(c.operand(0), c.operand(1), "trunc"))))};
  })
  .inplace()
  .samples({"f(3,4), p(4)", "f(5), 0.7"});

namespace {
// g, and half of it where the operands are equal.
Tensor halved_at_ties(G c, const Tensor& g) {
  return where(call(op_eq, Args(c.operand(0), c.operand(1))), div(g, 2), g);
}
// Ties share the gradient; `wins` compares the first operand with the second, `loses` is its opposite. NaN, which does neither,
// gives it to both.
Grads split_at_ties(G c, const Tensor& g, const OpRecord& wins, const OpRecord& loses) {
  const Tensor shared = halved_at_ties(c, g);
  Grads out;
  if (c.needs(0)) out.t[0] = masked_fill(shared, call(loses, Args(c.operand(0), c.operand(1))), 0);
  if (c.needs(1)) out.t[1] = masked_fill(shared, call(wins, Args(c.operand(0), c.operand(1))), 0);
  return out;
}
// The same where NaN yields to the other operand; `holds` is true of a winner and of a tie.
Grads split_without_nan(G c, const Tensor& g, const OpRecord& holds) {
  const Tensor shared = halved_at_ties(c, g), tie = call(op_eq, Args(c.operand(0), c.operand(1)));
  const Tensor first = logical_or(call(holds, Args(c.operand(0), c.operand(1))), call(op_isnan, Args(c.operand(1))));
  Grads out;
  if (c.needs(0)) out.t[0] = masked_fill(shared, logical_not(first), 0);
  if (c.needs(1)) out.t[1] = masked_fill(shared, logical_and(first, logical_not(tie)), 0);
  return out;
}
}  // namespace

STRATA_OP(maximum, "maximum(Tensor input, Tensor other) -> Tensor")
  .doc("The larger of two elements; NaN if one of them is NaN.")
  .pointwise<fn::Maximum>()
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads { return split_at_ties(c, g, op_gt, op_lt); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)"});

STRATA_OP(minimum, "minimum(Tensor input, Tensor other) -> Tensor")
  .doc("The smaller of two elements; NaN if one of them is NaN.")
  .pointwise<fn::Minimum>()
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads { return split_at_ties(c, g, op_lt, op_gt); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)"});

STRATA_OP(fmax, "fmax(Tensor input, Tensor other) -> Tensor")
  .doc("The larger of two elements; a NaN yields to the other one.")
  .pointwise<fn::Fmax>()
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads { return split_without_nan(c, g, op_ge); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)"});

STRATA_OP(fmin, "fmin(Tensor input, Tensor other) -> Tensor")
  .doc("The smaller of two elements; a NaN yields to the other one.")
  .pointwise<fn::Fmin>()
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads { return split_without_nan(c, g, op_le); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)"});

namespace {
void check_bounds(const Args& args) {
  STRATA_CHECK(args[1] || args[2], Runtime, "clamp: at least one of min and max must be given");
}
int clamp_variant(const Args& args) { return check_bounds(args), 0; }
}  // namespace

STRATA_OP(clamp, "clamp(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor")
  .doc(
    "Elements limited to [min, max]; the bounds are numbers or tensors, either may be missing. Where min > max the "
    "result is max.")
  .pointwise<fn::Clamp>(clamp_variant)
  .dtypes(kNumericTypes)
  .saves({0, 1, 2})
  .grad([](G c, const Tensor& g) -> Grads {
    const Operand x = c.operand(0);
    Grads out;
    if (c.needs(0))
      out.t[0] = call(op_clamp_backward,
                      Args(g, x, c.arg(1) ? c.operand(1).value : Value(), c.arg(2) ? c.operand(2).value : Value()));
    // An element that equals a bound shares the gradient with it, unless both bounds are equal.
    const auto compare = [&](const OpRecord& op, uint32_t a, uint32_t b) {
      return call(op, Args(c.operand(a), c.operand(b)));
    };
    const auto bound = [&](uint32_t at, const OpRecord& beyond, uint32_t other) {
      Tensor active = compare(beyond, 0, at), tie = compare(op_eq, 0, at);
      if (!c.arg(other)) return where(tie, div(g, 2), masked_fill(g, compare(at == 1 ? op_gt : op_lt, 0, at), 0));
      tie = logical_and(tie, compare(op_lt, 1, 2));
      active = at == 1 ? logical_and(active, compare(op_le, 1, 2)) : logical_or(active, compare(op_gt, 1, 2));
      return where(tie, div(g, 2), where(active, g, 0));
    };
    if (c.needs(1)) out.t[1] = bound(1, op_lt, 2);
    if (c.needs(2)) out.t[2] = bound(2, op_gt, 1);
    return out;
  })
  .inplace()
  .alias("clip")
  .samples({"f(3,4), -0.5, 0.5", "f(3,4), min=-0.25", "f(3,4), max=0.25", "f(3,4), f(4), o(4)", "f(3,4), min=f(3,4)",
            "f(3,4), None, f(4)"})
  .error("f(3)", ErrorKind::Runtime, "at least one of min and max");

STRATA_OP(clamp_min, "clamp_min(Tensor input, Tensor min) -> Tensor")
  .doc("Elements raised to at least min, which is a number or a tensor.")
  .pointwise<fn::Maximum>()
  .dtypes(kNumericTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    if (c.arg(1).tag == Tag::Tensor) return split_at_ties(c, g, op_gt, op_lt);
    return {where(call(op_gt, Args(c.operand(0), c.operand(1))), g, 0)};
  })
  .inplace()
  .samples({"f(3,4), -0.25", "f(3,4), f(4)"});

STRATA_OP(clamp_max, "clamp_max(Tensor input, Tensor max) -> Tensor")
  .doc("Elements lowered to at most max, which is a number or a tensor.")
  .pointwise<fn::Minimum>()
  .dtypes(kNumericTypes)
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    if (c.arg(1).tag == Tag::Tensor) return split_at_ties(c, g, op_lt, op_gt);
    return {where(call(op_lt, Args(c.operand(0), c.operand(1))), g, 0)};
  })
  .inplace()
  .samples({"f(3,4), 0.25", "f(3,4), f(4)"});

STRATA_OP(neg, "neg(Tensor input) -> Tensor")
  .doc("-input.")
  .pointwise<fn::Neg>()
  .dtypes(kNumericTypes, "use logical_not for bool tensors")
  .grad([](G, const Tensor& g) -> Grads { return {neg(g)}; })
  .inplace()
  .alias("negative")
  .samples({"f(3,4)", "f()", "f(0,2)"})
  .error("b(3)", ErrorKind::NotImplemented, "the bool dtype is not supported; use logical_not");

STRATA_OP(positive, "positive(Tensor input) -> Tensor")
  .doc("+input: a copy.")
  .pointwise<fn::Copy>()
  .dtypes(kNumericTypes)
  .grad([](G, const Tensor& g) -> Grads { return {g}; })
  .samples({"f(3,4)"});

STRATA_OP(abs, "abs(Tensor input) -> Tensor")
  .doc("The absolute value of each element.")
  .pointwise<fn::Abs>()
  .dtypes(kNumericTypes)
  .saves({0})
  .grad([](G c, const Tensor& g) -> Grads { return {mul(g, sign(c.input(0)))}; })
  .inplace()
  .alias("absolute")
  .samples({"f(3,4)", "f()"});

STRATA_OP(sign, "sign(Tensor input) -> Tensor")
  .doc("-1, 0 or 1 for negative, zero and positive elements.")
  .pointwise<fn::Sign>()
  .grad([](G, const Tensor& g) -> Grads { return {no_slope(g)}; })
  .inplace()
  .alias("sgn")
  .samples({"f(3,4)"});

STRATA_OP(square, "square(Tensor input) -> Tensor")
  .doc("The square of each element; an int64 for a bool.")
  .pointwise<fn::Square>()
  .infer([](const Call& c) {
    infer_pointwise(c);
    if (c.out().dtype() == DType::Bool) c.out()->dtype = DType::I64;
  })
  .saves({0})
  .grad([](G c, const Tensor& g) -> Grads { return {mul(g, mul(c.input(0), 2))}; })
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(reciprocal, "reciprocal(Tensor input) -> Tensor")
  .doc("1 / input.")
  .pointwise<fn::Reciprocal>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads { return {neg(mul(g, square(c.result())))}; })
  .inplace()
  .samples({"p(3,4)"});

STRATA_OP(heaviside, "heaviside(Tensor input, Tensor values) -> Tensor")
  .doc("The step function: 0 below zero, 1 above, and `values` at zero.")
  .pointwise<fn::Heaviside>()
  .grad(no_derivative)
  .inplace()
  .samples({"f(3,4), f(4)"});

STRATA_OP(copysign, "copysign(Tensor input, Tensor other) -> Tensor")
  .doc("The magnitude of input with the sign of other, where -0.0 counts as negative.")
  .pointwise<fn::Copysign>()
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    if (!c.needs(0)) return {Tensor(), no_slope(g)};
    const Tensor x = c.input(0), flip = ne(signbit(x), call(op_signbit, Args(c.operand(1))));
    const Tensor d = masked_fill(where(flip, neg(g), g), eq(x, 0), 0);
    return {d, c.needs(1) ? no_slope(g) : Tensor()};
  })
  .inplace()
  .samples({"f(3,4), f(4)", "f(3), -1.0"});

STRATA_OP(hypot, "hypot(Tensor input, Tensor other) -> Tensor")
  .doc("sqrt(input^2 + other^2) without overflow on the way.")
  .pointwise<fn::Hypot>()
  .saves({0, 1})
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads {
    const auto part = [&](uint32_t i) { return c.needs(i) ? mul(g, div(c.input(i), c.result())) : Tensor(); };
    return {part(0), part(1)};
  })
  .inplace()
  .samples({"p(3,4), f(4)"});

STRATA_OP(atan2, "atan2(Tensor input, Tensor other) -> Tensor")
  .doc("The angle of the point (other, input), from -pi to pi.")
  .pointwise<fn::Atan2>()
  .saves({0, 1})
  .grad([](G c, const Tensor& g) -> Grads {
    const Operand y = c.operand(0), x = c.operand(1);
    const Tensor inverse = reciprocal(add(call(op_square, Args(y)), call(op_square, Args(x))));
    const Tensor scaled = mul(g, masked_fill(inverse, isinf(inverse), 0));  // no direction at the origin
    return {c.needs(0) ? mul(scaled, x) : Tensor(), c.needs(1) ? neg(mul(scaled, y)) : Tensor()};
  })
  .inplace()
  .alias("arctan2")
  .samples({"f(3,4), p(4)"});

STRATA_OP(nextafter, "nextafter(Tensor input, Tensor other) -> Tensor")
  .doc("The next representable number after input in the direction of other.")
  .pointwise<fn::NextAfter>()
  .grad(no_derivative)
  .dtypes({DType::F32, DType::F64})
  .inplace()
  .samples({"f(3,4), f(3,4)"});

}  // namespace strata
