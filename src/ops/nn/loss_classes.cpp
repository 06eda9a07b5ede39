// Losses over classes: negative log likelihood, cross entropy and the binary forms.
#include "strata/args/nn/loss_classes.h"
#include "autograd/autograd.h"
#include "cpu/staging.h"
#include "cuda/nn/binary_cross_entropy.h"
#include "ops/device_inputs.h"
#include "ops/nn/loss_common.h"

namespace strata {

namespace {

Tensor nll(const Tensor& input, const Tensor& target, const Tensor& weight, int64_t ignore, LossReduction r) {
  return _nll_loss(input, target, weight, name_of(r), ignore)[0];
}

// Cross entropy with class probabilities as targets, or with label smoothing.
Tensor with_probabilities(const Tensor& logp, const Tensor& target, const Tensor& weight, LossReduction r,
                          double smoothing, int64_t dim) {
  const int64_t classes = logp.size(dim);
  const Tensor goal =
    smoothing > 0 ? add(mul(target, 1 - smoothing), smoothing / static_cast<double>(classes)) : target;
  Tensor terms = mul(logp, goal);
  if (weight) {
    std::vector<int64_t> shape(static_cast<size_t>(logp.dim()), 1);
    shape[static_cast<size_t>(dim)] = classes;
    terms = mul(terms, reshape(weight, shape));
  }
  if (r == LossReduction::None) return neg(sum(terms, dim));
  const Tensor total = neg(sum(terms));
  const int64_t places = logp.numel() / std::max<int64_t>(classes, 1);
  return r == LossReduction::Sum ? total : div(total, static_cast<double>(places));
}
Tensor with_smoothing(const Tensor& logp, const Tensor& target, const Tensor& weight, int64_t ignore, LossReduction r,
                      double smoothing, int64_t dim) {
  const auto parts = _nll_loss(logp, target, weight, r == LossReduction::None ? "none" : "sum", ignore);
  const int64_t classes = logp.size(dim);
  Tensor terms = logp;
  if (weight) {
    std::vector<int64_t> shape(static_cast<size_t>(logp.dim()), 1);
    shape[static_cast<size_t>(dim)] = classes;
    terms = mul(terms, reshape(weight, shape));
  }
  Tensor smooth = masked_fill(neg(sum(terms, dim)), eq(target, ignore), 0.0);
  if (r != LossReduction::None) smooth = sum(smooth);
  const Tensor loss = add(mul(parts[0], 1 - smoothing), mul(smooth, smoothing / static_cast<double>(classes)));
  if (r != LossReduction::Mean) return loss;
  const Tensor count = weight ? parts[1] : to(sum(to(ne(target, ignore), DType::I64)), logp.dtype());
  return div(loss, count);
}

Tensor cross_entropy_of(const Tensor& input, const Tensor& target, const Tensor& weight, int64_t ignore,
                        LossReduction r, double smoothing) {
  STRATA_CHECK(smoothing >= 0 && smoothing <= 1, Runtime,
               "cross_entropy: label_smoothing must be between 0.0 and 1.0, got {}", smoothing);
  STRATA_CHECK(input.dim() >= 1, Runtime,
               "cross_entropy: expected an input of 1 or more dimensions [C] or [N, C, ...]");
  if (input.dim() == 2 && !is_floating(target.dtype()) && smoothing == 0)
    return _cross_entropy(input, target, weight, name_of(r), ignore)[0];
  const int64_t dim = input.dim() == 1 ? 0 : 1;
  const Tensor logp = log_softmax(input, dim);
  if (is_floating(target.dtype())) {
    STRATA_CHECK(ignore < 0, Runtime,
                 "cross_entropy: ignore_index is not supported for floating point target, got ignore_index={}", ignore);
    STRATA_CHECK(target->same_shape(*input), Runtime,
                 "cross_entropy: class probabilities of shape {} do not fit an input of shape {}; for class indices "
                 "use an integer target",
                 to_string(target.shape()), to_string(input.shape()));
    return with_probabilities(logp, target, weight, r, smoothing, dim);
  }
  if (smoothing > 0) return with_smoothing(logp, target, weight, ignore, r, smoothing, dim);
  return nll(logp, target, weight, ignore, r);
}
}  // namespace

STRATA_OP(nll_loss,
          "nn.functional.nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int "
          "ignore_index=-100, bool? reduce=None, str reduction='mean') -> Tensor")
  .no_grad_inputs({"weight"})
  .doc("Minus the input (log-probabilities) at the target class.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, const Tensor& weight, std::optional<bool> average,
                int64_t ignore, std::optional<bool> reduce, std::string_view reduction) {
    return nll(input, target, weight, ignore, reduction_of("nll_loss", average, reduce, reduction));
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), i4(3)", "f(3,4), i4(3), reduction='sum'", "f(3,4,2,5), i4(3,2,5), ignore_index=1", "f(4), i4()",
            "f(3,4), i4(3), reduction='none'"})
  .error("f(3,4), t[0,4,1]", ErrorKind::Index, "Target 4 is out of bounds")
  .error("f(3,4), i4(3), i2(4)", ErrorKind::Runtime, "for weight but found")
  .error("f(3,4), i4(2)", ErrorKind::Value, "to match target batch_size (2)");

