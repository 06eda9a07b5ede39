// Margin losses.
#include "autograd/autograd.h"
#include "ops/check_dtype.h"
#include "ops/nn/loss_common.h"

namespace strata {
namespace {

Tensor hinge(const Tensor& t) { return clamp_min(t, 0.0); }
}  // namespace

STRATA_OP(hinge_embedding_loss,
          "nn.functional.hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, bool? size_average=None, "
          "bool? reduce=None, str reduction='mean') -> Tensor")
  .doc("The input where target is 1, max(0, margin - input) where it is -1.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, double margin, std::optional<bool> average,
                std::optional<bool> reduce, std::string_view reduction) {
    const LossReduction r = reduction_of("hinge_embedding_loss", average, reduce, reduction);
    const Tensor far = where(ne(target, 1), hinge(rsub(input, margin)), 0.0), near = where(ne(target, -1), input, 0.0);
    return reduced(add(far, near), r);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), f(3,4)", "f(3,4), i2(3,4), 0.5, reduction='none'"})
  .error("f(3), f(3), reduction='x'", ErrorKind::Value, "not a valid value for reduction");

STRATA_OP(margin_ranking_loss,
          "nn.functional.margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, bool? "
          "size_average=None, bool? reduce=None, str reduction='mean') -> Tensor")
  .doc("max(0, -target * (input1 - input2) + margin).")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& a, const Tensor& b, const Tensor& target, double margin, std::optional<bool> average,
                std::optional<bool> reduce, std::string_view reduction) {
    const LossReduction r = reduction_of("margin_ranking_loss", average, reduce, reduction);
    STRATA_CHECK(a.dim() == b.dim() && a.dim() == target.dim(), Runtime,
                 "margin_ranking_loss: all inputs should have the same number of dimensions, but got {}, {} and {}",
                 to_string(a.shape()), to_string(b.shape()), to_string(target.shape()));
    return reduced(hinge(add(mul(neg(target), sub(a, b)), margin)), r);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), f(3,4), f(3,4)", "f(3), f(3), f(3), 0.5, reduction='none'"})
  .error("f(3,4), f(3,4), f(3)", ErrorKind::Runtime, "same number of dimensions");

STRATA_OP(cosine_embedding_loss,
          "nn.functional.cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, bool? "
          "size_average=None, bool? reduce=None, str reduction='mean') -> Tensor")
  .doc("1 - cos where target is 1, max(0, cos - margin) where it is -1.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& a, const Tensor& b, const Tensor& target, double margin, std::optional<bool> average,
                std::optional<bool> reduce, std::string_view reduction) {
    const LossReduction r = reduction_of("cosine_embedding_loss", average, reduce, reduction);
    STRATA_CHECK(target.dim() <= 1, Runtime, "cosine_embedding_loss: 0D or 1D target tensor expected, got shape {}",
                 to_string(target.shape()));
    STRATA_CHECK(a.dim() == target.dim() + 1 && b.dim() == target.dim() + 1, Runtime,
                 "cosine_embedding_loss: a {}D target tensor expects {}D inputs, found shapes {} and {}", target.dim(),
                 target.dim() + 1, to_string(a.shape()), to_string(b.shape()));
    const int64_t dim = target.dim();
    const Tensor norms = sqrt(mul(add(sum(square(a), dim), 1e-12), add(sum(square(b), dim), 1e-12)));
    const Tensor cosine = div(sum(mul(a, b), dim), norms);
    return reduced(
      add(where(eq(target, 1), rsub(cosine, 1.0), 0.0), where(eq(target, -1), hinge(sub(cosine, margin)), 0.0)), r);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), f(3,4), f(3)", "f(4), f(4), f(), 0.5", "f(3,4), f(3,4), i2(3)"})
  .error("f(3,4), f(3,4), f(3,4)", ErrorKind::Runtime, "0D or 1D target");

STRATA_OP(triplet_margin_loss,
          "nn.functional.triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float "
          "p=2, float eps=1e-6, bool swap=False, bool? size_average=None, "
          "bool? reduce=None, str reduction='mean') -> Tensor")
  .doc("max(0, d(anchor, positive) - d(anchor, negative) + margin).")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin, double p,
                double eps, bool swap, std::optional<bool> average, std::optional<bool> reduce,
                std::string_view reduction) {
    const LossReduction r = reduction_of("triplet_margin_loss", average, reduce, reduction);
    STRATA_CHECK(margin > 0, Value, "triplet_margin_loss: margin must be greater than 0, got {}", margin);
    STRATA_CHECK(anchor.dim() == positive.dim() && anchor.dim() == negative.dim(), Runtime,
                 "triplet_margin_loss: the anchor, positive and negative tensors are expected to have the same number "
                 "of dimensions, got {}, {}, {}",
                 anchor.dim(), positive.dim(), negative.dim());
    const Tensor near = pairwise_distance(anchor, positive, p, eps, false);
    Tensor far = pairwise_distance(anchor, negative, p, eps, false);
    if (swap) far = minimum(far, pairwise_distance(positive, negative, p, eps, false));
    return reduced(hinge(add(sub(near, far), margin)), r);
  })
  .autocast(Autocast::Float32)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), f(3,4), f(3,4)", "f(3,4), f(3,4), f(3,4), 0.5, swap=True, reduction='none'"})
  .error("f(3,4), f(3,4), f(3)", ErrorKind::Runtime, "same number of dimensions");

