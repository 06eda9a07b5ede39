// Batch norm.
#include "strata/args/nn/batch_norm.h"
#include "autograd/autograd.h"
#include "cpu/movement/copy.h"
#include "cpu/nn/norms.h"
#include "cpu/reduce/moments.h"
#include "cpu/staging.h"
#include "cuda/reduce/moments.h"
#include "ops/device_inputs.h"
#include "ops/nn/norm_formulas.h"
#include "ops/transfer.h"

namespace strata {
namespace {

cpu::Channels channels_of(const TensorImpl& x) {
  cpu::Channels k{x.shape[0], x.shape[1], 1};
  for (int d = 2; d < x.ndim; ++d) k.s *= x.shape[d];
  return k;
}
DimMask reduced_dims(int ndim) { return all_dims(ndim) & ~dim_bit(1); }
std::vector<int64_t> all_but_channels(int ndim) {
  std::vector<int64_t> dims{0};
  for (int d = 2; d < ndim; ++d) dims.push_back(d);
  return dims;
}
Tensor per_channel(const Tensor& t, int ndim) {  // [c] as [1, c, 1, …]
  std::vector<int64_t> shape(static_cast<size_t>(ndim), 1);
  shape[1] = t.numel();
  return reshape(t, shape);
}

void infer_batch_norm(const Call& c) {
  const args::native_batch_norm arg(c);
  const TensorImpl& x = arg.input();
  STRATA_CHECK(x.ndim >= 2, Runtime, "batch_norm: expected an input of 2 or more dimensions [N, C, ...], got shape {}",
               to_string(x.sizes()));
  STRATA_CHECK(kFloatingTypes.has(x.dtype), NotImplemented,
               "batch_norm: expected a floating-point input, got {}; convert it with to(float32)", name_of(x.dtype));
  const auto check_channels = [&](const char* name, const TensorImpl* t) {
    STRATA_CHECK(!t || t->numel == x.shape[1], Runtime,
                 "batch_norm: {} should contain {} elements, not {} (input has shape {})", name, x.shape[1], t->numel,
                 to_string(x.sizes()));
  };
  check_channels("weight", arg.weight());
  check_channels("bias", arg.bias());
  check_channels("running_mean", arg.running_mean());
  check_channels("running_var", arg.running_var());
  const bool training = arg.training();
  STRATA_CHECK(!training || x.numel > 0, Runtime,
               "batch_norm: the input must have at least one element in training mode, got shape {}",
               to_string(x.sizes()));
  STRATA_CHECK(training || (arg.has_running_mean() && arg.has_running_var()), Runtime,
               "batch_norm: running_mean and running_var must be given in evaluation mode");
  c.outs[0]->dtype = x.dtype;
  c.outs[0]->set_shape(x.sizes());
  if (cpu::channels_last(x)) c.outs[0]->set_strides_like(x);
  const int64_t stats[] = {training ? x.shape[1] : 0};
  for (int o : {1, 2}) {
    c.outs[o]->dtype = compute_type(x.dtype);
    c.outs[o]->set_shape(stats);
  }
}

template <class T> std::vector<T> values_or(const Value& v, int64_t count, T fallback) {
  std::vector<T> out(static_cast<size_t>(count), fallback);
  if (v.tag == Tag::Tensor) {
    const cpu::In<T> in(*v.tensor);
    std::copy_n(in.get(), count, out.begin());
  }
  return out;
}

template <class T>
void update_running(const Value& running, const T* now, int64_t count, double momentum, double factor) {
  if (running.tag != Tag::Tensor) return;
  const Tensor target = cpu::borrow(*running.tensor);
  const Tensor values = make_tensor(target.shape(), dtype_of<T>);
  cpu::copy_values(*values, *target);
  for (int64_t i = 0; i < count; ++i) {
    T& r = values.data<T>()[i];
    r = static_cast<T>((1 - momentum) * r + momentum * factor * now[i]);
  }
  cpu::copy_values(*target, *values);
}

void run_batch_norm(const Call& c) {
  const args::native_batch_norm a(c);
  const TensorImpl& x = a.input();
  const auto k = channels_of(x);
  const bool training = a.training();
  const double momentum = a.momentum(), eps = a.eps();
  const bool last = cpu::channels_last(x);
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const bool narrow = std::is_same_v<T, float> && x.dtype != DType::F32 && x.contiguous && !last &&
                        c.outs[0]->contiguous && c.outs[0].dtype() == x.dtype;
    const Tensor in_values = narrow ? cpu::borrow(x)
                             : last ? cpu::staged_like(x, x, dtype_of<T>)
                                    : cpu::staged(x, dtype_of<T>);
    const size_t count = static_cast<size_t>(k.c);
    std::vector<T> mean(count), rstd(count), scale = values_or<T>(a.weight_value(), k.c, 1),
                                             shift = values_or<T>(a.bias_value(), k.c, 0);
    std::vector<double> center, variance;
    if (training) {
      const Shape channels(x.shape + 1, 1);
      const Tensor m = make_tensor(channels, DType::F64), v = make_tensor(channels, DType::F64);
      cpu::moments(*in_values, reduced_dims(x.ndim), 0, false, v.get(), m.get());
      center.assign(m.data<double>(), m.data<double>() + count);
      variance.assign(v.data<double>(), v.data<double>() + count);
      const double n = static_cast<double>(k.n * k.s);
      update_running(a.running_mean_value(), center.data(), k.c, momentum, 1.0);
      update_running(a.running_var_value(), variance.data(), k.c, momentum, n / (n - 1));
    } else {
      center = values_or<double>(a.running_mean_value(), k.c, 0);
      variance = values_or<double>(a.running_var_value(), k.c, 1);
    }
    for (size_t i = 0; i < count; ++i) {
      mean[i] = static_cast<T>(center[i]);
      rstd[i] = static_cast<T>(1 / std::sqrt(variance[i] + eps));
      scale[i] *= rstd[i];
      shift[i] -=
        static_cast<T>(center[i] - static_cast<double>(mean[i])) * scale[i];  // corrects the rounding of the mean
    }
    if constexpr (std::is_same_v<T, float>)
      if (narrow)
        cpu::narrow_channel_affine(k, x.dtype, x.data, mean.data(), scale.data(), shift.data(), c.outs[0]->data);
    if (!narrow) {
      const Tensor out = cpu::place_for(*c.outs[0], *c.outs[0], dtype_of<T>);
      const T* in = in_values.template data<T>();
      T* to = out.template data<T>();
      if (last) cpu::row_affine<T>(k.n * k.s, k.c, in, mean.data(), scale.data(), shift.data(), to);
      else cpu::channel_affine<T>(k, in, mean.data(), scale.data(), shift.data(), to);
      if (out.get() != c.outs[0].get()) cpu::copy_values(*c.outs[0], *out);
    }
    if (training) {
      std::copy_n(mean.data(), count, c.outs[1].template data<T>());
      std::copy_n(rstd.data(), count, c.outs[2].template data<T>());
    }
  });
}

