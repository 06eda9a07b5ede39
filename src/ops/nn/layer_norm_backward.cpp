// The gradients of layer_norm and rms_norm.
#include "strata/args/nn/layer_norm_backward.h"
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "cpu/movement/runs.h"
#include "cpu/nn/norms.h"
#include "cpu/nn/row_kernels.h"
#include "cuda/nn/norm_rows.h"
#include "cuda/reduce/moments.h"
#include "ops/device_inputs.h"
#include "ops/nn/norm_formulas.h"
#include "record/rows.h"

namespace strata {
namespace {

void infer_norm_backward(const Call& c) {  // grad, input, normalized_shape, …
  const args::row_norm_backward a(c);
  const TensorImpl& x = a.input();
  const Shape last = a.normalized_shape();
  const int64_t n = checked_numel(last);
  int64_t rows = 1;
  for (size_t d = 0; d + last.size() < size_t{x.ndim}; ++d) rows *= x.shape[d];
  const auto fits = [](const TensorImpl* t, int64_t numel) { return !t || t->numel == numel; };
  STRATA_CHECK(a.grad().same_shape(x) && last.size() <= size_t{x.ndim} &&
                 std::ranges::equal(last, x.sizes().last(last.size())) && fits(a.mean(), rows) &&
                 fits(&a.rstd(), rows) && fits(a.weight(), n),
               Runtime, "{}: the gradient of shape {}, the statistics or the weight do not fit an input of shape {}",
               c.op.name, to_string(a.grad().sizes()), to_string(x.sizes()));
  c.outs[0]->dtype = x.dtype;
  c.outs[0]->set_shape(x.sizes());
  for (int o : {1, 2}) {
    c.outs[o]->dtype = x.dtype;
    c.outs[o]->set_shape(a.normalized_shape());
  }
}

// The gradient of some rows, and their part of the gradients of weight and bias, if these are wanted.
template <class T> struct NormGradient {
  cpu::NormRows<T> p;
  std::optional<cpu::ColumnGradSums<T>> sums;
  void run(int64_t first, int64_t count, const T* g, const T* x, const T* mean, const T* rstd, T* out) const {
    cpu::norm_backward(p, g, x, mean, rstd, out, count);
    if (sums) sums->add(first, count, g, x, mean, rstd);
  }
};
template <class T>
NormGradient<T> norm_gradient(const args::row_norm_backward& a, int64_t rows, int64_t n, const T* weight) {
  NormGradient<T> gradient{{n, 0, a.has_mean(), weight, nullptr}, {}};
  if (a.affine()) gradient.sums.emplace(rows, n, true, a.has_mean());
  return gradient;
}

void run_norm_backward(const Call& c) {
  const args::row_norm_backward a(c);
  const TensorImpl& x = a.input();
  const int64_t n = checked_numel(a.normalized_shape()), rows = n ? x.numel / n : 0;
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const cpu::In<T> grad(a.grad()), in(x), rstd(a.rstd());
    const OptionalIn<T> mean(a.mean_value()), weight(a.weight_value());
    const cpu::Out<T> out(c.outs[0]), gw(c.outs[1]), gb(c.outs[2]);
    const NormGradient<T> gradient = norm_gradient(a, rows, n, weight.get());
    const int64_t unit = row_unit(n),
                  block = gradient.sums ? unit : std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n));
    parallel_for((rows + block - 1) / block, 1, [&](int64_t first, int64_t last) {
      for (int64_t r = first * block;
           r < std::min(rows, last * block);) {  // some rows at a time, which stay in the cache
        const int64_t count =
          std::min({rows - r, block - r % block, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n))});
        gradient.run(r, count, grad + r * n, in + r * n, mean.get() ? mean.get() + r : nullptr, rstd + r, out + r * n);
        r += count;
      }
    });
    if (gradient.sums) gradient.sums->finish(gw, a.has_mean() ? gb.get() : nullptr);
    out.finish();
    gw.finish();
    gb.finish();
  });
}

std::optional<RowOp> norm_backward_rows(const Call& c) {
  const args::row_norm_backward a(c);
  const TensorImpl& x = a.input();
  const int64_t n = checked_numel(a.normalized_shape()), rows = n ? x.numel / n : 0;
  if (n < 2 || rows == 0) return {};
  RowOp op{.compute = compute_type(x.dtype), .shape = x.sizes(), .row = n, .in = {{{}, &a.grad()}, {{}, &x}}};
  if (a.has_mean()) op.in.push_back({{RowExtent::Rows}, a.mean()});
  op.in.push_back({{RowExtent::Rows}, &a.rstd()});
  const bool means = a.has_mean();
  if (a.affine()) op.unit = row_unit(n);
  for (int o : {1, 2}) op.out[o] = {RowExtent::Whole};
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const OptionalIn<T> weight(a.weight_value());
    const NormGradient<T> gradient = norm_gradient(a, rows, n, weight.get());
    op.run = [gradient, weight, means](const RowBlock& b) {
      const auto in = [&](int k) { return static_cast<const T*>(b.in[k]); };
      gradient.run(b.first, b.count, in(0), in(1), means ? in(2) : nullptr, in(means ? 3 : 2),
                   static_cast<T*>(b.out[0]));
    };
    op.finish = [gradient, n, type = x.dtype](std::byte* const* outs) {
      const std::unique_ptr<T[]> sums(new T[static_cast<size_t>(2 * n)]());
      if (gradient.sums) gradient.sums->finish(sums.get(), sums.get() + n);
      for (int o : {1, 2})
        if (outs[o]) cpu::store_run(sums.get() + (o - 1) * n, outs[o], type, 1, n);
    };
  });
  return op;
}

