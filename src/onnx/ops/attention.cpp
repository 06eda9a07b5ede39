// Attention in its forms, and rotary embeddings.
#include <limits>

#include "onnx/ops/convert.h"

namespace strata::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [batch, steps, heads * size] as [batch, heads, steps, size].
Tensor split_heads(const Tensor& x, int64_t heads) {
  STRATA_CHECK(x.dim() == 3 && heads > 0 && x.size(2) % heads == 0, Value, "an input {} for {} heads",
               to_string(x.shape()), heads);
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), 1, 2);
}
Tensor join_heads(const Tensor& x) {
  return reshape(transpose(x, 1, 2), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}
Tensor repeat_heads(const Tensor& x, int64_t heads) {
  STRATA_CHECK(x.size(1) > 0 && heads % x.size(1) == 0, Value, "{} heads of queries for {} of keys", heads, x.size(1));
  return x.size(1) == heads ? x : repeat_interleave(x, heads / x.size(1), 1);
}

struct Masks {
  Tensor bias;  // added to the scores: 0 or -infinity, or what the mask has
  void add_bias(const Tensor& t) { bias = bias ? add(bias, t) : t; }
  void forbid(const Tensor& allowed, DType dtype) {
    add_bias(where(allowed, full({}, 0.0, TensorOptions(dtype).device(allowed.device())), -kInfinity));
  }
};
// Of query i and key j: j - i - offset, as [q, keys] or [batch, 1, q, keys].
Tensor distances(const NodeCall& c, int64_t queries, int64_t keys, int64_t past, Device device) {
  const TensorOptions ints = TensorOptions(DType::I64).device(device);
  const Tensor d = sub(arange(keys, ints), reshape(arange(queries, ints), {queries, 1}));
  if (!c.has(size_t{6})) return sub(d, past);
  const Tensor filled = reshape(cast(c.tensor(6), DType::I64), {-1, 1, 1, 1});  // of each batch entry
  return sub(d, sub(filled, queries));
}
Masks masks_of(const NodeCall& c, const Tensor& q, int64_t keys, int64_t past) {
  Masks m;
  const DType dtype = q.dtype();
  if (c.has(size_t{3})) {
    Tensor mask = c.tensor(3);
    const int64_t missing = mask.dim() ? keys - mask.size(-1) : 0;
    if (missing > 0) {
      const Scalar fill = mask.dtype() == DType::Bool ? Scalar(false) : Scalar(-kInfinity);
      mask = constant_pad_nd(mask, {0, missing}, fill);
    }
    if (mask.dtype() == DType::Bool) m.forbid(mask, dtype);
    else m.add_bias(mask);
  }
  const int64_t left = c.integer("left_window_size", -1), right = c.integer("right_window_size", -1);
  if (c.flag("is_causal") || left >= 0 || right >= 0) {
    const Tensor d = distances(c, q.size(2), keys, past, q.device());
    if (c.flag("is_causal")) m.forbid(le(d, 0), dtype);
    if (left >= 0) m.forbid(ge(d, -left), dtype);
    if (right >= 0) m.forbid(le(d, right), dtype);
  }
  if (c.has(size_t{6})) {
    const Tensor filled = reshape(cast(c.tensor(6), DType::I64), {-1, 1, 1, 1});
    m.forbid(lt(arange(keys, TensorOptions(DType::I64).device(q.device())), filled), dtype);
  }
  return m;
}
// Rows of -infinity alone have no key: their weights are 0.
Tensor safe_softmax(const Tensor& scores, const Tensor& bias) {
  const Tensor p = softmax(scores, -1);
  return bias ? where(eq(amax(bias, {-1}, true), -kInfinity), zeros_like(p), p) : p;
}

Values attention(NodeCall& c) {
  Tensor q = c.tensor(0), k = c.tensor(1), v = c.tensor(2);
  const bool packed = q.dim() == 3;
  if (packed) {
    q = split_heads(q, c.integer("q_num_heads"));
    k = split_heads(k, c.integer("kv_num_heads"));
    v = split_heads(v, c.integer("kv_num_heads"));
  }
  STRATA_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, Value,
               "Q {}, K {} and V {}; expected 3 or 4 dimensions each", to_string(q.shape()), to_string(k.shape()),
               to_string(v.shape()));
  STRATA_CHECK(c.has(size_t{4}) == c.has(size_t{5}), Value, "past_key and past_value come together");
  int64_t past = 0;
  if (c.has(size_t{4})) {
    const Tensor keys[] = {c.tensor(4), k}, values[] = {c.tensor(5), v};
    past = keys[0].size(2);
    k = cat(keys, 2);
    v = cat(values, 2);
  }
  const Tensor present_k = k, present_v = v;
  k = repeat_heads(k, q.size(1));
  v = repeat_heads(v, q.size(1));
  const double scale = c.number("scale", 1 / std::sqrt(static_cast<double>(q.size(3))));
  const double softcap = c.number("softcap", 0);
  const Masks masks = masks_of(c, q, k.size(2), past);
  const DType dtype = q.dtype();
  const auto finish = [&](const Tensor& y, const Tensor& scores) {
    return Values{Value(packed ? join_heads(y) : y), Value(present_k), Value(present_v), Value(scores)};
  };
  if (!c.wants(3) && !masks.bias && softcap == 0 && !c.has("softmax_precision"))
    return finish(F::scaled_dot_product_attention(q, k, v, {}, 0, false, scale), {});
  const double root = std::sqrt(scale);
  Tensor scores = matmul(mul(q, root), mul(transpose(k, 2, 3), root));
  const int64_t mode = c.integer("qk_matmul_output_mode", 0);
  Tensor shown = scores;
  if (softcap > 0) scores = mul(tanh(div(scores, softcap)), softcap);
  // the order of the modes changed with the softcap's place
  if (softcap > 0 && (mode == 0 || mode == 1)) shown = scores;
  Tensor biased = masks.bias ? add(scores, masks.bias) : scores;
  if (mode == 2) shown = biased;
  if (c.has("softmax_precision")) biased = cast(biased, storage_dtype(c.type("softmax_precision", ElementType::Float)));
  const Tensor p = safe_softmax(biased, masks.bias);
  if (mode == 3) shown = p;
  return finish(matmul(cast(p, dtype), v), cast(shown, dtype));
}

