// Norms over the last dimensions: layer_norm and rms_norm.
#include "strata/args/nn/layer_norm.h"
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "cpu/nn/row_kernels.h"
#include "cpu/staging.h"
#include "cuda/nn/norm_rows.h"
#include "ops/device_inputs.h"
#include "ops/nn/norm_formulas.h"
#include "record/rows.h"

namespace strata {
namespace {

// The number of normalized last dimensions, checked.
int check_shape(const char* op, const TensorImpl& x, IntList shape) {
  STRATA_CHECK(shape.size >= 1, Runtime, "{}: expected normalized_shape to be at least 1-dimensional, got []", op);
  bool fits = static_cast<int>(shape.size) <= x.ndim;
  for (size_t i = 0; fits && i < shape.size; ++i)
    fits = x.shape[static_cast<size_t>(x.ndim) - shape.size + i] == shape[i];
  STRATA_CHECK(fits, Runtime,
               "{}: given normalized_shape={}, expected input with shape [*, {}], but got input of size {}", op,
               to_string(shape), to_string(shape).substr(1, to_string(shape).size() - 2), to_string(x.sizes()));
  return static_cast<int>(shape.size);
}
void check_affine(const char* op, const char* name, const Value& v, IntList shape, DType type) {
  if (v.tag != Tag::Tensor) return;
  const TensorImpl& w = *v.tensor;
  bool fits = w.ndim == static_cast<int>(shape.size);
  for (int d = 0; fits && d < w.ndim; ++d) fits = w.shape[d] == shape[static_cast<size_t>(d)];
  STRATA_CHECK(
    fits, Runtime,
    "{}: expected {} to be of the same shape as normalized_shape, but got {} of shape {} and normalized_shape={}", op,
    name, name, to_string(w.sizes()), to_string(shape));
  STRATA_CHECK(w.dtype == type || (type != DType::F64 && w.dtype == DType::F32), Runtime,
               "{}: expected {} to have dtype {}, got {}", op, name, name_of(type), name_of(w.dtype));
}

// V: the view of layer_norm, or of rms_norm, which has no bias.
template <class V> constexpr bool centers = requires(const V& a) { a.bias(); };

void infer_layer_norm(const Call& c) {
  const args::layer_norm_core arg(c);
  const TensorImpl& x = arg.input();
  const int count = check_shape("layer_norm", x, arg.normalized_shape());
  STRATA_CHECK(kFloatingTypes.has(x.dtype), NotImplemented,
               "layer_norm: expected a floating-point input, got {}; convert it with to(float32)", name_of(x.dtype));
  check_affine("layer_norm", "weight", arg.weight_value(), arg.normalized_shape(), x.dtype);
  check_affine("layer_norm", "bias", arg.bias_value(), arg.normalized_shape(), x.dtype);
  c.outs[0]->dtype = x.dtype;
  c.outs[0]->set_shape(x.sizes());
  int64_t stat[kMaxDims];
  for (int d = 0; d < x.ndim; ++d) stat[d] = d < x.ndim - count ? x.shape[d] : 1;
  for (int o : {1, 2}) {
    c.outs[o]->dtype = compute_type(x.dtype);
    c.outs[o]->set_shape(Shape(stat, x.ndim));
  }
}

void run_layer_norm(const Call& c) {
  const args::layer_norm_core a(c);
  const TensorImpl& x = a.input();
  const int64_t n = checked_numel(a.normalized_shape()), rows = c.outs[1].numel();
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const cpu::In<T> in(x);
    const OptionalIn<T> weight(a.weight_value()), bias(a.bias_value());
    const cpu::Out<T> out(c.outs[0]), mean(c.outs[1]), rstd(c.outs[2]);
    const cpu::NormRows<T> p{n, a.eps(), true, weight.get(), bias.get()};
    parallel_for(rows, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
      cpu::norm_forward(p, in + begin * n, out + begin * n, mean + begin, rstd + begin, end - begin);
    });
    out.finish();
    mean.finish();
    rstd.finish();
  });
}