// The sums over rows, after the kernel of a group on a GPU.
void sum_columns(const OpRecord& op, const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                 int64_t n, std::byte* const* outs) {
  Tensor sums[2];
  for (size_t k = 0; k < 2; ++k) {
    if (k == 1 && !mean) break;
    sums[k] = Tensor(Ref<TensorImpl>::adopt(TensorImpl::make()));
    sums[k]->set_shape(Shape(&n, 1));
    sums[k]->set_contiguous_strides();
    sums[k]->dtype = x.dtype();
    sums[k]->device = x.device();
    if (outs[k + 1]) sums[k]->data = outs[k + 1];
    else sums[k]->allocate();  // nobody needs it
  }
  const auto run = [&](Workspace workspace) {
    const Tensor g = dense(grad, workspace), values = dense(x, workspace);
    cuda::column_grad_sums(x.numel() / n, *g, *values, mean.get(), *rstd, *sums[0], sums[1].get(), workspace);
  };
  Plan plan;
  plan.reset();
  run(Workspace(plan));
  Tensor memory;
  const int64_t bytes[] = {static_cast<int64_t>(plan.workspace)};
  if (plan.workspace) memory = make_tensor(Shape(bytes), DType::U8, x.device());
  run(Workspace(Call{op, Args(), nullptr, memory.get()}));
}

std::optional<RowOp> gpu_norm_backward_rows(const Call& c) {
  const args::row_norm_backward a(c);
  const TensorImpl &grad = a.grad(), &x = a.input(), *weight = a.has_weight() ? &*a.weight() : nullptr;
  const int64_t n = checked_numel(a.normalized_shape());
  if (x.numel == 0) return {};
  RowOp op{.compute = compute_type(x.dtype), .shape = x.sizes(), .row = n, .in = {{{}, &grad}, {{}, &x}}};
  if (a.has_mean()) op.in.push_back({{RowExtent::Rows}, a.mean()});
  op.in.push_back({{RowExtent::Rows}, &a.rstd()});
  if (weight) op.in.push_back({{}, weight, true});
  for (int o : {1, 2}) op.out[o] = {RowExtent::Whole};
  op.gpu = cuda::norm_backward_in_group(grad, x, n, a.has_mean(), weight);
  if (!op.gpu) return {};
  if (!a.affine()) return op;
  op.reads = {alias(grad), alias(x), a.has_mean() ? alias(*a.mean()) : Tensor(), alias(a.rstd())};
  op.finish = [record = &c.op, reads = op.reads, n](std::byte* const* outs) {
    sum_columns(*record, reads[0], reads[1], reads[2], reads[3], n, outs);
  };
  return op;
}

void plain_norm_backward(const Call& c) {  // grad, input, normalized_shape, mean, rstd, weight, affine
  const args::row_norm_backward a(c);
  const autograd::NoGrad no_grad;
  const Tensor g = wide(a.share_grad()), x = wide(a.share_input()), means = wide(a.share_mean()),
               weight = wide(a.share_weight());
  const int count = static_cast<int>(a.normalized_shape().size);
  const auto rows = first_dims(x.dim() - count);
  const Normalized n{mul(means ? sub(x, means) : x, wide(a.share_rstd())), wide(a.share_rstd())};
  cpu::copy_reference(*c.outs[0],
                      *normalized_grad(affine(g, weight, Tensor()), n, last_dims(count), static_cast<bool>(means)));
  if (!a.affine()) return;
  const auto total = [&](const Tensor& t) { return rows.empty() ? t : sum(t, rows); };
  cpu::copy_reference(*c.outs[1], *total(mul(g, n.value)));
  if (means) cpu::copy_reference(*c.outs[2], *total(g));
}

void norm_backward_on_device(const Call& c, Workspace& workspace) {
  const args::row_norm_backward a(c);
  const int64_t n = checked_numel(a.normalized_shape());
  const DType type = compute_type(a.input().dtype);
  const Tensor grad = dense(a.share_grad(), workspace), x = dense(a.share_input(), workspace),
               weight = dense(a.share_weight(), workspace), rstd = dense(a.share_rstd(), type, workspace),
               mean = a.has_mean() ? dense(a.share_mean(), type, workspace) : Tensor();
  if (!workspace.planning()) cuda::norm_rows_backward(*grad, *x, n, mean.get(), *rstd, weight.get(), *c.outs[0]);
  if (a.affine())
    cuda::column_grad_sums(n ? x.numel() / n : 0, *grad, *x, mean.get(), *rstd, *c.outs[1],
                           mean ? c.outs[2].get() : nullptr, workspace);
}

}  // namespace

STRATA_OP(row_norm_backward,
          "_row_norm_backward(Tensor grad, Tensor input, int[] normalized_shape, Tensor? mean, Tensor rstd, Tensor? "
          "weight, bool affine) -> (Tensor, Tensor, Tensor)")
  .doc("Gradients of layer_norm and, without a mean, of rms_norm: of input, weight and bias.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer(infer_norm_backward)
  .kernel("rows", run_norm_backward)
  .with([](OpRecord& op) { set_row_rule(op, norm_backward_rows, {"weight"}); })
  .with(computes_rows<gpu_norm_backward_rows, Backend::Cuda>)
  .kernel("reference", plain_norm_backward)
  .cuda("rows", norm_backward_on_device)
  .samples({"f(3,4), f(3,4), [4], f(3,1), p(3,1), f(4), True"});

}  // namespace strata
