// softmax, log_softmax, softmin and their backward.
#include <fmt/core.h>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "base/warning.h"
#include "cpu/movement/copy.h"
#include "cpu/nn/row_kernels.h"
#include "cpu/staging.h"
#include "cuda/nn/softmax.h"
#include "ops/planned.h"
#include "record/rows.h"
#include "strata/args/nn/softmax.h"
#include "strata/ops.h"

namespace strata {
namespace {

// torch.nn.functional's rule if no dim is given.
int implicit_dim(const Value& dim, const TensorImpl& x, const char* op) {
  if (!dim) return x.ndim == 0 || x.ndim == 1 || x.ndim == 3 ? 0 : 1;
  return normalize_dim(dim.integer(), x.ndim, op);
}

void infer_softmax(const Call& c) {
  const args::softmax a(c);
  const TensorImpl& x = a.input();
  implicit_dim(a.dim_value(), x, c.op.name.c_str());
  if (!a.dim_value()) [[unlikely]]
    warn(fmt::format(
      "Implicit dimension choice for {} has been deprecated. Change the call to include dim=X as an argument.",
      c.op.name));
  const DType type = a.dtype() ? *a.dtype() : x.dtype;
  STRATA_CHECK(kFloatingTypes.has(type), NotImplemented,
               "{}: not implemented for {}; pass dtype=float32 or convert the input", c.op.name, name_of(type));
  c.out()->dtype = type;
  c.out()->set_shape(x.sizes());
}

cpu::SoftmaxRows rows_of(const TensorImpl& x, int dim, bool log) {
  cpu::SoftmaxRows s{1, x.ndim ? x.shape[dim] : 1, 1, log};
  for (int d = 0; d < x.ndim; ++d) (d < dim ? s.rows : s.columns) *= d == dim ? 1 : x.shape[d];
  s.width = s.columns;
  return s;
}

template <class Body> void over_rows(const cpu::SoftmaxRows& s, Body body) {
  constexpr int64_t kWork = 8192, kTile = 64;  // minimum elements per thread; columns
  const int64_t block = s.n * s.columns;
  if (block == 0) return;
  if (s.columns > kTile && s.rows < 64)  // few large blocks: their columns are distributed too
    return parallel_for(s.rows * ((s.columns + kTile - 1) / kTile), std::max<int64_t>(1, kWork / (s.n * kTile)),
                        [&](int64_t begin, int64_t end) {
                          const int64_t tiles = (s.columns + kTile - 1) / kTile;
                          while (begin < end) {
                            const int64_t row = begin / tiles, last = std::min(end, (row + 1) * tiles);
                            const int64_t from = begin % tiles * kTile;
                            cpu::SoftmaxRows part = s;
                            part.rows = 1;
                            part.width = std::min(s.columns, from + (last - begin) * kTile) - from;
                            body(part, row * block + from);
                            begin = last;
                          }
                        });
  parallel_for(s.rows, std::max<int64_t>(1, kWork / block), [&](int64_t begin, int64_t end) {
    cpu::SoftmaxRows part = s;
    part.rows = end - begin;
    body(part, begin * block);
  });
}

template <bool log> void run_softmax(const Call& c) {
  const args::softmax a(c);
  const TensorImpl& x = a.input();
  const auto s = rows_of(x, implicit_dim(a.dim_value(), x, "softmax"), log);
  cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> in(x);
    const cpu::Out<T> out(c.out());
    over_rows(s, [&](const cpu::SoftmaxRows& part, int64_t at) { cpu::softmax_forward(part, in + at, out + at); });
    out.finish();
  });
}

template <bool log> void run_softmax_backward(const Call& c) {
  const args::softmax_backward_data a(c);
  const TensorImpl& y = a.output();
  const auto s = rows_of(y, normalize_dim(a.dim(), y.ndim, "softmax"), log);
  cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> grad(a.grad_output()), in(y);
    const cpu::Out<T> out(c.out());
    over_rows(
      s, [&](const cpu::SoftmaxRows& part, int64_t at) { cpu::softmax_backward(part, grad + at, in + at, out + at); });
    out.finish();
  });
}

