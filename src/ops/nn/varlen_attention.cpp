// Attention of sequences of different lengths, whose rows follow each other in one tensor, within a sliding window.
#include "strata/args/nn/varlen_attention.h"
#include "autograd/autograd.h"
#include "cuda/nn/attention.h"
#include "ops/device_inputs.h"
#include "ops/nn/attention_rows.h"
#include "ops/planned.h"
#include "ops/transfer.h"

namespace strata {
namespace {
using cpu::Attention;

// Queries, keys and values are [heads..., rows of all sequences, features].
struct Varlen {
  Tensor cu_q, cu_k;
  int64_t max_q, max_k, left, right;  // left, right: negative for no limit
  double scale;

  template <class View>
  explicit Varlen(const View& a)
      : cu_q(alias(a.cu_seq_q())),
        cu_k(alias(a.cu_seq_k())),
        max_q(a.max_q()),
        max_k(a.max_k()),
        left(a.left()),
        right(a.right()),
        scale(a.scale()) {}
  Varlen(Tensor starts_q, Tensor starts_k, const grads::varlen_attention_core& a)
      : cu_q(std::move(starts_q)),
        cu_k(std::move(starts_k)),
        max_q(a.max_q()),
        max_k(a.max_k()),
        left(a.left()),
        right(a.right()),
        scale(a.scale()) {}
  int64_t sequences() const { return cu_q.size(0) - 1; }
};

void check_varlen(const TensorImpl& q, const TensorImpl& k, const TensorImpl& v, const TensorImpl& cu_q,
                  const TensorImpl& cu_k, int64_t max_q, int64_t max_k) {
  const int n = q.ndim;
  bool fits = n >= 2 && n - 2 <= Attention::kMaxBatch && k.ndim == n && v.ndim == n;
  for (int d = 0; fits && d < n - 2; ++d) fits = q.shape[d] == k.shape[d] && q.shape[d] == v.shape[d];
  STRATA_CHECK(fits && q.shape[n - 1] == k.shape[n - 1] && k.shape[n - 2] == v.shape[n - 2], Runtime,
               "varlen_attn: query {}, key {} and value {} do not fit each other", to_string(q.sizes()),
               to_string(k.sizes()), to_string(v.sizes()));
  STRATA_CHECK(q.dtype == k.dtype && q.dtype == v.dtype, Runtime,
               "varlen_attn: expected query, key and value to have the same dtype, but got {}, {} and {}",
               name_of(q.dtype), name_of(k.dtype), name_of(v.dtype));
  for (const TensorImpl* t : {&cu_q, &cu_k})
    STRATA_CHECK((t->dtype == DType::I32 || t->dtype == DType::I64) && t->ndim == 1 && t->numel >= 1, Runtime,
                 "varlen_attn: expected starts of sequences [N + 1] of dtype int32 or int64, got {} of shape {}",
                 name_of(t->dtype), to_string(t->sizes()));
  STRATA_CHECK(cu_q.numel == cu_k.numel, Runtime,
               "varlen_attn: cu_seq_q has {} sequences and cu_seq_k {}; they must be equal", cu_q.numel - 1,
               cu_k.numel - 1);
  STRATA_CHECK(max_q >= 0 && max_k >= 0, Value, "varlen_attn: max_q {} and max_k {} must not be negative", max_q,
               max_k);
}

// [heads..., rows, features] in the memory order rows, heads, features.
void set_rows_first(const Tensor& t, Shape shape) {
  t->set_shape(shape);
  t->set_contiguous_strides();
  const size_t n = shape.size();
  int64_t step = shape[n - 1];
  for (size_t d = n - 2; d-- > 0; step *= shape[d]) t->strides[d] = step;
  t->strides[n - 2] = step;
  t->update_contiguous();
}

// --- CPU: one sequence after the other --------------------------------------------------------------------------------

std::vector<int64_t> starts_of(const Tensor& cu, int64_t total, int64_t longest, const char* name) {
  const cpu::In<int64_t> at(*cu);
  std::vector<int64_t> starts(at.get(), at.get() + cu.numel());
  STRATA_CHECK(starts.front() == 0 && starts.back() == total, Index,
               "varlen_attn: {} must begin with 0 and end with the number of rows, {}; found {} and {}", name, total,
               starts.front(), starts.back());
  for (size_t i = 1; i < starts.size(); ++i) {
    STRATA_CHECK(starts[i] >= starts[i - 1], Index, "varlen_attn: {} must not decrease; found {} after {}", name,
                 starts[i], starts[i - 1]);
    STRATA_CHECK(starts[i] - starts[i - 1] <= longest, Index,
                 "varlen_attn: {} has a sequence of {} rows, more than the maximum that was given, {}", name,
                 starts[i] - starts[i - 1], longest);
  }
  return starts;
}

// body(the sizes of a sequence, its first row, its first column)
template <class Body>
void each_sequence(const Varlen& p, const TensorImpl& q, const TensorImpl& k, const TensorImpl& v, Body body) {
  const int n = q.ndim;
  const std::vector<int64_t> rows = starts_of(p.cu_q, q.shape[n - 2], p.max_q, "cu_seq_q"),
                             columns = starts_of(p.cu_k, k.shape[n - 2], p.max_k, "cu_seq_k");
  Attention a{};
  for (int d = 0; d < n - 2; ++d) a.batch[a.batch_dims++] = q.shape[d];
  a.width = q.shape[n - 1];
  a.value_width = v.shape[n - 1];
  a.scale = p.scale;
  a.log_step = q.shape[n - 2];
  if (p.left >= 0) a.left = p.left;
  if (p.right >= 0) a.right = p.right;
  if (a.batches() == 0) return;
  for (size_t s = 0; s + 1 < rows.size(); ++s) {
    a.rows = rows[s + 1] - rows[s];
    a.columns = columns[s + 1] - columns[s];
    a.diagonal = a.columns - a.rows;
    body(a, rows[s], columns[s]);
  }
}
template <class E> cpu::Matrices<E> from_row(cpu::Matrices<E> m, int64_t row) {
  m.data += row * m.row;
  return m;
}

template <class Run> void run_varlen_forward(const Call& c, Run run) {
  const args::varlen_attention_core arg(c);
  cpu::dispatch_float(arg.query().dtype, [&]<class T>() {
    const AttentionRows<T> q(arg.query()), k(arg.key()), v(arg.value());
    const AttentionOutRows<T> out(c.outs[0]);
    each_sequence(Varlen(arg), arg.query(), arg.key(), arg.value(),
                  [&](const Attention& a, int64_t row, int64_t column) {
                    run(a, cpu::AttentionForward<T>{from_row(q.get(), row),
                                                    from_row(k.get(), column),
                                                    from_row(v.get(), column),
                                                    {},
                                                    from_row(out.get(), row),
                                                    c.outs[1].template data<T>() + row});
                  });
    out.finish();
  });
}
template <class Run> void run_varlen_backward(const Call& c, Run run) {
  const args::varlen_attention_backward arg(c);
  cpu::dispatch_float(arg.query().dtype, [&]<class T>() {
    const AttentionRows<T> g(arg.grad()), q(arg.query()), k(arg.key()), v(arg.value()), result(arg.output());
    const cpu::In<T> log_sums(arg.log_sums());
    const AttentionOutRows<T> gq(c.outs[0]), gk(c.outs[1]), gv(c.outs[2]);
    each_sequence(Varlen(arg), arg.query(), arg.key(), arg.value(),
                  [&](const Attention& a, int64_t row, int64_t column) {
                    run(a, cpu::AttentionBackward<T>{from_row(g.get(), row),
                                                     from_row(q.get(), row),
                                                     from_row(k.get(), column),
                                                     from_row(v.get(), column),
                                                     from_row(result.get(), row),
                                                     {},
                                                     log_sums.get() + row,
                                                     from_row(gq.get(), row),
                                                     from_row(gk.get(), column),
                                                     from_row(gv.get(), column)});
                  });
    gq.finish();
    gk.finish();
    gv.finish();
  });
}

// --- composed of other ops: sequences are padded to the longest one, and the weights are stored ------------------------

struct Padding {
  int64_t count, longest;
  Tensor lengths;  // [N, 1, 1]
  Tensor rows;     // [N * longest]: the row of each place; any row past the end of a sequence
  Tensor places;   // [rows]: the place of each row

