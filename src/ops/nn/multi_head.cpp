// Multi-head attention with its projections, for modules and nn.functional.
#include <cmath>

#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata {
namespace {

using nn::functional::linear;

// A boolean mask (true: masked) as numbers to add to scores.
Tensor as_bias(const Tensor& mask, DType dtype) {
  if (!mask || is_floating(mask.dtype())) return mask;
  STRATA_CHECK(mask.dtype() == DType::Bool, Runtime,
               "multi_head_attention_forward: masks must be boolean or floating-point, got {}", name_of(mask.dtype()));
  return masked_fill(zeros(mask.shape(), dtype), mask, -HUGE_VAL);
}

struct Three {
  Tensor q, k, v;
};

// `weights` is one packed weight or three, followed by the packed bias or nothing.
Three project(const Tensor& query, const Tensor& key, const Tensor& value, TensorList weights) {
  const Tensor& bias = weights.back();
  if (weights.size() == 2 && query.get() == key.get() && key.get() == value.get()) {
    const auto parts = chunk(linear(query, weights[0], bias), 3, -1);
    return {parts[0], parts[1], parts[2]};
  }
  const auto w = weights.size() == 2 ? chunk(weights[0], 3) : std::vector<Tensor>{weights[0], weights[1], weights[2]};
  const auto b = bias ? chunk(bias, 3) : std::vector<Tensor>(3);
  return {linear(query, w[0], b[0]), linear(key, w[1], b[1]), linear(value, w[2], b[2])};
}

Tensor longer(const Tensor& mask) { return mask ? nn::functional::pad(mask, {0, 1}) : mask; }

}  // namespace