// The input and the result for the kernels of a device. They process rows of channels as they are, and anything else in the order
// of a contiguous tensor, in the workspace if need be.
struct ChannelOrder {
  bool rows;
  Tensor x, out;
  ChannelOrder(const Tensor& input, const Tensor& result, Workspace& w)
      : rows(cuda::channels_in_rows(*input)), x(rows ? alias(*input) : dense(input, w)), out(result) {
    if (!rows && !result->contiguous) out = w.take(result.shape(), result.dtype());
  }
  void finish(const Tensor& result) const {
    if (out.get() != result.get()) copy_values(*result, *out);
  }
  // A tensor of the shape of x with the strides of x, aligned alike, or contiguous.
  Tensor like_input(const Tensor& g, const TensorImpl& x, Workspace& w) const {
    if (!rows) return dense(g, w);
    if (std::equal(g->strides, g->strides + g->ndim, x.strides) && cuda::channels_in_rows(*g)) return alias(*g);
    Tensor ordered = w.take(g.shape(), g.dtype());
    ordered->set_strides_like(x);
    if (!w.planning()) copy_values(*ordered, *g);
    return ordered;
  }
};
struct DeviceInputs {
  ChannelOrder order;
  Tensor weight, bias, mean, var;
  DeviceInputs(const Call& c, const args::native_batch_norm& a, Workspace& w)
      : order(a.share_input(), c.outs[0], w),
        weight(dense(a.share_weight(), w)),
        bias(dense(a.share_bias(), w)),
        mean(dense(a.share_running_mean(), w)),
        var(dense(a.share_running_var(), w)) {}
};
// A kernel writes running statistics in place: if they are not contiguous, a copy is written back afterwards.
void batch_norm_on_device(const Call& c, Workspace& workspace, const TensorImpl* other = nullptr, bool relu = false) {
  const args::native_batch_norm a(c);
  const DeviceInputs in(c, a, workspace);
  const Tensor added = other ? in.order.like_input(alias(*other), a.input(), workspace) : Tensor();
  const bool training = a.training();
  cuda::batch_norm({.x = *in.order.x,
                    .y = *in.order.out,
                    .weight = in.weight.get(),
                    .bias = in.bias.get(),
                    .running_mean = in.mean.get(),
                    .running_var = in.var.get(),
                    .mean = training ? c.outs[1].get() : nullptr,
                    .rstd = training ? c.outs[2].get() : nullptr,
                    .momentum = a.momentum(),
                    .eps = a.eps(),
                    .other = added.get(),
                    .relu = relu},
                   workspace);
  if (workspace.planning()) return;
  const auto put_back = [&](const TensorImpl* running, const Tensor& now) {
    if (training && running && now.bytes() != running->data) copy_values(*running, *now);
  };
  put_back(a.running_mean(), in.mean);
  put_back(a.running_var(), in.var);
  in.order.finish(c.outs[0]);
}