  Padding(const Tensor& cu, int64_t total, int64_t most) : count(cu.size(0) - 1), longest(most) {
    const Device device = cu.device();
    const Tensor starts = to(cu, DType::I64), first = narrow(starts, 0, 0, count), end = narrow(starts, 0, 1, count);
    lengths = reshape(sub(end, first), {count, 1, 1});
    const Tensor at = add(unsqueeze(first, 1), arange(longest, DType::I64, device));
    rows = clamp(flatten(at), int64_t{0}, total - 1);
    const Tensor row = arange(total, DType::I64, device);
    const Tensor sequence = clamp(searchsorted(contiguous(end), row, false, true), int64_t{0}, count - 1);
    const Tensor inside = clamp(sub(row, index_select(first, 0, sequence)), int64_t{0}, longest - 1);
    places = add(mul(sequence, longest), inside);
  }
  Tensor pad(const Tensor& t) const { return unflatten(index_select(t, -2, rows), -2, {count, longest}); }
  Tensor unpad(const Tensor& t) const { return index_select(flatten(t, -3, -2), -2, places); }
};

struct PaddedAttention {
  Padding by_q, by_k;
  Tensor q, k, v, weights, log_sums;

  PaddedAttention(const Varlen& p, const Tensor& query, const Tensor& key, const Tensor& value)
      : by_q(p.cu_q, query.size(-2), p.max_q),
        by_k(p.cu_k, key.size(-2), p.max_k),
        q(by_q.pad(query)),
        k(by_k.pad(key)),
        v(by_k.pad(value)) {
    const Device device = query.device();
    const Tensor i = unsqueeze(arange(p.max_q, DType::I64, device), 1), j = arange(p.max_k, DType::I64, device);
    const Tensor middle = add(i, sub(by_k.lengths, by_q.lengths));
    Tensor seen = logical_and(lt(i, by_q.lengths), lt(j, by_k.lengths));
    if (p.left >= 0) seen = logical_and(seen, ge(j, sub(middle, p.left)));
    if (p.right >= 0) seen = logical_and(seen, le(j, add(middle, p.right)));
    const Tensor attends = any(seen, -1, true), scores = mul(matmul(q, transpose(k, -2, -1)), p.scale);
    // The softmax of a row that attends to nothing sees finite scores.
    const Tensor kept = masked_fill(scores, logical_and(logical_not(seen), attends), -HUGE_VAL);
    weights = masked_fill(softmax(kept, -1), logical_not(attends), 0.0);
    log_sums = masked_fill(logsumexp(kept, -1, true), logical_not(attends), -HUGE_VAL);
  }
};

bool has_no_scores(const Varlen& p, const Tensor& q, const Tensor& k) {
  return q.numel() == 0 || k.numel() == 0 || p.max_q == 0 || p.max_k == 0 || p.sequences() == 0;
}

// The gradients of query, key and value. Differentiable.
Grads padded_grads(const Varlen& p, const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (has_no_scores(p, q, k)) return {zeros_like(q), zeros_like(k), zeros_like(v)};
  const PaddedAttention a(p, q, k, v);
  const Tensor grad = a.by_q.pad(g), slope = matmul(grad, transpose(a.v, -2, -1));
  const Tensor s = mul(mul(a.weights, sub(slope, sum(mul(slope, a.weights), -1, true))), p.scale);
  return {a.by_q.unpad(matmul(s, a.k)), a.by_k.unpad(matmul(transpose(s, -2, -1), a.q)),
          a.by_k.unpad(matmul(transpose(a.weights, -2, -1), grad))};
}

cuda::AttentionSequences device_sequences(const Varlen& p, const TensorImpl& cu_q, const TensorImpl& cu_k) {
  return {&cu_q, &cu_k, p.max_q, p.max_k, p.left, p.right};
}
cuda::AttentionCall varlen_forward_call(const Call& c) {
  const args::varlen_attention_core a(c);
  return {.q = a.query(),
          .k = a.key(),
          .v = a.value(),
          .out = *c.outs[0],
          .log_sums = *c.outs[1],
          .mask = nullptr,
          .causal = false,
          .scale = a.scale(),
          .sequences = device_sequences(Varlen(a), a.cu_seq_q(), a.cu_seq_k())};
}
cuda::AttentionCall varlen_backward_call(const Call& c) {
  const args::varlen_attention_backward a(c);
  return {.q = a.query(),
          .k = a.key(),
          .v = a.value(),
          .out = a.output(),
          .log_sums = a.log_sums(),
          .mask = nullptr,
          .causal = false,
          .scale = a.scale(),
          .grad = &a.grad(),
          .grad_q = c.outs[0].get(),
          .grad_k = c.outs[1].get(),
          .grad_v = c.outs[2].get(),
          .sequences = device_sequences(Varlen(a), a.cu_seq_q(), a.cu_seq_k())};
}
void run_checked_sequences(const cuda::AttentionCall& a, const Call& c, const Plan& plan) {
  cuda::check_attention_sequences(a);
  cuda::run_attention(a, c, plan);
}

void varlen_forward_on_device(const Call& c) {
  const args::varlen_attention_core a(c);
  const DType type = compute_type(c.outs[0].dtype());
  Varlen p(a);
  p.cu_q = dense(a.share_cu_seq_q(), DType::I32);
  p.cu_k = dense(a.share_cu_seq_k(), DType::I32);
  cuda::AttentionCall checked = varlen_forward_call(c);
  checked.sequences = device_sequences(p, *p.cu_q, *p.cu_k);
  cuda::check_attention_sequences(checked);
  const Tensor q = dense(a.share_query(), type), k = dense(a.share_key(), type), v = dense(a.share_value(), type);
  if (has_no_scores(p, q, k)) {
    copy_values(*c.outs[0], *zeros(c.outs[0].shape(), type, q.device()));
    copy_values(*c.outs[1], *full(c.outs[1].shape(), -HUGE_VAL, type, q.device()));
    return;
  }
  const PaddedAttention padded(p, q, k, v);
  copy_values(*c.outs[0], *padded.by_q.unpad(matmul(padded.weights, padded.v)));
  copy_values(*c.outs[1], *squeeze(padded.by_q.unpad(padded.log_sums), -1));
}
void varlen_backward_on_device(const Call& c) {
  const args::varlen_attention_backward a(c);
  const DType type = compute_type(c.outs[0].dtype());
  const Grads all = padded_grads(Varlen(a), dense(a.share_grad(), type), dense(a.share_query(), type),
                                 dense(a.share_key(), type), dense(a.share_value(), type));
  for (size_t i = 0; i < 3; ++i) copy_values(*c.outs[i], *all.t[i]);
}

// [rows, heads, features] as [heads, rows, features]; with `times`, each head of t serves so many heads of the query:
// [heads, times, rows, features].
Tensor heads_first(const Tensor& t, int64_t times) {
  const Tensor by_head = transpose(t, 0, 1);
  if (times == 1) return by_head;
  const Shape s = by_head.shape();
  return expand(unsqueeze(by_head, 1), {s[0], times, s[1], s[2]});
}

std::array<Tensor, 2> varlen_attn_of(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& cu_q,
                                     const Tensor& cu_k, int64_t max_q, int64_t max_k, std::optional<double> scale,
                                     IntList window, bool gqa) {
  STRATA_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3, Runtime,
               "varlen_attn: expected query, key and value of shape [rows, heads, features], got {}, {} and {}",
               to_string(query.shape()), to_string(key.shape()), to_string(value.shape()));
  STRATA_CHECK(window.size == 2, Value, "varlen_attn: window_size must have length 2, got {}", window.size);
  STRATA_CHECK(!scale || *scale > 0, Value, "varlen_attn: scale must be greater than 0, got {}", *scale);
  const int64_t heads = query.size(1), shared = key.size(1);
  STRATA_CHECK(value.size(1) == shared, Runtime, "varlen_attn: key has {} heads and value {}; they must be equal",
               shared, value.size(1));
  STRATA_CHECK(heads == shared || (gqa && shared > 0 && heads % shared == 0), Value,
               "varlen_attn: query has {} heads and key and value {}; {}", heads, shared,
               gqa ? "with enable_gqa that of the query must be a multiple" : "set enable_gqa=True to share heads");
  const int64_t times = heads == shared ? 1 : heads / shared;
  Tensor q = transpose(query, 0, 1);
  if (times > 1) q = unflatten(q, 0, {shared, times});
  const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(query.size(-1), 1)));
  const auto all =
    _varlen_attention(q, heads_first(key, times), heads_first(value, times), int32_indices(cu_q), int32_indices(cu_k),
                      std::min(max_q, query.size(0)), std::min(max_k, key.size(0)), window[0], window[1], factor);
  if (times == 1) return {transpose(all[0], 0, 1), all[1]};
  return {transpose(flatten(all[0], 0, 1), 0, 1), flatten(all[1], 0, 1)};
}
}  // namespace