STRATA_OP(cross_entropy,
          "nn.functional.cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int "
          "ignore_index=-100, bool? reduce=None, str reduction='mean', "
          "float label_smoothing=0.0) -> Tensor")
  .no_grad_inputs({"weight"})
  .doc("nll_loss(log_softmax(input), target); the target holds class indices or probabilities.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, const Tensor& weight, std::optional<bool> average,
                int64_t ignore, std::optional<bool> reduce, std::string_view reduction, double smoothing) {
    return cross_entropy_of(input, target, weight, ignore, reduction_of("cross_entropy", average, reduce, reduction),
                            smoothing);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), i4(3)", "f(3,4), p(3,4)", "f(3,4), i4(3), ignore_index=1, label_smoothing=0.2",
            "f(3,4,2), i4(3,2), reduction='none'", "f(4), i4()",
            "f(3,4), p(3,4), p(4), reduction='sum', label_smoothing=0.1"})
  .error("f(3,4), i4(2)", ErrorKind::Value, "to match target batch_size (2)")
  .error("f(3,4), p(3,3)", ErrorKind::Runtime, "class probabilities")
  .error("f(3,4), p(3,4), ignore_index=1", ErrorKind::Runtime, "ignore_index is not supported")
  .error("f(3,4), i4(3), label_smoothing=2.0", ErrorKind::Runtime, "between 0.0 and 1.0");

STRATA_OP(binary_cross_entropy_core, "_binary_cross_entropy(Tensor input, Tensor target) -> Tensor")
  .doc("-(t log(x) + (1 - t) log(1 - x)), each logarithm at least -100.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::binary_cross_entropy_core& c) {
    const TensorImpl &x = c.input(), &t = c.target();
    STRATA_CHECK(x.same_shape(t), Value,
                 "binary_cross_entropy: using a target size ({}) that is different to the input size ({}) is not "
                 "allowed; ensure they have the same size",
                 to_string(t.sizes()), to_string(x.sizes()));
    STRATA_CHECK(kFloatingTypes.has(x.dtype) && t.dtype == x.dtype, Runtime,
                 "binary_cross_entropy: found dtype {} but expected {}", name_of(t.dtype), name_of(x.dtype));
    c.out()->dtype = x.dtype;
    c.out()->set_shape(x.sizes());
  })
  .kernel("reference",
          [](const args::binary_cross_entropy_core& c) {
            cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
              const cpu::In<T> x(c.input()), t(c.target());
              const cpu::Out<T> out(c.out());
              parallel_for(c.out().numel(), 1024, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  STRATA_CHECK(x[i] >= 0 && x[i] <= 1, Runtime,
                               "binary_cross_entropy: all elements of input should be between 0 and 1, found {}",
                               static_cast<double>(x[i]));
                  out[i] = (t[i] - 1) * std::max(std::log1p(-x[i]), T(-100)) - t[i] * std::max(std::log(x[i]), T(-100));
                }
              });
              out.finish();
            });
          })
  .cuda("elements",
        [](const args::binary_cross_entropy_core& c, Workspace& workspace) {
          const Tensor x = dense(c.share_input(), workspace), target = dense(c.share_target(), workspace);
          if (!workspace.planning()) cuda::binary_cross_entropy(*x, *target, *c.out());
        })
  .saves({"input", "target"})
  .grad([](const grads::binary_cross_entropy_core& c, const Tensor& g) -> Grads {
    grads::binary_cross_entropy_core::Result out;
    const Tensor x = c.input(), t = c.target();
    if (c.needs_input()) out.input = mul(g, div(sub(x, t), clamp_min(mul(x, rsub(x, 1.0)), 1e-12)));
    if (c.needs_target()) out.target = mul(g, sub(clamp_min(log1p(neg(x)), -100.0), clamp_min(log(x), -100.0)));
    return out;
  })
  .samples({"z(3,4), z(3,4)", "z(3), z(3)"});

STRATA_OP(binary_cross_entropy,
          "nn.functional.binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? "
          "size_average=None, bool? reduce=None, str reduction='mean') -> Tensor")
  .doc("-(t log(x) + (1 - t) log(1 - x)) for probabilities x.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, const Tensor& weight, std::optional<bool> average,
                std::optional<bool> reduce, std::string_view reduction) {
    const LossReduction r = reduction_of("binary_cross_entropy", average, reduce, reduction);
    const Tensor loss = _binary_cross_entropy(input, target);
    return reduced(weight ? mul(loss, weight) : loss, r);
  })
  .autocast_cuda(Autocast::Refuse)
  .autocast_cpu(Autocast::Float32)
  .samples({"z(3,4), z(3,4)", "z(3), z(3)"})
  .error("f(3,4), f(3)", ErrorKind::Value, "different to the input size");

STRATA_OP(binary_cross_entropy_with_logits,
          "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, "
          "bool? reduce=None, str reduction='mean', Tensor? pos_weight=None) -> Tensor")
  .doc("Binary cross entropy of sigmoid(input), computed without overflow.")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, const Tensor& weight, std::optional<bool> average,
                std::optional<bool> reduce, std::string_view reduction, const Tensor& pos_weight) {
    const LossReduction r = reduction_of("binary_cross_entropy_with_logits", average, reduce, reduction);
    STRATA_CHECK(input->same_shape(*target), Value,
                 "binary_cross_entropy_with_logits: target size ({}) must be the same as input size ({})",
                 to_string(target.shape()), to_string(input.shape()));
    const Tensor log_p = nn::functional::logsigmoid(input);
    const Tensor scaled = pos_weight ? mul(add(mul(sub(pos_weight, 1.0), target), 1.0), log_p) : log_p;
    Tensor loss = sub(mul(rsub(target, 1.0), input), scaled);
    if (weight) loss = mul(loss, weight);
    return reduced(is_floating(target.dtype()) ? to(loss, target.dtype()) : loss,
                   r);  // the target's dtype, as in PyTorch
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), p(3,4)", "f(3,4), p(3,4), p(4), pos_weight=p(4), reduction='none'"})
  .error("f(3,4), f(3)", ErrorKind::Value, "must be the same as input size");

}  // namespace strata