struct DeviceGradInputs {
  ChannelOrder order;
  Tensor grad, weight, mean, rstd;
  DeviceGradInputs(const Call& c, const args::batch_norm_backward& a, Workspace& w)
      : order(a.share_input(), c.outs[0], w),
        grad(order.like_input(a.share_grad(), a.input(), w)),
        weight(dense(a.share_weight(), w)),
        mean(dense(a.share_mean(), compute_type(a.input().dtype), w)),
        rstd(dense(a.share_rstd(), compute_type(a.input().dtype), w)) {}
};
void batch_norm_backward_on_device(const Call& c, Workspace& workspace) {
  const DeviceGradInputs in(c, args::batch_norm_backward(c), workspace);
  cuda::batch_norm_backward(*in.grad, *in.order.x, in.weight.get(), *in.mean, *in.rstd, *in.order.out, *c.outs[1],
                            *c.outs[2], workspace);
  if (!workspace.planning()) in.order.finish(c.outs[0]);
}

void plain_batch_norm(const Call& c) {
  const args::native_batch_norm a(c);
  const autograd::NoGrad no_grad;
  const Tensor x = wide(a.share_input());
  const auto dims = all_but_channels(x.dim());
  const double momentum = a.momentum(), eps = a.eps();
  const bool training = a.training();
  const auto spread = [&](const Tensor& t) { return t ? per_channel(t, x.dim()) : t; };
  const Tensor center = training ? mean(x, dims) : wide(a.share_running_mean()),
               variance = training ? mean(square(sub(x, spread(center))), dims) : wide(a.share_running_var()),
               rstd = rsqrt(add(variance, eps));
  cpu::copy_reference(*c.outs[0], *affine(mul(sub(x, spread(center)), spread(rstd)), spread(wide(a.share_weight())),
                                          spread(wide(a.share_bias()))));
  if (!training) return;
  const double n = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  update_running(a.running_mean_value(), center.data<double>(), x.size(1), momentum, 1.0);
  update_running(a.running_var_value(), variance.data<double>(), x.size(1), momentum, n / (n - 1));
  cpu::copy_reference(*c.outs[1], *center);
  cpu::copy_reference(*c.outs[2], *rstd);
}
void plain_batch_norm_backward(const Call& c) {  // grad, input, weight, mean, rstd
  const args::batch_norm_backward a(c);
  const autograd::NoGrad no_grad;
  const Tensor g = wide(a.share_grad()), x = wide(a.share_input()), weight = wide(a.share_weight()),
               rstd = per_channel(wide(a.share_rstd()), x.dim());
  const auto dims = all_but_channels(x.dim());
  const Normalized n{mul(sub(x, per_channel(wide(a.share_mean()), x.dim())), rstd), rstd};
  const Tensor scaled = weight ? mul(g, per_channel(weight, x.dim())) : g;
  cpu::copy_reference(*c.outs[0], *normalized_grad(scaled, n, dims, true));
  cpu::copy_reference(*c.outs[1], *sum(mul(g, n.value), dims));
  cpu::copy_reference(*c.outs[2], *sum(g, dims));
}

