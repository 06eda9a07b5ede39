#include "ops/complex_parts.h"

#include <cmath>
#include <limits>

#include "autograd/autograd.h"
#include "ops/reduce/common.h"
#include "strata/ops.h"

namespace strata {
namespace {

Tensor converted(const Tensor& z, const std::optional<DType>& dtype) { return dtype ? to(z, *dtype) : z; }

std::vector<int64_t> dims_of(DimMask mask, int ndim) {
  std::vector<int64_t> dims;
  for (int d = 0; d < ndim; ++d)
    if (mask >> d & 1) dims.push_back(d);
  return dims;
}
}  // namespace

Tensor times_i(const Tensor& z) { return complex(neg(imag(z)), real(z)); }

Tensor complex_sum(const Tensor& input, DimMask reduced, bool keepdim, const std::optional<DType>& dtype) {
  const Tensor z = converted(input, dtype);
  const std::vector<int64_t> dims = dims_of(reduced, z.dim());
  if (!is_complex(z.dtype())) return dims.empty() ? clone(z) : sum(z, OptIntList(dims), keepdim);
  if (dims.empty()) return clone(z);
  return view_as_complex(contiguous(sum(view_as_real(z), OptIntList(dims), keepdim)));
}

Tensor complex_mean(const Tensor& input, DimMask reduced, bool keepdim, const std::optional<DType>& dtype) {
  const Tensor z = converted(input, dtype);
  return div(complex_sum(z, reduced, keepdim, std::nullopt), static_cast<double>(reduced_count(*z, reduced)));
}

Tensor complex_cumsum(const Tensor& input, int64_t dim, const std::optional<DType>& dtype) {
  const int d = normalize_dim(dim, input.dim(), "cumsum");
  const Tensor z = converted(input, dtype);
  if (!is_complex(z.dtype())) return cumsum(z, d);
  if (z.dim() == 0) return clone(z);
  return view_as_complex(contiguous(cumsum(view_as_real(z), d)));
}

namespace {
// The multiples of 2 pi by which the angles of a sum from left to right differ from those of y. Each step takes the angle
// of the term with the larger real part and adds at most pi/2, so a new element that is larger starts over.
Tensor full_turns(const Tensor& z, const Tensor& y, int64_t dim) {
  const autograd::NoGrad no_grad;
  const int64_t n = z.size(dim);
  const Tensor nothing = full_like(narrow(z, dim, 0, 1), -std::numeric_limits<double>::infinity());
  const Tensor before = cat({nothing, narrow(y, dim, 0, n - 1)}, dim), larger = ge(real(z), real(before));
  const Tensor ratio = exp(where(larger, sub(before, z), sub(z, before)));
  const Tensor step = nan_to_num(angle(add(ratio, 1))), total = cumsum(step, dim);
  std::vector<int64_t> shape(static_cast<size_t>(z.dim()), 1);
  shape[static_cast<size_t>(dim)] = n;
  const Tensor start = std::get<0>(cummax(where(larger, reshape(arange(n), shape), 0), dim));
  const Tensor angles = add(gather(sub(imag(z), sub(total, step)), dim, start), total);
  return mul(round(div(nan_to_num(sub(angles, imag(y)), 0.0, 0.0, 0.0), 2 * M_PI)), 2 * M_PI);
}
}  // namespace

Tensor complex_logcumsumexp(const Tensor& z, int64_t dim) {
  const int d = normalize_dim(dim, z.dim(), "logcumsumexp");
  if (z.dim() == 0 || z.size(d) <= 1) return clone(z);
  const int64_t n = z.size(d);
  Tensor y = z;
  for (int64_t step = 1; step < n; step *= 2)  // as in complex_cumprod
    y = cat({narrow(y, d, 0, step), logaddexp(narrow(y, d, step, n - step), narrow(y, d, 0, n - step))}, d);
  const Tensor turns = full_turns(z, y, d);
  return add(y, complex(zeros_like(turns), turns));
}

Tensor complex_prod(const Tensor& input, int64_t dim, bool keepdim, const std::optional<DType>& dtype) {
  const int d = normalize_dim(dim, input.dim(), "prod");
  Tensor z = converted(input, dtype);
  if (!is_complex(z.dtype())) return prod(z, d, keepdim);
  if (z.dim() == 0) return clone(z);
  Tensor rest;  // the element that is left over if the number is odd
  while (z.size(d) > 1) {
    const int64_t half = z.size(d) / 2;
    if (z.size(d) % 2) {
      const Tensor last = narrow(z, d, 2 * half, 1);
      rest = rest ? mul(rest, last) : last;
    }
    z = mul(narrow(z, d, 0, half), narrow(z, d, half, half));
  }
  if (z.size(d) == 0) {
    std::vector<int64_t> shape(z.shape().begin(), z.shape().end());
    shape[static_cast<size_t>(d)] = 1;
    z = add(sum(z, int64_t{d}, true), ones(shape, z.dtype()));  // depends on z, so that it has a gradient
  }
  if (rest) z = mul(z, rest);
  return keepdim ? clone(z) : clone(squeeze(z, d));
}

Tensor complex_cumprod(const Tensor& input, int64_t dim, const std::optional<DType>& dtype) {
  const int d = normalize_dim(dim, input.dim(), "cumprod");
  Tensor z = converted(input, dtype);
  if (!is_complex(z.dtype())) return cumprod(z, d);
  if (z.dim() == 0 || z.size(d) <= 1) return clone(z);
  const int64_t n = z.size(d);
  for (int64_t step = 1; step < n; step *= 2)  // each element times the product of the elements before it
    z = cat({narrow(z, d, 0, step), mul(narrow(z, d, step, n - step), narrow(z, d, 0, n - step))}, d);
  return z;
}

Tensor complex_matmul(const Tensor& left, const Tensor& right) {
  const Tensor a = left.dim() == 1 ? unsqueeze(left, 0) : left, b = right.dim() == 1 ? unsqueeze(right, 1) : right;
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const auto shaped = [](const Tensor& t, const Tensor& like, int64_t rows, int64_t columns) {
    std::vector<int64_t> shape(like.shape().begin(), like.shape().end() - 2);
    shape.push_back(rows);
    shape.push_back(columns);
    return reshape(t, shape);
  };
  const Tensor rows = shaped(view_as_real(contiguous(a)), a, m, 2 * k);
  const Tensor columns = shaped(view_as_real(stack({b, times_i(b)}, -2)), b, 2 * k, 2 * n);
  const Tensor product = matmul(rows, columns);
  std::vector<int64_t> shape(product.shape().begin(), product.shape().end() - 2);
  if (left.dim() > 1) shape.push_back(m);
  if (right.dim() > 1) shape.push_back(n);
  shape.push_back(2);
  return view_as_complex(reshape(product, shape));
}

}  // namespace strata
