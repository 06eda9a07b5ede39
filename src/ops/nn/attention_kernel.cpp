// The op of scaled_dot_product_attention without mask and dropout: no matrix of weights is stored, forward or backward.
#include "strata/args/nn/attention_kernel.h"
#include "autograd/autograd.h"
#include "cpu/nn/attention.h"
#include "cpu/staging.h"
#include "ops/device_inputs.h"
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
  a.causal = causal;
  a.scale = scale;
  return a;
}

// [b, h, rows, features] in the memory order b, rows, h: the heads of a row are usually joined after attention.
void set_head_layout(const Tensor& t, Shape shape) {
  t->set_shape(shape);
  t->set_contiguous_strides();
  if (shape.size() != 4) return;
  t->strides[1] = shape[3];
  t->strides[2] = shape[1] * shape[3];
  t->update_contiguous();
}

// A tensor as float or double with contiguous features: in place if possible.
template <class T> struct Rows {
  Tensor tensor;
  explicit Rows(const TensorImpl& t) {
    const bool plain = t.dtype == dtype_of<T> && (t.shape[t.ndim - 1] == 1 || t.strides[t.ndim - 1] == 1);
    tensor = plain ? cpu::borrow(t) : cpu::staged(t, dtype_of<T>);
  }
  Matrices<const T> get() const { return matrices<const T>(*tensor); }
  template <class E> static Matrices<E> matrices(const TensorImpl& t) {
    Matrices<E> m;
    m.data = reinterpret_cast<E*>(t.data);
    m.row = t.strides[t.ndim - 2];
    for (int d = 0; d < t.ndim - 2; ++d) m.step[d] = t.strides[d];
    return m;
  }
};
// An output, or a contiguous temporary of another dtype.
template <class T> struct OutRows {
  const Tensor& user;
  Tensor tensor;
  explicit OutRows(const Tensor& t)
      : user(t), tensor(t.dtype() == dtype_of<T> ? t : make_tensor(t.shape(), dtype_of<T>)) {}
  Matrices<T> get() const { return Rows<T>::template matrices<T>(*tensor); }
  void finish() const {
    if (tensor.get() != user.get()) cpu::copy_values(*user, *tensor);
  }
};

template <class Run> void run_forward(const Call& c, Run run) {
  const args::attention_core arg(c);
  const TensorImpl &q = arg.query(), &k = arg.key(), &v = arg.value();
  const Attention a = sizes_of(q, k, v, arg.is_causal(), arg.scale());
  if (c.outs[0].numel() == 0 && c.outs[1].numel() == 0) return;
  cpu::dispatch_float(q.dtype, [&]<class T>() {
    const Rows<T> query(q), key(k), value(v);
    const OutRows<T> out(c.outs[0]);
    run(a, cpu::AttentionForward<T>{query.get(), key.get(), value.get(), out.get(), c.outs[1].template data<T>()});
    out.finish();
  });
}
template <class Run> void run_backward(const Call& c, Run run) {
  const args::attention_backward arg(c);
  const TensorImpl &q = arg.query(), &k = arg.key(), &v = arg.value();
  const Attention a = sizes_of(q, k, v, arg.is_causal(), arg.scale());
  cpu::dispatch_float(q.dtype, [&]<class T>() {
    const Rows<T> grad(arg.grad()), query(q), key(k), value(v), result(arg.output());
    const cpu::In<T> log_sums(arg.log_sums());
    const OutRows<T> gq(c.outs[0]), gk(c.outs[1]), gv(c.outs[2]);
    if (a.batches())
      run(a, cpu::AttentionBackward<T>{grad.get(), query.get(), key.get(), value.get(), result.get(), log_sums.get(),
                                       gq.get(), gk.get(), gv.get()});
    gq.finish();
    gk.finish();
    gv.finish();
  });
}

// On devices it is composed of other ops, whose products are fast: the weights are stored, in the compute type.
Tensor scores_of(const Tensor& q, const Tensor& k, bool causal, double scale) {
  Tensor scores = mul(matmul(q, transpose(k, -2, -1)), scale);
  if (!causal) return scores;
  const Tensor row = unsqueeze(arange(q.size(-2), DType::I64, q.device()), 1),
               column = arange(k.size(-2), DType::I64, q.device());
  return masked_fill(scores, gt(column, row), -HUGE_VAL);
}
void forward_on_device(const Call& c) {
  const args::attention_core a(c);
  const DType type = compute_type(c.outs[0].dtype());
  const Tensor q = dense(a.share_query(), type), k = dense(a.share_key(), type), v = dense(a.share_value(), type);
  if (c.outs[1].numel() == 0) return;
  const Tensor scores = scores_of(q, k, a.is_causal(), a.scale());
  copy_values(*c.outs[1], *logsumexp(scores, -1));
  copy_values(*c.outs[0], *matmul(softmax(scores, -1), v));
}
void backward_on_device(const Call& c) {  // grad, query, key, value, output, log_sums
  const args::attention_backward a(c);
  const DType type = compute_type(c.outs[0].dtype());
  const Tensor g = dense(a.share_grad(), type), q = dense(a.share_query(), type), k = dense(a.share_key(), type),
               v = dense(a.share_value(), type);
  const double scale = a.scale();
  const Tensor w = exp(sub(scores_of(q, k, a.is_causal(), scale), unsqueeze(dense(a.share_log_sums(), type), -1)));
  const Tensor along = sum(mul(g, dense(a.share_output(), type)), -1, true);
  const Tensor s = mul(mul(w, sub(matmul(g, transpose(v, -2, -1)), along)), scale);
  copy_values(*c.outs[0], *matmul(s, k));
  copy_values(*c.outs[1], *matmul(transpose(s, -2, -1), q));
  copy_values(*c.outs[2], *matmul(transpose(w, -2, -1), g));
}

