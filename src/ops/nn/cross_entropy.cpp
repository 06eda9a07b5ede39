// Cross entropy of rows of logits with class indices: log_softmax and nll_loss in one pass, without the matrix between.
#include "cuda/nn/cross_entropy.h"
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "cpu/nn/row_kernels.h"
#include "cpu/staging.h"
#include "cuda/nn/cross_entropy_params.h"
#include "ops/device_inputs.h"
#include "ops/nn/loss_common.h"
#include "strata/args/nn/cross_entropy.h"

namespace strata {
namespace {

constexpr int64_t kStats = cuda::kCrossEntropyStats;

template <class A> Tensor weights_of(const A& a) { return a.has_weight() ? alias(*a.weight()) : Tensor(); }

void infer_forward(const Call& call) {
  const args::cross_entropy_core c(call);
  const TensorImpl &x = c.input(), &t = c.target();
  STRATA_CHECK(x.ndim == 2, Runtime, "cross_entropy: expected rows of logits [N, C], got shape {}",
               to_string(x.sizes()));
  check_nll(x, t, c.weight_value());
  const int64_t stats[] = {x.shape[0], kStats};
  c.out()->dtype = x.dtype;
  c.out()->set_shape(c.reduction() == "none" ? t.sizes() : Shape());
  c.out(1)->dtype = c.out(2)->dtype = compute_type(x.dtype);
  c.out(1)->set_shape(Shape());
  c.out(2)->set_shape(stats);
}

void infer_backward(const Call& call) {
  const args::cross_entropy_backward c(call);
  const TensorImpl &x = c.input(), &stats = c.stats();
  STRATA_CHECK(x.ndim == 2, Runtime, "cross_entropy: expected rows of logits [N, C], got shape {}",
               to_string(x.sizes()));
  check_nll(x, c.target(), c.weight_value());
  const int64_t expected = c.reduction() == "none" ? x.shape[0] : 1;
  STRATA_CHECK(c.grad().numel == expected && c.total_weight().numel == 1, Runtime,
               "cross_entropy: the gradient has shape {}, expected {} elements", to_string(c.grad().sizes()), expected);
  STRATA_CHECK(stats.ndim == 2 && stats.shape[0] == x.shape[0] && stats.shape[1] == kStats, Runtime,
               "cross_entropy: expected the statistics of the forward pass, [{}, {}], got shape {}", x.shape[0], kStats,
               to_string(stats.sizes()));
  c.out()->dtype = x.dtype;
  c.out()->set_shape(x.sizes());
}

// body(first row, last row), on several threads if the rows are long enough to share.
template <class Body> void over_rows(const TensorImpl& x, Body body) {
  parallel_for(x.shape[0], std::max<int64_t>(1, 8192 / std::max<int64_t>(1, x.shape[1])), body);
}

void run_rows(const Call& call) {
  const args::cross_entropy_core c(call);
  const TensorImpl& x = c.input();
  const int64_t rows = x.shape[0], classes = x.shape[1], ignore = c.ignore_index();
  const auto reduction = c.reduction();
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const cpu::In<T> in(x);
    const cpu::In<int64_t> target(c.target());
    const Tensor weights = c.has_weight() ? cpu::staged(*c.weight(), dtype_of<T>) : Tensor();
    const T* w = weights ? weights.template data<T>() : nullptr;
    const cpu::Out<T> out(c.out()), total(c.out(1)), stats(c.out(2));
    double sum = 0, count = 0;
    for (int64_t i = 0; i < rows; ++i) {
      if (target[i] == ignore) continue;
      const int64_t t = checked_class(target[i], classes);
      count += w ? w[t] : T(1);
    }
    over_rows(x, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const cpu::RowExp<T> s = cpu::exp_statistics(in + i * classes, classes);
        const int64_t t = target[i];
        const T loss = t == ignore ? T(0) : -(in[i * classes + t] - s.most - s.log_sum) * (w ? w[t] : T(1));
        stats[i * kStats] = s.most;
        stats[i * kStats + 1] = s.log_sum;
        stats[i * kStats + 2] = loss;
        if (reduction == "none") out[i] = loss;
      }
    });
    for (int64_t i = 0; i < rows; ++i) sum += stats[i * kStats + 2];
    if (reduction != "none") out[0] = static_cast<T>(reduction == "mean" ? sum / count : sum);
    total[0] = static_cast<T>(count);
    out.finish();
    total.finish();
    stats.finish();
  });
}

void run_rows_backward(const Call& call) {
  const args::cross_entropy_backward c(call);
  const TensorImpl& x = c.input();
  const int64_t classes = x.shape[1], ignore = c.ignore_index();
  const auto reduction = c.reduction();
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const cpu::In<T> in(x), grad(c.grad()), total(c.total_weight()), stats(c.stats());
    const cpu::In<int64_t> target(c.target());
    const Tensor weights = c.has_weight() ? cpu::staged(*c.weight(), dtype_of<T>) : Tensor();
    const T* w = weights ? weights.template data<T>() : nullptr;
    const cpu::Out<T> out(c.out());
    over_rows(x, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t t = target[i];
        T* to = out + i * classes;
        if (t == ignore) {
          std::fill_n(to, classes, T(0));
          continue;
        }
        T scale = grad[reduction == "none" ? i : 0] * (w ? w[checked_class(t, classes)] : T(1));
        if (reduction == "mean") scale /= total[0];
        cpu::exp_scaled(in + i * classes, classes, {stats[i * kStats], stats[i * kStats + 1]}, scale, to);
        to[checked_class(t, classes)] -= scale;
      }
    });
    out.finish();
  });
}