// The rows of layer_norm, or of rms_norm, which has neither mean nor bias. V: the view of its arguments.
template <class V> std::optional<RowOp> norm_rows(const Call& c) {
  constexpr bool centred = centers<V>;
  const V a(c);
  const TensorImpl& x = a.input();
  const int64_t n = checked_numel(a.normalized_shape());
  if (n < 2 || x.numel == 0) return {};
  RowOp op{.compute = compute_type(x.dtype), .shape = x.sizes(), .row = n, .in = {{{}, &x}}};
  for (uint32_t o = 1; o < c.op.outputs; ++o) op.out[o] = {RowExtent::Rows};
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    const OptionalIn<T> weight(a.weight_value());
    OptionalIn<T> bias{Value()};
    if constexpr (centred) bias = OptionalIn<T>(a.bias_value());
    op.run = [weight, bias, n, eps = a.eps()](const RowBlock& b) {
      constexpr bool centred = centers<V>;
      const cpu::NormRows<T> p{n, eps, centred, weight.get(), bias.get()};
      cpu::norm_forward(p, static_cast<const T*>(b.in[0]), static_cast<T*>(b.out[0]),
                        centred ? static_cast<T*>(b.out[1]) : nullptr, static_cast<T*>(b.out[centred ? 2 : 1]),
                        b.count);
    };
  });
  return op;
}

// The same on GPUs.
template <class V> std::optional<RowOp> gpu_norm_rows(const Call& c) {
  constexpr bool centred = centers<V>;
  const V a(c);
  const TensorImpl &x = a.input(), *weight = a.has_weight() ? &*a.weight() : nullptr, *bias = nullptr;
  if constexpr (centred) bias = a.has_bias() ? &*a.bias() : nullptr;
  const int64_t n = checked_numel(a.normalized_shape());
  if (x.numel == 0) return {};
  RowOp op{.compute = compute_type(x.dtype), .shape = x.sizes(), .row = n, .in = {{{}, &x}}};
  for (const TensorImpl* t : {weight, bias})
    if (t) op.in.push_back({{}, t, true});
  for (uint32_t o = 1; o < c.op.outputs; ++o) op.out[o] = {RowExtent::Rows};
  op.gpu = cuda::norm_in_group(x, n, weight, bias, a.eps(), centred);
  return op.gpu ? std::optional(op) : std::nullopt;
}

void plain_layer_norm(const Call& c) {
  const args::layer_norm_core a(c);
  const autograd::NoGrad no_grad;
  const Tensor x = wide(a.share_input());
  const auto dims = last_dims(static_cast<int>(a.normalized_shape().size));
  const Normalized n = normalized(x, dims, a.eps(), true);
  cpu::copy_reference(*c.outs[0], *affine(n.value, wide(a.share_weight()), wide(a.share_bias())));
  cpu::copy_reference(*c.outs[1], *mean(x, dims, true));
  cpu::copy_reference(*c.outs[2], *n.rstd);
}
void plain_rms_norm(const Call& c) {
  const args::fused_rms_norm a(c);
  const autograd::NoGrad no_grad;
  const Normalized n =
    normalized(wide(a.share_input()), last_dims(static_cast<int>(a.normalized_shape().size)), a.eps(), false);
  cpu::copy_reference(*c.outs[0], *affine(n.value, wide(a.share_weight()), Tensor()));
  cpu::copy_reference(*c.outs[1], *n.rstd);
}
// V: the view of layer_norm, or of rms_norm.
template <class V> void norm_on_device(const Call& c, Workspace& workspace) {
  const V a(c);
  const Tensor x = dense(a.share_input(), workspace), weight = dense(a.share_weight(), workspace);
  Tensor bias;
  if constexpr (centers<V>) bias = dense(a.share_bias(), workspace);
  if (workspace.planning()) return;
  cuda::norm_rows(*x, checked_numel(a.normalized_shape()), weight.get(), bias.get(), a.eps(), *c.outs[0],
                  centers<V> ? c.outs[1].get() : nullptr, *c.outs[centers<V> ? 2 : 1]);
}
// Composed of other ops, for double gradients; also of the mean and the reciprocal standard deviation, which are
// results. V: the view of layer_norm, or of rms_norm, which has neither mean nor bias.
template <class V> Grads layer_norm_graph_grads(const GradContext& c, const Tensor& g) {
  constexpr bool centred = centers<V>;
  const V a(c);
  typename V::Result out;
  const IntList shape = a.normalized_shape();
  const Tensor x = a.input(), weight = a.has_weight() ? a.weight() : Tensor();
  const uint32_t last = centred ? 2 : 1;
  const double eps = a.eps_value() ? a.eps_value().number() : 0;
  const auto dims = last_dims(static_cast<int>(shape.size)), rows = first_dims(x.dim() - static_cast<int>(shape.size));
  const Normalized n = normalized(x, dims, eps, centred);
  if (a.needs_input()) {
    out.input = normalized_grad(weight ? mul(g, weight) : g, n, dims, centred);
    const auto count = static_cast<double>(checked_numel(shape));
    if (centred && c.grad(1)) out.input = add(out.input, div(c.grad(1), count));
    if (c.grad(last)) out.input = sub(out.input, mul(mul(div(c.grad(last), count), square(n.rstd)), n.value));
  }
  if (weight && a.needs_weight()) out.weight = rows.empty() ? mul(g, n.value) : sum(mul(g, n.value), rows);
  if constexpr (centred)
    if (a.has_bias() && a.needs_bias()) out.bias = rows.empty() ? g : sum(g, rows);
  return out;
}