Values flex_attention(NodeCall& c) {
  const Tensor q = c.tensor(0);
  STRATA_CHECK(q.dim() == 4 && c.tensor(1).dim() == 4 && c.tensor(2).dim() == 4, Value, "Q {}; expected 4 dimensions",
               to_string(q.shape()));
  const Tensor k = repeat_heads(c.tensor(1), q.size(1)), v = repeat_heads(c.tensor(2), q.size(1));
  const double root = std::sqrt(c.number("scale", 1 / std::sqrt(static_cast<double>(q.size(3)))));
  const DType wide =
    c.has("softmax_precision") ? storage_dtype(c.type("softmax_precision", ElementType::Float)) : wide_type(q.dtype());
  Tensor scores = cast(matmul(mul(q, root), mul(transpose(k, 2, 3), root)), wide);
  const auto modified = [&](std::string_view graph, const Tensor& x) {
    if (!c.has(graph)) return x;
    const Value input(x);
    const Values out = c.run(graph, {&input, 1});
    STRATA_CHECK(out.size() == 1 && out[0].tensor, Value, "the graph '{}' returns no tensor", graph);
    return out[0].tensor;
  };
  scores = modified("score_mod", scores);
  const Tensor p = modified("prob_mod", softmax(scores, -1));
  return one(matmul(cast(p, q.dtype()), v));
}