STRATA_OP(varlen_attention_core,
          "_varlen_attention(Tensor query, Tensor key, Tensor value, Tensor cu_seq_q, Tensor cu_seq_k, int max_q, int "
          "max_k, int left, int right, float scale) -> (Tensor, Tensor)")
  .doc(
    "Attention of sequences whose rows follow each other in [heads..., rows, features], and the logarithm of each "
    "row's "
    "sum of exponentials. Row i attends to the columns from i + d - left to i + d + right, d = columns - rows.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .autocast(Autocast::Lower)
  .infer([](const args::varlen_attention_core& c) {
    const TensorImpl &q = c.query(), &v = c.value();
    check_varlen(q, c.key(), v, c.cu_seq_q(), c.cu_seq_k(), c.max_q(), c.max_k());
    int64_t shape[kMaxDims];
    std::copy_n(q.shape, q.ndim, shape);
    shape[q.ndim - 1] = v.shape[q.ndim - 1];
    c.out()->dtype = q.dtype;
    c.out(1)->dtype = compute_type(q.dtype);
    set_rows_first(c.out(), Shape(shape, q.ndim));
    c.out(1)->set_shape(Shape(shape, static_cast<size_t>(q.ndim - 1)));
  })
  .kernel("blocks",
          [](const Call& c) {
            run_varlen_forward(
              c, []<class T>(const Attention& a, const cpu::AttentionForward<T>& p) { attention_forward(a, p); });
          })
  .kernel("reference",
          [](const Call& c) {
            run_varlen_forward(c, []<class T>(const Attention& a, const cpu::AttentionForward<T>& p) {
              attention_forward_reference(a, p);
            });
          })
  .saves({"query", "key", "value", "cu_seq_q", "cu_seq_k"})
  .saves_result({0, 1})
  .no_grad_outputs({1})
  .grad([](const grads::varlen_attention_core& c, const Tensor& g) -> Grads {
    const auto all =
      _varlen_attention_backward(g, c.query(), c.key(), c.value(), c.result(0), c.result(1), c.cu_seq_q(), c.cu_seq_k(),
                                 c.max_q(), c.max_k(), c.left(), c.right(), c.scale());
    return {all[0], all[1], all[2]};
  })
  .grad_for_graph([](const grads::varlen_attention_core& c, const Tensor& g) -> Grads {
    return padded_grads(Varlen(c.cu_seq_q(), c.cu_seq_k(), c), g, c.query(), c.key(), c.value());
  })
  .samples({"f(2,7,4), f(2,9,4), f(2,9,6), t[0,3,3,7], t[0,4,5,9], 4, 4, -1, -1, 0.5",
            "f(2,7,4), f(2,7,4), f(2,7,4), t[0,1,7], t[0,1,7], 6, 6, -1, 0, 0.5",
            "f(2,2,8,4), f(2,2,8,4), f(2,2,8,4), t[0,8], t[0,8], 8, 8, 2, 1, 0.3",
            "f(1,5,4), f(1,4,4), f(1,4,4), t[0,2,5], t[0,4,4], 3, 4, -1, 0, 0.5",
            "f(1,0,4), f(1,0,4), f(1,0,4), t[0,0], t[0,0], 0, 0, -1, -1, 0.5"})
  .error("f(2,7,4), f(2,9,3), f(2,9,6), t[0,7], t[0,9], 7, 9, -1, -1, 0.5", ErrorKind::Runtime, "do not fit each other")
  .error("f(2,7,4), f(2,9,4), f(2,9,6), t[0,7], t[0,3,9], 7, 9, -1, -1, 0.5", ErrorKind::Runtime, "must be equal")
  .error("f(2,7,4), f(2,9,4), f(2,9,6), f(2), t[0,9], 7, 9, -1, -1, 0.5", ErrorKind::Runtime, "int32 or int64");

STRATA_OP(varlen_attention_backward,
          "_varlen_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor output, Tensor "
          "log_sums, Tensor cu_seq_q, Tensor cu_seq_k, int max_q, int max_k, int left, int right, float scale) -> "
          "(Tensor, Tensor, Tensor)")
  .doc("The gradients of query, key and value of _varlen_attention.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::varlen_attention_backward& c) {
    const TensorImpl &q = c.query(), &k = c.key(), &v = c.value();
    check_varlen(q, k, v, c.cu_seq_q(), c.cu_seq_k(), c.max_q(), c.max_k());
    const bool fits = c.grad().ndim == q.ndim && c.grad().same_shape(c.output()) &&
                      c.grad().shape[q.ndim - 1] == v.shape[q.ndim - 1] &&
                      c.grad().shape[q.ndim - 2] == q.shape[q.ndim - 2];
    STRATA_CHECK(fits && c.log_sums().numel * v.shape[q.ndim - 1] == c.grad().numel, Runtime,
                 "varlen_attn: the gradient has shape {}, the result {}", to_string(c.grad().sizes()),
                 to_string(c.output().sizes()));
    const TensorImpl* like[] = {&q, &k, &v};
    for (size_t o = 0; o < 3; ++o) {
      c.out(o)->dtype = like[o]->dtype;
      set_rows_first(c.out(o), like[o]->sizes());
    }
  })
  .kernel("blocks",
          [](const Call& c) {
            run_varlen_backward(
              c, []<class T>(const Attention& a, const cpu::AttentionBackward<T>& p) { attention_backward(a, p); });
          })
  .kernel("reference", [](const Call& c) {
    run_varlen_backward(
      c, []<class T>(const Attention& a, const cpu::AttentionBackward<T>& p) { attention_backward_reference(a, p); });
  });