STRATA_OP(multi_head_attention,
          "_multi_head_attention(Tensor query, Tensor key, Tensor value, int num_heads, Tensor?[] in_proj, Tensor?[] "
          "out_proj, Tensor?[] bias_kv, Tensor?[] static_kv, bool add_zero_attn, float dropout_p, Tensor? "
          "key_padding_mask, Tensor? attn_mask, bool need_weights, bool average_weights) -> (Tensor, Tensor)")
  .doc(
    "Projections, softmax(q @ k.T) @ v per head, output projection; inputs are [steps, batch, features] or without "
    "batch.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& query_in, const Tensor& key_in, const Tensor& value_in, int64_t heads, TensorList in_proj,
                TensorList out_proj, TensorList bias_kv, TensorList static_kv, bool add_zero, double dropout_p,
                const Tensor& padding_in, const Tensor& mask_in, bool need_weights, bool average) {
    constexpr const char* op = "multi_head_attention_forward";
    STRATA_CHECK(query_in.dim() == 2 || query_in.dim() == 3, Runtime, "{}: expected a 2D or 3D query, got shape {}", op,
                 to_string(query_in.shape()));
    STRATA_CHECK(key_in.dim() == query_in.dim() && value_in.dim() == query_in.dim(), Runtime,
                 "{}: query, key and value must have the same number of dimensions, got {}, {} and {}", op,
                 to_string(query_in.shape()), to_string(key_in.shape()), to_string(value_in.shape()));
    STRATA_CHECK((in_proj.size() == 2 || in_proj.size() == 4) && out_proj.size() == 2, Runtime,
                 "{}: expected one packed weight or three, and a bias", op);
    const bool batched = query_in.dim() == 3;
    const auto with_batch = [&](const Tensor& t) { return batched ? t : unsqueeze(t, 1); };
    const Tensor query = with_batch(query_in), key = key_in.get() == query_in.get() ? query : with_batch(key_in),
                 value = value_in.get() == key_in.get() ? key : with_batch(value_in);
    const int64_t steps = query.size(0), batch = query.size(1), width = query.size(2);
    STRATA_CHECK(heads > 0 && width % heads == 0, Runtime, "{}: embed_dim {} not divisible by num_heads {}", op, width,
                 heads);
    STRATA_CHECK(key.size(0) == value.size(0) && key.size(1) == value.size(1), Runtime,
                 "{}: key's sequence and batch sizes {} do not match value's {}", op, to_string(key.shape()),
                 to_string(value.shape()));
    const int64_t head = width / heads;
    Three p = project(query, key, value, in_proj);
    Tensor mask = as_bias(mask_in, p.q.dtype()), padding = as_bias(padding_in, p.q.dtype());
    if (mask && mask.dim() == 2) mask = unsqueeze(mask, 0);
    if (padding && !batched && padding.dim() == 1) padding = unsqueeze(padding, 0);
    if (bias_kv.size() == 2 && bias_kv[0] && bias_kv[1]) {
      p.k = cat({p.k, repeat(bias_kv[0], {1, batch, 1})});
      p.v = cat({p.v, repeat(bias_kv[1], {1, batch, 1})});
      mask = longer(mask);
      padding = longer(padding);
    }
    const auto by_head = [&](const Tensor& t) { return transpose(reshape(t, {t.size(0), batch * heads, head}), 0, 1); };
    const bool fixed = static_kv.size() == 2;
    const Tensor q = by_head(p.q);
    Tensor k = fixed && static_kv[0] ? static_kv[0] : by_head(p.k),
           v = fixed && static_kv[1] ? static_kv[1] : by_head(p.v);
    if (add_zero) {
      const Tensor zero = zeros({batch * heads, 1, head}, k.dtype());
      k = cat({k, zero}, 1);
      v = cat({v, zero}, 1);
      mask = longer(mask);
      padding = longer(padding);
    }
    const int64_t source = k.size(1);
    if (padding) {
      STRATA_CHECK(padding.dim() == 2 && padding.size(0) == batch && padding.size(1) == source, Runtime,
                   "{}: expected key_padding_mask of shape [{}, {}], got {}", op, batch, source,
                   to_string(padding.shape()));
      const Tensor rows =
        reshape(expand(reshape(padding, {batch, 1, 1, source}), {-1, heads, -1, -1}), {batch * heads, 1, source});
      mask = mask ? add(mask, rows) : rows;
    }
    Tensor weights, out;
    if (need_weights) {
      Tensor scores = bmm(mul(q, std::sqrt(1.0 / static_cast<double>(head))), transpose(k, -2, -1));
      if (mask) scores = add(scores, mask);
      weights = softmax(scores, -1);
      if (dropout_p > 0) weights = nn::functional::dropout(weights, dropout_p);
      out = bmm(weights, v);
    } else {
      out = nn::functional::scaled_dot_product_attention(q, k, v, mask, dropout_p);
    }
    out = linear(reshape(transpose(out, 0, 1), {steps * batch, width}), out_proj[0], out_proj[1]);
    out = reshape(out, {steps, batch, out_proj[0].size(0)});
    if (weights) {
      weights = reshape(weights, {batch, heads, steps, source});
      if (average) weights = mean(weights, OptIntList{1});
    } else {
      weights = empty({0}, out.dtype());
    }
    if (!batched) {
      out = squeeze(out, 1);
      if (need_weights) weights = squeeze(weights, 0);
    }
    return std::array<Tensor, 2>{out, weights};
  })
  .samples(
    {"f(3,2,4), f(5,2,4), f(5,2,4), 2, [f(12,4), f(12)], [f(4,4), f(4)], [], [], False, 0.0, None, f(3,5), True, True",
     "f(3,2,4), f(5,2,4), f(5,2,4), 2, [f(12,4), None], [f(4,4), None], [f(1,1,4), f(1,1,4)], [], True, 0.0, None, "
     "None, "
     "False, False"})
  .error("f(3), f(3), f(3), 1, [f(9,3), None], [f(3,3), None], [], [], False, 0.0, None, None, True, True",
         ErrorKind::Runtime, "expected a 2D or 3D query");

}  // namespace strata