// The rows of a call, if its dimension is the last one.
std::optional<RowOp> rows_of_last(const Call& c, const cpu::SoftmaxRows& s, std::vector<RowInput> in) {
  if (s.columns != 1 || s.n < 2 || s.rows == 0) return {};
  return RowOp{.compute = compute_type(c.out().dtype()), .shape = c.out().shape(), .row = s.n, .in = std::move(in)};
}
template <bool log> std::optional<RowOp> softmax_rows(const Call& c) {
  const args::softmax a(c);
  const TensorImpl& x = a.input();
  const auto s = rows_of(x, implicit_dim(a.dim_value(), x, "softmax"), log);
  auto op = rows_of_last(c, s, {{{}, &x}});
  if (op)
    cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
      op->run = [n = s.n](const RowBlock& b) {
        cpu::softmax_forward({b.count, n, 1, log}, static_cast<const T*>(b.in[0]), static_cast<T*>(b.out[0]));
      };
    });
  return op;
}
template <bool log> std::optional<RowOp> softmax_backward_rows(const Call& c) {
  const args::softmax_backward_data a(c);
  const TensorImpl& y = a.output();
  const auto s = rows_of(y, normalize_dim(a.dim(), y.ndim, "softmax"), log);
  auto op = rows_of_last(c, s, {{{}, &a.grad_output()}, {{}, &y}});
  if (op)
    cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
      op->run = [n = s.n](const RowBlock& b) {
        cpu::softmax_backward({b.count, n, 1, log}, static_cast<const T*>(b.in[0]), static_cast<const T*>(b.in[1]),
                              static_cast<T*>(b.out[0]));
      };
    });
  return op;
}

template <bool log> cuda::SoftmaxCall forward_call(const Call& c) {
  const args::softmax a(c);
  const TensorImpl& x = a.input();
  return {x, nullptr, *c.out(), implicit_dim(a.dim_value(), x, "softmax"), log};
}
template <bool log> cuda::SoftmaxCall backward_call(const Call& c) {
  const args::softmax_backward_data a(c);
  const TensorImpl& y = a.output();
  return {y, &a.grad_output(), *c.out(), normalize_dim(a.dim(), y.ndim, "softmax"), log};
}
template <auto describe> std::optional<RowOp> gpu_rows(const Call& c) { return cuda::softmax_in_group(describe(c)); }
template <auto describe> void add_device_kernels(OpRecord& op) {
  computes_rows<gpu_rows<describe>, Backend::Cuda>(op);
  add_planned<describe, cuda::plan_softmax_rows, cuda::run_softmax>(op, Backend::Cuda, "rows_in_registers");
  add_planned<describe, cuda::plan_softmax_lines, cuda::run_softmax>(op, Backend::Cuda, "lines");
}

void infer_backward(const Call& c) {
  const args::softmax_backward_data a(c);
  STRATA_CHECK(a.grad_output().same_shape(a.output()), Runtime, "{}: grad_output has shape {}, output has {}",
               c.op.name, to_string(a.grad_output().sizes()), to_string(a.output().sizes()));
  c.out()->dtype = a.output().dtype;
  c.out()->set_shape(a.output().sizes());
}

int64_t dim_of(const GradContext& c) {
  const grads::softmax a(c);
  return implicit_dim(a.dim_value(), a.meta_of_input(), "softmax");
}

// Complex numbers have no softmax of their own; with a real dtype their real parts have one.
Tensor real_parts(const char* op, const Tensor& input, const std::optional<DType>& dtype) {
  STRATA_CHECK(dtype && is_floating(*dtype), NotImplemented,
               "{}: not implemented for {}; a real dtype, such as dtype=float32, takes the real parts", op,
               name_of(dtype.value_or(input.dtype())));
  return to(input, *dtype);
}

// The definitions, in double.
Tensor wide(const Tensor& t) { return to(t, DType::F64); }
template <bool log> void plain_softmax(const Call& c) {
  const args::softmax a(c);
  const autograd::NoGrad no_grad;
  const int64_t dim = implicit_dim(a.dim_value(), a.input(), "softmax");
  if (c.out().numel() == 0) return;
  const Tensor x = wide(a.share_input()), shifted = sub(x, amax(x, dim, true)), total = sum(exp(shifted), dim, true);
  cpu::copy_reference(*c.out(), log ? *sub(shifted, strata::log(total)) : *div(exp(shifted), total));
}
template <bool log> void plain_softmax_backward(const Call& c) {
  const args::softmax_backward_data a(c);
  const autograd::NoGrad no_grad;
  const Tensor g = wide(a.share_grad_output()), y = wide(a.share_output());
  const int64_t dim = a.dim();
  cpu::copy_reference(*c.out(),
                      log ? *sub(g, mul(exp(y), sum(g, dim, true))) : *mul(sub(g, sum(mul(g, y), dim, true)), y));
}
}  // namespace

