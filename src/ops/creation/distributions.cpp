// Random numbers whose distribution is given by tensors: normal, bernoulli, multinomial.
#include "strata/args/creation/distributions.h"
#include "strata/ops/creation/distributions.h"

#include <cmath>

#include "autograd/autograd.h"
#include "cpu/creation/random.h"
#include "cpu/movement/copy.h"
#include "cpu/reference.h"
#include "ops/creation/drawing.h"
#include "ops/layout.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/pointwise/arithmetic.h"
#include "strata/ops/reduce/minmax.h"

namespace strata {
namespace {

using Opt = std::optional<DType>;
using OptDevice = std::optional<Device>;

Tensor normal_of(const Tensor& mean, const Tensor& std, Generator* generator) {
  const autograd::NoGrad no_grad;
  STRATA_CHECK(std.numel() == 0 || std.is_meta() || amin(std).item<double>() >= 0, Runtime,
               "normal: expects all elements of std >= 0.0");
  const Tensor spread =
    empty(broadcast_shapes(mean.shape(), std.shape(), "normal"), promote(mean.dtype(), std.dtype()));
  return add(mul(drawn(spread, "normal", 0, 1, generator, false, "normal"), std), mean);
}

template <decltype(&cpu::draw_by_weight) draw_by_weight> void run_multinomial(const Call& c) {
  const args::multinomial a(c);
  const TensorImpl& input = a.input();
  const Tensor weights = make_tensor(input.sizes(), DType::F64);
  cpu::copy(*weights, input);
  const int64_t n = input.shape[input.ndim - 1];
  for (int64_t r = 0; r < input.numel / std::max<int64_t>(n, 1); ++r) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double w = weights.data<double>()[r * n + i];
      STRATA_CHECK(std::isfinite(w) && w >= 0, Runtime,
                   "multinomial: probability tensor contains either `inf`, `nan` or element < 0: {}", w);
      total += w;
    }
    STRATA_CHECK(total > 0, Runtime,
                 "multinomial: invalid multinomial distribution (sum of probabilities <= 0) in row {}", r);
  }
  draw_by_weight(*c.out(), *weights, a.replacement(), generator_of(a.generator_value()));
}
}  // namespace

STRATA_OP(normal, "normal(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor")
  .doc(
    "Normal random numbers with a mean and a standard deviation per element.\n\n>>> strata.normal(strata.zeros(3), "
    "strata.ones(3)).shape\nstrata.Size([3])")
  .composite([](const Tensor& mean, const Tensor& std, Generator* generator) {
    return autograd::without_slope("normal", {mean, std}, normal_of(mean, std, generator));
  })
  .draws()
  .no_method()
  .dtypes({kFloat32, kFloat64})
  .samples({"f(3), p(3)", "f(2,3), p(3)"})
  .error("f(3), p(2)", ErrorKind::Runtime, "cannot be broadcast");
STRATA_OP(normal_tensor_float, "normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor")
  .doc(
    "Normal random numbers with a mean per element.\n\n>>> strata.normal(strata.zeros(3), 2.0).shape\nstrata.Size([3])")
  .composite([](const Tensor& mean, double std, Generator* generator) {
    need_std(std, "normal");
    const Tensor numbers = drawn(empty(mean.shape(), mean.dtype()), "normal", 0, std, generator, false, "normal");
    return autograd::without_slope("normal", {mean}, add(numbers, autograd::detach(mean)));
  })
  .draws()
  .no_method()
  .dtypes({kFloat32, kFloat64})
  .samples({"f(3), 2.0", "f(3)"})
  .error("f(3), -1.0", ErrorKind::Runtime, "std >= 0.0");
STRATA_OP(normal_float_tensor, "normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor")
  .doc(
    "Normal random numbers with a standard deviation per element.\n\n>>> strata.normal(1.0, "
    "strata.ones(3)).shape\nstrata.Size([3])")
  .composite([](double mean, const Tensor& std, Generator* generator) {
    return autograd::without_slope("normal", {std}, normal_of(full({}, mean, std.dtype()), std, generator));
  })
  .draws()
  .dtypes({kFloat32, kFloat64})
  .samples({"1.0, p(3)"});
