// The op of scaled_dot_product_attention: the whole matrix of weights is not stored, forward or backward. Dropout's draws are reserved
// by an op of their own, so that the gradient finds them again.
#include "strata/args/nn/attention_kernel.h"
#include "autograd/autograd.h"
#include "cuda/nn/attention.h"
#include "dispatch/settings.h"
#include "ops/device_inputs.h"
#include "ops/nn/attention_rows.h"
#include "ops/planned.h"
#include "ops/transfer.h"

namespace strata {
namespace {
using cpu::Attention;
using cpu::Matrices;

Attention sizes_of(const TensorImpl& q, const TensorImpl& k, const TensorImpl& v, bool causal, double scale) {
  const int n = q.ndim;
  STRATA_CHECK(n >= 2 && n - 2 <= Attention::kMaxBatch && k.ndim == n && v.ndim == n && k.shape[n - 2] > 0 &&
                 q.shape[n - 1] == k.shape[n - 1] && k.shape[n - 2] == v.shape[n - 2] && q.dtype == k.dtype &&
                 q.dtype == v.dtype,
               Runtime, "attention: query {}, key {} and value {} do not fit each other", to_string(q.sizes()),
               to_string(k.sizes()), to_string(v.sizes()));
  Attention a{};
  for (int d = 0; d < n - 2; ++d) {
    STRATA_CHECK(q.shape[d] == k.shape[d] && q.shape[d] == v.shape[d], Runtime,
                 "attention: the batch dimensions of query {}, key {} and value {} differ", to_string(q.sizes()),
                 to_string(k.sizes()), to_string(v.sizes()));
    a.batch[a.batch_dims++] = q.shape[d];
  }
  a.rows = q.shape[n - 2];
  a.columns = k.shape[n - 2];
  a.width = q.shape[n - 1];
  a.value_width = v.shape[n - 1];
  if (causal) a.right = 0;
  a.scale = scale;
  a.log_step = a.rows;
  return a;
}

// [b, heads..., rows, features] in the memory order b, rows, heads: the heads of a row are usually joined after
// attention.
void set_head_layout(const Tensor& t, Shape shape) {
  t->set_shape(shape);
  t->set_contiguous_strides();
  const size_t n = shape.size();
  if (n < 4) return;
  int64_t step = shape[n - 1];
  for (size_t d = n - 2; d-- > 1; step *= shape[d]) t->strides[d] = step;
  t->strides[n - 2] = step;
  t->update_contiguous();
}

// The mask has the shape of the scores.
void check_mask(const TensorImpl* mask, const TensorImpl& q, const TensorImpl& k) {
  if (!mask) return;
  const int n = q.ndim;
  bool fits = mask->ndim == n && mask->shape[n - 2] == q.shape[n - 2] && mask->shape[n - 1] == k.shape[n - 2];
  for (int d = 0; fits && d < n - 2; ++d) fits = mask->shape[d] == q.shape[d];
  STRATA_CHECK(
    fits && (mask->dtype == DType::Bool || kFloatingTypes.has(mask->dtype)), Runtime,
    "attention: the mask has shape {} and dtype {}; it must be bool or floating point, and have the shape of "
    "the scores of query {} and key {}",
    to_string(mask->sizes()), name_of(mask->dtype), to_string(q.sizes()), to_string(k.sizes()));
}
const char* plain_rows(const Tensor& mask, const Tensor& draws) {
  return mask ? "for attention without a mask" : draws ? "for attention without dropout" : nullptr;
}
void check_draws(const Tensor& draws, double p) {
  STRATA_CHECK(!draws || (draws.dtype() == DType::I64 && draws.dim() == 1 && draws.size(0) == 2), Runtime,
               "attention: the draws of dropout are int64 of shape [2], but got {} {}", name_of(draws.dtype()),
               to_string(draws.shape()));
  STRATA_CHECK(!draws || (p >= 0 && p < 1), Value,
               "attention: the probability of dropout has to be at least 0 and below 1, but got {}", p);
}
// What the weights are multiplied with, in blocks of rows: 0 or 1 / (1 - p). Nothing without dropout.
struct DropFactors {
  Tensor all;
  DropFactors(const Tensor& draws, double p, const Tensor& q, const Tensor& k) {
    if (!draws) return;
    std::vector<int64_t> shape(q.shape().begin(), q.shape().end());
    shape.back() = k.size(-2);
    all = mul(_keep_mask_of(draws, shape, p, q.dtype()), 1 / (1 - p));
  }
  Tensor apply(const Tensor& weights, int64_t first, int64_t rows, int64_t keys) const {
    return all ? mul(weights, narrow(narrow(all, -2, first, rows), -1, 0, keys)) : weights;
  }
  Tensor apply(const Tensor& weights) const { return all ? mul(weights, all) : weights; }
};

// Numbers to add to the scores.
Tensor additive(const Tensor& mask, DType type) {
  if (mask.dtype() != DType::Bool) return to(mask, type);
  return masked_fill(zeros(mask.shape(), type, mask.device()), logical_not(mask), -HUGE_VAL);
}

// A mask on the CPU as numbers to add.
template <class T> struct MaskRows {
  Tensor tensor;
  explicit MaskRows(const Tensor& mask) {
    const autograd::NoGrad no_grad;
    if (mask) tensor = contiguous(additive(alias(*mask), dtype_of<T>));
  }
  Matrices<const T> get() const {
    return tensor ? AttentionRows<T>::template matrices<const T>(*tensor) : Matrices<const T>();
  }
};

template <class Run> void run_attention_forward(const Call& c, Run run) {
  const args::attention_core arg(c);
  const TensorImpl &q = arg.query(), &k = arg.key(), &v = arg.value();
  const Attention a = sizes_of(q, k, v, arg.is_causal(), arg.scale());
  if (c.outs[0].numel() == 0 && c.outs[1].numel() == 0) return;
  cpu::dispatch_float(q.dtype, [&]<class T>() {
    const AttentionRows<T> query(q), key(k), value(v);
    const MaskRows<T> mask(arg.share_mask());
    const AttentionOutRows<T> out(c.outs[0]);
    run(a, cpu::AttentionForward<T>{query.get(), key.get(), value.get(), mask.get(), out.get(),
                                    c.outs[1].template data<T>()});
    out.finish();
  });
}
template <class Run> void run_attention_backward(const Call& c, Run run) {
  const args::attention_backward arg(c);
  const TensorImpl &q = arg.query(), &k = arg.key(), &v = arg.value();
  const Attention a = sizes_of(q, k, v, arg.is_causal(), arg.scale());
  cpu::dispatch_float(q.dtype, [&]<class T>() {
    const AttentionRows<T> grad(arg.grad()), query(q), key(k), value(v), result(arg.output());
    const MaskRows<T> mask(arg.share_mask());
    const cpu::In<T> log_sums(arg.log_sums());
    const AttentionOutRows<T> gq(c.outs[0]), gk(c.outs[1]), gv(c.outs[2]);
    if (a.batches())
      run(a, cpu::AttentionBackward<T>{grad.get(), query.get(), key.get(), value.get(), result.get(), mask.get(),
                                       log_sums.get(), gq.get(), gk.get(), gv.get()});
    gq.finish();
    gk.finish();
    gv.finish();
  });
}

// Where no fused kernel takes the call, it is composed of other ops, in the compute type: the scores of some
// rows at a time. `first` is the row of the first query.
Tensor scores_of(const Tensor& q, const Tensor& k, const Tensor& mask, bool causal, double scale, int64_t first = 0) {
  Tensor scores = mul(matmul(q, transpose(k, -2, -1)), scale);
  if (mask) scores = add(scores, additive(mask, scores.dtype()));
  if (!causal) return scores;
  const Tensor row = unsqueeze(arange(first, first + q.size(-2), 1, DType::I64, q.device()), 1),
               column = arange(k.size(-2), DType::I64, q.device());
  return masked_fill(scores, gt(column, row), -HUGE_VAL);
}
// exp(scores - log_sums); zeros in rows that attend to nothing, whose logarithm is -inf.
Tensor weights_of(const Tensor& scores, const Tensor& log_sums) {
  return exp(sub(scores, unsqueeze(masked_fill(log_sums, eq(log_sums, -HUGE_VAL), 0.0), -1)));
}

// Calls f(first row, rows, keys) for blocks of queries, so that the memory for scores does not grow with the square of the
// length. `keys`: how many keys any of these rows attends to; in causal attention, those of the last one.
template <class F> void for_row_blocks(const Tensor& q, const Tensor& k, bool causal, F f) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  constexpr int64_t kLeastRows = 16;
  const int64_t rows = q.size(-2), columns = k.size(-2);
  int64_t row_bytes = columns * static_cast<int64_t>(size_of(q.dtype()));
  for (int64_t d = 0; d + 2 < q.dim(); ++d) row_bytes *= q.size(d);
  const auto most = static_cast<int64_t>(std::min(kMostBytes, workspace_limit()));
  const int64_t step = std::max(most / std::max<int64_t>(row_bytes, 1), kLeastRows);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    f(first, count, causal && step < rows ? std::min(columns, first + count) : columns);
  }
}

