// Modified Bessel functions of the first kind.
#include "strata/args/pointwise/bessel.h"
#include "device/functors/bessel.h"
#include "ops/pointwise/pointwise.h"

namespace strata {
namespace {
// y / x, and 1/2 at zero: both functions of order 1 have this slope there.
Tensor over_input(const Tensor& y, const Tensor& x, const Tensor& zero) {
  return masked_fill(div(y, masked_fill(x, zero, 1)), zero, 0.5);
}
}  // namespace

STRATA_OP(i0, "i0(Tensor input) -> Tensor")
  .doc(
    "The modified Bessel function of the first kind of order 0.\n\n>>> strata.i0(strata.tensor([0., 1.]))\n"
    "tensor([1.0000, 1.2661])")
  .pointwise<fn::BesselI0>()
  .saves({"input"})
  .grad([](const grads::i0& c, const Tensor& g) -> Grads { return {mul(g, special::i1(c.input()))}; })
  .inplace()
  .alias("special.i0")
  .samples({"f(3,4)", "f()"});

STRATA_OP(special_i0e, "special.i0e(Tensor input) -> Tensor")
  .doc("exp(-|x|) times the modified Bessel function of the first kind of order 0, without overflow.")
  .pointwise<fn::BesselI0e>()
  .saves({"input"})
  .saves_result()
  .grad([](const grads::special_i0e& c, const Tensor& g) -> Grads {
    const Tensor x = c.input();
    return {mul(g, sub(special::i1e(x), mul(sgn(x), c.result())))};
  })
  .samples({"f(3,4)"});

STRATA_OP(special_i1, "special.i1(Tensor input) -> Tensor")
  .doc(
    "The modified Bessel function of the first kind of order 1.\n\n>>> strata.special.i1(strata.tensor([0., 1.]))\n"
    "tensor([0.0000, 0.5652])")
  .pointwise<fn::BesselI1>()
  .saves({"input"})
  .saves_result()
  .grad([](const grads::special_i1& c, const Tensor& g) -> Grads {
    const Tensor x = c.input();
    return {mul(g, sub(i0(x), over_input(c.result(), x, eq(x, 0))))};
  })
  .samples({"f(3,4)"});

STRATA_OP(special_i1e, "special.i1e(Tensor input) -> Tensor")
  .doc("exp(-|x|) times the modified Bessel function of the first kind of order 1, without overflow.")
  .pointwise<fn::BesselI1e>()
  .saves({"input"})
  .saves_result()
  .grad([](const grads::special_i1e& c, const Tensor& g) -> Grads {
    const Tensor x = c.input(), y = c.result();
    return {mul(g, sub(sub(special::i0e(x), mul(sgn(x), y)), over_input(y, x, eq(x, 0))))};
  })
  .samples({"f(3,4)"});

}  // namespace strata