STRATA_OP(softmax, "softmax(Tensor input, int? dim=None, dtype? dtype=None) -> Tensor")
  .doc("exp(x) / sum(exp(x)) along dim, computed without overflow.")
  .nn()
  .dtypes(kFloatingTypes)
  .infer(infer_softmax)
  .kernel("rows", run_softmax<false>)
  .with(computes_rows<softmax_rows<false>>)
  .kernel("reference", plain_softmax<false>)
  .with(add_device_kernels<forward_call<false>>)
  .saves_result()
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    return {_softmax_backward_data(g, c.result(), dim_of(c))};
  })
  .autocast_cuda(Autocast::Float32Result)
  .complex_composite([](const Tensor& input, std::optional<int64_t> dim, std::optional<DType> dtype) {
    return softmax(real_parts("softmax", input, dtype), dim);
  })
  .remove_dtypes(kComplexTypes)
  .samples({"f(3,4), 1", "f(3,4), 0", "f(2,3,5), -2", "f(), 0", "f(0,3), 1", "f(4)", "f(2,70), 1"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(log_softmax, "log_softmax(Tensor input, int? dim=None, dtype? dtype=None) -> Tensor")
  .doc("log(softmax(x)), computed without loss of accuracy.")
  .nn()
  .dtypes(kFloatingTypes)
  .infer(infer_softmax)
  .kernel("rows", run_softmax<true>)
  .with(computes_rows<softmax_rows<true>>)
  .kernel("reference", plain_softmax<true>)
  .with(add_device_kernels<forward_call<true>>)
  .saves_result()
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    return {_log_softmax_backward_data(g, c.result(), dim_of(c))};
  })
  .autocast_cuda(Autocast::Float32Result)
  .complex_composite([](const Tensor& input, std::optional<int64_t> dim, std::optional<DType> dtype) {
    return log_softmax(real_parts("log_softmax", input, dtype), dim);
  })
  .remove_dtypes(kComplexTypes)
  .samples({"f(3,4), 1", "f(3,4), 0", "f(2,3,5), -2", "f(), 0", "f(0,3), 1", "f(4)", "f(2,70), 1"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(softmin, "nn.functional.softmin(Tensor input, int? dim=None, dtype? dtype=None) -> Tensor")
  .doc("softmax(-x).")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, std::optional<int64_t> dim, std::optional<DType> dtype) {
    return softmax(neg(dtype ? to(input, *dtype) : input), dim, dtype);
  })
  .complex_composite([](const Tensor& input, std::optional<int64_t> dim, std::optional<DType> dtype) {
    return nn::functional::softmin(real_parts("softmin", input, dtype), dim);
  })
  .remove_dtypes(kComplexTypes)
  .samples({"f(3,4), 1", "f(2,3,5), -2"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(softmax_backward_data, "_softmax_backward_data(Tensor grad_output, Tensor output, int dim) -> Tensor")
  .doc("The gradient of softmax: (g - sum(g * y)) * y.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer(infer_backward)
  .kernel("rows", run_softmax_backward<false>)
  .with(computes_rows<softmax_backward_rows<false>>)
  .kernel("reference", plain_softmax_backward<false>)
  .with(add_device_kernels<backward_call<false>>)
  .saves({"grad_output", "output"})
  .grad([](const grads::softmax_backward_data& c, const Tensor& gg) -> Grads {
    grads::softmax_backward_data::Result out;
    const Tensor g = c.grad_output(), y = c.output();
    const int64_t dim = c.dim();
    if (c.needs_grad_output()) out.grad_output = _softmax_backward_data(gg, y, dim);
    if (c.needs_output())
      out.output = sub(mul(gg, sub(g, sum(mul(g, y), dim, true))), mul(g, sum(mul(gg, y), dim, true)));
    return out;
  })
  .samples({"f(3,4), p(3,4), 1", "f(3,4), p(3,4), 0"});

STRATA_OP(log_softmax_backward_data, "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim) -> Tensor")
  .doc("The gradient of log_softmax: g - exp(y) * sum(g).")
  .helper()
  .dtypes(kFloatingTypes)
  .infer(infer_backward)
  .kernel("rows", run_softmax_backward<true>)
  .with(computes_rows<softmax_backward_rows<true>>)
  .kernel("reference", plain_softmax_backward<true>)
  .with(add_device_kernels<backward_call<true>>)
  .saves({"grad_output", "output"})
  .grad([](const grads::log_softmax_backward_data& c, const Tensor& gg) -> Grads {
    grads::log_softmax_backward_data::Result out;
    const Tensor g = c.grad_output(), y = c.output();
    const int64_t dim = c.dim();
    if (c.needs_grad_output()) out.grad_output = sub(gg, sum(mul(gg, exp(y)), dim, true));
    if (c.needs_output()) out.output = neg(mul(mul(gg, exp(y)), sum(g, dim, true)));
    return out;
  })
  .samples({"f(3,4), u(3,4), 1", "f(3,4), u(3,4), 0"});

}  // namespace strata