void forward_by_ops(const Call& c) {
  const autograd::NoGrad no_grad;
  const args::attention_core a(c);
  const DType type = compute_type(c.outs[0].dtype());
  const Tensor q = dense(a.share_query(), type), k = dense(a.share_key(), type), v = dense(a.share_value(), type);
  if (c.outs[1].numel() == 0) return;
  const Tensor mask = a.share_mask(), out = alias(*c.outs[0]), sums = alias(*c.outs[1]);
  const DropFactors drop(a.share_draws(), a.dropout_p(), q, k);
  for_row_blocks(q, k, a.is_causal(), [&](int64_t first, int64_t rows, int64_t keys) {
    const Tensor part = mask ? narrow(narrow(alias(*mask), -2, first, rows), -1, 0, keys) : Tensor();
    const Tensor scores =
      scores_of(narrow(q, -2, first, rows), narrow(k, -2, 0, keys), part, a.is_causal(), a.scale(), first);
    const Tensor log_sums = logsumexp(scores, -1);
    const Tensor weights = part ? weights_of(scores, log_sums) : softmax(scores, -1);
    copy_values(*narrow(sums, -1, first, rows), *log_sums);
    copy_values(*narrow(out, -2, first, rows), *matmul(drop.apply(weights, first, rows, keys), narrow(v, -2, 0, keys)));
  });
}
void backward_by_ops(const Call& c) {
  const autograd::NoGrad no_grad;
  const args::attention_backward a(c);
  const DType type = compute_type(c.outs[0].dtype());
  const Tensor g = dense(a.share_grad(), type), q = dense(a.share_query(), type), k = dense(a.share_key(), type),
               v = dense(a.share_value(), type), log_sums = dense(a.share_log_sums(), type), mask = a.share_mask();
  const Tensor along = sum(mul(g, dense(a.share_output(), type)), -1, true), grad_q = alias(*c.outs[0]);
  const DropFactors drop(a.share_draws(), a.dropout_p(), q, k);
  Tensor grad_k, grad_v;  // the sums over blocks of rows
  const auto add_to = [](Tensor& all, const Tensor& like, int64_t keys, const Tensor& part) {
    if (!all && keys == like.size(-2)) all = part;
    else {
      if (!all) all = zeros(like.shape(), part.dtype(), part.device());
      add_(narrow(all, -2, 0, keys), part);
    }
  };
  for_row_blocks(q, k, a.is_causal(), [&](int64_t first, int64_t rows, int64_t keys) {
    const auto of_rows = [&](const Tensor& t) { return narrow(t, -2, first, rows); };
    const auto of_keys = [&](const Tensor& t) { return narrow(t, -2, 0, keys); };
    const Tensor part = mask ? narrow(of_rows(alias(*mask)), -1, 0, keys) : Tensor();
    const Tensor scores = scores_of(of_rows(q), of_keys(k), part, a.is_causal(), a.scale(), first);
    const Tensor w = weights_of(scores, narrow(log_sums, -1, first, rows)), slope = of_rows(g);
    const Tensor slopes = drop.apply(matmul(slope, transpose(of_keys(v), -2, -1)), first, rows, keys);
    const Tensor s = mul(mul(w, sub(slopes, of_rows(along))), a.scale());
    copy_values(*of_rows(grad_q), *matmul(s, of_keys(k)));
    add_to(grad_k, k, keys, matmul(transpose(s, -2, -1), of_rows(q)));
    add_to(grad_v, v, keys, matmul(transpose(drop.apply(w, first, rows, keys), -2, -1), slope));
  });
  if (!grad_k) grad_k = zeros(k.shape(), type, k.device());  // there are no queries
  if (!grad_v) grad_v = zeros(v.shape(), type, v.device());
  copy_values(*c.outs[1], *grad_k);
  copy_values(*c.outs[2], *grad_v);
}