// Composed of other ops, for double gradients and for given statistics.
template <class View> typename View::Result batch_norm_graph_grads(const View& a, const Tensor& g) {
  typename View::Result out;
  const Tensor x = a.input(), weight = a.has_weight() ? a.weight() : Tensor();
  const auto dims = all_but_channels(x.dim());
  const bool training = a.training();
  const double eps = a.eps();
  Normalized n;
  if (training) {
    n = normalized(x, dims, eps, true);
  } else {
    n.rstd = per_channel(rsqrt(add(a.running_var(), eps)), x.dim());
    if ((weight && a.needs_weight()) || a.needs_running_var())
      n.value = mul(sub(x, per_channel(a.running_mean(), x.dim())), n.rstd);
  }
  if (a.needs_input()) {
    const Tensor gw = weight ? mul(g, per_channel(weight, x.dim())) : g;
    out.input = training ? normalized_grad(gw, n, dims, true) : mul(gw, n.rstd);
  }
  if (a.has_weight() && a.needs_weight()) out.weight = sum(mul(g, n.value), dims);
  if (a.has_bias() && a.needs_bias()) out.bias = sum(g, dims);
  if (!training && (a.needs_running_mean() || a.needs_running_var())) {  // given statistics are ordinary inputs
    const Tensor gr = mul(weight ? mul(g, per_channel(weight, x.dim())) : g, n.rstd);
    if (a.needs_running_mean()) out.running_mean = neg(sum(gr, dims));
    if (a.needs_running_var()) out.running_var = mul(sum(mul(mul(gr, n.value), n.rstd), dims), -0.5);
  }
  return out;
}
template <class View> typename View::Result grad_batch_norm(const View& a, const Tensor& g) {
  const bool training = a.training();
  if (!training) return batch_norm_graph_grads(a, g);
  typename View::Result out;
  const Tensor x = a.input(), weight = a.has_weight() ? a.weight() : Tensor();
  const auto all = _batch_norm_backward(g, x, weight, a.result(1), a.result(2));
  out.input = all[0];
  if (a.has_weight() && a.needs_weight()) out.weight = all[1];
  if (a.has_bias() && a.needs_bias()) out.bias = all[2];
  return out;
}

// Statistics need more than one value per channel.
void check_enough(const Tensor& x) {
  int64_t n = x.dim() > 0 ? x.size(0) : 0;
  for (int d = 2; d < x.dim(); ++d) n *= x.size(d);
  STRATA_CHECK(n != 1, Value, "batch_norm: expected more than 1 value per channel when training, got input size {}",
               to_string(x.shape()));
}
}  // namespace

