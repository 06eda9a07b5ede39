// Cross entropy of a linear layer. The logits of all rows never exist at once: chunks of rows pass by, each a product and
// a loss and, while a gradient is recorded, the gradients of that chunk, for which the logits become their own gradient
// in place.
#include "strata/args/nn/linear_cross_entropy.h"
#include "autograd/autograd.h"
#include "dispatch/autocast.h"
#include "ops/nn/loss_common.h"
#include "ops/transfer.h"

namespace strata {
namespace {

constexpr int64_t kInput = 1, kWeight = 2, kBias = 8;  // gradients that are computed: bits of the parameters' positions
constexpr int64_t kGradBits[] = {kInput, kWeight, kBias};

// Gradients that are computed with the loss do not know the gradient of the loss: they are those of the sum over all
// rows, until they are scaled. That of the weight, a sum over many rows, could exceed the range of float16, so it is kept
// smaller by this factor.
constexpr double kKeptScale = 1.0 / 64;

struct LinearLoss {
  Tensor input, linear_weight, target, linear_bias, weight;
  int64_t ignore;
  double smoothing;
  int64_t rows;  // of a chunk

  template <class View>
  explicit LinearLoss(const View& a)
      : input(alias(a.input())),
        linear_weight(alias(a.linear_weight())),
        target(alias(a.target())),
        ignore(a.ignore_index()),
        smoothing(a.label_smoothing()),
        rows(a.rows()) {
    if (a.has_linear_bias()) linear_bias = alias(*a.linear_bias());
    if (a.has_weight()) weight = alias(*a.weight());
    if (rows > 0) return;
    // A chunk that fills a GPU, whose logits are small beside those of a batch. Multiples of 128 rows are whole tiles.
    constexpr int64_t kBytes = int64_t{256} << 20, kTile = 128;
    const auto row_bytes = classes() * static_cast<int64_t>(size_of(input.dtype()));
    rows = std::max(kBytes / std::max<int64_t>(row_bytes, 1) / kTile, int64_t{1}) * kTile;
  }
  // With history, for gradients of gradients.
  LinearLoss(Tensor x, Tensor w, Tensor t, Tensor class_weight, int64_t ignore_index, double label_smoothing)
      : input(std::move(x)),
        linear_weight(std::move(w)),
        target(std::move(t)),
        weight(std::move(class_weight)),
        ignore(ignore_index),
        smoothing(label_smoothing),
        rows(0) {}
  int64_t classes() const { return linear_weight.size(0); }
  DType compute() const { return compute_type(input.dtype()); }
};

struct LinearLossResults {     // those that are undefined are not computed
  Tensor losses;               // [rows]
  Tensor input, weight, bias;  // gradients
  double weight_scale;
};

// The loss of a row with logits x and target t is
//   hit (log_sum - x[t]) + sum over classes c of spread[c] (log_sum - x[c]),
// with hit = (1 - smoothing) weight[t] and spread[c] = smoothing / classes * weight[c]. That of an ignored row is 0.
struct RowTerms {
  Tensor counts, index, hit;  // [n, 1]; index: the target, or any class where it is ignored
  Tensor spread;              // [classes]

