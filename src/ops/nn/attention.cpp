// Attention.
#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata {
namespace {

// Each head of t serves `times` heads of the query: [..., h, s, e] to [..., h, times, s, e], a view.
Tensor repeated_heads(const Tensor& t, int64_t times) {
  std::vector<int64_t> wide(t.shape().begin(), t.shape().end());
  const auto head = static_cast<int64_t>(wide.size()) - 3;
  wide.insert(wide.begin() + head + 1, times);
  return expand(unsqueeze(t, head + 1), wide);
}

// Whether each of `heads` heads of keys or values serves equally many heads of the query; no heads serve none.
bool are_shared(int64_t of_query, int64_t heads) { return heads == 0 ? of_query == 0 : of_query % heads == 0; }

// Whether the batch dimensions are equal everywhere: nothing to broadcast.
bool plain_batches(const Tensor& q, const Tensor& k, const Tensor& v) {
  bool same = q.dim() == k.dim() && q.dim() == v.dim();
  for (int d = 0; same && d < q.dim() - 2; ++d) same = q.size(d) == k.size(d) && q.size(d) == v.size(d);
  return same;
}

// Whether the op of devices takes masks and dropout too.
bool fuses_all(const Tensor& q) {
  const Device device = q.device();
  return device.type != DeviceType::Cpu && device.type != DeviceType::Meta && size_of(q.dtype()) >= 2;
}
// Whether a mask can go into that op: it has no more elements than the scores.
bool can_fuse(const Tensor& mask, const Tensor& q, const Tensor& k) {
  if (!fuses_all(q) || mask.dim() > q.dim()) return false;
  for (int64_t d = 1; d <= mask.dim(); ++d) {
    const int64_t size = mask.size(-d), scores = d == 1 ? k.size(-2) : q.size(-d);
    if (size != 1 && size != scores) return false;
  }
  return true;
}
Tensor expand_to_scores(const Tensor& mask, const Tensor& q, const Tensor& k) {
  std::vector<int64_t> shape(q.shape().begin(), q.shape().end());
  shape.back() = k.size(-2);
  return expand(mask, shape);
}

// The scores are stored: for dropout and masks on the CPU, and masks with more elements than the scores. A row that attends to
// nothing gets weights of zero, and gradients of zero: its softmax sees finite scores.
Tensor attention_by_ops(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                        double dropout_p, double scale) {
  Tensor scores = matmul(mul(q, scale), transpose(k, -2, -1)), attends;
  if (causal) {
    const Tensor row = unsqueeze(arange(q.size(-2), DType::I64), 1);
    scores = masked_fill(scores, gt(arange(k.size(-2), DType::I64), row), -HUGE_VAL);
  } else if (mask && mask.dtype() == DType::Bool) {
    attends = any(mask, -1, true);
    scores = masked_fill(scores, logical_and(logical_not(mask), attends), -HUGE_VAL);
  } else if (mask) {
    attends = any(ne(mask, -HUGE_VAL), -1, true);
    scores = add(scores, masked_fill(to(mask, scores.dtype()), logical_not(attends), 0.0));
  }
  Tensor weights = softmax(scores, -1);
  if (attends) weights = masked_fill(weights, logical_not(attends), 0.0);
  if (dropout_p > 0) weights = nn::functional::dropout(weights, dropout_p, true, false);
  return matmul(weights, v);
}
// Draws for dropout of the weights: as many as of an op that has them all.
Tensor draws_for(const Tensor& q, const Tensor& k) {
  int64_t count = k.size(-2);
  for (int d = 0; d + 1 < q.dim(); ++d) count *= q.size(d);
  return _reserve_draws(q, count);
}
}  // namespace

