// Sums, products, quotients, extrema, powers and signs.
#include <fmt/core.h>

#include "device/functors/arithmetic.h"
#include "device/functors/complex.h"
#include "ops/pointwise/pointwise.h"
#include "strata/args/pointwise/arithmetic.h"

namespace strata {

STRATA_OP(add, "add(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor")
  .doc("input + alpha * other, with broadcasting and type promotion.")
  .pointwise<fn::Add>()
  .grad([](const grads::add& c, const Tensor& g) -> Grads {
    return {g, c.needs_other() ? times_conjugate(g, c.alpha()) : Tensor()};
  })
  .inplace()
  .complex<fn::ComplexAdd>()
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4), alpha=2", "f(2,1,3), f(4,1)", "f(2,3), 2.5", "f(), f(3)", "f(0,3), f(3)"})
  .error("f(2,3), f(4)", ErrorKind::Runtime, "do not broadcast");

STRATA_OP(sub, "sub(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor")
  .doc("input - alpha * other, with broadcasting and type promotion.")
  .pointwise<fn::Sub>()
  .dtypes(kNumericTypes, "use logical_xor for bool tensors")
  .grad([](const grads::sub& c, const Tensor& g) -> Grads {
    return {g, c.needs_other() ? neg(times_conjugate(g, c.alpha())) : Tensor()};
  })
  .inplace()
  .alias("subtract")
  .complex<fn::ComplexSub>()
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4), alpha=2", "f(2,3), 2", "f(), f(2)"})
  .error("b(3), b(3)", ErrorKind::NotImplemented, "use logical_xor");

STRATA_OP(rsub, "rsub(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor")
  .doc("other - alpha * input: sub with its operands exchanged.")
  .pointwise<fn::Rsub>()
  .dtypes(kNumericTypes, "use logical_xor for bool tensors")
  .grad([](const grads::rsub& c, const Tensor& g) -> Grads {
    return {c.needs_input() ? neg(times_conjugate(g, c.alpha())) : Tensor(), g};
  })
  .complex<fn::ComplexRsub>()
  .samples({"f(3,4), f(4)", "f(3), 1.5, alpha=2"});

STRATA_OP(mul, "mul(Tensor input, Tensor other) -> Tensor")
  .doc("input * other, with broadcasting and type promotion.")
  .pointwise<fn::Mul>()
  .saves_each_for_the_other()
  .grad([](const grads::mul& c, const Tensor& g) -> Grads {
    return {c.needs_input() ? times_conjugate(g, c.other_operand()) : Tensor(),
            c.needs_other() ? times_conjugate(g, c.input_operand()) : Tensor()};
  })
  .inplace()
  .alias("multiply")
  .complex<fn::ComplexMul>()
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)", "f(2,3), -1.5", "f(2,1), f(3)", "f(), f()"})
  .error("f(2,3), f(4)", ErrorKind::Runtime, "do not broadcast");

namespace {
int rounding_variant(const Args& args) {
  const args::div a(args);
  if (!a.rounding_mode()) return 0;
  for (const uint32_t k : {0u, 1u})
    STRATA_CHECK(!args.is_tensor(k) || !is_complex(args.tensor(k).dtype), NotImplemented,
                 "div: rounding_mode is not supported for {}", name_of(args.tensor(k).dtype));
  const std::string_view mode = *a.rounding_mode();
  if (mode == "trunc") return 1;
  if (mode == "floor") return 2;
  fail(ErrorKind::Runtime, fmt::format("div: rounding_mode '{}' is unknown; expected None, 'trunc' or 'floor'", mode));
}
// d(a / b)/db = -a / b^2
Tensor divisor_grad(const Tensor& g, const Operand& a, const Tensor& b) {
  return neg(mul(div(g, conjugated(b)), conjugated(call(op_div, Args(a, b, Value())))));
}
}  // namespace

