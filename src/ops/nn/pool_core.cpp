// The core ops of all pooling: maximum and mean of windows, with gradients of any order. The number of spatial
// dimensions is the length of the kernel (or output) size; leading dimensions are planes.
#include "strata/args/nn/pool_core.h"
#include "autograd/autograd.h"
#include "base/checked.h"
#include "base/host_memory.h"
#include "cpu/nn/pooling.h"
#include "cpu/reference.h"
#include "cpu/staging.h"
#include "cuda/nn/pooling.h"
#include "cuda/reduce/reduce.h"
#include "ops/check_dtype.h"
#include "ops/device_inputs.h"
#include "ops/nn/pool_sizes.h"

namespace strata {

int64_t pooled_size(const char* op, int64_t in, int64_t k, int64_t s, int64_t p, int64_t d, bool ceil) {
  STRATA_CHECK(k > 0, Runtime, "{}: kernel size should be greater than zero, but got {}", op, k);
  STRATA_CHECK(s > 0, Runtime, "{}: stride should be greater than zero, but got {}", op, s);
  STRATA_CHECK(d > 0, Runtime, "{}: dilation should be greater than zero, but got {}", op, d);
  STRATA_CHECK(p >= 0, Runtime, "{}: pad must be non-negative, but got {}", op, p);
  const int64_t window = (Checked(k - 1) * d + 1).get();
  STRATA_CHECK(
    p <= window / 2, Runtime,
    "{}: pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}", op, p, k,
    d);
  const int64_t room = (Checked(in) + 2 * p - window + (ceil ? s - 1 : 0)).get();
  int64_t out = (room >= 0 ? room / s : -1) + 1;
  if (ceil && out > 0 && (Checked(out - 1) * s).get() >= in + p) --out;
  STRATA_CHECK(
    out >= 1, Runtime,
    "{}: output size is too small: the window of {} (dilation {}) does not fit an input of size {} with padding {}", op,
    k, d, in, p);
  return out;
}

namespace {
void fill_planes(PoolShape& p, Shape shape, int dims) {
  for (int d = 0; d < static_cast<int>(shape.size()) - dims; ++d) p.planes *= shape[static_cast<size_t>(d)];
  for (int d = 0; d < dims; ++d)
    p.in[3 - dims + d] = shape[shape.size() - static_cast<size_t>(dims) + static_cast<size_t>(d)];
}
void check_rank(const char* op, Shape shape, int dims) {
  STRATA_CHECK(dims >= 1 && dims <= 3, Runtime, "{}: 1 to 3 spatial dimensions are supported, got {}", op, dims);
  STRATA_CHECK(static_cast<int>(shape.size()) == dims + 1 || static_cast<int>(shape.size()) == dims + 2, Runtime,
               "{}: expected {}D or {}D input, got shape {}", op, dims + 1, dims + 2, to_string(shape));
  const bool single = static_cast<int>(shape.size()) == dims + 1;
  for (size_t d = single ? 0 : 1; d < shape.size(); ++d)
    STRATA_CHECK(shape[d] > 0 || (d == 1 && static_cast<int>(shape.size()) == dims + 2), Runtime,
                 "{}: expected an input with non-zero size for all dimensions but the batch, got shape {}", op,
                 to_string(shape));
}

// kernel_size, stride, padding, dilation (all of full length), ceil_mode
PoolShape sliding(const char* op, Shape shape, IntList k, IntList s, IntList p, IntList dil, bool ceil) {
  PoolShape pool;
  const int dims = static_cast<int>(k.size);
  check_rank(op, shape, dims);
  STRATA_CHECK(s.size == k.size && p.size == k.size && dil.size == k.size, Runtime,
               "{}: kernel_size, stride, padding and dilation must have {} entries", op, dims);
  fill_planes(pool, shape, dims);
  for (int d = 0; d < dims; ++d) {
    const auto i = static_cast<size_t>(d);
    const int to = 3 - dims + d;
    pool.out[to] = pooled_size(op, pool.in[to], k[i], s[i], p[i], dil[i], ceil);
    check_host_memory(pool.out[to], sizeof(PoolWindow), op);
    pool.kernel[to] = k[i];
    pool.stride[to] = s[i];
    pool.padding[to] = p[i];
    pool.dilation[to] = dil[i];
  }
  return pool;
}

PoolShape adaptive(const char* op, Shape shape, IntList out) {
  PoolShape pool;
  const int dims = static_cast<int>(out.size);
  check_rank(op, shape, dims);
  fill_planes(pool, shape, dims);
  pool.adaptive = true;
  for (int d = 0; d < dims; ++d) {
    const int64_t in = pool.in[3 - dims + d], count = out[static_cast<size_t>(d)];
    STRATA_CHECK(count >= 0, Runtime, "{}: the output size must be non-negative, got {}", op, to_string(out));
    check_host_memory((Checked(count) * std::max<int64_t>(pool.planes, 1)).get(), sizeof(PoolWindow), op);
    static_cast<void>((Checked(count) + 1) * (in + 1));  // the largest product in window()
    pool.out[3 - dims + d] = count;
  }
  return pool;
}

void set_out(const Tensor& out, DType type, Shape in, const PoolShape& p, int dims) {
  int64_t shape[kMaxDims];
  std::copy(in.begin(), in.end(), shape);
  for (int d = 0; d < dims; ++d)
    shape[in.size() - static_cast<size_t>(dims) + static_cast<size_t>(d)] = p.out[3 - dims + d];
  out->dtype = type;
  out->set_shape(Shape(shape, in.size()));
}

PoolShape max_plan(const Call& c) {
  const args::max_pool_core a(c);
  return sliding("max_pool", a.input().sizes(), a.kernel_size(), a.stride(), a.padding(), a.dilation(), a.ceil_mode());
}
// V: the view of _avg_pool or of its gradient.
template <class V> PoolShape avg_plan(const V& a, Shape shape) {
  const int64_t ones[] = {1, 1, 1};
  const IntList k = a.kernel_size();
  STRATA_CHECK(k.size <= 3, Runtime, "avg_pool: kernel_size must have 1 to 3 entries");
  PoolShape p = sliding("avg_pool", shape, k, a.stride(), a.padding(), IntList(Shape(ones, k.size)), a.ceil_mode());
  p.include_pad = a.count_include_pad();
  if (a.divisor_override()) {
    p.divisor = *a.divisor_override();
    STRATA_CHECK(p.divisor != 0, Runtime, "avg_pool: divisor must be not zero");
  }
  return p;
}

void plain_max(const Call& c, const PoolShape& p) {
  const args::max_pool_core a(c);
  cpu::dispatch_wide(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> in(a.input());
    const cpu::Out<T> out(c.outs[0]);
    out.fill(0);
    cpu::max_windows_reference<T>(p, in, out.get(), c.outs[1].data<int64_t>());
    out.finish();
  });
}
void plain_mean(const Call& c, const PoolShape& p) {
  const args::avg_pool_core a(c);
  cpu::dispatch_wide(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> in(a.input());
    const cpu::Out<T> out(c.out());
    out.fill(0);
    cpu::mean_windows_reference<T>(p, in, out.get());
    out.finish();
  });
}
void plain_mean_backward(const Call& c, const PoolShape& p) {
  const args::avg_pool_backward a(c);
  const cpu::In<double> in(a.grad());
  const cpu::Out<double> out(c.out());
  out.fill(0);
  cpu::mean_windows_backward_reference<double>(p, in, out.get());
  out.finish();
}
void run_max(const Call& c, const PoolShape& p) {
  const args::max_pool_core a(c);
  dispatch_compute(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> in(a.input());
    const cpu::Out<T> out(c.outs[0]);
    cpu::max_windows<T>(p, in, out, c.outs[1].data<int64_t>());
    out.finish();
  });
}
void run_mean(const Call& c, const PoolShape& p) {
  const args::avg_pool_core a(c);
  dispatch_compute(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> in(a.input());
    const cpu::Out<T> out(c.out());
    cpu::mean_windows<T>(p, in, out);
    out.finish();
  });
}
void run_mean_backward(const Call& c, const PoolShape& p) {
  const args::avg_pool_backward a(c);
  dispatch_compute(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> in(a.grad());
    const cpu::Out<T> out(c.out());
    cpu::mean_windows_backward<T>(p, in, out);
    out.finish();
  });
}