STRATA_OP(scaled_dot_product_attention,
          "nn.functional.scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
          "float dropout_p=0.0, bool is_causal=False, *, "
          "float? scale=None, bool enable_gqa=False) -> Tensor")
  .doc("softmax(query @ key.T * scale + mask) @ value. A boolean mask is true where attention is allowed.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double dropout_p,
                bool causal, std::optional<double> scale, bool gqa) {
    STRATA_CHECK(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2, Runtime,
                 "scaled_dot_product_attention: query, key and value must have at least 2 dimensions, got {}, {}, {}",
                 to_string(query.shape()), to_string(key.shape()), to_string(value.shape()));
    STRATA_CHECK(
      query.dtype() == key.dtype() && query.dtype() == value.dtype(), Runtime,
      "scaled_dot_product_attention: expected query, key and value to have the same dtype, but got {}, {} and {}",
      name_of(query.dtype()), name_of(key.dtype()), name_of(value.dtype()));
    STRATA_CHECK(query.size(-1) == key.size(-1), Runtime,
                 "scaled_dot_product_attention: query has {} features and key {}; they must be equal", query.size(-1),
                 key.size(-1));
    STRATA_CHECK(key.size(-2) == value.size(-2), Runtime,
                 "scaled_dot_product_attention: key has {} positions and value {}; they must be equal", key.size(-2),
                 value.size(-2));
    STRATA_CHECK(!(mask && causal), Runtime,
                 "scaled_dot_product_attention: explicit attn_mask should not be set when is_causal=True");
    STRATA_CHECK(
      !mask || mask.dtype() == DType::Bool || mask.dtype() == DType::F32 || mask.dtype() == query.dtype(), Runtime,
      "scaled_dot_product_attention: expected attn_mask to be bool, float32 or of the dtype of query, but got "
      "{} and {}",
      name_of(mask.dtype()), name_of(query.dtype()));
    STRATA_CHECK(dropout_p >= 0 && dropout_p <= 1, Value,
                 "scaled_dot_product_attention: dropout_p has to be between 0 and 1, but got {}", dropout_p);
    Tensor q = query, k = key, v = value, m = mask;
    bool shared_heads = false;
    if (gqa) {
      const bool heads = query.dim() >= 3 && key.dim() >= 3 && value.dim() >= 3;
      STRATA_CHECK(
        heads && are_shared(query.size(-3), key.size(-3)) && are_shared(query.size(-3), value.size(-3)), Runtime,
        "scaled_dot_product_attention: with enable_gqa the number of heads in query {} must be a multiple of "
        "that in key {} and in value {}",
        to_string(query.shape()), to_string(key.shape()), to_string(value.shape()));
      const auto times_of = [&](const Tensor& t) { return t.size(-3) == 0 ? 1 : query.size(-3) / t.size(-3); };
      const int64_t times = times_of(key);
      k = repeated_heads(key, times);
      v = repeated_heads(value, times_of(value));
      shared_heads = key.size(-3) == value.size(-3);
      if (shared_heads) {  // all views: the heads of the query that share one of the key are a dimension of the batch
        q = unflatten(query, -3, {key.size(-3), times});
        if (mask && mask.dim() >= 3)
          m = mask.size(-3) == 1 ? unsqueeze(mask, -3) : unflatten(mask, -3, {key.size(-3), times});
      } else {
        k = flatten(k, -4, -3);
        v = flatten(v, -4, -3);
      }
    }
    const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(query.size(-1), 1)));
    const bool drops = dropout_p > 0;
    const bool fused = (!drops || (fuses_all(q) && dropout_p < 1)) && key.size(-2) > 0 && plain_batches(q, k, v) &&
                       (!m || can_fuse(m, q, k));
    const Tensor result = fused ? _attention(q, k, v, m ? expand_to_scores(m, q, k) : m, causal, factor,
                                             drops ? draws_for(q, k) : Tensor(), dropout_p)[0]
                                : attention_by_ops(q, k, v, m, causal, dropout_p, factor);
    return shared_heads ? flatten(result, -4, -3) : result;
  })
  .autocast(Autocast::Lower)
  .samples({"f(2,3,4), f(2,5,4), f(2,5,6)", "f(1,2,3,4), f(1,2,3,4), f(1,2,3,4), is_causal=True",
            "f(2,3,4), f(2,5,4), f(2,5,6), f(3,5)", "f(2,3,4), f(2,5,4), f(2,5,6), b(3,5), scale=0.3",
            "f(1,4,3,4), f(1,2,3,4), f(1,2,3,4), enable_gqa=True",
            "f(1,0,3,4), f(1,0,3,4), f(1,0,3,4), enable_gqa=True"})
  .error("f(2,3,4), f(2,5,3), f(2,5,6)", ErrorKind::Runtime, "query has 4 features and key 3")
  .error("f(2,3,4), f(2,5,4), f(2,5,6), dropout_p=-0.1", ErrorKind::Value, "has to be between 0 and 1, but got -0.1")
  .error("f(2,3,4), f(2,3,4), f(2,3,4), f(3,3), is_causal=True", ErrorKind::Runtime, "should not be set")
  .error("f(1,4,3,4), f(1,2,3,4), f(1,0,3,4), enable_gqa=True", ErrorKind::Runtime, "must be a multiple")
  .error("f(1,4,3,4), f(1,3,3,4), f(1,3,3,4), enable_gqa=True", ErrorKind::Runtime, "must be a multiple");

}  // namespace strata