STRATA_OP(div, "div(Tensor input, Tensor other, *, str? rounding_mode=None) -> Tensor")
  .doc(
    "input / other. Integers give a floating-point quotient, unless rounding_mode is 'trunc' (towards zero) or "
    "'floor'.")
  .pointwise<fn::Div, fn::DivTrunc, fn::DivFloor>(rounding_variant)
  .saves({"other"})
  .saves_for_second({"input"})
  .grad([](const grads::div& c, const Tensor& g) -> Grads {
    if (c.rounding_mode()) {  // a step function: the slope is 0 everywhere
      return {c.needs_input() ? no_slope(g) : Tensor(), c.needs_other() ? no_slope(g) : Tensor()};
    }
    return {c.needs_input() ? over_conjugate(g, c.other_operand()) : Tensor(),
            c.needs_other() ? divisor_grad(g, c.input_operand(), c.other()) : Tensor()};
  })
  .inplace()
  .alias("divide")
  .alias("true_divide")
  .complex<fn::ComplexDiv>()
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
  .doc("The remainder of floor division, with the sign of the divisor, as Python's %.")
  .pointwise<fn::Remainder>()
  .dtypes(kNumericTypes)
  .saves_for_second({"input", "other"})
  .grad([](const grads::remainder& c, const Tensor& g) -> Grads {
    if (!c.needs_other()) return {g};
    return {g, neg(mul(g, call(op_floor_divide, Args(c.input_operand(), c.other_operand()))))};
  })
  .inplace()
  .samples({"f(3,4), p(4)", "f(5), 0.7"})
  .error("i5(3), 0", ErrorKind::Runtime, "ZeroDivisionError");

STRATA_OP(fmod, "fmod(Tensor input, Tensor other) -> Tensor")
  .doc("The remainder of division towards zero, with the sign of the input, as C's fmod.")
  .pointwise<fn::Fmod>()
  .dtypes(kNumericTypes)
  .saves_for_second({"input", "other"})
  .grad([](const grads::fmod& c, const Tensor& g) -> Grads {
    if (!c.needs_other()) return {g};
    return {g, neg(mul(g, call(op_div, Args(c.input_operand(), c.other_operand(), "trunc"))))};
  })
  .inplace()
  .samples({"f(3,4), p(4)", "f(5), 0.7"});

namespace {
// g, and half of it where the operands are equal.
Tensor halved_at_ties(const grads::maximum& c, const Tensor& g) {
  return where(call(op_eq, Args(c.input_operand(), c.other_operand())), div(g, 2), g);
}
// Ties share the gradient; `wins` compares the first operand with the second, `loses` is its opposite. NaN, for which
// both are false, gives it to both.
Grads split_at_ties(G context, const Tensor& g, const OpRecord& wins, const OpRecord& loses) {
  const grads::maximum c(context);  // the others have the same two operands
  const Tensor shared = halved_at_ties(c, g);
  grads::maximum::Result out;
  if (c.needs_input()) out.input = masked_fill(shared, call(loses, Args(c.input_operand(), c.other_operand())), 0);
  if (c.needs_other()) out.other = masked_fill(shared, call(wins, Args(c.input_operand(), c.other_operand())), 0);
  return out;
}
// The same for ops where NaN yields to the other operand; `holds` is true for a winner and for a tie.
Grads split_without_nan(G c, const Tensor& g, const OpRecord& holds) {
  const grads::fmax a(c);
  const Tensor shared = halved_at_ties(grads::maximum(c), g),
               tie = call(op_eq, Args(a.input_operand(), a.other_operand()));
  const Tensor first =
    logical_or(call(holds, Args(a.input_operand(), a.other_operand())), call(op_isnan, Args(a.other_operand())));
  grads::fmax::Result out;
  if (a.needs_input()) out.input = masked_fill(shared, logical_not(first), 0);
  if (a.needs_other()) out.other = masked_fill(shared, logical_and(first, logical_not(tie)), 0);
  return out;
}
}  // namespace