STRATA_OP(normal_sized,
          "normal.size(float mean, float std, int[] size, *, Generator? generator=None, dtype? dtype=None, device? "
          "device=None, bool requires_grad=False) -> Tensor")
  .doc("Normal random numbers of a shape.\n\n>>> strata.normal(0.0, 1.0, (2, 3)).shape\nstrata.Size([2, 3])")
  .composite([](double mean, double std, IntList size, Generator* generator, Opt dtype, OptDevice device,
                bool requires_grad) {
    need_std(std, "normal");
    return drawn(empty(size, dtype, device), "normal", mean, std, generator, requires_grad, "normal");
  })
  .draws()
  .samples({"0.0, 1.0, [2, 3]"})
  .error("0.0, -1.0, [2]", ErrorKind::Runtime, "std >= 0.0");

STRATA_OP(bernoulli, "bernoulli(Tensor input, *, Generator? generator=None) -> Tensor")
  .doc(
    "Ones with the probabilities in input, otherwise zeros.\n\n>>> strata.bernoulli(strata.ones(2))\ntensor([1., 1.])")
  .composite([](const Tensor& input, Generator* generator) {
    need_floating(input.dtype(), "bernoulli");
    return autograd::without_slope("bernoulli", {input},
                                   random_bernoulli_(empty_like(input), autograd::detach(input), 0, generator));
  })
  .draws()
  .dtypes(kFloatingTypes)
  .samples({"f(0)"})
  .error("o(3)", ErrorKind::Runtime, "in [0, 1]")
  .error("i2(3)", ErrorKind::Runtime, "floating-point");
STRATA_OP(bernoulli_p, "bernoulli.p(Tensor input, float p, *, Generator? generator=None) -> Tensor")
  .doc("Ones with probability p in the shape of input.\n\n>>> strata.bernoulli(strata.zeros(2), 1.0)\ntensor([1., 1.])")
  .composite([](const Tensor& input, double p, Generator* generator) {
    return autograd::without_slope("bernoulli", {input}, random_bernoulli_(empty_like(input), Tensor(), p, generator));
  })
  .draws()
  .no_out()
  .samples({"f(3), 0.3"})
  .error("f(3), 1.5", ErrorKind::Runtime, "in [0, 1]");
STRATA_OP(multinomial,
          "multinomial(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor")
  .doc(
    "Indices drawn with the weights in each row of input.\n\n>>> strata.multinomial(strata.tensor([0., 1.]), 3, "
    "replacement=True)\ntensor([1, 1, 1])")
  .infer([](const args::multinomial& c) {
    const TensorImpl& input = c.input();
    const int64_t count = c.num_samples();
    STRATA_CHECK(is_floating(input.dtype), Runtime,
                 "multinomial: only supports floating-point dtypes for input, got {}", name_of(input.dtype));
    STRATA_CHECK(input.ndim == 1 || input.ndim == 2, Runtime, "multinomial: prob_dist must be 1 or 2 dim, got {}",
                 input.ndim);
    STRATA_CHECK(count > 0, Runtime, "multinomial: cannot sample n_sample <= 0 samples, got {}", count);
    STRATA_CHECK(c.replacement() || count <= input.shape[input.ndim - 1], Runtime,
                 "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement: {} > {}", count,
                 input.shape[input.ndim - 1]);
    Dims shape(input.sizes());
    shape[shape.n - 1] = count;
    c.out()->dtype = DType::I64;
    c.out()->set_shape(shape);
  })
  .kernel("rows", run_multinomial<cpu::draw_by_weight>)
  .kernel("reference", run_multinomial<cpu::draw_by_weight_reference>)
  .cuda_on_host("rows_on_host")
  .draws()
  .no_grad_outputs({0})
  .dtypes(kFloatingTypes)
  .samples({"p(5), 3", "p(2,5), 8, True", "p(2,3), 3"})
  .error("p(3), 4", ErrorKind::Runtime, "without replacement")
  .error("p(3), 0", ErrorKind::Runtime, "n_sample <= 0")
  .error("p(2,2,2), 1", ErrorKind::Runtime, "1 or 2 dim");

}  // namespace strata