// A gradient must have the shape of the pool's result, or it would be read past its end.
void set_grad_shape(const Call& c, const PoolShape& p, Shape input, int dims) {
  const args::avg_pool_backward arg(c);
  const TensorImpl& g = arg.grad();
  const Tensor expected = shape_only(g);
  set_out(expected, g.dtype, input, p, dims);
  STRATA_CHECK(expected->same_shape(g), Runtime, "{}: expected a gradient of shape {}, got {}", c.op.name,
               to_string(expected.shape()), to_string(g.sizes()));
  c.out()->dtype = g.dtype;
  c.out()->set_shape(input);
}

PoolShape adaptive_plan(const Call& c, const char* op) {
  const args::adaptive_max_pool_core a(c);
  return adaptive(op, a.input().sizes(), a.output_size());
}

Grads grad_max(const GradContext& c, const Tensor& g) {  // an adaptive pool has its output_size as the second one
  const grads::max_pool_core a(c);
  return {_plane_scatter(g, c.result(1), a.shape_of_input(), static_cast<int64_t>(a.kernel_size().size), true)};
}

// One window: a mean over all spatial dimensions.
Reduction global_mean(const Call& c) {
  const args::adaptive_avg_pool_core a(c);
  const TensorImpl& x = a.input();
  const auto dims = static_cast<int>(a.output_size().size);
  const double window = static_cast<double>(x.numel) / static_cast<double>(c.out().numel());
  return {Fold::Sum, x, all_dims(dims) << (x.ndim - dims), x.dtype, *c.out(), {window}};
}
const char* plan_global_mean(const Call& c, Plan& plan) {
  const args::adaptive_avg_pool_core a(c);
  for (const int64_t size : a.output_size())
    if (size != 1) return "there is more than one window";
  if (a.input().numel == 0) return "there are no elements";
  const char* reason = nullptr;
  for (const auto method : {cuda::ReduceMethod::Columns, cuda::ReduceMethod::Rows, cuda::ReduceMethod::Strided}) {
    reason = cuda::plan_reduce(global_mean(c), method, plan);
    if (!reason) break;
  }
  return reason;
}
}  // namespace