STRATA_OP(multi_margin_loss,
          "nn.functional.multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1.0, Tensor? "
          "weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor")
  .doc("The mean over wrong classes of max(0, margin - input[target] + input[class])^p.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, int64_t p, double margin, const Tensor& weight,
                std::optional<bool> average, std::optional<bool> reduce, std::string_view reduction) {
    const LossReduction r = reduction_of("multi_margin_loss", average, reduce, reduction);
    refuse_integers(input, "multi_margin_loss");
    STRATA_CHECK(p == 1 || p == 2, Value, "multi_margin_loss: only p == 1 and p == 2 are supported, got {}", p);
    STRATA_CHECK(input.dim() <= 2, Runtime,
                 "multi_margin_loss: expected an input of at most 2 dimensions, got shape {}",
                 to_string(input.shape()));
    const Tensor x = input.dim() == 2 ? input : reshape(input, {1, input.numel()});
    const int64_t n = x.size(0), classes = x.size(1);
    STRATA_CHECK(target.numel() == n && target.dim() <= 1, Runtime,
                 "multi_margin_loss: inconsistent target size, expected {} but got {}", n, to_string(target.shape()));
    STRATA_CHECK(!weight || weight.dim() == 1, Value, "multi_margin_loss: weight must be one-dimensional, got shape {}",
                 to_string(weight.shape()));
    STRATA_CHECK(!weight || weight.numel() == classes, Runtime,
                 "multi_margin_loss: inconsistent weight size, expected {} but got {}", classes,
                 to_string(weight.shape()));
    const Tensor y = reshape(target, {n, 1});
    Tensor z = hinge(add(sub(x, gather(x, 1, y)), margin));
    if (p == 2) z = square(z);
    if (weight) z = mul(z, reshape(index_select(reshape(weight, {classes}), 0, reshape(y, {n})), {n, 1}));
    z = where(eq(arange(classes, DType::I64), y), 0.0, z);
    const Tensor loss = div(sum(z, 1), static_cast<double>(classes));
    return reduced(r == LossReduction::None && target.dim() == 0 ? reshape(loss, Shape()) : loss, r);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), i4(3)", "f(4), i4()", "f(3,4), i4(3), 2, 0.5, p(4), reduction='none'"})
  .error("f(3,4), i4(2)", ErrorKind::Runtime, "inconsistent target size")
  .error("f(3,4), t[0,4,1]", ErrorKind::Runtime, "out of bounds")
  .error("f(3,4), i4(3), weight=f()", ErrorKind::Value, "one-dimensional");

STRATA_OP(multilabel_soft_margin_loss,
          "nn.functional.multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, bool? "
          "size_average=None, bool? reduce=None, str reduction='mean') -> Tensor")
  .doc("Binary cross entropy with logits, averaged over classes.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, const Tensor& weight, std::optional<bool> average,
                std::optional<bool> reduce, std::string_view reduction) {
    const LossReduction r = reduction_of("multilabel_soft_margin_loss", average, reduce, reduction);
    using nn::functional::logsigmoid;
    const Tensor y = target.dtype() == DType::Bool ? to(target, input.dtype()) : target;
    Tensor loss = neg(add(mul(y, logsigmoid(input)), mul(rsub(y, 1), logsigmoid(neg(input)))));
    if (weight) loss = mul(loss, weight);
    loss = div(sum(loss, -1), static_cast<double>(input.dim() ? input.size(-1) : 1));
    return reduced(loss, r);
  })
  .samples({"f(3,4), b(3,4)", "f(3,4), p(3,4), p(4), reduction='none'"})
  .error("f(3), f(3), reduction='x'", ErrorKind::Value, "not a valid value for reduction");

STRATA_OP(soft_margin_loss,
          "nn.functional.soft_margin_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str "
          "reduction='mean') -> Tensor")
  .doc("log(1 + exp(-target * input)).")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& target, std::optional<bool> average, std::optional<bool> reduce,
                std::string_view reduction) {
    const LossReduction r = reduction_of("soft_margin_loss", average, reduce, reduction);
    const Tensor loss = nn::functional::softplus(neg(mul(target, input)));
    return reduced(is_floating(input.dtype()) ? to(loss, input.dtype()) : loss, r);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), f(3,4)", "f(3,4), f(3,4), reduction='sum'"})
  .error("f(3), f(3), reduction='x'", ErrorKind::Value, "not a valid value for reduction");

}  // namespace strata