  RowTerms(const LinearLoss& p, const Tensor& target, DType type) {
    const int64_t classes = p.classes();
    const Tensor weight = p.weight ? to(p.weight, type) : ones({classes}, type, target.device());
    counts = unsqueeze(ne(target, p.ignore), 1);
    // Targets out of range are reported by _nll_loss.
    index = clamp(where(counts, unsqueeze(to(target, DType::I64), 1), int64_t{0}), int64_t{0}, classes - 1);
    const Tensor of_target = unsqueeze(index_select(weight, 0, flatten(index)), 1);
    hit = where(counts, mul(of_target, 1 - p.smoothing), 0.0);
    spread = mul(weight, p.smoothing / static_cast<double>(std::max<int64_t>(classes, 1)));
  }
  Tensor logit_grads(const Tensor& logp) const {
    const Tensor all = sub(mul(exp(logp), add(hit, sum(spread))), spread);
    return where(counts, scatter_add(all, 1, index, neg(hit)), 0.0);
  }
};
Tensor losses_by_terms(const LinearLoss& p, const Tensor& logp, const Tensor& target) {
  const DType type = logp.dtype();
  const Tensor weight = p.weight ? to(p.weight, type) : Tensor();
  const Tensor hit = mul(_nll_loss(logp, target, weight, "none", p.ignore)[0], 1 - p.smoothing);
  if (p.smoothing == 0) return hit;
  const RowTerms terms(p, target, type);
  return sub(hit, where(squeeze(terms.counts, 1), sum(mul(logp, terms.spread), 1), 0.0));
}

// The weight of each row's target, 0 where it is ignored; undefined if there are no weights.
Tensor row_weights(const LinearLoss& p) {
  if (!p.weight || p.classes() == 0) return {};
  LinearLoss plain = p;
  plain.smoothing = 0;
  return squeeze(RowTerms(plain, p.target, p.compute()).hit, 1);
}

// The loss of each row of a chunk, in the compute type, and in `grads` the gradient of its logits, times `by` if it is
// defined (one number for each row).
Tensor chunk_loss(const LinearLoss& p, Tensor logits, const Tensor& target, const Tensor& weights, const Tensor& by,
                  bool fused, Tensor* grads) {
  if (!fused) {
    const Tensor logp = log_softmax(to(logits, p.compute()), 1);
    if (grads) {
      const Tensor all = RowTerms(p, target, p.compute()).logit_grads(logp);
      *grads = to(by ? mul(all, unsqueeze(by, 1)) : all, p.input.dtype());
    }
    return losses_by_terms(p, logp, target);
  }
  const auto parts = _cross_entropy(logits, target, {}, "sum", p.ignore);
  if (grads) {
    const Tensor scale = weights && by ? mul(weights, by) : weights ? weights : by;
    *grads = _cross_entropy_backward_(logits, scale ? scale : ones({}, p.compute(), target.device()), target, {},
                                      scale ? "none" : "sum", p.ignore, parts[1], parts[2]);
  }
  const Tensor losses = select(parts[2], 1, 2);
  return weights ? mul(losses, weights) : losses;
}

// by: the gradient of each row's loss; undefined: 1.
void run_linear_loss(const LinearLoss& p, const Tensor& by, bool fused, const LinearLossResults& out) {
  const int64_t rows = p.input.size(0);
  const Tensor weights = row_weights(p);
  const bool any_grad = out.input || out.weight || out.bias;
  if (out.bias) zero_(out.bias);
  if (rows == 0 && out.weight) zero_(out.weight);
  for (int64_t begin = 0; begin < rows; begin += p.rows) {
    const int64_t n = std::min(p.rows, rows - begin);
    const auto part = [&](const Tensor& t) { return t ? narrow(t, 0, begin, n) : t; };
    const Tensor x = part(p.input);
    Tensor grads;
    const Tensor losses = chunk_loss(p, nn::functional::linear(x, p.linear_weight, p.linear_bias), part(p.target),
                                     part(weights), part(by), fused, any_grad ? &grads : nullptr);
    if (out.losses) copy_values(*part(out.losses), *losses);
    if (out.input) addmm_(part(out.input), grads, p.linear_weight, 0);
    if (out.weight) addmm_(out.weight, transpose(grads, 0, 1), x, begin > 0 ? 1 : 0, out.weight_scale);
    if (out.bias) add_(out.bias, sum(grads, {0}, false, out.bias.dtype()));
  }
}

// The problem in double, with all rows in one chunk.
LinearLoss in_double(LinearLoss p) {
  for (Tensor* t : {&p.input, &p.linear_weight, &p.linear_bias, &p.weight})
    if (*t) *t = to(*t, DType::F64);
  p.rows = std::max<int64_t>(p.input.size(0), 1);
  return p;
}

Tensor total_weight(const LinearLoss& p) {
  const Tensor weights = row_weights(p);
  return weights ? sum(weights) : to(sum(ne(p.target, p.ignore)), p.compute());
}

// Computes the losses, if they are defined, and the gradients of `bits` into `results`.
void run_into(const LinearLoss& p, const Tensor& by, bool fused, const Tensor& losses, int64_t bits, double scale,
              const Tensor* results) {
  const DType types[] = {p.input.dtype(), p.input.dtype(), p.compute()};
  Tensor made[3];
  for (int i = 0; i < 3; ++i) {
    if (!(bits & kGradBits[i])) continue;
    const bool direct = results[i].dtype() == types[i];
    made[i] = direct ? alias(*results[i]) : empty(results[i].shape(), types[i], p.input.device());
    made[i]->keep_version(0);  // writes to a part of a result are not writes of the user
  }
  run_linear_loss(p, by, fused, {losses, made[0], made[1], made[2], scale});
  for (int i = 0; i < 3; ++i)
    if (made[i] && made[i].dtype() != results[i].dtype()) copy_values(*results[i], *made[i]);
}

void run_linear_cross_entropy(const Call& call, bool exact) {
  const args::linear_cross_entropy_core c(call);
  const autograd::NoGrad no_grad;
  const LinearLoss given(c), p = exact ? in_double(given) : given;
  const Tensor losses = empty({p.input.size(0)}, p.compute(), p.input.device());
  run_into(p, {}, !exact && p.smoothing == 0, losses, c.kept().value_or(0), kKeptScale, call.outs + 2);
  const Tensor total = total_weight(p);
  copy_values(*c.out(1), *total);
  if (c.reduction() == "none") return copy_values(*c.out(), *losses);
  const Tensor loss = sum(losses, DType::F64);
  copy_values(*c.out(), *(c.reduction() == "mean" ? div(loss, to(total, DType::F64)) : loss));
}
void run_linear_cross_entropy_backward(const Call& call, bool exact) {
  const args::linear_cross_entropy_backward c(call);
  const autograd::NoGrad no_grad;
  const LinearLoss given(c), p = exact ? in_double(given) : given;
  const Tensor by = to(alias(c.grad()), p.compute());
  run_into(p, by, !exact && p.smoothing == 0, {}, c.needed(), 1, call.outs);
}

void check_linear_loss(const TensorImpl& x, const TensorImpl& w, const TensorImpl& target, const TensorImpl* bias,
                       const TensorImpl* weight) {
  STRATA_CHECK(
    x.ndim == 2 && w.ndim == 2 && x.shape[1] == w.shape[1], Runtime,
    "linear_cross_entropy: input {} and linear_weight {} cannot be multiplied: expected [N, in_features] and "
    "[C, in_features]",
    to_string(x.sizes()), to_string(w.sizes()));
  STRATA_CHECK(x.dtype == w.dtype && (!bias || bias->dtype == x.dtype), Runtime,
               "linear_cross_entropy: expected input, linear_weight and linear_bias to have the same dtype, but got "
               "{}, {} and {}",
               name_of(x.dtype), name_of(w.dtype), bias ? name_of(bias->dtype) : "no bias");
  STRATA_CHECK(!bias || (bias->ndim == 1 && bias->shape[0] == w.shape[0]), Runtime,
               "linear_cross_entropy: expected linear_bias of shape [{}], got {}", w.shape[0],
               to_string(bias->sizes()));
  STRATA_CHECK(target.dtype == DType::I64 || target.dtype == DType::U8, Runtime,
               "linear_cross_entropy: expected class indices of dtype int64 or uint8, got {}", name_of(target.dtype));
  STRATA_CHECK(target.ndim == 1, Runtime, "linear_cross_entropy: expected a target of shape [{}], got {}", x.shape[0],
               to_string(target.sizes()));
  STRATA_CHECK(target.shape[0] == x.shape[0], Value,
               "linear_cross_entropy: expected input batch_size ({}) to match target batch_size ({})", x.shape[0],
               target.shape[0]);
  STRATA_CHECK(!weight || (is_floating(weight->dtype) && weight->ndim == 1 && weight->shape[0] == w.shape[0]), Runtime,
               "linear_cross_entropy: expected a weight for each of {} classes, got {} of shape {}", w.shape[0],
               name_of(weight->dtype), to_string(weight->sizes()));
}

// Shapes of the gradients that are computed; others are empty.
void set_grads(const TensorImpl& x, const TensorImpl& w, int64_t bits, const Tensor* outs) {
  const int64_t none[] = {0}, bias[] = {w.shape[0]};
  const Shape shapes[] = {x.sizes(), w.sizes(), Shape(bias)};
  for (int i = 0; i < 3; ++i) {
    outs[i]->dtype = i == 2 ? compute_type(x.dtype) : x.dtype;
    outs[i]->set_shape(bits & kGradBits[i] ? shapes[i] : Shape(none));
  }
}

Tensor optional_weight(const grads::linear_cross_entropy_core& c) { return c.has_weight() ? c.weight() : Tensor(); }
Tensor optional_bias(const grads::linear_cross_entropy_core& c) {
  return c.has_linear_bias() ? c.linear_bias() : Tensor();
}

// The factor of the sum of all losses, from the gradient of the loss. If no row counts, the mean is NaN and there is
// nothing to scale.
Tensor scale_of_sum(const grads::linear_cross_entropy_core& c, const Tensor& g) {
  if (c.reduction() != "mean") return g;
  const Tensor total = c.result(1);
  return masked_fill(div(g, total), eq(total, 0.0), 0.0);
}
Tensor scale_of_rows(const grads::linear_cross_entropy_core& c, const Tensor& g) {
  return c.reduction() == "none" ? g : expand(scale_of_sum(c, g), {c.shape_of_input()[0]});
}

Grads linear_cross_entropy_grads(const GradContext& context, const Tensor& g) {
  const grads::linear_cross_entropy_core c(context);
  const int64_t needed =
    (c.needs_input() ? kInput : 0) | (c.needs_linear_weight() ? kWeight : 0) | (c.needs_linear_bias() ? kBias : 0);
  grads::linear_cross_entropy_core::Result out;
  if (c.reduction() != "none" && (needed & ~c.kept().value_or(0)) == 0) {
    const Tensor scale = scale_of_sum(c, g);
    if (needed & kInput) out.input = mul(c.result(2), scale);
    if (needed & kWeight) out.linear_weight = mul(c.result(3), mul(scale, 1 / kKeptScale));
    if (needed & kBias) out.linear_bias = mul(c.result(4), scale);
    return out;
  }
  auto all =
    _linear_cross_entropy_backward(scale_of_rows(c, g), c.input(), c.linear_weight(), c.target(), optional_bias(c),
                                   optional_weight(c), c.ignore_index(), c.label_smoothing(), c.rows(), needed);
  if (needed & kInput) out.input = all[0];
  if (needed & kWeight) out.linear_weight = all[1];
  if (needed & kBias) out.linear_bias = all[2];
  return out;
}

// Composed of other ops, for double gradients: the logits are stored.
Grads linear_cross_entropy_graph_grads(const GradContext& context, const Tensor& g) {
  const grads::linear_cross_entropy_core c(context);
  const Tensor x = c.input(), w = c.linear_weight();
  const LinearLoss p(x, w, c.target(), optional_weight(c), c.ignore_index(), c.label_smoothing());
  const Tensor logp = log_softmax(to(nn::functional::linear(x, w, optional_bias(c)), p.compute()), 1);
  const Tensor wide = RowTerms(p, p.target, p.compute()).logit_grads(logp);
  const Tensor of_logits = to(mul(wide, unsqueeze(scale_of_rows(c, g), 1)), x.dtype());
  grads::linear_cross_entropy_core::Result out;
  if (c.needs_input()) out.input = matmul(of_logits, w);
  if (c.needs_linear_weight()) out.linear_weight = matmul(transpose(of_logits, 0, 1), x);
  if (c.needs_linear_bias()) out.linear_bias = sum(of_logits, {0});
  return out;
}
}  // namespace

STRATA_OP(
  linear_cross_entropy_core,
  "_linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias, Tensor? "
  "weight, str reduction, int ignore_index, float label_smoothing, int rows, int? kept=None) -> (Tensor, Tensor, "
  "Tensor, Tensor, Tensor)")
  .no_grad_inputs({"weight"})
  .doc(
    "cross_entropy(linear(input, linear_weight, linear_bias), target) with class indices, in chunks of rows (0: chosen "
    "by the op); the sum of the weights of the targets that are not ignored; and, for the bits of kept, the gradients "
    "of "
    "the sum of all losses with respect to input (1), linear_weight (2, divided by 64) and linear_bias (8).")
  .keeps_for_grad("kept")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .autocast(Autocast::Lower)
  .infer([](const args::linear_cross_entropy_core& c) {
    const TensorImpl &x = c.input(), &w = c.linear_weight();
    check_linear_loss(x, w, c.target(), c.linear_bias(), c.weight());
    STRATA_CHECK(c.label_smoothing() >= 0 && c.label_smoothing() <= 1, Runtime,
                 "linear_cross_entropy: label_smoothing must be between 0.0 and 1.0, got {}", c.label_smoothing());
    STRATA_CHECK(c.rows() >= 0, Value, "linear_cross_entropy: a chunk of {} rows; expected 0 or more", c.rows());
    for (size_t o : {0, 1}) {
      c.out(o)->dtype = compute_type(x.dtype);
      c.out(o)->set_shape(o == 0 && c.reduction() == "none" ? c.target().sizes() : Shape());
    }
    set_grads(x, w, c.kept().value_or(0), &c.out(2));
  })
  .kernel("chunks", [](const Call& c) { run_linear_cross_entropy(c, false); })
  .kernel("reference", [](const Call& c) { run_linear_cross_entropy(c, true); })
  .cuda("chunks", [](const Call& c) { run_linear_cross_entropy(c, false); })
  .saves({"input", "linear_weight", "target", "linear_bias", "weight"})
  .saves_result({1, 2, 3, 4})
  .no_grad_outputs({1, 2, 3, 4})
  .grad(linear_cross_entropy_grads)
  .grad_for_graph(linear_cross_entropy_graph_grads)
  .samples({"f(3,5), f(4,5), i4(3), None, None, 'mean', -100, 0.0, 2, 11",
            "f(7,5), f(9,5), i9(7), f(9), p(9), 'sum', 1, 0.0, 3, 11",
            "f(7,5), f(9,5), i9(7), f(9), p(9), 'mean', 1, 0.2, 3, 9",
            "f(5,3), f(4,3), i4(5), f(4), None, 'none', -100, 0.1, 0, 0",
            "f(5,3), f(4,3), i4(5), None, p(4), 'none', 2, 0.0, 2, 0",
            "f(0,3), f(4,3), i4(0), f(4), None, 'sum', -100, 0.0, 0, 11"})
  .error("f(3,5), f(4,4), i4(3), None, None, 'mean', -100, 0.0, 0, 0", ErrorKind::Runtime, "cannot be multiplied")
  .error("f(3,5), f(4,5), i4(2), None, None, 'mean', -100, 0.0, 0, 0", ErrorKind::Value, "target batch_size (2)")
  .error("f(3,5), f(4,5), i4(3), f(3), None, 'mean', -100, 0.0, 0, 0", ErrorKind::Runtime, "linear_bias of shape [4]")
  .error("f(3,5), f(4,5), i4(3), None, f(3), 'mean', -100, 0.0, 0, 0", ErrorKind::Runtime, "each of 4 classes");

STRATA_OP(linear_cross_entropy_backward,
          "_linear_cross_entropy_backward(Tensor grad, Tensor input, Tensor linear_weight, Tensor target, Tensor? "
          "linear_bias, Tensor? weight, int ignore_index, float label_smoothing, int rows, int needed) -> (Tensor, "
          "Tensor, Tensor)")
  .doc("The gradients of _linear_cross_entropy, for the gradient of each row's loss.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::linear_cross_entropy_backward& c) {
    check_linear_loss(c.input(), c.linear_weight(), c.target(), c.linear_bias(), c.weight());
    STRATA_CHECK(c.grad().same_shape(c.target()) && is_floating(c.grad().dtype), Runtime,
                 "linear_cross_entropy: expected a gradient for each of {} rows, got shape {}", c.target().numel,
                 to_string(c.grad().sizes()));
    set_grads(c.input(), c.linear_weight(), c.needed(), &c.out());
  })
  .kernel("chunks", [](const Call& c) { run_linear_cross_entropy_backward(c, false); })
  .kernel("reference", [](const Call& c) { run_linear_cross_entropy_backward(c, true); })
  .cuda("chunks", [](const Call& c) { run_linear_cross_entropy_backward(c, false); })
  .samples({"f(7), f(7,5), f(9,5), i9(7), f(9), p(9), 1, 0.0, 3, 11",
            "f(7), f(7,5), f(9,5), i9(7), None, None, -100, 0.3, 0, 3"});