// Composed of other ops, for double gradients.
Grads differentiable_grads(const GradContext& c, const Tensor& g) {
  const grads::attention_core a(c);
  const Tensor q = a.query(), k = a.key(), v = a.value();
  const double scale = a.scale();
  Tensor scores = mul(matmul(q, transpose(k, -2, -1)), scale);
  if (a.is_causal()) {
    const Tensor keep = tril(ones({q.size(-2), k.size(-2)}, DType::Bool));
    scores = masked_fill(scores, logical_not(keep), -HUGE_VAL);
  }
  const Tensor w = softmax(scores, -1), slope = matmul(g, transpose(v, -2, -1));
  const Tensor s = mul(mul(w, sub(slope, sum(mul(slope, w), -1, true))), scale);
  return {matmul(s, k), matmul(transpose(s, -2, -1), q), matmul(transpose(w, -2, -1), g)};
}
}  // namespace

STRATA_OP(attention_core,
          "_attention(Tensor query, Tensor key, Tensor value, bool is_causal, float scale) -> (Tensor, Tensor)")
  .doc("softmax(scale * query @ key.T) @ value, and the logarithm of each row's sum of exponentials.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::attention_core& c) {
    const TensorImpl &q = c.query(), &v = c.value();
    sizes_of(q, c.key(), v, c.is_causal(), c.scale());
    int64_t shape[kMaxDims];
    std::copy_n(q.shape, q.ndim, shape);
    shape[q.ndim - 1] = v.shape[q.ndim - 1];
    c.out()->dtype = q.dtype;
    c.out(1)->dtype = compute_type(q.dtype);
    set_head_layout(c.out(), Shape(shape, q.ndim));
    c.out(1)->set_shape(Shape(shape, static_cast<size_t>(q.ndim - 1)));
  })
  .kernel("blocks",
          [](const Call& c) {
            run_forward(
              c, []<class T>(const Attention& a, const cpu::AttentionForward<T>& p) { attention_forward(a, p); });
          })
  .kernel("reference",
          [](const Call& c) {
            run_forward(c, []<class T>(const Attention& a, const cpu::AttentionForward<T>& p) {
              attention_forward_reference(a, p);
            });
          })
  .cuda("ops", forward_on_device)
  .saves({"query", "key", "value"})
  .saves_result({0, 1})
  .no_grad_outputs({1})
  .grad([](const grads::attention_core& c, const Tensor& g) -> Grads {
    const auto all =
      _attention_backward(g, c.query(), c.key(), c.value(), c.result(0), c.result(1), c.is_causal(), c.scale());
    return {all[0], all[1], all[2]};
  })
  .grad_for_graph(differentiable_grads)
  .samples({"f(2,3,4), f(2,5,4), f(2,5,6), False, 0.5", "f(1,2,6,4), f(1,2,6,4), f(1,2,6,4), True, 0.5",
            "f(2,70,9), f(2,40,9), f(2,40,5), True, 0.3", "f(3,4), f(5,4), f(5,4), False, 1.0",
            "f(0,3,4), f(0,5,4), f(0,5,6), False, 0.5"})
  .error("f(2,3,4), f(2,5,3), f(2,5,6), False, 0.5", ErrorKind::Runtime, "do not fit each other")
  .error("f(2,3,4), f(1,5,4), f(2,5,6), False, 0.5", ErrorKind::Runtime, "batch dimensions");

STRATA_OP(
  attention_backward,
  "_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor output, Tensor log_sums, bool "
  "is_causal, float scale) -> (Tensor, Tensor, Tensor)")
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
    const TensorImpl* like[] = {&c.query(), &c.key(), &c.value()};
    for (size_t o = 0; o < 3; ++o) {
      c.out(o)->dtype = like[o]->dtype;
      set_head_layout(c.out(o), like[o]->sizes());
    }
  })
  .kernel("blocks",
          [](const Call& c) {
            run_backward(
              c, []<class T>(const Attention& a, const cpu::AttentionBackward<T>& p) { attention_backward(a, p); });
          })
  .kernel("reference",
          [](const Call& c) {
            run_backward(c, []<class T>(const Attention& a, const cpu::AttentionBackward<T>& p) {
              attention_backward_reference(a, p);
            });
          })
  .cuda("ops", backward_on_device);

}  // namespace strata