template <class V> Grads norm_grads(const GradContext& c, const Tensor& g) {
  constexpr bool centred = centers<V>;
  const V a(c);
  if (c.grad(1) || (centred && c.grad(2))) return layer_norm_graph_grads<V>(c, g);
  typename V::Result out;
  const IntList shape = a.normalized_shape();
  const Tensor x = a.input(), weight = a.has_weight() ? a.weight() : Tensor();
  bool wants_bias = false;
  if constexpr (centred) wants_bias = a.has_bias() && a.needs_bias();
  const bool affine = (weight && a.needs_weight()) || wants_bias;
  const auto all =
    _row_norm_backward(g, x, shape, centred ? c.result(1) : Tensor(), c.result(centred ? 2 : 1), weight, affine);
  out.input = all[0];
  if (weight && a.needs_weight()) out.weight = all[1];
  if constexpr (centred)
    if (wants_bias) out.bias = all[2];
  return out;
}
}  // namespace

STRATA_OP(layer_norm_core,
          "_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, "
          "Tensor, Tensor)")
  .doc("layer_norm together with the mean and the reciprocal standard deviation of each row.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer(infer_layer_norm)
  .kernel("rows", run_layer_norm)
  .with([](OpRecord& op) {
    set_row_rule(op, norm_rows<args::layer_norm_core>, {"weight", "bias"});
    computes_rows<gpu_norm_rows<args::layer_norm_core>, Backend::Cuda>(op);
  })
  .kernel("reference", plain_layer_norm)
  .cuda("rows", norm_on_device<args::layer_norm_core>)
  .saves({"input", "weight"})
  .saves_result({1, 2})
  .grad(norm_grads<grads::layer_norm_core>)
  .grad_for_graph(layer_norm_graph_grads<grads::layer_norm_core>)
  .samples({"f(3,4), [4], f(4), f(4), 1e-5", "f(2,3,4), [3,4], None, None, 1e-5"});

STRATA_OP(
  layer_norm,
  "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor")
  .doc("(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions.")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, IntList normalized_shape, const Tensor& weight, const Tensor& bias, double eps) {
    return _layer_norm(input, normalized_shape, weight, bias, eps)[0];
  })
  .autocast_cuda(Autocast::Float32)
  .samples({"f(3,4), [4]", "f(3,4), [4], f(4), f(4)", "f(2,3,4), [3,4], f(3,4), f(3,4), eps=0.1",
            "f(0,4), [4], f(4), f(4)", "f(3,70), [70], f(70)"})
  .error("f(3,4), [5]", ErrorKind::Runtime, "expected input with shape [*, 5]")
  .error("f(3,4), [4], f(3)", ErrorKind::Runtime, "expected weight to be of the same shape");

STRATA_OP(native_layer_norm,
          "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
          "(Tensor, Tensor, Tensor)")
  .doc("layer_norm together with the mean and the reciprocal standard deviation of each row, in the input's dtype.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, IntList normalized_shape, const Tensor& weight, const Tensor& bias, double eps) {
    const auto all = _layer_norm(input, normalized_shape, weight, bias, eps);
    return std::array<Tensor, 3>{all[0], to(all[1], input.dtype()), to(all[2], input.dtype())};
  })
  .autocast_cuda(Autocast::Float32)
  .samples({"f(3,4), [4], f(4), f(4), 1e-5"})
  .error("f(3,4), [5], None, None, 1e-5", ErrorKind::Runtime, "expected input with shape [*, 5]");

