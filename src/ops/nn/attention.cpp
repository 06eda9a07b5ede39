// Attention.
#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata {
namespace {

Tensor repeated_heads(const Tensor& t, int64_t times) {  // [..., h, s, e] to [..., h * times, s, e]
  std::vector<int64_t> wide(t.shape().begin(), t.shape().end()), shape = wide;
  const size_t head = wide.size() - 3;
  wide.insert(wide.begin() + static_cast<int64_t>(head) + 1, times);
  shape[head] *= times;
  return reshape(expand(unsqueeze(t, static_cast<int64_t>(head) + 1), wide), shape);
}

// Whether the batch dimensions are equal everywhere: nothing to broadcast.
bool plain_batches(const Tensor& q, const Tensor& k, const Tensor& v) {
  bool same = q.dim() == k.dim() && q.dim() == v.dim();
  for (int d = 0; same && d < q.dim() - 2; ++d) same = q.size(d) == k.size(d) && q.size(d) == v.size(d);
  return same;
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
    const int64_t rows = query.size(-2), columns = key.size(-2);
    Tensor k = key, v = value;
    if (gqa) {
      const bool heads = query.dim() >= 3 && key.dim() >= 3 && value.dim() >= 3;
      STRATA_CHECK(
        heads && key.size(-3) > 0 && value.size(-3) > 0 && query.size(-3) % key.size(-3) == 0 &&
          query.size(-3) % value.size(-3) == 0,
        Runtime,
        "scaled_dot_product_attention: with enable_gqa the number of heads in query {} must be a multiple of "
        "that in key {} and in value {}",
        to_string(query.shape()), to_string(key.shape()), to_string(value.shape()));
      k = repeated_heads(key, query.size(-3) / key.size(-3));
      v = repeated_heads(value, query.size(-3) / value.size(-3));
    }
    const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(query.size(-1), 1)));
    if (!mask && dropout_p == 0 && plain_batches(query, k, v) && columns > 0)
      return _attention(query, k, v, causal, factor)[0];
    Tensor scores = matmul(mul(query, factor), transpose(k, -2, -1));
    Tensor keep = mask && mask.dtype() == DType::Bool ? mask : Tensor();
    if (causal) keep = le(arange(columns, DType::I64), unsqueeze(arange(rows, DType::I64), 1));
    if (keep) scores = masked_fill(scores, logical_not(keep), -HUGE_VAL);
    else if (mask) scores = add(scores, mask);
    Tensor weights = softmax(scores, -1);
    if (mask && keep)
      weights = masked_fill(weights, logical_not(any(keep, -1, true)), 0.0);  // nothing to attend to: zeros
    if (dropout_p > 0) weights = nn::functional::dropout(weights, dropout_p, true, false);
    return matmul(weights, v);
  })
  .samples({"f(2,3,4), f(2,5,4), f(2,5,6)", "f(1,2,3,4), f(1,2,3,4), f(1,2,3,4), is_causal=True",
            "f(2,3,4), f(2,5,4), f(2,5,6), f(3,5)", "f(2,3,4), f(2,5,4), f(2,5,6), b(3,5), scale=0.3",
            "f(1,4,3,4), f(1,2,3,4), f(1,2,3,4), enable_gqa=True"})
  .error("f(2,3,4), f(2,5,3), f(2,5,6)", ErrorKind::Runtime, "query has 4 features and key 3")
  .error("f(2,3,4), f(2,3,4), f(2,3,4), f(3,3), is_causal=True", ErrorKind::Runtime, "should not be set")
  .error("f(1,4,3,4), f(1,2,3,4), f(1,0,3,4), enable_gqa=True", ErrorKind::Runtime, "must be a multiple")
  .error("f(1,4,3,4), f(1,3,3,4), f(1,3,3,4), enable_gqa=True", ErrorKind::Runtime, "must be a multiple");

}  // namespace strata
