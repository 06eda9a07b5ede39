// cumsum, cummax, cummin, logcumsumexp, diff, trapezoid, cumulative_trapezoid. (cumprod is in products.cpp.)
#include "strata/args/reduce/scans.h"
#include "autograd/autograd.h"
#include "cpu/reduce/scan.h"
#include "cpu/reference.h"
#include "cuda/reduce/scan.h"
#include "ops/complex_parts.h"
#include "ops/planned.h"
#include "ops/reduce/common.h"
#include "strata/ops.h"

namespace strata {
namespace {

int dim_of(const Call& c) {
  const args::cumsum a(c);
  return normalize_dim(a.dim(), a.input().ndim, c.op.name.c_str());
}
int dim_of(const GradContext& c) {
  const grads::cumsum a(c);
  return normalize_dim(a.dim(), a.meta_of_input().ndim, "cumsum");
}

void infer_cumsum(const Call& c) {
  const args::cumsum a(c);
  const TensorImpl& x = a.input();
  dim_of(c);
  c.out()->set_shape(x.sizes());
  c.out()->dtype = sum_dtype(x, a.dtype_value());
}
void infer_extremes(const Call& c) {
  const args::cummax a(c);
  const TensorImpl& x = a.input();
  dim_of(c);
  for (int o = 0; o < 2; ++o) c.outs[o]->set_shape(x.sizes());
  c.outs[0]->dtype = x.dtype;
  c.outs[1]->dtype = DType::I64;
}
template <bool largest> void run_extremes(const Call& c) {
  const args::cummax a(c);
  cpu::scan_extremes(largest, a.input(), dim_of(c), *c.outs[0], *c.outs[1]);
}
template <Scan kind> cuda::ScanCall scan_call(const Call& c) {
  return {.x = args::cumsum(c).input(), .dim = dim_of(c), .out = *c.out(), .kind = kind};
}
template <bool largest> cuda::ScanCall extremes_call(const Call& c) {
  return {
    .x = args::cummax(c).input(), .dim = dim_of(c), .out = *c.outs[0], .places = c.outs[1].get(), .largest = largest};
}
template <auto describe> void add_scan(OpRecord& op) {
  add_planned<describe, cuda::plan_scan, cuda::run_scan>(op, Backend::Cuda, "scan");
}
template <bool largest> void plain_extremes(const Call& c) {
  const args::cummax a(c);
  const TensorImpl& x = a.input();
  const auto dim = static_cast<size_t>(dim_of(c));
  cpu::dispatch_wide(x.dtype, [&]<class T>() {
    cpu::each_index(x.sizes(), [&](const cpu::Index& at) {
      cpu::Index from = at, best = at;
      for (int64_t i = x.ndim ? 0 : at[dim]; i <= at[dim]; ++i) {
        from[dim] = i;
        const T v = cpu::get<T>(x, from), b = cpu::get<T>(x, best);
        if (i == 0 || v != v || (b == b && (largest ? v >= b : v <= b))) best = from;
      }
      cpu::put(*c.outs[0], at, x, best);
      cpu::set<int64_t>(*c.outs[1], at, best[dim]);
    });
  });
}
Grads grad_extremes(const GradContext& c, const Tensor& g) {
  const grads::cummax a(c);
  if (a.meta_of_input().ndim == 0 || a.meta_of_input().numel == 0) return {g};
  return {scatter_into_zeros(a.meta_of_input(), dim_of(c), autograd::detach(c.result(1)), g)};
}

Tensor reverse_cumsum(const Tensor& g, int dim) {
  if (g.dim() == 0) return g;
  return flip(cumsum(flip(g, {dim}), dim), {dim});
}

// y at the left and the right end of each interval along dim.
std::pair<Tensor, Tensor> ends(const Tensor& y, int dim) {
  const int64_t n = y.shape()[static_cast<size_t>(dim)];
  return {narrow(y, dim, 0, n - 1), narrow(y, dim, 1, n - 1)};
}
Tensor spacing(const Tensor& x, const Tensor& y,
               int dim) {  // x broadcasts against y with its own last dimension along dim
  Tensor dx;
  if (x.dim() == 1) {
    STRATA_CHECK(x.numel() == y.shape()[static_cast<size_t>(dim)], Runtime,
                 "trapezoid: there must be one `x` value for each sample point, got {} for {}", x.numel(),
                 y.shape()[static_cast<size_t>(dim)]);
    std::vector<int64_t> shape(static_cast<size_t>(y.dim()), 1);
    shape[static_cast<size_t>(dim)] = x.numel();
    dx = reshape(x, shape);
  } else {
    dx = x;
    while (dx.dim() < y.dim()) dx = unsqueeze(dx, 0);
  }
  const int d = dx.dim() - (y.dim() - dim);
  const auto [left, right] = ends(dx, d);
  return sub(right, left);
}
Tensor trapezoids(const Tensor& y, int64_t dim, const char* op, const std::function<Tensor(int)>& width) {
  STRATA_CHECK(y.dtype() != DType::Bool, Runtime, "{}: received a bool input; a number type is needed", op);
  const int d = normalize_dim(dim, y.dim(), op);
  const auto [left, right] = ends(y, d);
  const Tensor both = add(left, right), apart = width(d);
  // Halving is exact, so floats may be halved where there are fewer of them.
  return is_integral(both.dtype()) ? mul(mul(both, apart), 0.5) : mul(both, mul(apart, 0.5));
}
Tensor width_of(double dx, const Tensor& y) {
  return full({}, dx, is_differentiable(y.dtype()) ? y.dtype() : default_dtype());
}
}  // namespace

STRATA_OP(cumsum, "cumsum(Tensor input, int dim, *, dtype? dtype=None) -> Tensor")
  .doc("Cumulative sums along a dimension.")
  .inplace()
  .infer(infer_cumsum)
  .kernel("rows", [](const args::cumsum& c) { cpu::scan(cpu::Scan::Sum, c.input(), dim_of(c), *c.out()); })
  .kernel("reference",
          [](const args::cumsum& c) { cpu::scan_reference(cpu::Scan::Sum, c.input(), dim_of(c), *c.out()); })
  .with(add_scan<scan_call<Scan::Sum>>)
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {reverse_cumsum(g, dim_of(c))}; })
  .autocast_cuda(Autocast::Float32Result)
  .complex_composite([](const Tensor& input, int64_t dim, std::optional<DType> dtype) {
    return complex_cumsum(input, dim, dtype);
  })
  .computes_uint64()
  .samples({"f(3,4), 0", "f(3,4), -1", "f(2,3,4), 1", "i5(3,4), 1", "f(), 0", "f(0,3), 0", "b(4), 0",
            "f(3,10), 0, dtype=float64"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(logcumsumexp, "logcumsumexp(Tensor input, int dim) -> Tensor")
  .doc("The logarithm of cumulative sums of exponentials along a dimension, without overflow.")
  .dtypes(kFloatingTypes)
  .infer([](const args::logcumsumexp& c) {
    const TensorImpl& x = c.input();
    STRATA_CHECK(is_floating(x.dtype), Runtime,
                 "logcumsumexp: not implemented for {}; a floating point tensor is needed", name_of(x.dtype));
    dim_of(c);
    c.out()->set_shape(x.sizes());
    c.out()->dtype = x.dtype;
  })
  .kernel("rows", [](const args::logcumsumexp& c) { cpu::scan(cpu::Scan::LogSumExp, c.input(), dim_of(c), *c.out()); })
  .kernel("reference",
          [](const args::logcumsumexp& c) {
            cpu::scan_reference(cpu::Scan::LogSumExp, c.input(), dim_of(c), *c.out());
          })
  .with(add_scan<scan_call<Scan::LogSumExp>>)
  .saves({"input"})
  .saves_result()
  .grad([](const grads::logcumsumexp& c, const Tensor& g) -> Grads {
    const Tensor x = c.input(), y = c.result();
    const int dim = dim_of(c);
    if (x.dim() == 0 || x.numel() == 0) return {g};
    // sum over i >= k of g[i] exp(x[k] - y[i]), with positive and negative parts in log space so that nothing overflows
    const auto part = [&](const Tensor& log_g) {
      return exp(add(flip(logcumsumexp(flip(sub(log_g, y), {dim}), dim), {dim}), x));
    };
    const double low = -std::numeric_limits<double>::infinity();
    const Tensor positive = where(gt(g, 0.0), log(where(gt(g, 0.0), g, 1.0)), low),
                 negative = where(lt(g, 0.0), log(where(lt(g, 0.0), neg(g), 1.0)), low);
    return {sub(part(positive), part(negative))};
  })
  .grad_for_graph([](const grads::logcumsumexp& c, const Tensor& g) -> Grads {
    // The direct sum over i >= k of g[i] exp(x[k] - y[i]), whose exponents are never positive, with n x n terms. The
    // form above has intermediate infinities, which make second gradients NaN.
    const Tensor x = c.input(), y = c.result();
    const int dim = dim_of(c);
    if (x.dim() == 0 || x.numel() == 0) return {g};
    const Tensor terms = mul(unsqueeze(movedim(g, {dim}, {-1}), -2),
                             exp(sub(unsqueeze(movedim(x, {dim}, {-1}), -1), unsqueeze(movedim(y, {dim}, {-1}), -2))));
    return {movedim(sum(triu(terms), int64_t{-1}), {-1}, {dim})};
  })
  .complex_composite([](const Tensor& input, int64_t dim) { return complex_logcumsumexp(input, dim); })
  .samples({"f(3,4), 0", "f(3,4), -1", "f(2,3,4), 1", "f(), 0"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(cummax, "cummax(Tensor input, int dim) -> (Tensor values, Tensor indices)")
  .doc("Cumulative maxima along a dimension and their indices.")
  .infer(infer_extremes)
  .kernel("rows", run_extremes<true>)
  .with(add_scan<extremes_call<true>>)
  .kernel("reference", plain_extremes<true>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_extremes)
  .orders_uint64()
  .samples({"f(3,4), 0", "f(3,4), -1", "i5(3,4), 1", "f(), 0", "b(4), 0"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(cummin, "cummin(Tensor input, int dim) -> (Tensor values, Tensor indices)")
  .doc("Cumulative minima along a dimension and their indices.")
  .infer(infer_extremes)
  .kernel("rows", run_extremes<false>)
  .with(add_scan<extremes_call<false>>)
  .kernel("reference", plain_extremes<false>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_extremes)
  .orders_uint64()
  .samples({"f(3,4), 0", "f(3,4), -1", "i5(3,4), 1", "f(), 0", "b(4), 0"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(diff, "diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor")
  .doc("The n-th forward difference along a dimension; optional values are prepended and appended first.")
  .composite([](const Tensor& input, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append) {
    STRATA_CHECK(input.dim() > 0, Runtime, "diff: expected an input that is at least one-dimensional");
    STRATA_CHECK(n >= 0, Runtime, "diff: order must be non-negative but got {}", n);
    const int d = normalize_dim(dim, input.dim(), "diff");
    if (n == 0) return clone(input);
    std::vector<Tensor> parts;
    for (const Tensor& t : {prepend, input, append})
      if (t) parts.push_back(t);
    Tensor x = parts.size() > 1 ? cat(TensorList(parts), d) : input;
    const int64_t length = x.shape()[static_cast<size_t>(d)];
    for (int64_t k = 0; k < std::min(n, length); ++k) {
      const auto [left, right] = ends(x, d);
      x = x.dtype() == DType::Bool ? ne(right, left) : sub(right, left);
    }
    return x;
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(5)", "f(3,4), 2", "f(3,4), 1, 0", "f(3,4), 1, 1, f(3,1), f(3,2)", "i5(5)", "b(5)"})
  .error("f(3), -1", ErrorKind::Runtime, "non-negative")
  .error("f()", ErrorKind::Runtime, "one-dimensional");

STRATA_OP(trapezoid_x, "trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor")
  .doc("The integral of y along a dimension by the trapezoidal rule, at the points x.")
  .alias("trapz")
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& y, const Tensor& x, int64_t dim) {
    const int d = normalize_dim(dim, y.dim(), "trapezoid");
    return sum(trapezoids(y, dim, "trapezoid", [&](int at) { return spacing(x, y, at); }), int64_t{d});
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), f(4)", "f(3,4), f(3), dim=0", "f(3,4), f(3,4)"})
  .error("f(3,4), f(3)", ErrorKind::Runtime, "one `x` value");

STRATA_OP(trapezoid, "trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor")
  .doc("The integral of y along a dimension by the trapezoidal rule, at points dx apart.")
  .alias("trapz")
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& y, Scalar dx, int64_t dim) {
    const int d = normalize_dim(dim, y.dim(), "trapezoid");
    const int64_t n = y.size(d);
    if (n == 0) return mul(sum(y, int64_t{d}), dx.to_double());
    // The first and the last point count half.
    const Tensor ends = mul(add(select(y, d, 0), select(y, d, n - 1)), 0.5);
    return mul(sub(sum(y, int64_t{d}), ends), dx.to_double());
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4)", "f(3,4), dx=0.5, dim=0"})
  .error("f(3), dim=1", ErrorKind::Index, "out of range");

STRATA_OP(cumulative_trapezoid_x, "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor")
  .doc("Cumulative integrals of y along a dimension by the trapezoidal rule, at the points x.")
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& y, const Tensor& x, int64_t dim) {
    return cumsum(trapezoids(y, dim, "cumulative_trapezoid", [&](int at) { return spacing(x, y, at); }), dim);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), f(4)", "f(3,4), f(3), dim=0"})
  .error("f(3,4), f(3)", ErrorKind::Runtime, "one `x` value");

STRATA_OP(cumulative_trapezoid, "cumulative_trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor")
  .doc("Cumulative integrals of y along a dimension by the trapezoidal rule, at points dx apart.")
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& y, Scalar dx, int64_t dim) {
    return cumsum(trapezoids(y, dim, "cumulative_trapezoid", [&](int) { return width_of(dx.to_double(), y); }), dim);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4)", "f(3,4), dx=0.5, dim=0"})
  .error("f(3), dim=1", ErrorKind::Index, "out of range");

}  // namespace strata