STRATA_OP(max_pool_core,
          "_max_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> "
          "(Tensor, Tensor)")
  .doc("The largest value of each window, and its index within the plane.")
  .helper()
  .no_out()
  .dtypes(kNumericTypes)
  .infer([](const args::max_pool_core& c) {
    const TensorImpl& x = c.input();
    const PoolShape p = max_plan(c);
    const int dims = static_cast<int>(c.kernel_size().size);
    set_out(c.out(), x.dtype, x.sizes(), p, dims);
    set_out(c.out(1), DType::I64, x.sizes(), p, dims);
  })
  .kernel("windows", [](const Call& c) { run_max(c, max_plan(c)); })
  .kernel("reference", [](const Call& c) { plain_max(c, max_plan(c)); })
  .cuda("windows",
        [](const args::max_pool_core& c, Workspace& workspace) {
          const Tensor x = dense(c.share_input(), workspace);
          if (!workspace.planning()) cuda::pool_max(max_plan(c), *x, *c.out(), *c.out(1));
        })
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_max)
  .samples({"f(2,3,7), [3], [2], [1], [1], False", "f(2,3,6,7), [2,3], [2,2], [1,1], [1,2], True"});

STRATA_OP(adaptive_max_pool_core, "_adaptive_max_pool(Tensor input, int[] output_size) -> (Tensor, Tensor)")
  .doc("The largest value of each of output_size windows, and its index within the plane.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::adaptive_max_pool_core& c) {
    const TensorImpl& x = c.input();
    refuse_integers(c.share_input(), "adaptive_max_pool");
    const PoolShape p = adaptive("adaptive_max_pool", x.sizes(), c.output_size());
    const int dims = static_cast<int>(c.output_size().size);
    set_out(c.out(), x.dtype, x.sizes(), p, dims);
    set_out(c.out(1), DType::I64, x.sizes(), p, dims);
  })
  .kernel("windows", [](const Call& c) { run_max(c, adaptive_plan(c, "adaptive_max_pool")); })
  .kernel("reference", [](const Call& c) { plain_max(c, adaptive_plan(c, "adaptive_max_pool")); })
  .cuda("windows",
        [](const args::adaptive_max_pool_core& c, Workspace& workspace) {
          const Tensor x = dense(c.share_input(), workspace);
          if (!workspace.planning()) cuda::pool_max(adaptive_plan(c, "adaptive_max_pool"), *x, *c.out(), *c.out(1));
        })
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_max)
  .samples({"f(2,3,7), [3]", "f(2,3,6,7), [2,3]"});

STRATA_OP(avg_pool_core,
          "_avg_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, bool "
          "count_include_pad, int? divisor_override) -> Tensor")
  .doc("The mean of each window.")
  .helper()
  .dtypes(kNumericTypes)
  .infer([](const args::avg_pool_core& c) {
    const TensorImpl& x = c.input();
    set_out(c.out(), x.dtype, x.sizes(), avg_plan(c, x.sizes()), static_cast<int>(c.kernel_size().size));
  })
  .kernel("windows", [](const args::avg_pool_core& c) { run_mean(c, avg_plan(c, c.input().sizes())); })
  .kernel("reference", [](const args::avg_pool_core& c) { plain_mean(c, avg_plan(c, c.input().sizes())); })
  .cuda("windows",
        [](const args::avg_pool_core& c, Workspace& workspace) {
          const Tensor x = dense(c.share_input(), workspace);
          if (!workspace.planning()) cuda::pool_mean(avg_plan(c, c.input().sizes()), *x, *c.out());
        })
  .grad([](const grads::avg_pool_core& c, const Tensor& g) -> Grads {
    return {_avg_pool_backward(g, c.kernel_size(), c.stride(), c.padding(), c.ceil_mode(), c.count_include_pad(),
                               c.divisor_override(), c.shape_of_input())};
  })
  .samples({"f(2,3,7), [3], [2], [1], False, True, None", "f(2,3,6,7), [2,3], [2,2], [1,1], True, False, None",
            "f(2,3,6,7), [2,3], [2,2], [1,1], True, False, 5"});