cuda::AttentionCall forward_call(const Call& c) {
  const args::attention_core a(c);
  return {.q = a.query(),
          .k = a.key(),
          .v = a.value(),
          .out = *c.outs[0],
          .log_sums = *c.outs[1],
          .mask = a.share_mask().get(),
          .causal = a.is_causal(),
          .scale = a.scale(),
          .draws = a.share_draws().get(),
          .dropout_p = a.dropout_p()};
}
cuda::AttentionCall backward_call(const Call& c) {
  const args::attention_backward a(c);
  return {.q = a.query(),
          .k = a.key(),
          .v = a.value(),
          .out = a.output(),
          .log_sums = a.log_sums(),
          .mask = a.share_mask().get(),
          .causal = a.is_causal(),
          .scale = a.scale(),
          .draws = a.share_draws().get(),
          .dropout_p = a.dropout_p(),
          .grad = &a.grad(),
          .grad_q = c.outs[0].get(),
          .grad_k = c.outs[1].get(),
          .grad_v = c.outs[2].get()};
}

// Composed of other ops, for double gradients and for the gradient of the mask.
Grads differentiable_grads(const GradContext& c, const Tensor& g) {
  const grads::attention_core a(c);
  const Tensor q = a.query(), k = a.key(), v = a.value(), mask = a.mask();
  const double scale = a.scale();
  Tensor scores = scores_of(q, k, mask, a.is_causal(), scale);
  // Rows that attend to nothing: any finite scores, and weights of zero.
  const Tensor empty = mask ? eq(amax(scores, -1, true), -HUGE_VAL) : Tensor();
  if (empty) scores = masked_fill(scores, empty, 0.0);
  Tensor w = softmax(scores, -1);
  if (empty) w = masked_fill(w, empty, 0.0);
  const DropFactors drop(a.draws(), a.dropout_p(), q, k);
  const Tensor slope = drop.apply(matmul(g, transpose(v, -2, -1))),
               of_scores = mul(w, sub(slope, sum(mul(slope, w), -1, true)));
  const Tensor s = mul(of_scores, scale);
  return {matmul(s, k), matmul(transpose(s, -2, -1), q), matmul(transpose(drop.apply(w), -2, -1), g),
          a.needs_mask() ? of_scores : Tensor(), Tensor()};
}
}  // namespace

