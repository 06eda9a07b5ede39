// Random numbers with parameters per element: gamma, Dirichlet, Poisson and binomial.
#include "strata/args/creation/samplers.h"
#include "strata/ops/creation/samplers.h"

#include <cmath>

#include "cpu/creation/samplers.h"
#include "cpu/reference.h"
#include "cuda/creation/samplers.h"
#include "cuda/movement/dense.h"
#include "ops/creation/drawing.h"
#include "ops/layout.h"
#include "ops/transfer.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/nn/softmax.h"
#include "strata/ops/pointwise/arithmetic.h"
#include "strata/ops/pointwise/special.h"

namespace strata {
namespace {

// Gamma numbers are never 0, so that their logarithm exists: the least is the smallest normal number.
double least_sample(Sampler sampler, DType t) {
  if (sampler != Sampler::Gamma) return -INFINITY;
  return std::ldexp(1.0, t == DType::F64 ? -1022 : t == DType::F16 ? -14 : -126);
}

// A parameter for the kernels: one element, or contiguous in the shape of the result. `memory(shape, dtype)` returns a
// tensor for a copy; if it has no memory, nothing is copied.
template <class Memory> Tensor parameter(const TensorImpl& t, const Tensor& out, Memory memory) {
  if (t.numel == 1 || (t.contiguous && t.same_shape(*out))) return alias(t);
  Tensor copy = memory(out.shape(), t.dtype);
  if (copy.bytes()) copy_values(*copy, t);
  return copy;
}

using Parameters = std::pair<const TensorImpl*, const TensorImpl*>;
Parameters parameters_of(const args::_standard_gamma& c) { return {&c.input(), nullptr}; }
Parameters parameters_of(const args::_standard_log_gamma& c) { return {&c.input(), nullptr}; }
Parameters parameters_of(const args::poisson& c) { return {&c.input(), nullptr}; }
Parameters parameters_of(const args::binomial& c) { return {&c.count(), &c.prob()}; }

template <class Arguments, Sampler sampler, decltype(&cpu::draw_samples) draw> void run(const Call& c) {
  const Arguments arguments(c);
  const Tensor& out = c.out();
  const auto [first, second] = parameters_of(arguments);
  const auto memory = [](Shape shape, DType dtype) { return make_tensor(shape, dtype); };
  const Tensor a = parameter(*first, out, memory), b = second ? parameter(*second, out, memory) : Tensor();
  const Tensor dense = out->contiguous ? alias(*out) : make_tensor(out.shape(), out.dtype());
  draw(sampler, *dense, *a, b.get(), least_sample(sampler, out.dtype()), generator_of(arguments.generator_value()));
  if (!out->contiguous) copy_values(*out, *dense);
}

template <class Arguments, Sampler sampler> void run_on_device(const Call& c, Workspace& workspace) {
  const Arguments arguments(c);
  const auto [first, second] = parameters_of(arguments);
  const auto memory = [&](Shape shape, DType dtype) { return workspace.take(shape, dtype); };
  const Tensor a = parameter(*first, c.out(), memory), b = second ? parameter(*second, c.out(), memory) : Tensor(),
               worst = sampler == Sampler::Poisson ? workspace.take(Shape(), DType::F64) : Tensor();
  const cuda::DenseOut to(*c.out(), workspace);
  if (workspace.planning()) return;
  cuda::draw_samples(sampler, *to, *a, b.get(), least_sample(sampler, c.out().dtype()),
                     generator_of(arguments.generator_value()), worst);
  to.finish();
}

template <class Arguments> void infer_like_input(const Call& call) {
  const Arguments c(call);
  const TensorImpl& input = c.input();
  need_floating(input.dtype, call.op.name.c_str());
  c.out()->dtype = input.dtype;
  c.out()->set_shape(input.sizes());
}

template <decltype(&cpu::normalize_logs) normalize> void run_normalize(const Call& c) {
  const args::_normalize_logs arguments(c);
  const Tensor& out = c.out();
  const TensorImpl& input = arguments.input();
  const auto dense = [](const TensorImpl& t) { return t.contiguous ? alias(t) : make_tensor(t.sizes(), t.dtype); };
  const Tensor logs = dense(input), to = dense(*out);
  if (!input.contiguous) copy_values(*logs, input);
  normalize(*to, *logs);
  if (!out->contiguous) copy_values(*out, *to);
}
void normalize_on_device(const Call& c, Workspace& workspace) {
  const Tensor logs = cuda::dense(args::_normalize_logs(c).input(), workspace);
  const cuda::DenseOut to(*c.out(), workspace);
  if (workspace.planning()) return;
  cuda::normalize_logs(*to, *logs);
  to.finish();
}

}  // namespace

STRATA_OP(_standard_gamma, "_standard_gamma(Tensor input, Generator? generator=None) -> Tensor")
  .doc(
    "Gamma-distributed random numbers with the shape parameters in input and rate 1.\n\n>>> "
    "strata._standard_gamma(strata.ones(3)).shape\nstrata.Size([3])")
  .infer(infer_like_input<args::_standard_gamma>)
  .kernel("philox", run<args::_standard_gamma, Sampler::Gamma, cpu::draw_samples>)
  .kernel("reference", run<args::_standard_gamma, Sampler::Gamma, cpu::draw_samples_reference>)
  .cuda("philox", run_on_device<args::_standard_gamma, Sampler::Gamma>)
  .saves({"input"})
  .saves_result()
  .grad([](const grads::_standard_gamma& c, const Tensor& g) -> Grads {
    return {mul(g, _standard_gamma_grad(c.input(), c.result()))};
  })
  .draws()
  .no_method()
  .dtypes(kFloatingTypes)
  .samples({"p(3,4)", "p(0)", "p()"})
  .error("i2(3)", ErrorKind::Runtime, "floating-point");
STRATA_OP(_standard_log_gamma, "_standard_log_gamma(Tensor input, Generator? generator=None) -> Tensor")
  .doc("Logarithms of gamma-distributed random numbers: those of small shape parameters underflow themselves.")
  .infer(infer_like_input<args::_standard_log_gamma>)
  .kernel("philox", run<args::_standard_log_gamma, Sampler::LogGamma, cpu::draw_samples>)
  .kernel("reference", run<args::_standard_log_gamma, Sampler::LogGamma, cpu::draw_samples_reference>)
  .cuda("philox", run_on_device<args::_standard_log_gamma, Sampler::LogGamma>)
  .saves({"input"})
  .saves_result()
  .grad([](const grads::_standard_log_gamma& c, const Tensor& g) -> Grads {
    return {mul(g, _standard_log_gamma_grad(c.input(), c.result()))};
  })
  .helper()
  .draws()
  .dtypes(kFloatingTypes)
  .samples({"p(3,4)"});

STRATA_OP(_normalize_logs, "_normalize_logs(Tensor input) -> Tensor")
  .doc("Softmax along the last dimension, with the same bits on every device.")
  .infer([](const Call& c) {
    STRATA_CHECK(args::_normalize_logs(c).input().ndim > 0, Runtime,
                 "_normalize_logs: expected at least 1 dimension, got a tensor of shape []");
    infer_like_input<args::_normalize_logs>(c);
  })
  .kernel("rows", run_normalize<cpu::normalize_logs>)
  .kernel("reference", run_normalize<cpu::normalize_logs_reference>)
  .cuda("rows", normalize_on_device)
  .saves_result()
  .grad([](const grads::_normalize_logs& c, const Tensor& g) -> Grads {
    return {_softmax_backward_data(g, c.result(), -1)};
  })
  .helper()
  .dtypes(kFloatingTypes)
  .samples({"f(3,4)", "f(2,1)", "f(0,3)", "f(2,0)"})
  .error("f()", ErrorKind::Runtime, "at least 1 dimension");

STRATA_OP(_sample_dirichlet, "_sample_dirichlet(Tensor input, Generator? generator=None) -> Tensor")
  .doc(
    "Random points of the simplex, with the concentrations in the last dimension of input.\n\n>>> "
    "strata._sample_dirichlet(strata.ones(2, 3)).sum(-1)\ntensor([1., 1.])")
  .composite([](const Tensor& input, Generator* generator) {
    STRATA_CHECK(input.dim() > 0, Runtime, "_sample_dirichlet: concentrations need at least one dimension");
    need_floating(input.dtype(), "_sample_dirichlet");
    // Logarithms of small shape parameters are large: those of a 16-bit dtype would be equal or infinite.
    const Tensor wide = size_of(input.dtype()) < size_of(DType::F32) ? to(input, DType::F32) : input;
    return to(_normalize_logs(_standard_log_gamma(wide, generator)), input.dtype());
  })
  .draws()
  .no_method()
  .dtypes(kFloatingTypes)
  .samples({"p(3,4)", "p(2,1)"})
  .error("p()", ErrorKind::Runtime, "at least one dimension");

STRATA_OP(poisson, "poisson(Tensor input, Generator? generator=None) -> Tensor")
  .doc(
    "Poisson-distributed random numbers with the rates in input.\n\n>>> "
    "strata.poisson(strata.zeros(3))\ntensor([0., 0., 0.])")
  .infer(infer_like_input<args::poisson>)
  .kernel("philox", run<args::poisson, Sampler::Poisson, cpu::draw_samples>)
  .kernel("reference", run<args::poisson, Sampler::Poisson, cpu::draw_samples_reference>)
  .cuda("philox", run_on_device<args::poisson, Sampler::Poisson>)
  .grad([](const GradContext&, const Tensor& g) -> Grads { return {zeros_like(g)}; })
  .draws()
  .no_method()
  .dtypes(kFloatingTypes)
  .samples({"p(3,4)", "p(0)", "p()"})
  .error("u(50)", ErrorKind::Runtime, "rates >= 0")
  .error("i2(3)", ErrorKind::Runtime, "floating-point");

STRATA_OP(binomial, "binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor")
  .doc(
    "Binomially distributed random numbers: the successes of count trials with probability prob each; NaN for an "
    "invalid count or probability.\n\n>>> strata.binomial(strata.full((2,), 5.), strata.ones(2))\ntensor([5., 5.])")
  .infer([](const args::binomial& c) {
    need_floating(c.count().dtype, "binomial");
    need_floating(c.prob().dtype, "binomial");
    c.out()->dtype = promote(c.count().dtype, c.prob().dtype);
    c.out()->set_shape(broadcast_shapes(c.count().sizes(), c.prob().sizes(), "binomial"));
  })
  .kernel("philox", run<args::binomial, Sampler::Binomial, cpu::draw_samples>)
  .kernel("reference", run<args::binomial, Sampler::Binomial, cpu::draw_samples_reference>)
  .cuda("philox", run_on_device<args::binomial, Sampler::Binomial>)
  .grad([](const GradContext&, const Tensor& g) -> Grads {
    return {zeros_like(g), zeros_like(g)};
  })
  .draws()
  .no_method()
  .dtypes(kFloatingTypes)
  .samples({"o(3,4), z(3,4)", "o(3,1), z(4)", "p(0), z(0)"})
  .error("p(3), z(2)", ErrorKind::Runtime, "broadcast");

}  // namespace strata