STRATA_OP(fused_rms_norm,
          "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor, Tensor)")
  .doc("rms_norm together with the reciprocal root mean square of each row.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::fused_rms_norm& c) {
    const TensorImpl& x = c.input();
    const int count = check_shape("rms_norm", x, c.normalized_shape());
    check_affine("rms_norm", "weight", c.weight_value(), c.normalized_shape(), x.dtype);
    c.out()->dtype = x.dtype;
    c.out()->set_shape(x.sizes());
    int64_t stat[kMaxDims];
    for (int d = 0; d < x.ndim; ++d) stat[d] = d < x.ndim - count ? x.shape[d] : 1;
    c.out(1)->dtype = compute_type(x.dtype);
    c.out(1)->set_shape(Shape(stat, x.ndim));
  })
  .kernel("rows",
          [](const args::fused_rms_norm& c) {
            const TensorImpl& x = c.input();
            const int64_t n = checked_numel(c.normalized_shape()), rows = c.out(1).numel();
            cpu::dispatch_float(x.dtype, [&]<class T>() {
              const cpu::In<T> in(x);
              const OptionalIn<T> weight(c.weight_value());
              const cpu::Out<T> out(c.out()), rstd(c.out(1));
              const cpu::NormRows<T> p{n, c.eps(), false, weight.get(), nullptr};
              parallel_for(rows, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
                cpu::norm_forward(p, in + begin * n, out + begin * n, nullptr, rstd + begin, end - begin);
              });
              out.finish();
              rstd.finish();
            });
          })
  .with([](OpRecord& op) {
    set_row_rule(op, norm_rows<args::fused_rms_norm>, {"weight"});
    computes_rows<gpu_norm_rows<args::fused_rms_norm>, Backend::Cuda>(op);
  })
  .kernel("reference", plain_rms_norm)
  .cuda("rows", norm_on_device<args::fused_rms_norm>)
  .saves({"input", "weight"})
  .saves_result({1})
  .grad(norm_grads<grads::fused_rms_norm>)
  .grad_for_graph(layer_norm_graph_grads<grads::fused_rms_norm>)
  .samples({"f(3,4), [4], f(4), 1e-5"});

STRATA_OP(rms_norm, "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor")
  .doc("x / sqrt(mean(x^2) + eps) * weight over the last dimensions; eps None is the dtype's epsilon.")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, IntList normalized_shape, const Tensor& weight, std::optional<double> eps) {
    STRATA_CHECK(kFloatingTypes.has(input.dtype()), NotImplemented,
                 "rms_norm: expected a floating-point input, got {}; convert it with to(float32)",
                 name_of(input.dtype()));
    const double fallback = input.dtype() == DType::F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
    return _fused_rms_norm(input, normalized_shape, weight, eps.value_or(fallback))[0];
  })
  .autocast_cuda(Autocast::Float32)
  .complex_composite([](const Tensor& input, IntList normalized_shape, const Tensor& weight,
                        std::optional<double> eps) {
    const auto count = static_cast<int64_t>(normalized_shape.size);
    STRATA_CHECK(count > 0 && count <= input.dim() &&
                   std::equal(normalized_shape.begin(), normalized_shape.end(), input.shape().end() - count),
                 Runtime, "rms_norm: normalized_shape does not fit the last dimensions of input of shape {}",
                 to_string(input.shape()));
    std::vector<int64_t> last;
    for (int64_t d = -count; d < 0; ++d) last.push_back(d);
    const double fallback = input.dtype() == DType::C128 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
    const Tensor scale = rsqrt(add(mean(mul(input, input), OptIntList(last), true), eps.value_or(fallback)));
    const Tensor y = mul(input, scale);
    return weight ? mul(y, weight) : y;
  })
  .samples({"f(3,4), [4]", "f(2,3,4), [3,4], f(3,4), 0.1"})
  .error("f(3,4), [5]", ErrorKind::Runtime, "expected input with shape [*, 5]")
  .error("i5(3,4), [4]", ErrorKind::NotImplemented, "floating-point");

}  // namespace strata