STRATA_OP(native_batch_norm,
          "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!:training)? running_mean, "
          "Tensor(b!:training)? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)")
  .doc("batch_norm together with the mean and the reciprocal standard deviation of each channel.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer(infer_batch_norm)
  .kernel("channels", run_batch_norm)
  .kernel("reference", plain_batch_norm)
  .cuda("channels", [](const Call& c, Workspace& w) { batch_norm_on_device(c, w); })
  .saves({"input", "weight", "running_mean", "running_var"})
  .saves_result({1, 2})
  .no_grad_outputs({1, 2})
  .grad([](const grads::native_batch_norm& c, const Tensor& g) -> Grads { return grad_batch_norm(c, g); })
  .grad_for_graph([](const grads::native_batch_norm& c, const Tensor& g) -> Grads {
    return batch_norm_graph_grads(c, g);
  })
  .samples({"f(3,4), f(4), f(4), None, None, True, 0.1, 1e-5", "f(2,3,4), None, None, None, None, True, 0.1, 1e-5",
            "!f(3,4), f(4), f(4), f(4), p(4), True, 0.1, 1e-5"});

STRATA_OP(batch_norm,
          "nn.functional.batch_norm(Tensor input, Tensor(a!:training)? running_mean, Tensor(b!:training)? running_var, "
          "Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-5) -> Tensor")
  .no_grad_inputs({"running_mean", "running_var"})
  .doc("Normalizes each channel by its mean and variance over the batch (training) or by the running ones.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                const Tensor& bias, bool training, double momentum, double eps) {
    if (input.dim() == 1 && input.numel() == 0) return clone(input);  // PyTorch accepts an empty vector
    STRATA_CHECK(training ? eps > 0 : eps >= 0, Value, "batch_norm: eps must be {}, but got {}",
                 training ? "positive during training" : "non-negative", eps);
    if (training) check_enough(input);
    if (training && input.numel() == 0 &&
        input.dim() > 1)  // nothing to count: running statistics are unchanged, gradients are zero
      return affine(clone(input), weight ? per_channel(weight, input.dim()) : weight,
                    bias ? per_channel(bias, input.dim()) : bias);
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0];
  })
  .samples({"f(3,4), None, None, f(4), f(4), True", "f(2,3,4), None, None, None, None, True",
            "f(2,3,4,5), f(3), p(3), f(3), f(3), False", "f(2,3,2,2,2), f(3), p(3)",
            "!f(3,4), f(4), p(4), f(4), f(4), True"})
  .error("f(4), None, None, None, None, True", ErrorKind::Runtime, "2 or more dimensions")
  .error("f(2,3), f(4), p(3)", ErrorKind::Runtime, "running_mean should contain 3 elements")
  .error("f(1,3), None, None, None, None, True", ErrorKind::Value, "more than 1 value per channel")
  .error("f(2,3), None, None", ErrorKind::Runtime, "must be given in evaluation mode")
  .error("f(2,3), None, None, training=True, eps=0.0", ErrorKind::Value, "positive during training")
  .error("f(2,3), f(3), p(3), eps=-1.0", ErrorKind::Value, "non-negative");

