// Cross entropy of rows of logits with class indices: log_softmax and nll_loss in one pass, without the matrix between.
#include "cuda/nn/cross_entropy.h"
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "cpu/movement/runs.h"
#include "cpu/nn/row_kernels.h"
#include "cpu/staging.h"
#include "cuda/nn/cross_entropy_params.h"
#include "ops/device_inputs.h"
#include "ops/nn/loss_common.h"
#include "record/rows.h"
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

// What the rows of a call read besides the logits.
template <class T> struct Targets {
  int64_t classes, ignored;
  cpu::In<int64_t> target;
  Tensor weights;
  template <class A>
  explicit Targets(const A& c)
      : classes(c.input().shape[1]),
        ignored(c.ignore_index()),
        target(c.target()),
        weights(c.has_weight() ? cpu::staged(*c.weight(), dtype_of<T>) : Tensor()),
        w_(weights ? weights.template data<T>() : nullptr) {}
  bool ignores(int64_t row) const { return target[row] == ignored; }
  int64_t of(int64_t row) const { return checked_class(target[row], classes); }
  T weight(int64_t row) const {
    const int64_t t = of(row);  // checks the class
    return w_ ? w_[t] : T(1);
  }

  double total_weight(int64_t rows) const {
    double sum = 0;
    for (int64_t i = 0; i < rows; ++i)
      if (!ignores(i)) sum += static_cast<double>(weight(i));
    return sum;
  }
  // The losses of some rows, and their statistics.
  void losses(int64_t first, int64_t count, const T* x, T* loss, T* stats) const {
    for (int64_t r = 0; r < count; ++r, x += classes, stats += kStats) {
      const cpu::RowExp<T> s = cpu::exp_statistics(x, classes);
      const int64_t i = first + r;
      loss[r] = ignores(i) ? T(0) : -(x[of(i)] - s.most - s.log_sum) * weight(i);
      stats[0] = s.most;
      stats[1] = s.log_sum;
      stats[2] = loss[r];
    }
  }

 private:
  const T* w_;
};

// The loss of all rows. `mean` divides by the total weight.
template <class T> T total_loss(const T* losses, int64_t rows, bool mean, double total_weight) {
  double sum = 0;
  for (int64_t i = 0; i < rows; ++i) sum += static_cast<double>(losses[i]);
  return static_cast<T>(mean ? sum / total_weight : sum);
}

void run_rows(const Call& call) {
  const args::cross_entropy_core c(call);
  const TensorImpl& x = c.input();
  const int64_t rows = x.shape[0], classes = x.shape[1];
  const auto reduction = c.reduction();
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const cpu::In<T> in(x);
    const Targets<T> targets(c);
    const cpu::Out<T> out(c.out()), total(c.out(1)), stats(c.out(2));
    const double count = targets.total_weight(rows);
    const std::unique_ptr<T[]> losses(new T[static_cast<size_t>(rows)]);
    over_rows(x, [&](int64_t begin, int64_t end) {
      targets.losses(begin, end - begin, in + begin * classes, losses.get() + begin, stats + begin * kStats);
    });
    if (reduction == "none") std::copy_n(losses.get(), rows, out.get());
    else out[0] = total_loss(losses.get(), rows, reduction == "mean", count);
    total[0] = static_cast<T>(count);
    out.finish();
    total.finish();
    stats.finish();
  });
}

// The gradients of some rows of logits.
template <class T> struct LogitGradient {
  Targets<T> targets;
  cpu::In<T> grad, total;
  bool mean, each;  // of the losses; each has its own gradient
  explicit LogitGradient(const args::cross_entropy_backward& c)
      : targets(c),
        grad(c.grad()),
        total(c.total_weight()),
        mean(c.reduction() == "mean"),
        each(c.reduction() == "none") {}
  void run(int64_t first, int64_t count, const T* x, const T* stats, T* out) const {
    const int64_t classes = targets.classes;
    for (int64_t r = 0; r < count; ++r, x += classes, out += classes, stats += kStats) {
      const int64_t i = first + r;
      if (targets.ignores(i)) {
        std::fill_n(out, classes, T(0));
        continue;
      }
      T scale = grad[each ? i : 0] * targets.weight(i);
      if (mean) scale /= total[0];
      cpu::exp_scaled(x, classes, {stats[0], stats[1]}, scale, out);
      out[targets.of(i)] -= scale;
    }
  }
};