Values linear_attention(NodeCall& c) {
  const int64_t heads = c.integer("q_num_heads"), kv_heads = c.integer("kv_num_heads");
  const std::string_view rule = c.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  STRATA_CHECK(gated || delta || rule == "linear", Value, "update_rule is '{}'", rule);
  STRATA_CHECK(gated == c.has(size_t{4}) && delta == c.has(size_t{5}), Value, "decay and beta do not fit the rule '{}'",
               rule);
  STRATA_CHECK(kv_heads > 0 && heads > 0 && heads % kv_heads == 0, Value, "{} heads of queries for {} of keys", heads,
               kv_heads);
  const DType dtype = c.tensor(0).dtype();
  const Tensor q = cast(split_heads(c.tensor(0), heads), DType::F32),
               k = cast(split_heads(c.tensor(1), kv_heads), DType::F32);
  const Tensor v = cast(split_heads(c.tensor(2), kv_heads), DType::F32);
  const int64_t batch = q.size(0), steps = q.size(2), dk = k.size(3), dv = v.size(3);
  const auto per_step = [&](size_t i) {
    return split_heads(cast(c.tensor(i), DType::F32), i == 5 ? c.tensor(5).size(2) : kv_heads);
  };
  const Tensor decay = gated ? exp(per_step(4)) : Tensor(), beta = delta ? per_step(5) : Tensor();
  Tensor state = c.has(size_t{3}) ? cast(c.tensor(3), DType::F32)
                                  : zeros({batch, kv_heads, dk, dv}, TensorOptions(DType::F32).device(q.device()));
  const double given = c.number("scale", 0), scale = given == 0 ? 1 / std::sqrt(static_cast<double>(dk)) : given;
  std::vector<Tensor> out;
  for (int64_t t = 0; t < steps; ++t) {
    const Tensor kt = unsqueeze(select(k, 2, t), 3);
    Tensor vt = unsqueeze(select(v, 2, t), 2);
    if (gated) state = mul(state, unsqueeze(select(decay, 2, t), 3));
    if (delta) vt = mul(unsqueeze(select(beta, 2, t), 3), sub(vt, matmul(transpose(kt, 2, 3), state)));
    state = add(state, mul(kt, vt));
    out.push_back(squeeze(matmul(unsqueeze(select(q, 2, t), 2), repeat_heads(state, heads)), 2));
  }
  const Tensor y = out.empty() ? zeros({batch, heads, 0, dv}, like(q)) : mul(stack(out, 2), scale);
  return {Value(cast(join_heads(y), dtype)), Value(cast(state, c.has(size_t{3}) ? c.tensor(3).dtype() : dtype))};
}

Values rotary(NodeCall& c) {
  Tensor x = c.tensor(0);
  const bool packed = x.dim() == 3;
  if (packed) x = split_heads(x, c.integer("num_heads"));
  STRATA_CHECK(x.dim() == 4, Value, "the input is {}; expected 3 or 4 dimensions", to_string(c.tensor(0).shape()));
  const int64_t given = c.integer("rotary_embedding_dim", 0), rotated = given ? given : x.size(3);
  STRATA_CHECK(rotated > 0 && rotated % 2 == 0 && rotated <= x.size(3), Value, "rotary_embedding_dim is {} of {}",
               rotated, x.size(3));
  Tensor cosine = c.tensor(1), sine = c.tensor(2);
  if (c.has(size_t{3})) {
    const Tensor at = cast(c.tensor(3), DType::I64);
    const auto rows = [&](const Tensor& table) {
      return reshape(index_select(table, 0, reshape(at, {at.numel()})), {at.size(0), at.size(-1), table.size(-1)});
    };
    cosine = rows(cosine);
    sine = rows(sine);
  }
  STRATA_CHECK(cosine.dim() == 3 && cosine.size(-1) == rotated / 2 && sine->same_shape(*cosine), Value,
               "cos {} and sin {} for {} rotated elements", to_string(cosine.shape()), to_string(sine.shape()),
               rotated);
  cosine = unsqueeze(cosine, 1);  // [batch, 1, steps, half], as the heads need it
  sine = unsqueeze(sine, 1);
  const Tensor turned = narrow(x, 3, 0, rotated), rest = narrow(x, 3, rotated, x.size(3) - rotated);
  const bool interleaved = c.flag("interleaved");
  const Tensor a = interleaved ? slice(turned, 3, 0, rotated, 2) : narrow(turned, 3, 0, rotated / 2);
  const Tensor b = interleaved ? slice(turned, 3, 1, rotated, 2) : narrow(turned, 3, rotated / 2, rotated / 2);
  const Tensor real = sub(mul(cosine, a), mul(sine, b)), imaginary = add(mul(sine, a), mul(cosine, b));
  const Tensor parts[] = {real, imaginary};
  const Tensor mixed = interleaved ? flatten(stack(parts, 4), 3, 4) : cat(parts, 3);
  const Tensor all[] = {mixed, rest};
  const Tensor y = cat(all, 3);
  return one(packed ? join_heads(y) : y);
}

const OpEntry kAttention[] = {
  {"Attention", 23, 3, 7, nullptr, attention},
  {"LinearAttention", 27, 3, 6, nullptr, linear_attention},
  {"RotaryEmbedding", 23, 3, 4, nullptr, rotary},
  {"FlexAttention", 1, 3, 3, nullptr, flex_attention, "ai.onnx.preview"},
};
}  // namespace

OpTable attention_ops() { return kAttention; }

}  // namespace strata::onnx