namespace {
// The norm that is part of the call.
Args norm_args(const Call& c) {
  const args::batch_norm_relu_core a(c);
  return Args(a.share_input(), a.share_weight(), a.share_bias(), a.share_running_mean(), a.share_running_var(),
              a.training(), a.momentum(), a.eps());
}
void check_other(const Call& c) {
  const args::batch_norm_relu_core a(c);
  if (!a.has_other()) return;
  STRATA_CHECK(a.other()->same_shape(a.input()) && a.other()->dtype == a.input().dtype, Runtime,
               "batch_norm_relu: other must have the shape and dtype of the input, {} of {}, but got {} of {}",
               to_string(a.input().sizes()), name_of(a.input().dtype), to_string(a.other()->sizes()),
               name_of(a.other()->dtype));
}
void run_batch_norm_relu(const Call& c) {
  const args::batch_norm_relu_core a(c);
  const autograd::NoGrad no_grad;
  run_batch_norm(Call{op_native_batch_norm, norm_args(c), c.outs});
  const Tensor out = alias(*c.outs[0]);
  out->keep_version(0);
  if (a.has_other()) add_(out, a.share_other());
  relu_(out);
}
void plain_batch_norm_relu(const Call& c) {
  const args::batch_norm_relu_core a(c);
  const autograd::NoGrad no_grad;
  Tensor outs[] = {empty(c.outs[0].shape(), DType::F64, c.outs[0].device()), c.outs[1], c.outs[2]};
  plain_batch_norm(Call{op_native_batch_norm, norm_args(c), outs});
  cpu::copy_reference(*c.outs[0], *relu(a.has_other() ? add(outs[0], wide(a.share_other())) : outs[0]));
}
// The gradient of the sum that ReLU gets; it is that of `other`, too.
template <class Result> Grads with_other(Result out, const grads::batch_norm_relu_core& a, const Tensor& passed) {
  if (a.has_other() && a.needs_other()) out.other = passed;
  return out;
}
}  // namespace

STRATA_OP(
  batch_norm_relu_core,
  "_batch_norm_relu(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!:training)? running_mean, "
  "Tensor(b!:training)? running_var, Tensor? other, bool training, float momentum, float eps) -> (Tensor, Tensor, "
  "Tensor)")
  .doc(
    "relu(native_batch_norm(input, ...) + other), with the mean and the reciprocal standard deviation of each channel.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const Call& c) {
    infer_batch_norm(Call{op_native_batch_norm, norm_args(c), c.outs});
    check_other(c);
  })
  .kernel("channels", run_batch_norm_relu)
  .kernel("reference", plain_batch_norm_relu)
  .cuda("channels",
        [](const Call& c, Workspace& w) {
          const Args norm = norm_args(c);
          const TensorImpl* other = args::batch_norm_relu_core(c).other();
          batch_norm_on_device(Call{op_native_batch_norm, norm, c.outs, c.workspace}, w, other, true);
        })
  .saves({"input", "weight", "running_mean", "running_var"})
  .saves_result({0, 1, 2})
  .no_grad_outputs({1, 2})
  .grad([](const grads::batch_norm_relu_core& c, const Tensor& g) -> Grads {
    const Tensor passed = threshold_backward(g, c.result(0), 0);
    return with_other(grad_batch_norm(c, passed), c, passed);
  })
  .grad_for_graph([](const grads::batch_norm_relu_core& c, const Tensor& g) -> Grads {
    const Tensor passed = threshold_backward(g, c.result(0), 0);
    return with_other(batch_norm_graph_grads(c, passed), c, passed);
  })
  .samples({"f(3,4), f(4), f(4), None, None, f(3,4), True, 0.1, 1e-5",
            "f(2,3,4), None, None, None, None, None, True, 0.1, 1e-5",
            "f(2,3,4), f(3), f(3), f(3), p(3), f(2,3,4), False, 0.1, 1e-5",
            "!f(3,4), f(4), f(4), f(4), p(4), f(3,4), True, 0.1, 1e-5"})
  .error("f(3,4), f(4), f(4), None, None, f(4), True, 0.1, 1e-5", ErrorKind::Runtime, "shape and dtype of the input");

