// Powers and scaling by powers of two.
#include "strata/args/pointwise/power.h"
#include "cpu/pointwise/frexp.h"
#include "cpu/reference.h"
#include "cuda/creation/formulas.h"
#include "device/functors/arithmetic.h"
#include "device/functors/complex.h"
#include "device/functors/unary_math.h"
#include "ops/pointwise/pointwise.h"

namespace strata {

namespace {
// A number as exponent: common ones are computed as products and roots. The result must keep the promoted dtype.
int power_variant(const Args& args) {
  const args::pow arg(args);
  const Value& e = arg.exponent_value();
  if (!e.is_number() || !arg.has_input()) return 0;
  if (is_complex(arg.input().dtype)) return 0;
  const double n = e.number();
  const bool floating = is_floating(arg.input().dtype);
  STRATA_CHECK(floating || e.tag == Tag::Float || n >= 0, Runtime,
               "pow: integers to negative integer powers are not allowed; convert the input to a float");
  if (e.tag == Tag::Float && !floating) return 0;
  if (n == 2) return arg.input().dtype == DType::Bool ? 0 : 1;
  if (!floating) return 0;
  return n == 0.5 ? 2 : n == -1 ? 3 : n == -0.5 ? 4 : n == 1 ? 5 : 0;
}

// d(b^e)/db = e b^(e-1), and 0 where e is 0
Tensor base_grad(G c, const Tensor& g) {
  const grads::pow a(c);
  const Operand e = a.exponent_operand();
  if (e.value.is_number()) {
    const double n = e.value.number();
    if (n == 0) return no_slope(g);
    if (n == 2) return mul(g, conjugated(mul(a.input(), 2)));
    return mul(g, conjugated(mul(pow(a.input(), n - 1), n)));
  }
  const Tensor exponent = a.exponent(), slope = mul(exponent, pow(a.input(), sub(exponent, 1)));
  return masked_fill(mul(g, conjugated(slope)), eq(exponent, 0), 0);
}
// d(b^e)/de = b^e log(b), and 0 where b is 0 and e is not negative
Tensor exponent_grad(G c, const Tensor& g) {
  const grads::pow a(c);
  const Operand b = a.input_operand();
  const Tensor e = a.exponent(), r = c.result();
  if (is_complex(r.dtype())) {
    const Tensor base = b.value.is_number() ? full({}, b.value.scalar(), r.dtype()) : to(a.input(), r.dtype());
    const Tensor zero = logical_and(eq(base, 0), ge(real(e), 0));
    return masked_fill(mul(g, conj(mul(r, log(masked_fill(base, zero, 1))))), zero, 0);
  }
  if (b.value.is_number()) {
    const double n = b.value.number();
    if (n == 0) return where(ge(e, 0), no_slope(g), mul(g, mul(r, -HUGE_VAL)));
    return mul(g, mul(r, std::log(n)));
  }
  const Tensor base = a.input(), zero = logical_and(eq(base, 0), ge(e, 0));
  return masked_fill(mul(g, mul(r, log(masked_fill(base, zero, 1)))), zero, 0);
}
}  // namespace

STRATA_OP(pow, "pow(Tensor input, Tensor exponent) -> Tensor")
  .doc("input to the power of exponent. Either may be a number; integers stay integers.")
  .pointwise<fn::Pow, fn::Square, fn::Sqrt, fn::Reciprocal, fn::Rsqrt, fn::Copy>(power_variant)
  .saves({"input", "exponent"})
  .saves_result()
  .grad([](const grads::pow& c, const Tensor& g) -> Grads {
    return {c.needs_input() ? base_grad(c, g) : Tensor(), c.needs_exponent() ? exponent_grad(c, g) : Tensor()};
  })
  .inplace()
  .autocast_cuda(Autocast::Float32)
  .complex<fn::ComplexPow>()
  .samples({"~p(3,4), f(3,4)", "p(3,4), 2.5", "f(3,4), 2", "f(3,4), 3", "p(3), 0.5", "~p(3), -1", "~2, f(3,4)",
            "~p(3,1), f(4)"})
  .error("i5(3), -2", ErrorKind::Runtime, "negative integer powers");

STRATA_OP(float_power, "float_power(Tensor input, Tensor exponent) -> Tensor")
  .doc("input to the power of exponent, computed and returned in double precision.")
  .takes_numbers()
  .composite([](Operand input, Operand exponent) {
    const auto widen = [](const Operand& o) {
      if (o.value.tag != Tag::Tensor) return Tensor();
      const Tensor t(Ref<TensorImpl>::share(o.value.tensor));
      return to(t, is_complex(t.dtype()) ? DType::C128 : DType::F64);
    };
    const Tensor a = widen(input), b = widen(exponent);
    return call(op_pow,
                Args(a ? Value(a) : Value(input.value.number()), b ? Value(b) : Value(exponent.value.number())));
  })
  .add_dtypes(kComplexTypes)
  .samples({"p(3,4), f(4)", "f(3), 2"});

STRATA_OP(scale_by_exponent, "scale_by_exponent(Tensor input, Tensor other) -> Tensor")
  .doc("input * 2^other for an integer tensor, without intermediate overflow.")
  .pointwise<fn::Ldexp>()
  .saves({"other"})
  .grad([](const grads::scale_by_exponent& c, const Tensor& g) -> Grads { return {scale_by_exponent(g, c.other())}; })
  .helper()
  .samples({"f(3,4), i5(4)"});

STRATA_OP(ldexp, "ldexp(Tensor input, Tensor other) -> Tensor")
  .doc("input * 2^other.")
  .composite([](const Tensor& input, const Tensor& other) {
    if (is_integral(other.dtype())) return scale_by_exponent(input, other);
    return mul(input, call(op_pow, Args(2.0, other)));
  })
  .inplace()
  .complex_composite([](const Tensor& input, const Tensor& other) {
    return mul(input, call(op_pow, Args(2.0, is_integral(other.dtype()) ? to(other, kFloat32) : other)));
  })
  .samples({"f(3,4), i5(4)"});

STRATA_OP(frexp, "frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)")
  .doc("input = mantissa * 2^exponent, with mantissas of size 0.5 to 1 and int32 exponents.")
  .dtypes(kFloatingTypes)
  .infer([](const args::frexp& c) {
    const TensorImpl& x = c.input();
    STRATA_CHECK(kFloatingTypes.has(x.dtype), Runtime,
                 "frexp: expected a floating-point input, got {}; convert it with to(float32)", name_of(x.dtype));
    for (int o : {0, 1}) c.out(o)->set_shape(x.sizes());
    c.out()->dtype = x.dtype;
    c.out(1)->dtype = DType::I32;
  })
  .kernel("bits", [](const args::frexp& c) { cpu::frexp(c.input(), c.out(), c.out(1)); })
  .kernel("reference",
          [](const args::frexp& c) {
            const TensorImpl& x = c.input();
            cpu::each_index(x.sizes(), [&](const cpu::Index& at) {
              int exponent = 0;
              cpu::set<double>(*c.out(), at, std::frexp(cpu::get<double>(x, at), &exponent));
              cpu::set<int64_t>(*c.out(1), at, exponent);
            });
          })
  .cuda("formula",
        [](const args::frexp& c, Workspace& workspace) { cuda::frexp(c.input(), *c.out(), *c.out(1), workspace); })
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](G c, const Tensor& g) -> Grads { return {ldexp(g, neg(autograd::detach(c.result(1))))}; })
  .samples({"f(3,4)", "f()", "f(0,3)"})
  .error("i5(3)", ErrorKind::Runtime, "expected a floating-point input");

}  // namespace strata
