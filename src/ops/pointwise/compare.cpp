// Comparisons, logic, predicates of single values, bitwise ops, and selection between values.
#include "strata/args/pointwise/compare.h"
#include "cuda/pointwise/where.h"
#include "device/functors/bitwise.h"
#include "device/functors/compare.h"
#include "device/functors/complex.h"
#include "device/functors/ternary.h"
#include "ops/pointwise/pointwise.h"
#include "record/promotion.h"

namespace strata {

STRATA_OP(eq, "eq(Tensor input, Tensor other) -> Tensor")
  .doc("Whether elements are equal, as a bool tensor.")
  .pointwise<fn::Eq>()
  .inplace()
  .complex<fn::ComplexEq>()
  .samples({"i5(3,4), i5(4)", "f(3,4), f(3,4)", "i5(5), 2"})
  .error("f(2,3), f(4)", ErrorKind::Runtime, "do not broadcast");
STRATA_OP(ne, "ne(Tensor input, Tensor other) -> Tensor")
  .doc("Whether elements differ, as a bool tensor.")
  .pointwise<fn::Ne>()
  .inplace()
  .alias("not_equal")
  .complex<fn::ComplexNe>()
  .samples({"i5(3,4), i5(4)", "i5(5), 2"});
STRATA_OP(lt, "lt(Tensor input, Tensor other) -> Tensor")
  .doc("input < other, as a bool tensor.")
  .pointwise<fn::Lt>()
  .inplace()
  .alias("less")
  .samples({"f(3,4), f(4)", "i5(5), 2"});
STRATA_OP(le, "le(Tensor input, Tensor other) -> Tensor")
  .doc("input <= other, as a bool tensor.")
  .pointwise<fn::Le>()
  .inplace()
  .alias("less_equal")
  .samples({"f(3,4), f(4)", "i5(5), 2"});
STRATA_OP(gt, "gt(Tensor input, Tensor other) -> Tensor")
  .doc("input > other, as a bool tensor.")
  .pointwise<fn::Gt>()
  .inplace()
  .alias("greater")
  .samples({"f(3,4), f(4)", "i5(5), 2"});
STRATA_OP(ge, "ge(Tensor input, Tensor other) -> Tensor")
  .doc("input >= other, as a bool tensor.")
  .pointwise<fn::Ge>()
  .inplace()
  .alias("greater_equal")
  .samples({"f(3,4), f(4)", "i5(5), 2"});

STRATA_OP(logical_and, "logical_and(Tensor input, Tensor other) -> Tensor")
  .doc("Whether both elements are true (not zero).")
  .pointwise<fn::LogicalAnd>()
  .inplace()
  .complex<fn::ComplexLogicalAnd>()
  .samples({"b(3,4), b(4)", "i5(3), i5(3)", "f(3), f(3)"});
STRATA_OP(logical_or, "logical_or(Tensor input, Tensor other) -> Tensor")
  .doc("Whether one of two elements is true (not zero).")
  .pointwise<fn::LogicalOr>()
  .inplace()
  .complex<fn::ComplexLogicalOr>()
  .samples({"b(3,4), b(4)", "i5(3), i5(3)"});
STRATA_OP(logical_xor, "logical_xor(Tensor input, Tensor other) -> Tensor")
  .doc("Whether exactly one of two elements is true (not zero).")
  .pointwise<fn::LogicalXor>()
  .inplace()
  .complex<fn::ComplexLogicalXor>()
  .samples({"b(3,4), b(4)", "i5(3), i5(3)"});
STRATA_OP(logical_not, "logical_not(Tensor input) -> Tensor")
  .doc("Whether an element is false (zero).")
  .pointwise<fn::LogicalNot>()
  .inplace()
  .complex<fn::ComplexLogicalNot>()
  .samples({"b(3,4)", "i5(3)", "f(3)"});

STRATA_OP(isnan, "isnan(Tensor input) -> Tensor")
  .doc("Whether an element is NaN.")
  .pointwise<fn::IsNan>()
  .complex<fn::ComplexIsNan>()
  .samples({"f(3,4)"});
STRATA_OP(isinf, "isinf(Tensor input) -> Tensor")
  .doc("Whether an element is infinite.")
  .pointwise<fn::IsInf>()
  .complex<fn::ComplexIsInf>()
  .samples({"f(3,4)"});
STRATA_OP(isfinite, "isfinite(Tensor input) -> Tensor")
  .doc("Whether an element is neither infinite nor NaN.")
  .pointwise<fn::IsFinite>()
  .complex<fn::ComplexIsFinite>()
  .samples({"f(3,4)"});
STRATA_OP(isposinf, "isposinf(Tensor input) -> Tensor")
  .doc("Whether an element is positive infinity.")
  .pointwise<fn::IsPosInf>()
  .samples({"f(3,4)"});
STRATA_OP(isneginf, "isneginf(Tensor input) -> Tensor")
  .doc("Whether an element is negative infinity.")
  .pointwise<fn::IsNegInf>()
  .samples({"f(3,4)"});
STRATA_OP(signbit, "signbit(Tensor input) -> Tensor")
  .doc("Whether the sign bit is set: of negative numbers, and of -0.0.")
  .pointwise<fn::SignBit>()
  .samples({"f(3,4)"});
STRATA_OP(isclose,
          "isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor")
  .doc("Whether |input - other| <= atol + rtol * |other|.")
  .pointwise<fn::IsClose>()
  .infer([](const args::isclose& c) {
    const Value &a = c.input_value(), &b = c.other_value();
    STRATA_CHECK(!(c.rtol() < 0) && !(c.atol() < 0), Runtime,
                 "isclose: rtol and atol must be greater than or equal to zero, but got {} and {}", c.rtol(), c.atol());
    STRATA_CHECK(a.tag != Tag::Tensor || b.tag != Tag::Tensor || a.tensor->dtype == b.tensor->dtype, Runtime,
                 "isclose: {} did not match {}; convert one with to()", name_of(a.tensor->dtype),
                 name_of(b.tensor->dtype));
    infer_pointwise(c);
  })
  .complex<fn::ComplexIsClose>()
  .samples({"f(3,4), f(3,4)", "f(3), f(3), rtol=10.0", "f(3), f(3), equal_nan=True"})
  .error("f(3), f(3), rtol=-0.4", ErrorKind::Runtime, "greater than or equal to zero")
  .error("f(3), f(3), atol=-0.4", ErrorKind::Runtime, "greater than or equal to zero")
  .error("f(3), i5(3)", ErrorKind::Runtime, "did not match");

// --- bits -----------------------------------------------------------------------------------------------------------

STRATA_OP(bitwise_and, "bitwise_and(Tensor input, Tensor other) -> Tensor")
  .doc("input & other, for integers and bool.")
  .pointwise<fn::BitAnd>()
  .inplace()
  .samples({"i9(3,4), i9(4)", "b(3), b(3)", "i9(3), 3"})
  .error("f(3), f(3)", ErrorKind::NotImplemented, "float32 dtype is not supported");
STRATA_OP(bitwise_or, "bitwise_or(Tensor input, Tensor other) -> Tensor")
  .doc("input | other, for integers and bool.")
  .pointwise<fn::BitOr>()
  .inplace()
  .samples({"i9(3,4), i9(4)", "b(3), b(3)"});
STRATA_OP(bitwise_xor, "bitwise_xor(Tensor input, Tensor other) -> Tensor")
  .doc("input ^ other, for integers and bool.")
  .pointwise<fn::BitXor>()
  .inplace()
  .samples({"i9(3,4), i9(4)", "b(3), b(3)"});

namespace {
int is_bool(const Args& args) {
  const args::bitwise_not a(args);
  return a.has_input() && a.input().dtype == DType::Bool;
}
}  // namespace

STRATA_OP(bitwise_not, "bitwise_not(Tensor input) -> Tensor")
  .doc("~input, for integers; logical negation for bool.")
  .pointwise<fn::BitNot, fn::LogicalNot>(is_bool)
  .inplace()
  .samples({"i9(3,4)", "b(3)"});
STRATA_OP(bitwise_left_shift, "bitwise_left_shift(Tensor input, Tensor other) -> Tensor")
  .doc("input << other.")
  .pointwise<fn::ShiftLeft>()
  .dtypes(kIntegerTypes)
  .inplace()
  .samples({"i9(3,4), i5(4)", "i9(3), 2"});
STRATA_OP(bitwise_right_shift, "bitwise_right_shift(Tensor input, Tensor other) -> Tensor")
  .doc("input >> other, keeping the sign.")
  .pointwise<fn::ShiftRight>()
  .dtypes(kIntegerTypes)
  .inplace()
  .samples({"i9(3,4), i5(4)", "i9(3), 2"});
STRATA_OP(gcd, "gcd(Tensor input, Tensor other) -> Tensor")
  .doc("The greatest common divisor.")
  .pointwise<fn::Gcd>()
  .dtypes(kIntegerTypes)
  .inplace()
  .samples({"i9(3,4), i9(4)"});
STRATA_OP(lcm, "lcm(Tensor input, Tensor other) -> Tensor")
  .doc("The least common multiple.")
  .pointwise<fn::Lcm>()
  .dtypes(kIntegerTypes)
  .inplace()
  .samples({"i9(3,4), i9(4)"});

// --- choices --------------------------------------------------------------------------------------------------------

STRATA_OP(where, "where(Tensor condition, Tensor input, Tensor other) -> Tensor")
  .doc("Elements of input where the condition is true, of other where it is not. Either may be a number.")
  .cuda("same_type", cuda::run_where, cuda::where_ready)
  .pointwise<fn::Where>()
  .saves({"condition"})
  .grad([](const grads::where& c, const Tensor& g) -> Grads {
    const Tensor condition = c.condition();
    return {Tensor(), c.needs_input() ? where(condition, g, 0) : Tensor(),
            c.needs_other() ? masked_fill(g, condition, 0) : Tensor()};
  })
  .complex<fn::ComplexWhere>()
  .samples({"b(3,4), f(3,4), f(3,4)", "b(3,1), f(4), f(3,4)", "b(4), f(4), 0", "b(4), 1.5, f(3,4)"})
  .error("b(3), f(4), f(4)", ErrorKind::Runtime, "do not broadcast");

STRATA_OP(masked_fill, "masked_fill(Tensor input, Tensor mask, Tensor value) -> Tensor")
  .doc("input with the value (a number or a zero-dimensional tensor) where the mask is true.")
  .pointwise<fn::MaskedFill>()
  .infer([](const args::masked_fill& c) {
    STRATA_CHECK(!c.has_value() || c.value_tensor().ndim == 0, Runtime,
                 "masked_fill: only supports a 0-dimensional value tensor, but got a tensor with {} dimension(s)",
                 c.value_tensor().ndim);
    infer_pointwise(c);
    // On a device the kernel converts the value.
    if (c.has_value() && c.value_tensor().dtype != c.out()->dtype && c.value_tensor().device.type == DeviceType::Cpu)
      check_in_range(c.share_value().item(), c.out()->dtype, "masked_fill");
  })
  .saves({"mask"})
  .grad([](const grads::masked_fill& c, const Tensor& g) -> Grads {
    const Tensor mask = c.mask();
    return {c.needs_input() ? masked_fill(g, mask, 0) : Tensor(), Tensor(),
            c.needs_value() ? where(mask, g, 0) : Tensor()};
  })
  .inplace()
  .complex<fn::ComplexMaskedFill>()
  .samples({"f(3,4), b(3,4), 2.5", "f(3,4), b(4), f()"})
  .error("f(2,2), b(), f(1)", ErrorKind::Runtime, "0-dimensional value tensor")
  .error("i9(3), b(3), 1e30", ErrorKind::Runtime, "without overflow");

STRATA_OP(lerp, "lerp(Tensor input, Tensor end, Tensor weight) -> Tensor")
  .doc("input + weight * (end - input); the weight is a number or a tensor.")
  .pointwise<fn::Lerp>()
  .dtypes(kFloatingTypes)
  .saves({"input", "end", "weight"})
  .grad([](const grads::lerp& c, const Tensor& g) -> Grads {
    const Operand weight = c.weight_operand();
    grads::lerp::Result out;
    if (c.needs_input())
      out.input =
        weight.value.is_number() ? mul(g, 1 - weight.value.number()) : mul(g, conjugated(rsub(c.weight(), 1)));
    if (c.needs_end()) out.end = times_conjugate(g, weight);
    if (c.needs_weight()) out.weight = mul(g, conjugated(sub(c.end(), c.input_operand())));
    return out;
  })
  .inplace()
  .complex<fn::ComplexLerp>()
  .samples({"f(3,4), f(4), 0.3", "f(3,4), f(3,4), f(4)", "f(3), f(3), 0.8"});

STRATA_OP(addcmul, "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor")
  .doc("input + value * tensor1 * tensor2.")
  .pointwise<fn::Addcmul>()
  .dtypes(kNumericTypes)
  .saves({"tensor1", "tensor2"})
  .grad([](const grads::addcmul& c, const Tensor& g) -> Grads {
    const Tensor scaled = times_conjugate(g, c.value());
    return {g, c.needs_tensor1() ? times_conjugate(scaled, c.tensor2_operand()) : Tensor(),
            c.needs_tensor2() ? times_conjugate(scaled, c.tensor1_operand()) : Tensor()};
  })
  .inplace()
  .autocast_cuda(Autocast::Promote)
  .complex<fn::ComplexAddcmul>()
  .samples({"f(3,4), f(4), f(3,1)", "~f(3,4), f(4), f(4), value=0.5"});

STRATA_OP(addcdiv, "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor")
  .doc("input + value * tensor1 / tensor2.")
  .pointwise<fn::Addcdiv>()
  .dtypes(kFloatingTypes, "convert the tensors to a floating-point dtype first")
  .saves({"tensor1", "tensor2"})
  .grad([](const grads::addcdiv& c, const Tensor& g) -> Grads {
    const Tensor scaled = times_conjugate(g, c.value());
    grads::addcdiv::Result out;
    out.input = g;
    if (c.needs_tensor1()) out.tensor1 = over_conjugate(scaled, c.tensor2_operand());
    if (c.needs_tensor2())
      out.tensor2 = neg(div(times_conjugate(scaled, c.tensor1_operand()), conjugated(square(c.tensor2()))));
    return out;
  })
  .inplace()
  .autocast_cuda(Autocast::Promote)
  .complex<fn::ComplexAddcdiv>()
  .samples({"f(3,4), f(4), p(3,1)", "f(3,4), f(4), p(4), value=0.5"});

}  // namespace strata
