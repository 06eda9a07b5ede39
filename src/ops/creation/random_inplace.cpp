// Distributions that fill a tensor in place.
#include "strata/ops/creation/random_inplace.h"

#include "autograd/autograd.h"
#include "ops/creation/drawing.h"
#include "ops/layout.h"
#include "strata/ops/creation/distributions.h"
#include "strata/ops/creation/fills.h"

namespace strata {
namespace {
void need_floating(const Tensor& t, const char* op) {
  STRATA_CHECK(is_floating(t.dtype()), Runtime, "{}: expected a tensor of floating-point dtype, got {}", op,
               name_of(t.dtype()));
}

// Fills a tensor of real or complex numbers.
Tensor fill_numbers(const Tensor& t, const char* distribution, double a, double b, Generator* generator) {
  if (!is_complex(t.dtype())) return random_fill_(t, distribution, a, b, generator);
  fill_complex(t, distribution, a, b, generator);
  return t;
}

// The largest integer that random_() draws: the dtype represents all integers up to it exactly.
int64_t largest(DType t) {
  if (is_floating(t)) return int64_t{1} << info_of(t).digits;
  return size_of(t) == 8 ? INT64_MAX - 1 : static_cast<int64_t>(info_of(t).largest);
}
}  // namespace

STRATA_OP(uniform_inplace,
          "uniform_(Tensor(a!) input, float from=0, float to=1, *, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "Uniform random numbers in [from, to), written into input.\n\n>>> "
    "strata.empty(2).uniform_().shape\nstrata.Size([2])")
  .composite([](const Tensor& input, double from, double to, Generator* generator) {
    if (!is_complex(input.dtype())) need_floating(input, "uniform_");
    STRATA_CHECK(from <= to, Runtime, "uniform_: expects to return a [from, to) range, but found from={} > to={}", from,
                 to);
    return fill_numbers(input, "uniform", from, to, generator);
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3), -1.0, 1.0"})
  .error("f(2), 2.0, 1.0", ErrorKind::Runtime, "from");

STRATA_OP(normal_inplace,
          "normal_(Tensor(a!) input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor(a!)")
  .doc("Normal random numbers, written into input.\n\n>>> strata.empty(2).normal_().shape\nstrata.Size([2])")
  .composite([](const Tensor& input, double mean, double std, Generator* generator) {
    if (!is_complex(input.dtype())) need_floating(input, "normal_");
    need_std(std, "normal_");
    return fill_numbers(input, "normal", mean, std, generator);
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3), 1.0, 2.0"})
  .error("f(2), 0.0, -1.0", ErrorKind::Runtime, "std >= 0.0");

STRATA_OP(log_normal_inplace,
          "log_normal_(Tensor(a!) input, float mean=1, float std=2, *, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "Exponentials of normal random numbers, written into input.\n\n>>> "
    "strata.empty(2).log_normal_().shape\nstrata.Size([2])")
  .composite([](const Tensor& input, double mean, double std, Generator* generator) {
    need_floating(input, "log_normal_");
    STRATA_CHECK(std > 0, Runtime, "log_normal_: expects std > 0.0, but found std={}", std);
    return random_fill_(input, "log_normal", mean, std, generator);
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes)
  .samples({"f(2,3)"})
  .error("f(2), 0.0, -1.0", ErrorKind::Runtime, "std > 0.0");

STRATA_OP(exponential_inplace,
          "exponential_(Tensor(a!) input, float lambd=1, *, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "Exponentially distributed random numbers, written into input.\n\n>>> "
    "strata.empty(2).exponential_().shape\nstrata.Size([2])")
  .composite([](const Tensor& input, double lambd, Generator* generator) {
    need_floating(input, "exponential_");
    STRATA_CHECK(lambd > 0, Runtime, "exponential_: expects lambda > 0.0, but found lambda={}", lambd);
    return random_fill_(input, "exponential", lambd, 0, generator);
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes)
  .samples({"f(2,3), 2.0"})
  .error("f(2), 0.0", ErrorKind::Runtime, "lambda > 0.0");

STRATA_OP(cauchy_inplace,
          "cauchy_(Tensor(a!) input, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "Random numbers from the Cauchy distribution, written into input.\n\n>>> "
    "strata.empty(2).cauchy_().shape\nstrata.Size([2])")
  .composite([](const Tensor& input, double median, double sigma, Generator* generator) {
    need_floating(input, "cauchy_");
    STRATA_CHECK(sigma > 0, Runtime, "cauchy_: expects sigma > 0.0, but found sigma={}", sigma);
    return random_fill_(input, "cauchy", median, sigma, generator);
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes)
  .samples({"f(2,3)"})
  .error("f(2), 0.0, 0.0", ErrorKind::Runtime, "sigma > 0.0");

STRATA_OP(geometric_inplace, "geometric_(Tensor(a!) input, float p, *, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "The number of trials up to the first success, written into input.\n\n>>> "
    "strata.empty(2).geometric_(0.5).shape\nstrata.Size([2])")
  .composite([](const Tensor& input, double p, Generator* generator) {
    STRATA_CHECK(p > 0 && p < 1, Runtime, "geometric_: expects p to be in (0, 1), but got p={}", p);
    return random_fill_(input, "geometric", p, 0, generator);
  })
  .draws()
  .no_out()
  .dtypes(kNumericTypes)
  .samples({"f(2,3), 0.3"})
  .error("f(2), 1.0", ErrorKind::Runtime, "in (0, 1)");

STRATA_OP(random_inplace, "random_(Tensor(a!) input, *, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "Random integers over the range of the dtype (or all integers that a float represents exactly), written into "
    "input.\n\n>>> strata.empty(2).random_().shape\nstrata.Size([2])")
  .composite([](const Tensor& input, Generator* generator) {
    return random_integers_(input, 0, largest(input.dtype()) + 1, generator);
  })
  .draws()
  .no_out()
  .samples({"f(2,3)"});
STRATA_OP(random_inplace_to, "random_.to(Tensor(a!) input, int to, *, Generator? generator=None) -> Tensor(a!)")
  .doc("Random integers in [0, to), written into input.\n\n>>> strata.empty(2).random_(5).shape\nstrata.Size([2])")
  .composite([](const Tensor& input, int64_t to, Generator* generator) {
    STRATA_CHECK(to > 0, Runtime, "random_: expects 'from' to be less than 'to', but got from=0 >= to={}", to);
    return random_integers_(input, 0, to, generator);
  })
  .draws()
  .no_out()
  .samples({"f(2,3), 5"})
  .error("f(2), 0", ErrorKind::Runtime, "less than 'to'");
STRATA_OP(random_inplace_from,
          "random_.from(Tensor(a!) input, int from, int? to, *, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "Random integers in [from, to), written into input.\n\n>>> strata.empty(2).random_(2, 5).shape\nstrata.Size([2])")
  .composite([](const Tensor& input, int64_t from, std::optional<int64_t> to, Generator* generator) {
    const int64_t end = to.value_or(largest(input.dtype()) + 1);
    STRATA_CHECK(from < end, Runtime, "random_: expects 'from' to be less than 'to', but got from={} >= to={}", from,
                 end);
    return random_integers_(input, from, end, generator);
  })
  .draws()
  .no_out()
  .samples({"f(2,3), 1, 5"})
  .error("f(2), 3, 2", ErrorKind::Runtime, "less than 'to'");
STRATA_OP(bernoulli_inplace, "bernoulli_(Tensor(a!) input, float p=0.5, *, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "Ones with probability p, otherwise zeros, written into input.\n\n>>> strata.empty(2).bernoulli_(1.0)\ntensor([1., "
    "1.])")
  .composite([](const Tensor& input, double p, Generator* generator) {
    return random_bernoulli_(input, Tensor(), p, generator);
  })
  .draws()
  .no_out()
  .samples({"f(2,3), 0.3"})
  .error("f(2), 1.5", ErrorKind::Runtime, "in [0, 1]");
STRATA_OP(bernoulli_inplace_tensor,
          "bernoulli_.Tensor(Tensor(a!) input, Tensor p, *, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "Ones with a probability per element, written into input.\n\n>>> "
    "strata.empty(2).bernoulli_(strata.ones(2))\ntensor([1., 1.])")
  .composite([](const Tensor& input, const Tensor& p, Generator* generator) {
    broadcast_shapes(input.shape(), p.shape(), "bernoulli_");
    return random_bernoulli_(input, p, 0, generator);
  })
  .draws()
  .no_out()
  .samples({"f(2,3), b(3)"})
  .error("f(2), o(2)", ErrorKind::Runtime, "in [0, 1]");

}  // namespace strata
