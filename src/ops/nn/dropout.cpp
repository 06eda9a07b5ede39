// The dropout family. Element i of a mask depends only on the generator's position and i: the same mask for any thread
// count.
#include "strata/args/nn/dropout.h"
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/creation/random.h"
#include "cpu/staging.h"
#include "cuda/creation/random.h"
#include "device/philox.h"
#include "ops/check_dtype.h"
#include "ops/device_inputs.h"
#include "record/rows.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata {
namespace {

void check_probability(const char* op, double p) {
  STRATA_CHECK(p >= 0 && p <= 1, Value, "{}: dropout probability has to be between 0 and 1, but got {}", op, p);
}

// keep(i, whether element i is kept), four elements per Philox block; `plain`: serially, for the reference.
template <bool plain, class Keep> void draw(Generator::Draw stream, int64_t n, double p, Keep keep) {
  const float limit = static_cast<float>(p);
  for (int64_t i = 0; plain && i < n; ++i)
    keep(i, uniform_f32(philox(stream.seed, stream.first + static_cast<uint64_t>(i) / 4).word[i % 4]) >= limit);
  if (plain) return;
  parallel_for((n + 3) / 4, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const PhiloxBlock block = philox(stream.seed, stream.first + static_cast<uint64_t>(b));
      for (int64_t i = 4 * b; i < std::min(n, 4 * b + 4); ++i) keep(i, uniform_f32(block.word[i - 4 * b]) >= limit);
    }
  });
}

template <bool plain, class Keep> void draw(int64_t n, double p, Keep keep) {
  draw<plain>(default_generator().reserve_words(static_cast<uint64_t>(n)), n, p, keep);
}

// A mask for whole channels of [N, C, ...], or for every element.
Tensor mask_for(const Tensor& input, double p, bool features) {
  std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
  for (size_t d = 2; features && d < shape.size(); ++d) shape[d] = 1;
  return _keep_mask(shape, p, input.dtype());
}

Tensor drop(const char* op, const Tensor& input, double p, bool training, bool features) {
  check_probability(op, p);
  if (!training || p == 0 || input.numel() == 0) return input;
  refuse_integers(input, op);
  if (p == 1) return mul(input, 0.0);
  if (!features) return native_dropout(input, p, true)[0];
  STRATA_CHECK(input.dim() >= 2, Runtime,
               "{}: feature dropout requires at least 2 dimensions in the input, got shape {}", op,
               to_string(input.shape()));
  return mul(input, div(mask_for(input, p, true), 1 - p));
}

// Preserves mean and variance of selu activations: dropped ones become its negative limit.
Tensor alpha_drop(const char* op, const Tensor& input, double p, bool training, bool features) {
  check_probability(op, p);
  if (!training || p == 0 || input.numel() == 0) return input;
  refuse_integers(input, op);
  if (p == 1) return mul(input, 0.0);
  constexpr double alpha = 1.7580993408473766;
  const double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  const Tensor mask = mask_for(input, p, features);
  return add(mul(input, mul(mask, a)), add(mul(sub(mask, 1.0), alpha * a), alpha * a * p));
}

Tensor maybe_into(const Tensor& input, const Tensor& out, bool inplace) {
  const bool changes = out.get() != input.get();
  return inplace && changes ? copy_(input, out) : out;
}

template <bool plain> void run_mask(const Call& c) {
  const args::keep_mask a(c);
  cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
    const cpu::Out<T> out(c.out());
    draw<plain>(c.out().numel(), a.p(), [&](int64_t i, bool keep) { out[i] = keep; });
    out.finish();
  });
}

uint64_t blocks_of(const args::reserve_draws& a) { return (static_cast<uint64_t>(a.words()) + 3) / 4; }