STRATA_OP(varlen_attn,
          "nn.functional.varlen_attn(Tensor query, Tensor key, Tensor value, Tensor cu_seq_q, Tensor cu_seq_k, int "
          "max_q, int max_k, *, float? scale=None, int[] window_size=[-1,-1], bool enable_gqa=False) -> Tensor")
  .no_method()
  .doc(
    "scaled_dot_product_attention of sequences of different lengths, whose rows follow each other in query, key and "
    "value "
    "[rows, heads, features]: sequence s has the rows from cu_seq_q[s] to cu_seq_q[s + 1] and the keys from "
    "cu_seq_k[s] "
    "to cu_seq_k[s + 1]. max_q and max_k are the lengths of the longest ones.\n\n"
    "With window_size (left, right), row i attends to the keys from i + d - left to i + d + right, where d is the "
    "number "
    "of keys minus the number of rows of the sequence; -1 is no limit, (-1, 0) is causal. Blocks outside the window "
    "are "
    "not computed.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& cu_q, const Tensor& cu_k,
                int64_t max_q, int64_t max_k, std::optional<double> scale, IntList window, bool gqa) {
    return varlen_attn_of(query, key, value, cu_q, cu_k, max_q, max_k, scale, window, gqa)[0];
  })
  .samples({"f(7,2,4), f(9,2,4), f(9,2,6), t[0,3,3,7], t[0,4,5,9], 4, 4",
            "f(7,4,4), f(7,2,4), f(7,2,4), t[0,1,7], t[0,1,7], 6, 6, scale=0.3, window_size=[2,0], enable_gqa=True"})
  .error("f(7,2,4), f(7,4), f(7,2,4), t[0,7], t[0,7], 7, 7", ErrorKind::Runtime, "[rows, heads, features]")
  .error("f(7,4,4), f(7,2,4), f(7,2,4), t[0,7], t[0,7], 7, 7", ErrorKind::Value, "enable_gqa=True")
  .error("f(7,2,4), f(7,2,4), f(7,2,4), t[0,7], t[0,7], 7, 7, scale=-1.0", ErrorKind::Value, "greater than 0")
  .error("f(7,2,4), f(7,2,4), f(7,2,4), t[0,7], t[0,7], 7, 7, window_size=[1]", ErrorKind::Value, "length 2")
  .error("f(7,2,4), f(7,2,4), f(7,2,4), t[0,6], t[0,7], 7, 7", ErrorKind::Index, "end with the number of rows")
  .error("f(7,2,4), f(7,2,4), f(7,2,4), f(2), t[0,7], 7, 7", ErrorKind::Runtime, "int32 or int64, got float32")
  .error("f(7,2,4), f(7,2,4), f(7,2,4), t[0,4294967303], t[0,7], 7, 7", ErrorKind::Index, "end with the number of rows")
  .error("f(7,2,4), f(7,2,4), f(7,2,4), t[0,7], t[0,7], 5, 7", ErrorKind::Index, "more than the maximum");

