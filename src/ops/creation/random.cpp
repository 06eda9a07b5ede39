// Tensors of random numbers.
#include <fmt/core.h>

#include "strata/args/creation/random.h"
#include "strata/ops/creation/random.h"

#include "autograd/autograd.h"
#include "cpu/creation/random.h"
#include "cpu/movement/copy.h"
#include "cpu/order/sort.h"
#include "cpu/reference.h"
#include "cuda/creation/permutation.h"
#include "cuda/creation/random.h"
#include "cuda/movement/dense.h"
#include "ops/creation/drawing.h"
#include "ops/layout.h"
#include "ops/transfer.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/views.h"

namespace strata {
namespace {

using Opt = std::optional<DType>;
using OptDevice = std::optional<Device>;

// Kernels fill contiguous memory; other layouts are copied.
template <class Fill> void in_order(const Tensor& out, const Fill& fill) {
  if (out->contiguous) return fill(*out);
  const Tensor dense = make_tensor(out.shape(), out.dtype());
  fill(*dense);
  cpu::copy(*out, *dense);
}
template <class Fill> void in_order(const Tensor& out, Workspace& workspace, const Fill& fill) {
  const cuda::DenseOut to(*out, workspace);
  if (workspace.planning()) return;
  fill(*to);
  to.finish();
}

void infer_same(const Call& c) {
  const args::random_fill a(c);
  const TensorImpl& input = a.input();
  c.outs[0]->dtype = input.dtype;
  c.outs[0]->device = input.device;
  c.outs[0]->set_shape(input.sizes());
  set_layout(*c.outs[0], std::nullopt, &input, c.op.name.c_str());
}
Grads no_gradient(const GradContext&, const Tensor& g) { return {zeros_like(g)}; }

Distribution distribution_of(std::string_view name) {
  if (name == "uniform") return Distribution::Uniform;
  if (name == "normal") return Distribution::Normal;
  if (name == "log_normal") return Distribution::LogNormal;
  if (name == "exponential") return Distribution::Exponential;
  if (name == "cauchy") return Distribution::Cauchy;
  if (name == "geometric") return Distribution::Geometric;
  fail(ErrorKind::Value, fmt::format("random_fill: unknown distribution '{}'", name));
}

Tensor integers(const Tensor& fresh, int64_t low, int64_t high, Generator* g, bool requires_grad, const char* op) {
  STRATA_CHECK(low < high, Runtime, "{}: expects 'from' to be less than 'to', but got from={} >= to={}", op, low, high);
  Tensor out = random_integers_(fresh, low, high, g);
  if (requires_grad) out.set_requires_grad();
  return out;
}

// A long permutation is the order of random numbers of 64 bits, which devices can sort; short ones are shuffled, which is
// faster on the host. Both are the same on every device.
bool is_short_permutation(const Call& c) { return c.out().numel() < 1 << 14; }
const char* needs_short_permutation(const Call& c) {
  return is_short_permutation(c) ? nullptr : "long permutations are the order of random numbers";
}
const char* needs_long_permutation(const Call& c) {
  return is_short_permutation(c) ? "short permutations are shuffled" : nullptr;
}
template <decltype(&cpu::fill_integers) fill_integers, decltype(&cpu::sort) sort> void sort_numbers(const Call& c) {
  const args::randperm a(c);
  const TensorImpl& out = *c.out();
  const auto numbers = [&] { return make_tensor(out.sizes(), DType::I64); };
  const Tensor keys = numbers(), order = out.dtype == DType::I64 ? alias(out) : numbers();
  fill_integers(*keys, 0, 0, generator_of(a.generator_value()));
  sort(*keys, 0, false, nullptr, order.get());
  if (out.dtype != DType::I64) cpu::copy(out, *order);
}
void sort_numbers_on_device(const Call& c, Workspace& workspace) {
  const args::randperm a(c);
  const cuda::DenseOut order(*c.out(), DType::I64, workspace);
  cuda::fill_permutation(*order, generator_of(a.generator_value()), workspace);
  order.finish();
}

// Space: nothing on the CPU, the workspace of a device.
template <decltype(&cpu::fill_random) fill_random, class... Space> void run_fill(const Call& c, Space&... space) {
  const args::random_fill a(c);
  in_order(c.out(), space..., [&](const TensorImpl& t) {
    fill_random(t, distribution_of(a.distribution()), a.a(), a.b(), generator_of(a.generator_value()));
  });
}

template <decltype(&cpu::fill_integers) fill_integers, class... Space>
void run_integers(const Call& c, Space&... space) {
  const args::random_integers a(c);
  const int64_t low = a.low();
  in_order(c.out(), space..., [&](const TensorImpl& t) {
    fill_integers(t, low, static_cast<uint64_t>(a.high()) - static_cast<uint64_t>(low),
                  generator_of(a.generator_value()));
  });
}

// The probabilities: one number, or contiguous in the shape of the result. `memory(shape, dtype)` returns a tensor for a
// copy; if it has no memory, nothing is copied.
template <class Memory> Tensor chances_of(const args::random_bernoulli& a, Memory memory) {
  if (!a.has_p()) {
    Tensor chance = make_tensor({}, DType::F64);
    *chance.data<double>() = a.chance();
    return chance;
  }
  const TensorImpl& p = *a.p();
  if (p.numel == 1 || (p.contiguous && p.same_shape(*a.out()))) return alias(p);
  Tensor chances = memory(a.out().shape(), p.dtype);
  if (chances.bytes()) copy_values(*chances, p);
  return chances;
}
template <decltype(&cpu::fill_bernoulli) fill_bernoulli> void run_bernoulli(const Call& c) {
  const args::random_bernoulli a(c);
  const Tensor chances = chances_of(a, [](Shape shape, DType dtype) { return make_tensor(shape, dtype); });
  in_order(c.out(), [&](const TensorImpl& t) { fill_bernoulli(t, *chances, generator_of(a.generator_value())); });
}
void bernoulli_on_device(const Call& c, Workspace& workspace) {
  const args::random_bernoulli a(c);
  const Tensor chances = chances_of(a, [&](Shape shape, DType dtype) { return workspace.take(shape, dtype); }),
               worst = a.has_p() ? workspace.take(Shape(), DType::F64) : Tensor();
  in_order(c.out(), workspace,
           [&](const TensorImpl& t) { cuda::fill_bernoulli(t, *chances, generator_of(a.generator_value()), worst); });
}

}  // namespace

STRATA_OP(random_fill,
          "random_fill(Tensor input, str distribution, float a, float b, Generator? generator=None) -> Tensor")
  .doc("Draws from a distribution in the shape of input: uniform, normal, log_normal, exponential, cauchy, geometric.")
  .infer([](const args::random_fill& c) {
    distribution_of(c.distribution());
    infer_same(c);
  })
  .kernel("philox", run_fill<cpu::fill_random>)
  .kernel("reference", run_fill<cpu::fill_random_reference>)
  .cuda("philox", run_fill<cuda::fill_random, Workspace>)
  .grad(no_gradient)
  .helper()
  .draws()
  .updates()
  .no_out()
  .dtypes(kFloatingTypes)
  .samples({"f(2,3), 'uniform', 0, 1", "f(5), 'normal', 0, 1"});
STRATA_OP(random_integers, "random_integers(Tensor input, int low, int high, Generator? generator=None) -> Tensor")
  .doc("Integers in [low, high) in the shape of input.")
  .infer([](const Call& c) {
    const args::random_integers a(c);
    check_in_range(a.low(), a.high(), a.input().dtype, "random_");
    infer_same(c);
  })
  .kernel("philox", run_integers<cpu::fill_integers>)
  .kernel("reference", run_integers<cpu::fill_integers_reference>)
  .cuda("philox", run_integers<cuda::fill_integers, Workspace>)
  .grad(no_gradient)
  .helper()
  .draws()
  .updates()
  .no_out()
  .samples({"f(2,3), 0, 2"})
  .error("b(3), 0, 3", ErrorKind::Runtime, "out of bounds");
STRATA_OP(random_bernoulli,
          "random_bernoulli(Tensor input, Tensor? p, float chance=0, Generator? generator=None) -> Tensor")
  .doc("Ones with the given probabilities (p: one, or one per element; otherwise chance) in the shape of input.")
  .infer([](const args::random_bernoulli& c) {
    infer_same(c);
    if (!c.has_p()) return;
    const Dims shape = broadcast_shapes(c.out().shape(), c.p()->sizes(), "bernoulli");
    STRATA_CHECK(std::ranges::equal(Shape(shape), c.out().shape()), Runtime,
                 "bernoulli: probabilities of shape {} do not fit a tensor of shape {}", to_string(c.p()->sizes()),
                 to_string(c.out().shape()));
  })
  .kernel("philox", run_bernoulli<cpu::fill_bernoulli>)
  .kernel("reference", run_bernoulli<cpu::fill_bernoulli_reference>)
  .cuda("philox", bernoulli_on_device)
  .grad(no_gradient)
  .helper()
  .draws()
  .updates()
  .no_out()
  .samples({"f(2,3), b()", "f(2,3), None, 0.5"})
  .error("f(2), o()", ErrorKind::Runtime, "in [0, 1]");

STRATA_OP(rand,
          "rand(int[] size, *, Generator? generator=None, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("Uniform random numbers in [0, 1).\n\n>>> strata.rand(2, 3).shape\nstrata.Size([2, 3])")
  .composite([](IntList size, Generator* generator, Opt dtype, OptDevice device, bool requires_grad) {
    return drawn(empty(size, dtype, device), "uniform", 0, 1, generator, requires_grad, "rand");
  })
  .draws()
  .samples({"[2, 3]", "[0]", "[]"})
  .error("[2], dtype='int64'", ErrorKind::Runtime, "floating-point");
STRATA_OP(randn,
          "randn(int[] size, *, Generator? generator=None, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("Random numbers from the standard normal distribution.\n\n>>> strata.randn(2, 3).shape\nstrata.Size([2, 3])")
  .composite([](IntList size, Generator* generator, Opt dtype, OptDevice device, bool requires_grad) {
    return drawn(empty(size, dtype, device), "normal", 0, 1, generator, requires_grad, "randn");
  })
  .draws()
  .samples({"[2, 3]", "[0]", "[]"})
  .error("[2], dtype='int64'", ErrorKind::Runtime, "floating-point");
STRATA_OP(randint,
          "randint(int high, int[] size, *, Generator? generator=None, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("Random integers in [0, high).\n\n>>> strata.randint(5, (2, 3)).dtype\nstrata.int64")
  .composite([](int64_t high, IntList size, Generator* generator, Opt dtype, OptDevice device, bool requires_grad) {
    return integers(empty(size, dtype.value_or(DType::I64), device), 0, high, generator, requires_grad, "randint");
  })
  .draws()
  .samples({"5, [2, 3]"})
  .error("0, [2]", ErrorKind::Runtime, "less than 'to'");
STRATA_OP(randint_low,
          "randint.low(int low, int high, int[] size, *, Generator? generator=None, dtype? dtype=None, device? "
          "device=None, bool requires_grad=False) -> Tensor")
  .doc("Random integers in [low, high).\n\n>>> strata.randint(3, 5, (2, 3)).dtype\nstrata.int64")
  .composite([](int64_t low, int64_t high, IntList size, Generator* generator, Opt dtype, OptDevice device,
                bool requires_grad) {
    return integers(empty(size, dtype.value_or(DType::I64), device), low, high, generator, requires_grad, "randint");
  })
  .draws()
  .samples({"-3, 5, [2, 3]"})
  .error("3, 3, [2]", ErrorKind::Runtime, "less than 'to'");
STRATA_OP(randperm,
          "randperm(int n, *, Generator? generator=None, dtype dtype=int64, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("A random permutation of 0 … n-1.\n\n>>> strata.randperm(4).sort()[0]\ntensor([0, 1, 2, 3])")
  .infer([](const args::randperm& c) {
    STRATA_CHECK(c.n() >= 0, Runtime, "randperm: n must be non-negative, got {}", c.n());
    c.out()->set_shape(Shape(std::array{c.n()}));
    set_options(c, c.dtype(), c.device_value(), c.requires_grad_value());
  })
  .kernel(
    "fisher_yates", [](const args::randperm& c) { cpu::fill_permutation(*c.out(), generator_of(c.generator_value())); },
    needs_short_permutation)
  .kernel(
    "bucket_sort", [](const args::randperm& c) { cpu::fill_order(*c.out(), generator_of(c.generator_value())); },
    needs_long_permutation)
  .kernel("reference",
          [](const args::randperm& c) {
            if (!is_short_permutation(c)) return sort_numbers<cpu::fill_integers_reference, cpu::sort_reference>(c);
            cpu::fill_permutation_reference(*c.out(), generator_of(c.generator_value()));
          })
  .cuda("radix_sort", sort_numbers_on_device, needs_long_permutation)
  .cuda_on_host("fisher_yates_on_host")
  .draws()
  .samples({"5", "0"})
  .error("-1", ErrorKind::Runtime, "non-negative");

STRATA_OP(rand_like,
          "rand_like(Tensor input, *, dtype? dtype=None, device? device=None, bool requires_grad=False, str? "
          "memory_format=None, Generator? generator=None) -> Tensor")
  .doc(
    "Uniform random numbers in [0, 1) in the shape of input.\n\n>>> "
    "strata.rand_like(strata.ones(2)).shape\nstrata.Size([2])")
  .composite([](const Tensor& input, Opt dtype, OptDevice device, bool requires_grad,
                std::optional<std::string_view> format, Generator* g) {
    return drawn(empty_like(input, dtype, device, false, format), "uniform", 0, 1, g, requires_grad, "rand_like");
  })
  .draws()
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3)"})
  .error("i5(3)", ErrorKind::Runtime, "floating-point");
STRATA_OP(randn_like,
          "randn_like(Tensor input, *, dtype? dtype=None, device? device=None, bool requires_grad=False, str? "
          "memory_format=None, Generator? generator=None) -> Tensor")
  .doc(
    "Random numbers from the standard normal distribution in the shape of input.\n\n>>> "
    "strata.randn_like(strata.ones(2)).shape\nstrata.Size([2])")
  .composite([](const Tensor& input, Opt dtype, OptDevice device, bool requires_grad,
                std::optional<std::string_view> format, Generator* g) {
    return drawn(empty_like(input, dtype, device, false, format), "normal", 0, 1, g, requires_grad, "randn_like");
  })
  .draws()
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3)"})
  .error("i5(3)", ErrorKind::Runtime, "floating-point");
STRATA_OP(randint_like,
          "randint_like(Tensor input, int high, *, dtype? dtype=None, device? device=None, bool requires_grad=False, "
          "str? memory_format=None, Generator? generator=None) -> Tensor")
  .doc(
    "Random integers in [0, high) in the shape of input.\n\n>>> strata.randint_like(strata.ones(2), "
    "5).shape\nstrata.Size([2])")
  .composite([](const Tensor& input, int64_t high, Opt dtype, OptDevice device, bool requires_grad,
                std::optional<std::string_view> format, Generator* g) {
    return integers(empty_like(input, dtype, device, false, format), 0, high, g, requires_grad, "randint_like");
  })
  .draws()
  .no_method()
  .no_out()
  .samples({"f(2,3), 5"})
  .error("f(3), 0", ErrorKind::Runtime, "less than 'to'");
STRATA_OP(randint_like_low,
          "randint_like.low(Tensor input, int low, int high, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False, str? memory_format=None, Generator? generator=None) -> Tensor")
  .doc(
    "Random integers in [low, high) in the shape of input.\n\n>>> strata.randint_like(strata.ones(2), 1, "
    "5).shape\nstrata.Size([2])")
  .composite([](const Tensor& input, int64_t low, int64_t high, Opt dtype, OptDevice device, bool requires_grad,
                std::optional<std::string_view> format, Generator* g) {
    return integers(empty_like(input, dtype, device, false, format), low, high, g, requires_grad, "randint_like");
  })
  .draws()
  .no_method()
  .no_out()
  .samples({"f(2,3), 1, 5"})
  .error("f(3), 2, 2", ErrorKind::Runtime, "less than 'to'");

}  // namespace strata