template <bool plain> void run_later_mask(const Call& c) {
  const args::keep_mask_of a(c);
  const cpu::In<int64_t> state(a.state());
  const Generator::Draw stream{static_cast<uint64_t>(state[0]), static_cast<uint64_t>(state[1])};
  cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
    const cpu::Out<T> out(c.out());
    draw<plain>(stream, c.out().numel(), a.p(), [&](int64_t i, bool keep) { out[i] = keep; });
    out.finish();
  });
}

// The probability of dropping an element, and the factor of the others.
std::pair<double, double> probability_and_scale(const args::native_dropout& a) {
  const bool on = !a.train() || *a.train();
  return {on ? a.p() : 0, on ? 1 / (1 - a.p()) : 1};
}

void run_dropout(const Call& c) {
  const args::native_dropout a(c);
  const auto [p, scale] = probability_and_scale(a);
  cpu::drop(*dense(a.share_input()), p, scale, *c.outs[0], *c.outs[1], default_generator());
}

// The words are reserved now, as by a call that is computed at once.
std::optional<RowOp> dropout_rows(const Call& c) {
  const args::native_dropout a(c);
  const TensorImpl& x = a.input();
  if (x.numel == 0) return {};
  RowOp op{.compute = compute_type(x.dtype), .shape = x.sizes(), .in = {{{}, &x}}};
  const auto words = std::make_shared<std::optional<cpu::Dropout>>();
  op.prepare = [words, rule = probability_and_scale(a)](const Call& call) {
    words->emplace(call.out().numel(), rule.first, rule.second, default_generator());
  };
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    op.run = [words](const RowBlock& b) {
      (*words)->run(b.first, b.count, static_cast<const T*>(b.in[0]), static_cast<T*>(b.out[0]),
                    static_cast<bool*>(b.out[1]));
    };
  });
  return op;
}

// On GPUs; there too the words are reserved as by a call that is computed at once.
std::optional<RowOp> gpu_dropout_rows(const Call& c) {
  const args::native_dropout a(c);
  const auto [p, scale] = probability_and_scale(a);
  return cuda::dropout_in_group(a.input(), p, scale);
}

void run_plain_dropout(const Call& c) {
  const args::native_dropout a(c);
  const auto rule = probability_and_scale(a);
  cpu::dispatch_float(c.outs[0].dtype(), [&]<class T>() {
    const cpu::In<T> in(a.input());
    const cpu::Out<T> out(c.outs[0]);
    bool* mask = c.outs[1].data<bool>();
    const T scale = static_cast<T>(rule.second);
    draw<true>(c.outs[0].numel(), rule.first, [&](int64_t i, bool keep) {
      mask[i] = keep;
      out[i] = keep ? in[i] * scale : T(0);
    });
    out.finish();
  });
}

void dropout_on_device(const Call& c, Workspace& workspace) {
  const args::native_dropout a(c);
  const Tensor x = dense(a.share_input(), workspace);
  if (workspace.planning()) return;
  const auto [p, scale] = probability_and_scale(a);
  cuda::dropout(*x, p, scale, *c.outs[0], *c.outs[1], default_generator());
}
}  // namespace

STRATA_OP(keep_mask, "_keep_mask(int[] size, float p, dtype dtype) -> Tensor")
  .doc("1 with probability 1 - p, otherwise 0.")
  .helper()
  .draws()
  .dtypes(kFloatingTypes)
  .infer([](const args::keep_mask& c) {
    c.out()->dtype = c.dtype();
    c.out()->set_shape(c.size());
  })
  .kernel("philox", run_mask<false>)
  .kernel("reference", run_mask<true>)
  .cuda("philox", [](const args::keep_mask& c) { cuda::keep_mask(*c.out(), c.p(), default_generator()); })
  .samples({"[3,4], 0.5, 'float32'"});