STRATA_OP(linear_cross_entropy,
          "nn.functional.linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, Tensor? "
          "linear_bias=None, Tensor? weight=None, str reduction='mean', "
          "int? ignore_index=None, float label_smoothing=0.0) -> Tensor")
  .no_grad_inputs({"weight"})
  .doc(
    "cross_entropy(linear(input, linear_weight, linear_bias), target); linear_weight is [C, ..., in_features].\n\n"
    "For an input [N, in_features] and class indices, the logits of all rows never exist at once: they are computed in "
    "chunks of rows, together with the gradients if one is recorded.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& linear_weight, const Tensor& target, const Tensor& linear_bias,
                const Tensor& weight, std::string_view reduction, std::optional<int64_t> ignore, double smoothing) {
    STRATA_CHECK(linear_weight.dim() >= 2 && input.dim() >= 1, Runtime,
                 "linear_cross_entropy: expected linear_weight of 2 or more dimensions [C, ..., in_features], got {}",
                 to_string(linear_weight.shape()));
    STRATA_CHECK(input.dim() == 2 || (input.dim() == 1 && linear_weight.dim() == 2), Runtime,
                 "linear_cross_entropy: a linear_weight of shape {} needs an input [N, in_features]{}, got shape {}",
                 to_string(linear_weight.shape()), linear_weight.dim() == 2 ? " or [in_features]" : "",
                 to_string(input.shape()));
    STRATA_CHECK(!is_floating(target.dtype()) || target.dim() != input.dim() || target.dim() < 2 ||
                   target.size(0) == input.size(0),
                 Value, "linear_cross_entropy: expected input batch_size ({}) to match target batch_size ({})",
                 input.size(0), target.size(0));
    // Names this op if it is invalid.
    const LossReduction r = reduction_of("linear_cross_entropy", std::nullopt, std::nullopt, reduction);
    const bool autocast = thread_state.autocast && autocast::is_autocast_enabled(input.device().type);
    if (input.dim() == 2 && linear_weight.dim() == 2 && !is_floating(target.dtype())) {
      STRATA_CHECK(!weight || autocast || weight.dtype() == input.dtype(), Runtime,
                   "linear_cross_entropy: expected scalar type {} for weight but found {}", name_of(input.dtype()),
                   name_of(weight.dtype()));
      const auto kept = r == LossReduction::None ? std::optional<int64_t>(0) : std::nullopt;
      // As double, weights of classes are exact under autocast too.
      const Tensor loss =
        _linear_cross_entropy(input, linear_weight, target, linear_bias, weight ? to(weight, DType::F64) : weight,
                              name_of(r), ignore.value_or(-100), smoothing, 0, kept)[0];
      return autocast ? loss : to(loss, input.dtype());
    }
    const Shape sizes = linear_weight.shape();
    std::vector<int64_t> shape(input.shape().begin(), input.shape().end() - 1);
    shape.insert(shape.end(), sizes.begin(), sizes.end() - 1);
    const Tensor rows = reshape(linear_weight, {checked_numel(sizes.first(sizes.size() - 1)), sizes.back()});
    const Tensor logits =
      nn::functional::linear(input, rows, linear_bias ? reshape(linear_bias, {linear_bias.numel()}) : linear_bias);
    return nn::functional::cross_entropy(reshape(logits, shape), target, weight, std::nullopt, ignore.value_or(-100),
                                         std::nullopt, name_of(r), smoothing);
  })
  .samples({"f(3,5), f(4,5), i4(3)", "f(3,5), f(4,2,5), i4(3,2), linear_bias=f(4,2)",
            "f(6,5), f(4,5), i4(6), linear_bias=f(4), weight=p(4), reduction='sum', ignore_index=2",
            "f(6,5), f(4,5), i4(6), reduction='none', label_smoothing=0.1"})
  .error("f(3,5), f(4,3), i4(3)", ErrorKind::Runtime, "cannot be multiplied")
  .error("f(5), f(2,4,5), f(2,4)", ErrorKind::Runtime, "needs an input [N, in_features]")
  .error("f(4,5), f(2,5), f(5,2)", ErrorKind::Value, "to match target batch_size (5)")
  .error("f(3,5), f(4,5), i4(3), label_smoothing=2.0", ErrorKind::Runtime, "between 0.0 and 1.0");

}  // namespace strata