void run_rows_backward(const Call& call) {
  const args::cross_entropy_backward c(call);
  const TensorImpl& x = c.input();
  const int64_t classes = x.shape[1];
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const cpu::In<T> in(x), stats(c.stats());
    const LogitGradient<T> gradient(c);
    const cpu::Out<T> out(c.out());
    over_rows(x, [&](int64_t begin, int64_t end) {
      gradient.run(begin, end - begin, in + begin * classes, stats + begin * kStats, out + begin * classes);
    });
    out.finish();
  });
}

// The same in groups. The total weight needs no logits, so it is ready at once: the gradient divides by it.
std::optional<RowOp> loss_rows(const Call& call) {
  const args::cross_entropy_core c(call);
  const TensorImpl& x = c.input();
  const int64_t rows = x.shape[0];
  if (x.shape[1] < 2 || rows == 0 || c.reduction() == "none") return {};
  RowOp op{.compute = compute_type(x.dtype), .shape = x.sizes(), .row = x.shape[1], .in = {{{}, &x}}};
  op.out[0] = {RowExtent::Whole};
  op.out[1] = {RowExtent::Whole, 1, true};
  op.out[2] = {RowExtent::Rows, kStats};
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const Targets<T> targets(c);
    const double count = targets.total_weight(rows);
    const std::shared_ptr<T[]> losses(new T[static_cast<size_t>(rows)]);
    op.prepare = [count](const Call& made) { *reinterpret_cast<T*>(made.outs[1]->data) = static_cast<T>(count); };
    op.run = [targets, losses](const RowBlock& b) {
      targets.losses(b.first, b.count, static_cast<const T*>(b.in[0]), losses.get() + b.first,
                     static_cast<T*>(b.out[2]));
    };
    op.finish = [losses, rows, count, type = x.dtype, mean = c.reduction() == "mean"](std::byte* const* outs) {
      const T loss = total_loss(losses.get(), rows, mean, count);
      if (outs[0]) cpu::store_run(&loss, outs[0], type, 1, 1);
    };
  });
  return op;
}

std::optional<RowOp> loss_backward_rows(const Call& call) {
  const args::cross_entropy_backward c(call);
  const TensorImpl& x = c.input();
  if (x.shape[1] < 2 || x.shape[0] == 0) return {};
  RowOp op{.compute = compute_type(x.dtype),
           .shape = x.sizes(),
           .row = x.shape[1],
           .in = {{{}, &x}, {{RowExtent::Rows, kStats}, &c.stats()}}};
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    op.run = [gradient = LogitGradient<T>(c)](const RowBlock& b) {
      gradient.run(b.first, b.count, static_cast<const T*>(b.in[0]), static_cast<const T*>(b.in[1]),
                   static_cast<T*>(b.out[0]));
    };
  });
  return op;
}

// On GPUs.
template <class A> cuda::CrossEntropyInputs inputs_of(const A& c) {
  return {c.input(), c.target(), c.has_weight() ? &*c.weight() : nullptr, c.ignore_index(), c.reduction() == "mean"};
}
std::optional<RowOp> gpu_loss_rows(const Call& call) {
  const args::cross_entropy_core c(call);
  if (c.reduction() == "none") return {};
  return cuda::cross_entropy_in_group(inputs_of(c));
}
std::optional<RowOp> gpu_loss_backward_rows(const Call& call) {
  const args::cross_entropy_backward c(call);
  if (c.reduction() == "none") return {};
  return cuda::cross_entropy_backward_in_group(inputs_of(c), c.stats(), c.total_weight(), c.grad());
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
  .with([](OpRecord& op) {
    set_row_rule(op, loss_rows, {"target", "weight"});
    set_row_rule(op, gpu_loss_rows, {"target", "weight"}, Backend::Cuda);
  })
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
  .with([](OpRecord& op) {
    set_row_rule(op, loss_backward_rows, {"grad", "target", "weight", "total_weight"});
    set_row_rule(op, gpu_loss_backward_rows, {"grad", "target", "weight", "total_weight"}, Backend::Cuda);
  })
  .kernel("reference", plain_backward)
  .cuda("rows", cross_entropy_backward_on_device)
  .samples({"f(3,4), f(), i4(3), None, 'mean', -100, p(), p(3,3)"});

}  // namespace strata