STRATA_OP(avg_pool_backward,
          "_avg_pool_backward(Tensor grad, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, bool "
          "count_include_pad, int? divisor_override, int[] input_shape) -> Tensor")
  .doc("The gradient of _avg_pool.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::avg_pool_backward& c) {
    const IntList shape = c.input_shape();
    set_grad_shape(c, avg_plan(c, shape), shape, static_cast<int>(c.kernel_size().size));
  })
  .kernel("windows", [](const args::avg_pool_backward& c) { run_mean_backward(c, avg_plan(c, c.input_shape())); })
  .kernel("reference", [](const args::avg_pool_backward& c) { plain_mean_backward(c, avg_plan(c, c.input_shape())); })
  .cuda("windows",
        [](const args::avg_pool_backward& c, Workspace& workspace) {
          const Tensor grad = dense(c.share_grad(), workspace);
          if (!workspace.planning()) cuda::pool_mean_backward(avg_plan(c, c.input_shape()), *grad, *c.out());
        })
  .grad([](const grads::avg_pool_backward& c, const Tensor& g) -> Grads {
    return {_avg_pool(g, c.kernel_size(), c.stride(), c.padding(), c.ceil_mode(), c.count_include_pad(),
                      c.divisor_override())};
  })
  .samples({"f(2,3,4), [3], [2], [1], False, True, None, [2,3,7]"});

STRATA_OP(adaptive_avg_pool_core, "_adaptive_avg_pool(Tensor input, int[] output_size) -> Tensor")
  .doc("The mean of each of output_size windows.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::adaptive_avg_pool_core& c) {
    const TensorImpl& x = c.input();
    refuse_integers(c.share_input(), "adaptive_avg_pool");
    set_out(c.out(), x.dtype, x.sizes(), adaptive("adaptive_avg_pool", x.sizes(), c.output_size()),
            static_cast<int>(c.output_size().size));
  })
  .kernel("windows", [](const Call& c) { run_mean(c, adaptive_plan(c, "adaptive_avg_pool")); })
  .kernel("reference", [](const Call& c) { plain_mean(c, adaptive_plan(c, "adaptive_avg_pool")); })
  .planned(Backend::Cuda, "reduction", plan_global_mean,
           [](const Call& c, const Plan& plan) { cuda::run_reduce(global_mean(c), c, plan); })
  .cuda("windows",
        [](const args::adaptive_avg_pool_core& c, Workspace& workspace) {
          const Tensor x = dense(c.share_input(), workspace);
          if (!workspace.planning()) cuda::pool_mean(adaptive_plan(c, "adaptive_avg_pool"), *x, *c.out());
        })
  .grad([](const grads::adaptive_avg_pool_core& c, const Tensor& g) -> Grads {
    return {_adaptive_avg_pool_backward(g, c.output_size(), c.shape_of_input())};
  })
  .samples({"f(2,3,7), [3]", "f(2,3,6,7), [2,3]"});

STRATA_OP(adaptive_avg_pool_backward,
          "_adaptive_avg_pool_backward(Tensor grad, int[] output_size, int[] input_shape) -> Tensor")
  .doc("The gradient of _adaptive_avg_pool.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::adaptive_avg_pool_backward& c) {
    const IntList shape = c.input_shape(), out = c.output_size();
    set_grad_shape(c, adaptive("adaptive_avg_pool", shape, out), shape, static_cast<int>(out.size));
  })
  .kernel("windows",
          [](const args::adaptive_avg_pool_backward& c) {
            run_mean_backward(c, adaptive("adaptive_avg_pool", c.input_shape(), c.output_size()));
          })
  .kernel("reference",
          [](const args::adaptive_avg_pool_backward& c) {
            plain_mean_backward(c, adaptive("adaptive_avg_pool", c.input_shape(), c.output_size()));
          })
  .cuda("windows",
        [](const args::adaptive_avg_pool_backward& c, Workspace& workspace) {
          const Tensor grad = dense(c.share_grad(), workspace);
          if (!workspace.planning())
            cuda::pool_mean_backward(adaptive("adaptive_avg_pool", c.input_shape(), c.output_size()), *grad, *c.out());
        })
  .grad([](const grads::adaptive_avg_pool_backward& c, const Tensor& g) -> Grads {
    return {_adaptive_avg_pool(g, c.output_size())};
  })
  .samples({"f(2,3,3), [3], [2,3,7]"});

}  // namespace strata