STRATA_OP(
  attention_core,
  "_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal, float scale, Tensor? draws=None, "
  "float dropout_p=0.0) -> (Tensor, Tensor)")
  .doc(
    "dropout(softmax(scale * query @ key.T + mask)) @ value, and the logarithm of each row's sum of exponentials. "
    "Without "
    "draws (_reserve_draws) nothing is dropped.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::attention_core& c) {
    const TensorImpl &q = c.query(), &v = c.value();
    sizes_of(q, c.key(), v, c.is_causal(), c.scale());
    check_mask(c.share_mask().get(), q, c.key());
    check_draws(c.share_draws(), c.dropout_p());
    int64_t shape[kMaxDims];
    std::copy_n(q.shape, q.ndim, shape);
    shape[q.ndim - 1] = v.shape[q.ndim - 1];
    c.out()->dtype = q.dtype;
    c.out(1)->dtype = compute_type(q.dtype);
    set_head_layout(c.out(), Shape(shape, q.ndim));
    c.out(1)->set_shape(Shape(shape, static_cast<size_t>(q.ndim - 1)));
  })
  .kernel(
    "blocks",
    [](const Call& c) {
      run_attention_forward(
        c, []<class T>(const Attention& a, const cpu::AttentionForward<T>& p) { attention_forward(a, p); });
    },
    [](const Call& c) {
      const args::attention_core a(c);
      return plain_rows(a.share_mask(), a.share_draws());
    })
  .kernel("reference",
          [](const Call& c) {
            if (args::attention_core(c).share_draws()) return forward_by_ops(c);
            run_attention_forward(c, []<class T>(const Attention& a, const cpu::AttentionForward<T>& p) {
              attention_forward_reference(a, p);
            });
          })
  .saves({"query", "key", "value", "mask", "draws"})
  .saves_result({0, 1})
  .no_grad_outputs({1})
  .grad([](const grads::attention_core& c, const Tensor& g) -> Grads {
    if (c.needs_mask()) return differentiable_grads(c, g);
    const auto all = _attention_backward(g, c.query(), c.key(), c.value(), c.result(0), c.result(1), c.mask(),
                                         c.is_causal(), c.scale(), c.draws(), c.dropout_p());
    return {all[0], all[1], all[2], Tensor(), Tensor()};
  })
  .grad_for_graph(differentiable_grads)
  .samples({"f(2,3,4), f(2,5,4), f(2,5,6), None, False, 0.5", "f(1,2,6,4), f(1,2,6,4), f(1,2,6,4), None, True, 0.5",
            "f(2,70,9), f(2,40,9), f(2,40,5), None, True, 0.3", "f(3,4), f(5,4), f(5,4), None, False, 1.0",
            "f(0,3,4), f(0,5,4), f(0,5,6), None, False, 0.5", "f(2,3,4), f(2,5,4), f(2,5,6), f(2,3,5), False, 0.5",
            "f(2,3,4), f(2,5,4), f(2,5,6), b(2,3,5), False, 0.5", "f(2,3,4), f(2,5,4), f(2,5,6), b(2,3,5), True, -0.5",
            "f(2,3,4), f(2,8,4), f(2,8,6), None, False, 0.5, i(2), 0.25",
            "f(2,3,4), f(2,5,4), f(2,5,6), f(2,3,5), False, 0.5, i(2), 0.5"})
  .error("f(2,3,4), f(2,5,3), f(2,5,6), None, False, 0.5", ErrorKind::Runtime, "do not fit each other")
  .error("f(2,3,4), f(1,5,4), f(2,5,6), None, False, 0.5", ErrorKind::Runtime, "batch dimensions")
  .error("f(2,3,4), f(2,5,4), f(2,5,6), b(3,5), False, 0.5", ErrorKind::Runtime, "the mask has shape")
  .error("f(2,3,4), f(2,5,4), f(2,5,6), i(2,3,5), False, 0.5", ErrorKind::Runtime, "must be bool or floating point")
  .error("f(2,3,4), f(2,5,4), f(2,5,6), None, False, 0.5, i(3), 0.5", ErrorKind::Runtime, "int64 of shape")
  .error("f(2,3,4), f(2,5,4), f(2,5,6), None, False, 0.5, i(2), 1.0", ErrorKind::Value, "below 1");

