// prod, cumprod and their gradients, which must be correct for zero factors.
#include "strata/args/reduce/products.h"
#include "autograd/autograd.h"
#include "cpu/reduce/scan.h"
#include "cuda/reduce/scan.h"
#include "ops/complex_parts.h"
#include "ops/planned.h"
#include "ops/reduce/common.h"
#include "ops/reduce/kernels.h"
#include "strata/ops.h"

namespace strata {
namespace {

bool has_zero(const Tensor& x) { return x.numel() > 0 && !x.is_meta() && !all(autograd::detach(x)).item<bool>(); }

Tensor ones_beside(const Tensor& x, int dim) {
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  shape[static_cast<size_t>(dim)] = 1;
  return full(shape, 1.0, x.dtype());
}

// The product of all others along dim: the products before times the products after.
Tensor product_of_others(const Tensor& x, int dim) {
  const int64_t n = x.shape()[static_cast<size_t>(dim)];
  if (n <= 1) return full(x.shape(), 1.0, x.dtype());
  const Tensor one = ones_beside(x, dim);
  const Tensor before = cumprod(cat({one, narrow(x, dim, 0, n - 1)}, dim), dim);
  const Tensor after = flip(cumprod(cat({one, flip(narrow(x, dim, 1, n - 1), {dim})}, dim), dim), {dim});
  return mul(before, after);
}

void infer_prod(const Call& c, DimMask reduced, bool keepdim, const Value& dtype) {
  const args::prod a(c);
  const TensorImpl& x = a.input();
  set_reduced_shape(*c.out(), x, reduced, keepdim);
  c.out()->dtype = sum_dtype(x, dtype);
}
cuda::ScanCall scan_call(const Call& c) {
  const args::cumprod a(c);
  return {.x = a.input(), .dim = normalize_dim(a.dim(), c.out().dim(), "cumprod"), .out = *c.out(), .kind = Scan::Prod};
}
Reduction describe_full(const Call& c) {
  const args::prod a(c);
  return {Fold::Prod, a.input(), all_dims(kMaxDims), c.out().dtype(), *c.out()};
}
Reduction describe_dim(const Call& c) {
  const args::prod_dim_int a(c);
  const TensorImpl& x = a.input();
  return {Fold::Prod, x, reduced_mask(x, a.dim_value(), "prod"), c.out().dtype(), *c.out()};
}

// sum over i >= k of g[i] * product of x[j], j <= i, j != k.
Tensor cumprod_grad(const Tensor& g, const Tensor& x, const Tensor& result, int dim) {
  if (x.numel() == 0 || x.dim() == 0 || x.size(dim) == 1) return g;
  if (!has_zero(x)) return div(flip(cumsum(flip(mul(g, result), {dim}), dim), {dim}), x);
  const int64_t n = x.shape()[static_cast<size_t>(dim)];
  std::vector<Tensor> parts;
  Tensor before = ones_beside(x, dim);
  for (int64_t k = 0; k < n; ++k) {
    const Tensor after =
      k + 1 < n ? cat({ones_beside(x, dim), narrow(x, dim, k + 1, n - k - 1)}, dim) : ones_beside(x, dim);
    parts.push_back(mul(before, sum(mul(narrow(g, dim, k, n - k), cumprod(after, dim)), int64_t{dim}, true)));
    before = mul(before, narrow(x, dim, k, 1));
  }
  return cat(TensorList(parts), dim);
}
}  // namespace

STRATA_OP(prod, "prod(Tensor input, *, dtype? dtype=None) -> Tensor")
  .doc("The product of all elements. Integers and booleans multiply as int64.")
  .infer([](const args::prod& c) { infer_prod(c, all_dims(kMaxDims), false, c.dtype_value()); })
  .with(add_reduction<describe_full>)
  .saves({"input"})
  .saves_result()
  .grad([](const grads::prod& c, const Tensor& g) -> Grads {
    const Tensor x = c.input();
    if (!has_zero(x)) return {div(mul(g, c.result()), x)};
    return {mul(g, reshape(product_of_others(reshape(x, {-1}), 0), x.shape()))};
  })
  .autocast_cuda(Autocast::Float32Result)
  .autocast_cpu(Autocast::Float32)
  .complex_composite([](const Tensor& input, std::optional<DType> dtype) {
    return complex_prod(reshape(input, {-1}), 0, false, dtype);
  })
  .computes_uint64()
  .samples({"f(3,4)", "f()", "f(0,3)", "i5(2,2)", "b(3)", "f(2,3), dtype=float64"});

STRATA_OP(prod_dim_int, "prod.dim_int(Tensor input, int dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The product along a dimension.")
  .infer([](const args::prod_dim_int& c) {
    infer_prod(c, reduced_mask(c.input(), c.dim_value(), "prod"), c.keepdim(), c.dtype_value());
  })
  .with(add_reduction<describe_dim>)
  .saves({"input"})
  .saves_result()
  .grad([](const grads::prod_dim_int& c, const Tensor& g) -> Grads {
    const Tensor x = c.input();
    if (x.dim() == 0) return {g};
    const int dim = normalize_dim(c.dim(), x.dim(), "prod");
    const auto wide = [&](const Tensor& t) { return c.keepdim() ? t : unsqueeze(t, dim); };
    if (!has_zero(x)) return {div(mul(wide(g), wide(c.result())), x)};
    return {mul(wide(g), product_of_others(x, dim))};
  })
  .autocast_cuda(Autocast::Float32Result)
  .autocast_cpu(Autocast::Float32)
  .complex_composite([](const Tensor& input, int64_t dim, bool keepdim, std::optional<DType> dtype) {
    return complex_prod(input, dim, keepdim, dtype);
  })
  .computes_uint64()
  .samples({"f(3,4), 0", "f(3,4), -1, True", "f(2,3,4), 1", "i5(3,4), 1", "f(0,3), 0", "f(), 0"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(cumprod, "cumprod(Tensor input, int dim, *, dtype? dtype=None) -> Tensor")
  .doc("Cumulative products along a dimension.")
  .inplace()
  .infer([](const args::cumprod& c) {
    const TensorImpl& x = c.input();
    normalize_dim(c.dim(), x.ndim, "cumprod");
    c.out()->set_shape(x.sizes());
    c.out()->dtype = sum_dtype(x, c.dtype_value());
  })
  .kernel("rows",
          [](const args::cumprod& c) {
            cpu::scan(cpu::Scan::Prod, c.input(), static_cast<int>(normalize_dim(c.dim(), c.out().dim(), "cumprod")),
                      *c.out());
          })
  .kernel("reference",
          [](const args::cumprod& c) {
            cpu::scan_reference(cpu::Scan::Prod, c.input(), normalize_dim(c.dim(), c.out().dim(), "cumprod"), *c.out());
          })
  .with([](OpRecord& op) { add_planned<scan_call, cuda::plan_scan, cuda::run_scan>(op, Backend::Cuda, "scan"); })
  .saves({"input"})
  .saves_result()
  .grad([](const grads::cumprod& c, const Tensor& g) -> Grads {
    return {cumprod_grad(g, c.input(), c.result(), normalize_dim(c.dim(), c.meta_of_input().ndim, "cumprod"))};
  })
  .autocast_cuda(Autocast::Float32Result)
  .complex_composite([](const Tensor& input, int64_t dim, std::optional<DType> dtype) {
    return complex_cumprod(input, dim, dtype);
  })
  .computes_uint64()
  .samples({"f(3,4), 0", "f(3,4), -1", "f(2,3,4), 1", "i5(3,4), 1", "f(), 0", "f(0,3), 0", "b(4), 0"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

}  // namespace strata