STRATA_OP(reserve_draws, "_reserve_draws(Tensor like, int words) -> Tensor")
  .doc("Reserves 32-bit draws: the seed and the number of the first Philox block, for ops that draw later.")
  .helper()
  .draws()
  .no_out()
  .infer([](const args::reserve_draws& c) {
    STRATA_CHECK(c.words() >= 0, Value, "_reserve_draws: the number of words must not be negative, got {}", c.words());
    c.out()->dtype = DType::I64;
    constexpr int64_t kShape[] = {2};
    c.out()->set_shape(kShape);
  })
  .kernel("reference",
          [](const Call& c) {
            const Generator::Draw stream = default_generator().reserve(blocks_of(args::reserve_draws(c)));
            c.out().data<int64_t>()[0] = static_cast<int64_t>(stream.seed);
            c.out().data<int64_t>()[1] = static_cast<int64_t>(stream.first);
          })
  .cuda("philox",
        [](const args::reserve_draws& c) { cuda::reserve_draws(*c.out(), blocks_of(c), default_generator()); })
  .samples({"f(3), 12"})
  .error("f(3), -1", ErrorKind::Value, "must not be negative");

STRATA_OP(keep_mask_of, "_keep_mask_of(Tensor state, int[] size, float p, dtype dtype) -> Tensor")
  .doc("_keep_mask with the draws that _reserve_draws has reserved.")
  .helper()
  .no_out()
  .dtypes(DTypeSet{DType::I64})
  .infer([](const args::keep_mask_of& c) {
    const TensorImpl& state = c.state();
    STRATA_CHECK(state.dtype == DType::I64 && state.ndim == 1 && state.shape[0] == 2 && kFloatingTypes.has(c.dtype()),
                 Runtime, "_keep_mask_of: expected int64 of shape [2] and a floating-point dtype, got {} {} and {}",
                 name_of(state.dtype), to_string(state.sizes()), name_of(c.dtype()));
    check_probability("_keep_mask_of", c.p());
    c.out()->dtype = c.dtype();
    c.out()->set_shape(c.size());
  })
  .kernel("philox", run_later_mask<false>)
  .kernel("reference", run_later_mask<true>)
  .cuda("philox",
        [](const Call& c, Workspace& workspace) {
          const args::keep_mask_of a(c);
          const Tensor state = dense(a.share_state(), workspace);
          if (!workspace.planning()) cuda::keep_mask_of(*state, *c.out(), a.p());
        })
  .samples({"i(2), [3,4], 0.5, 'float32'", "i(2), [0], 0.5, 'float64'"})
  .error("i(3), [3], 0.5, 'float32'", ErrorKind::Runtime, "expected int64 of shape")
  .error("i(2), [3], 1.5, 'float32'", ErrorKind::Value, "between 0 and 1");

STRATA_OP(native_dropout, "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)")
  .doc("dropout, and the mask of kept elements.")
  .no_method()
  .no_out()
  .draws()
  .dtypes(kFloatingTypes)
  .infer([](const args::native_dropout& c) {
    const TensorImpl& x = c.input();
    check_probability("native_dropout", c.p());
    STRATA_CHECK(kFloatingTypes.has(x.dtype), Runtime,
                 "native_dropout: result type {} can't be drawn: the input must be floating-point", name_of(x.dtype));
    c.out()->dtype = x.dtype;
    c.out()->set_shape(x.sizes());
    c.out(1)->dtype = DType::Bool;
    c.out(1)->set_shape(x.sizes());
  })
  .kernel("philox", run_dropout)
  .with(computes_rows<dropout_rows>)
  .with(computes_rows<gpu_dropout_rows, Backend::Cuda>)
  .kernel("reference", run_plain_dropout)
  .cuda("philox", dropout_on_device)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const grads::native_dropout& c, const Tensor& g) -> Grads {
    const bool on = !c.train() || *c.train();
    return {on ? mul(mul(g, c.result(1)), 1 / (1 - c.p())) : g};
  })
  .samples({"f(3,4), 0.5, True"});

STRATA_OP(torch_dropout, "dropout(Tensor(a) input, float p, bool train) -> Tensor(a)")
  .doc("Zeroes elements with probability p and scales the rest by 1 / (1 - p).")
  .no_method()
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p, bool train) { return drop("dropout", input, p, train, false); })
  .samples({"f(3,4), 0.5, False"})
  .error("f(3), 1.5, True", ErrorKind::Value, "between 0 and 1");