STRATA_OP(
  varlen_attn_with_sums,
  "_varlen_attn(Tensor query, Tensor key, Tensor value, Tensor cu_seq_q, Tensor cu_seq_k, int max_q, int max_k, "
  "float? scale, int[] window_size, bool enable_gqa) -> (Tensor, Tensor)")
  .doc("varlen_attn, and the logarithm of the sum of exponentials of each row, [heads, rows].")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& cu_q, const Tensor& cu_k,
                int64_t max_q, int64_t max_k, std::optional<double> scale, IntList window,
                bool gqa) { return varlen_attn_of(query, key, value, cu_q, cu_k, max_q, max_k, scale, window, gqa); })
  .samples({"f(7,2,4), f(9,2,4), f(9,2,6), t[0,3,7], t[0,4,9], 4, 5, None, [-1,0], False"});

namespace {
[[maybe_unused]] const bool varlen_kernels_added = [] {
  add_planned<varlen_forward_call, cuda::plan_attention_hopper, cuda::run_attention_hopper>(op_varlen_attention_core,
                                                                                            Backend::Cuda, "hopper");
  add_planned<varlen_forward_call, cuda::plan_attention_sequences, run_checked_sequences>(
    op_varlen_attention_core, Backend::Cuda, "tensor_cores");
  op_varlen_attention_core.record.cuda("ops", varlen_forward_on_device);
  add_planned<varlen_backward_call, cuda::plan_attention_hopper, cuda::run_attention_hopper_backward>(
    op_varlen_attention_backward, Backend::Cuda, "hopper");
  add_planned<varlen_backward_call, cuda::plan_attention_sequences, cuda::run_attention_backward>(
    op_varlen_attention_backward, Backend::Cuda, "tensor_cores");
  op_varlen_attention_backward.record.cuda("ops", varlen_backward_on_device);
  return true;
}();
}  // namespace

}  // namespace strata