STRATA_OP(batch_norm_relu,
          "nn.functional.batch_norm_relu(Tensor input, Tensor(a!:training)? running_mean, Tensor(b!:training)? "
          "running_var, Tensor? weight=None, Tensor? bias=None, Tensor? other=None, bool training=False, float "
          "momentum=0.1, float eps=1e-5) -> Tensor")
  .no_grad_inputs({"running_mean", "running_var"})
  .doc("relu(batch_norm(input, ...) + other), in one pass over the input after that for its statistics.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                const Tensor& bias, const Tensor& other, bool training, double momentum, double eps) {
    const bool plain = input.dim() < 2 || input.numel() == 0 || !(eps > 0);
    if (training && !plain) check_enough(input);
    if (!plain)
      return _batch_norm_relu(input, weight, bias, running_mean, running_var, other, training, momentum, eps)[0];
    const Tensor normed =
      nn::functional::batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps);
    return relu(other ? add(normed, other) : normed);
  })
  .samples({"f(3,4), None, None, f(4), f(4), f(3,4), True", "f(2,3,4,5), f(3), p(3), f(3), f(3)",
            "!f(3,4), f(4), p(4), f(4), f(4), f(3,4), True"})
  .error("f(2,3), None, None", ErrorKind::Runtime, "must be given in evaluation mode")
  .error("f(1,3), None, None, training=True", ErrorKind::Value, "more than 1 value per channel");

STRATA_OP(batch_norm_backward,
          "_batch_norm_backward(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor rstd) -> (Tensor, "
          "Tensor, Tensor)")
  .doc("Gradients of batch_norm in training: of input, weight and bias.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::batch_norm_backward& c) {
    const TensorImpl& x = c.input();
    bool fits = x.ndim >= 2 && c.grad().same_shape(x);
    for (const TensorImpl* t : {c.weight(), &c.mean(), &c.rstd()}) fits = fits && (!t || t->numel == x.shape[1]);
    STRATA_CHECK(fits, Runtime,
                 "batch_norm: the gradient of shape {} or the statistics do not fit an input of shape {}",
                 to_string(c.grad().sizes()), to_string(x.sizes()));
    c.out()->dtype = x.dtype;
    c.out()->set_shape(x.sizes());
    if (cpu::channels_last(x)) c.out()->set_strides_like(x);
    for (int o : {1, 2}) {
      c.out(o)->dtype = c.has_weight() ? c.weight()->dtype : x.dtype;
      c.out(o)->set_shape(Shape(x.shape + 1, 1));
    }
  })
  .kernel("channels",
          [](const args::batch_norm_backward& c) {
            const TensorImpl& x = c.input();
            const auto k = channels_of(x);
            cpu::dispatch_float(x.dtype, [&]<class T>() {
              const cpu::In<T> grad(c.grad()), in(x), mean(c.mean()), rstd(c.rstd());
              const cpu::Out<T> out(c.out()), gw(c.out(1)), gb(c.out(2));
              const size_t count = static_cast<size_t>(k.c);
              std::vector<T> w = values_or<T>(c.weight_value(), k.c, 1), sum_gx(count), a(count), b(count), d(count);
              cpu::channel_grad_sums<T>(k, grad, in, mean, gb, sum_gx.data());
              const double n = static_cast<double>(k.n * k.s);
              for (size_t i = 0; i < count; ++i) {
                const double r = rstd[static_cast<int64_t>(i)], scale = w[i] * r;
                const double slope = -scale * r * r * sum_gx[i] / n;
                gw[static_cast<int64_t>(i)] = static_cast<T>(sum_gx[i] * r);
                a[i] = static_cast<T>(scale);
                b[i] = static_cast<T>(slope);
                d[i] = static_cast<T>(-scale * gb[static_cast<int64_t>(i)] / n);
              }
              cpu::channel_combine<T>(k, grad, in, mean, a.data(), b.data(), d.data(), out);
              out.finish();
              gw.finish();
              gb.finish();
            });
          })
  .kernel("reference", plain_batch_norm_backward)
  .cuda("channels", batch_norm_backward_on_device)
  .samples({"f(3,4), f(3,4), f(4), f(4), p(4)"});

}  // namespace strata