STRATA_OP(maximum, "maximum(Tensor input, Tensor other) -> Tensor")
  .doc("The larger of two elements; NaN if one of them is NaN.")
  .pointwise<fn::Maximum>()
  .saves({"input", "other"})
  .grad([](G c, const Tensor& g) -> Grads { return split_at_ties(c, g, op_gt, op_lt); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)"});

STRATA_OP(minimum, "minimum(Tensor input, Tensor other) -> Tensor")
  .doc("The smaller of two elements; NaN if one of them is NaN.")
  .pointwise<fn::Minimum>()
  .saves({"input", "other"})
  .grad([](G c, const Tensor& g) -> Grads { return split_at_ties(c, g, op_lt, op_gt); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)"});

STRATA_OP(fmax, "fmax(Tensor input, Tensor other) -> Tensor")
  .doc("The larger of two elements; a NaN yields to the other one.")
  .pointwise<fn::Fmax>()
  .saves({"input", "other"})
  .grad([](G c, const Tensor& g) -> Grads { return split_without_nan(c, g, op_ge); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)"});

STRATA_OP(fmin, "fmin(Tensor input, Tensor other) -> Tensor")
  .doc("The smaller of two elements; a NaN yields to the other one.")
  .pointwise<fn::Fmin>()
  .saves({"input", "other"})
  .grad([](G c, const Tensor& g) -> Grads { return split_without_nan(c, g, op_le); })
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4)"});

namespace {
void check_bounds(const Args& args) {
  const args::clamp a(args);
  STRATA_CHECK(a.min_value() || a.max_value(), Runtime, "clamp: at least one of min and max must be given");
}
int clamp_variant(const Args& args) {
  check_bounds(args);
  return 0;
}
}  // namespace

STRATA_OP(clamp, "clamp(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor")
  .doc(
    "Elements limited to [min, max]; the bounds are numbers or tensors, either may be missing. Where min > max the "
    "result is max.")
  .pointwise<fn::Clamp>(clamp_variant)
  .dtypes(kNumericTypes)
  .saves({"input", "min", "max"})
  .grad([](const grads::clamp& c, const Tensor& g) -> Grads {
    const Operand x = c.input_operand();
    grads::clamp::Result out;
    if (c.needs_input())
      out.input = call(op_clamp_backward, Args(g, x, c.min_value() ? c.min_operand().value : Value(),
                                               c.max_value() ? c.max_operand().value : Value()));
    // An element equal to a bound shares the gradient with it, unless both bounds are equal.
    const auto compare = [](const OpRecord& op, const Operand& a, const Operand& b) { return call(op, Args(a, b)); };
    const bool both = c.min_value() && c.max_value();
    const auto ordered = [&](const OpRecord& op) { return compare(op, c.min_operand(), c.max_operand()); };
    if (c.needs_min()) {
      const Tensor tie = compare(op_eq, x, c.min_operand());
      if (both)
        out.min = where(logical_and(tie, ordered(op_lt)), div(g, 2),
                        where(logical_and(compare(op_lt, x, c.min_operand()), ordered(op_le)), g, 0));
      else out.min = where(tie, div(g, 2), masked_fill(g, compare(op_gt, x, c.min_operand()), 0));
    }
    if (c.needs_max()) {
      const Tensor tie = compare(op_eq, x, c.max_operand());
      if (both)
        out.max = where(logical_and(tie, ordered(op_lt)), div(g, 2),
                        where(logical_or(compare(op_gt, x, c.max_operand()), ordered(op_gt)), g, 0));
      else out.max = where(tie, div(g, 2), masked_fill(g, compare(op_lt, x, c.max_operand()), 0));
    }
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
  .saves({"input", "min"})
  .grad([](const grads::clamp_min& c, const Tensor& g) -> Grads {
    if (c.min_value().tag == Tag::Tensor) return split_at_ties(c, g, op_gt, op_lt);
    return {where(call(op_gt, Args(c.input_operand(), c.min_operand())), g, 0)};
  })
  .inplace()
  .samples({"f(3,4), -0.25", "f(3,4), f(4)"});

STRATA_OP(clamp_max, "clamp_max(Tensor input, Tensor max) -> Tensor")
  .doc("Elements lowered to at most max, which is a number or a tensor.")
  .pointwise<fn::Minimum>()
  .dtypes(kNumericTypes)
  .saves({"input", "max"})
  .grad([](const grads::clamp_max& c, const Tensor& g) -> Grads {
    if (c.max_value().tag == Tag::Tensor) return split_at_ties(c, g, op_lt, op_gt);
    return {where(call(op_lt, Args(c.input_operand(), c.max_operand())), g, 0)};
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
  .complex<fn::ComplexNeg>()
  .samples({"f(3,4)", "f()", "f(0,2)"})
  .error("b(3)", ErrorKind::NotImplemented, "the bool dtype is not supported; use logical_not");

STRATA_OP(positive, "positive(Tensor(a) input) -> Tensor(a)")
  .doc("+input: the tensor itself.")
  .composite([](const Tensor& input) {
    STRATA_CHECK(input.dtype() != DType::Bool, Runtime,
                 "positive: the + operator is not supported on a bool tensor; convert it to a number type");
    return input;
  })
  .no_out()
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4)"});

STRATA_OP(abs, "abs(Tensor input) -> Tensor")
  .doc("The absolute value of each element.")
  .pointwise<fn::Abs>()
  .dtypes(kNumericTypes)
  .saves({"input"})
  .grad([](const grads::abs& c, const Tensor& g) -> Grads { return {mul(g, sgn(c.input()))}; })
  .inplace()
  .alias("absolute")
  .complex<fn::ComplexAbs>()
  .samples({"f(3,4)", "f()"});

STRATA_OP(sign, "sign(Tensor input) -> Tensor")
  .doc("-1, 0 or 1 for negative, zero and positive elements.")
  .pointwise<fn::Sign>()
  .grad([](G, const Tensor& g) -> Grads { return {no_slope(g)}; })
  .inplace()
  .samples({"f(3,4)"});

STRATA_OP(sgn, "sgn(Tensor input) -> Tensor")
  .doc("sign for real numbers; input / |input| for complex ones, and 0 for 0.")
  .pointwise<fn::Sign>()
  .saves({"input"})
  .saves_result()
  .grad([](const grads::sgn& c, const Tensor& g) -> Grads {
    if (!is_complex(c.result().dtype())) return {no_slope(g)};
    // Only the part of g that is perpendicular to the number changes its direction.
    const Tensor s = c.result(), r = abs(c.input()), none = eq(r, 0);
    const Tensor along = mul(s, real(mul(g, conj(s))));
    return {masked_fill(div(sub(g, along), masked_fill(r, none, 1)), none, 0)};
  })
  .inplace()
  .complex<fn::ComplexSgn>()
  .samples({"f(3,4)"});

STRATA_OP(square, "square(Tensor input) -> Tensor")
  .doc("The square of each element; an int64 for a bool.")
  .pointwise<fn::Square>()
  .infer([](const Call& c) {
    infer_pointwise(c);
    if (c.out().dtype() == DType::Bool) c.out()->dtype = DType::I64;
  })
  .saves({"input"})
  .grad([](const grads::square& c, const Tensor& g) -> Grads { return {mul(g, conjugated(mul(c.input(), 2)))}; })
  .autocast_cuda(Autocast::Float32)
  .inplace()
  .complex<fn::ComplexSquare>()
  .samples({"f(3,4)"});

STRATA_OP(reciprocal, "reciprocal(Tensor input) -> Tensor")
  .doc("1 / input.")
  .pointwise<fn::Reciprocal>()
  .saves_result()
  .grad([](G c, const Tensor& g) -> Grads { return {neg(mul(g, conjugated(square(c.result()))))}; })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexReciprocal>()
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
  .saves({"input"})
  .saves_result()
  .grad([](const grads::copysign& c, const Tensor& g) -> Grads {
    if (!c.needs_input()) return {Tensor(), no_slope(g)};
    const Tensor x = c.input(), flip = ne(signbit(x), signbit(c.result()));  // other may have changed since
    const Tensor d = masked_fill(where(flip, neg(g), g), eq(x, 0), 0);
    return {d, c.needs_other() ? no_slope(g) : Tensor()};
  })
  .inplace()
  .samples({"f(3,4), f(4)", "f(3), -1.0"});

STRATA_OP(hypot, "hypot(Tensor input, Tensor other) -> Tensor")
  .doc("sqrt(input^2 + other^2) without intermediate overflow.")
  .pointwise<fn::Hypot>()
  .saves({"input", "other"})
  .saves_result()
  .grad([](const grads::hypot& c, const Tensor& g) -> Grads {
    return {c.needs_input() ? mul(g, div(c.input(), c.result())) : Tensor(),
            c.needs_other() ? mul(g, div(c.other(), c.result())) : Tensor()};
  })
  .inplace()
  .samples({"p(3,4), f(4)"});

STRATA_OP(atan2, "atan2(Tensor input, Tensor other) -> Tensor")
  .doc("The angle of the point (other, input), from -pi to pi.")
  .pointwise<fn::Atan2>()
  .saves({"input", "other"})
  .grad([](const grads::atan2& c, const Tensor& g) -> Grads {
    const Operand y = c.input_operand(), x = c.other_operand();
    const Tensor inverse = reciprocal(add(call(op_square, Args(y)), call(op_square, Args(x))));
    const Tensor scaled = mul(g, masked_fill(inverse, isinf(inverse), 0));  // no direction at the origin
    return {c.needs_input() ? mul(scaled, x) : Tensor(), c.needs_other() ? neg(mul(scaled, y)) : Tensor()};
  })
  .inplace()
  .alias("arctan2")
  .autocast_cuda(Autocast::Promote)
  .samples({"f(3,4), p(4)"});

STRATA_OP(nextafter, "nextafter(Tensor input, Tensor other) -> Tensor")
  .doc("The next representable number after input in the direction of other.")
  .pointwise<fn::NextAfter>()
  .grad(no_derivative)
  .dtypes({DType::F32, DType::F64})
  .inplace()
  .samples({"f(3,4), f(3,4)"});

}  // namespace strata