STRATA_OP(dropout,
          "nn.functional.dropout(Tensor(a) input, float p=0.5, bool training=True, bool inplace=False) -> Tensor(a)")
  .doc("Zeroes elements with probability p and scales the rest by 1 / (1 - p).")
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p, bool training, bool inplace) {
    return maybe_into(input, drop("dropout", input, p, training, false), inplace);
  })
  .samples({"f(3,4)", "f(3,4), 0.2, False"})
  .error("f(3), 1.5", ErrorKind::Value, "between 0 and 1");

STRATA_OP(dropout1d,
          "nn.functional.dropout1d(Tensor(a) input, float p=0.5, bool training=True, bool inplace=False) -> Tensor(a)")
  .doc("Drops whole channels of [N, C, L] or [C, L].")
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p, bool training, bool inplace) {
    STRATA_CHECK(input.dim() == 2 || input.dim() == 3, Runtime, "dropout1d: expected a 2D or 3D input, got shape {}",
                 to_string(input.shape()));
    const Tensor x = input.dim() == 2 ? unsqueeze(input, 0) : input, y = drop("dropout1d", x, p, training, true);
    return maybe_into(input, input.dim() == 2 ? squeeze(y, 0) : y, inplace);
  })
  .samples({"f(2,3,4)", "f(3,4), 0.2, False"})
  .error("f(3)", ErrorKind::Runtime, "expected a 2D or 3D input");

STRATA_OP(dropout2d,
          "nn.functional.dropout2d(Tensor(a) input, float p=0.5, bool training=True, bool inplace=False) -> Tensor(a)")
  .doc("Drops whole channels of [N, C, H, W].")
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p, bool training, bool inplace) {
    return maybe_into(input, drop("dropout2d", input, p, training, true), inplace);
  })
  .samples({"f(2,3,4,2)", "f(2,3,4,2), 0.2, False"})
  .error("f(2,3,4,2), 1.5", ErrorKind::Value, "between 0 and 1");

STRATA_OP(dropout3d,
          "nn.functional.dropout3d(Tensor(a) input, float p=0.5, bool training=True, bool inplace=False) -> Tensor(a)")
  .doc("Drops whole channels of [N, C, D, H, W].")
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p, bool training, bool inplace) {
    return maybe_into(input, drop("dropout3d", input, p, training, true), inplace);
  })
  .samples({"f(2,3,4,2,2)", "f(2,3,4,2,2), 0.2, False"})
  .error("f(2,3,4,2,2), 1.5", ErrorKind::Value, "between 0 and 1");

STRATA_OP(
  alpha_dropout,
  "nn.functional.alpha_dropout(Tensor(a) input, float p=0.5, bool training=False, bool inplace=False) -> Tensor(a)")
  .doc("Dropout that preserves mean and variance of selu's outputs.")
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p, bool training, bool inplace) {
    return maybe_into(input, alpha_drop("alpha_dropout", input, p, training, false), inplace);
  })
  .samples({"f(3,4), 0.5, True", "f(3,4)"})
  .error("f(3), 1.5", ErrorKind::Value, "between 0 and 1");

STRATA_OP(feature_alpha_dropout,
          "nn.functional.feature_alpha_dropout(Tensor(a) input, float p=0.5, bool training=False, bool inplace=False) "
          "-> Tensor(a)")
  .doc("alpha_dropout of whole channels of [N, C, ...].")
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p, bool training, bool inplace) {
    return maybe_into(input, alpha_drop("feature_alpha_dropout", input, p, training, true), inplace);
  })
  .samples({"f(3,4,2), 0.5, True", "f(3,4,2)"})
  .error("f(3,4), 1.5", ErrorKind::Value, "between 0 and 1");

}  // namespace strata