// The definitions, in double.
void plain(const Call& call) {
  const args::cross_entropy_core c(call);
  const autograd::NoGrad no_grad;
  const Tensor x = to(c.share_input(), DType::F64), most = amax(x, 1, true), shifted = sub(x, most),
               log_sum = log(sum(exp(shifted), 1, true)), logp = sub(shifted, log_sum);
  const Tensor w = c.has_weight() ? to(weights_of(c), DType::F64) : Tensor();
  const auto each = _nll_loss(logp, c.share_target(), w, "none", c.ignore_index());
  const auto all = _nll_loss(logp, c.share_target(), w, c.reduction(), c.ignore_index());
  cpu::copy_reference(*c.out(), *all[0]);
  cpu::copy_reference(*c.out(1), *all[1]);
  cpu::copy_reference(*c.out(2), *cat({most, log_sum, unsqueeze(each[0], 1)}, 1));
}
void plain_backward(const Call& call) {
  const args::cross_entropy_backward c(call);
  const autograd::NoGrad no_grad;
  const Tensor x = to(c.share_input(), DType::F64), stats = to(c.share_stats(), DType::F64);
  const Tensor w = c.has_weight() ? to(weights_of(c), DType::F64) : Tensor();
  const Tensor g = _nll_loss_backward(to(c.share_grad(), DType::F64), c.share_target(), w, c.reduction(),
                                      c.ignore_index(), to(c.share_total_weight(), DType::F64), x.shape());
  const Tensor p = exp(sub(sub(x, narrow(stats, 1, 0, 1)), narrow(stats, 1, 1, 1))), total = sum(g, 1, true);
  const Tensor ignored = unsqueeze(eq(c.share_target(), c.ignore_index()), 1);
  cpu::copy_reference(*c.out(), *where(ignored, 0.0, sub(g, mul(p, total))));
}

void on_device(const Call& call, Workspace& workspace) {
  const args::cross_entropy_core c(call);
  const Tensor x = dense(c.share_input(), workspace), target = dense(c.share_target(), workspace),
               w = dense(weights_of(c), workspace);
  if (workspace.planning()) return;
  cuda::cross_entropy({*x, *target, w.get(), c.ignore_index(), c.reduction() == "mean"}, *c.out(2), *c.out(),
                      *c.out(1));
}
void cross_entropy_backward_on_device(const Call& call, Workspace& workspace) {
  const args::cross_entropy_backward c(call);
  const DType compute = compute_type(c.input().dtype);
  const Tensor x = dense(c.share_input(), workspace), target = dense(c.share_target(), workspace),
               w = dense(weights_of(c), workspace), grad = dense(c.share_grad(), workspace),
               stats = dense(c.share_stats(), compute, workspace),
               total = dense(c.share_total_weight(), compute, workspace);
  if (workspace.planning()) return;
  cuda::cross_entropy_backward({*x, *target, w.get(), c.ignore_index(), c.reduction() == "mean"}, *stats, *total, *grad,
                               *c.out());
}

// The gradient out of ops that have gradients themselves.
Grads cross_entropy_graph_grads(const GradContext& context, const Tensor& g) {
  const grads::cross_entropy_core c(context);
  const Tensor logp = log_softmax(c.input(), 1);
  return {
    _log_softmax_backward_data(_nll_loss_backward(g, c.target(), c.has_weight() ? c.weight() : Tensor(), c.reduction(),
                                                  c.ignore_index(), to(c.result(1), g.dtype()), c.shape_of_input()),
                               logp, 1)};
}
}  // namespace

STRATA_OP(cross_entropy_core,
          "_cross_entropy(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index) -> (Tensor, "
          "Tensor, Tensor)")
  .no_grad_inputs({"weight"})
  .doc(
    "cross_entropy of rows of logits [N, C] with class indices, the sum of the weights of the targets that are not "
    "ignored, and for each row the largest logit, log(sum(exp(x - largest))) and the loss.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer(infer_forward)
  .kernel("rows", run_rows)
  .kernel("reference", plain)
  .cuda("rows", on_device)
  .saves({"input", "target", "weight"})
  .saves_result({1, 2})
  .no_grad_outputs({1, 2})
  .grad([](const grads::cross_entropy_core& c, const Tensor& g) -> Grads {
    return {_cross_entropy_backward(c.input(), g, c.target(), c.has_weight() ? c.weight() : Tensor(), c.reduction(),
                                    c.ignore_index(), c.result(1), c.result(2))};
  })
  .grad_for_graph(cross_entropy_graph_grads)
  .samples({"f(3,4), i4(3), None, 'mean', -100", "f(5,19), i19(5), p(19), 'none', 1",
            "f(2,300), i300(2), None, 'sum', 0"});

STRATA_OP(cross_entropy_backward,
          "_cross_entropy_backward(Tensor input, Tensor grad, Tensor target, Tensor? weight, str reduction, int "
          "ignore_index, Tensor total_weight, Tensor stats) -> Tensor")
  .doc("The gradient of _cross_entropy: (softmax(input) - one_hot(target)) * grad. In place, it replaces the logits.")
  .helper()
  .updates()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer(infer_backward)
  .kernel("rows", run_rows_backward)
  .kernel("reference", plain_backward)
  .cuda("rows", cross_entropy_backward_on_device)
  .samples({"f(3,4), f(), i4(3), None, 'mean', -100, p(), p(3,3)"});

}  // namespace strata