STRATA_OP(
  attention_backward,
  "_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor output, Tensor log_sums, "
  "Tensor? mask, bool is_causal, float scale, Tensor? draws=None, float dropout_p=0.0) -> (Tensor, Tensor, Tensor)")
  .doc("The gradients of query, key and value of _attention.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::attention_backward& c) {
    const Attention a = sizes_of(c.query(), c.key(), c.value(), c.is_causal(), c.scale());
    STRATA_CHECK(c.grad().same_shape(c.output()) && c.log_sums().numel == a.batches() * a.rows &&
                   c.grad().numel == a.batches() * a.rows * a.value_width && c.grad().ndim == c.query().ndim,
                 Runtime, "attention: the gradient has shape {}, the result {}", to_string(c.grad().sizes()),
                 to_string(c.output().sizes()));
    check_mask(c.share_mask().get(), c.query(), c.key());
    check_draws(c.share_draws(), c.dropout_p());
    const TensorImpl* like[] = {&c.query(), &c.key(), &c.value()};
    for (size_t o = 0; o < 3; ++o) {
      c.out(o)->dtype = like[o]->dtype;
      set_head_layout(c.out(o), like[o]->sizes());
    }
  })
  .kernel(
    "blocks",
    [](const Call& c) {
      run_attention_backward(
        c, []<class T>(const Attention& a, const cpu::AttentionBackward<T>& p) { attention_backward(a, p); });
    },
    [](const Call& c) {
      const args::attention_backward a(c);
      return plain_rows(a.share_mask(), a.share_draws());
    })
  .kernel("reference", [](const Call& c) {
    if (args::attention_backward(c).share_draws()) return backward_by_ops(c);
    run_attention_backward(
      c, []<class T>(const Attention& a, const cpu::AttentionBackward<T>& p) { attention_backward_reference(a, p); });
  });

namespace {
[[maybe_unused]] const bool kernels_added = [] {
  add_planned<forward_call, cuda::plan_attention_hopper, cuda::run_attention_hopper>(op_attention_core, Backend::Cuda,
                                                                                     "hopper");
  add_planned<forward_call, cuda::plan_attention, cuda::run_attention>(op_attention_core, Backend::Cuda,
                                                                       "tensor_cores");
  op_attention_core.record.cuda("ops", forward_by_ops);
  add_planned<backward_call, cuda::plan_attention_hopper, cuda::run_attention_hopper_backward>(op_attention_backward,
                                                                                               Backend::Cuda, "hopper");
  add_planned<backward_call, cuda::plan_attention, cuda::run_attention_backward>(op_attention_backward, Backend::Cuda,
                                                                                 "tensor_cores");
  op_attention_backward.record.cuda("ops", backward_by_ops);
  return true;
}();
}  // namespace

}  // namespace strata
