#include "ops/fft/common.h"

#include <fmt/core.h>

#include <cmath>

#include "strata/ops.h"

namespace strata::fourier {
namespace {

// The factor of a transform of n elements: the default divides backward transforms by n.
double factor(const Norm& norm, int64_t n, bool forward, const char* op) {
  const auto count = static_cast<double>(n);
  if (!norm || *norm == "backward") return forward ? 1 : 1 / count;
  if (*norm == "ortho") return 1 / std::sqrt(count);
  if (*norm == "forward") return forward ? 1 / count : 1;
  fail(ErrorKind::Runtime, fmt::format("{}: Invalid normalization mode: \"{}\"; expected \"forward\", \"backward\" or "
                                       "\"ortho\"",
                                       op, *norm));
}

Tensor floating(const Tensor& x, const char* op) {
  const Tensor t = is_integral(x.dtype()) ? to(x, default_dtype()) : x;
  STRATA_CHECK(is_complex(t.dtype()) || t.dtype() == DType::F32 || t.dtype() == DType::F64, Runtime,
               "{}: Unsupported dtype {}; convert the tensor to float32 first", op, name_of(x.dtype()));
  return t;
}

// Cut off, or padded with zeros, to n elements along dim.
Tensor resized(const Tensor& x, int dim, int64_t n) {
  const int64_t have = x.size(dim);
  if (have == n) return x;
  if (have > n) return narrow(x, dim, 0, n);
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  shape[static_cast<size_t>(dim)] = n - have;
  return cat({x, zeros(shape, x.dtype(), x.device())}, dim);
}
}  // namespace

Tensor cut(const Tensor& x, int dim, int64_t n) { return n > 0 && x.size(dim) > n ? narrow(x, dim, 0, n) : x; }
Tensor as_complex(const Tensor& x, const char* op) {
  const Tensor t = floating(x, op);
  return is_complex(t.dtype()) ? t : to(t, complex_type(t.dtype()));
}
Tensor as_real(const Tensor& x, const char* op) {
  STRATA_CHECK(!is_complex(x.dtype()), Type, "{}: expects a real input tensor, but got {}", op, name_of(x.dtype()));
  return floating(x, op);
}

void check_size(int64_t n, const char* op) {
  STRATA_CHECK(n >= 1, Runtime, "{}: Invalid number of data points ({}) specified", op, n);
}
int checked_dim(const Tensor& x, int64_t dim, const char* op) {
  STRATA_CHECK(x.dim() > 0, Index, "{}: dimension specified as {} but tensor has no dimensions", op, dim);
  return normalize_dim(dim, x.dim(), op);
}

Tensor transformed(const Tensor& input, std::optional<int64_t> n, int64_t dim, const Norm& norm, bool forward,
                   const char* op) {
  const Tensor x = floating(input, op);
  const int d = checked_dim(x, dim, op);
  const int64_t size = n ? *n : x.size(d);
  check_size(size, op);
  return _fft_c2c(as_complex(resized(x, d, size), op), d, forward, factor(norm, size, forward, op));
}
Tensor from_real(const Tensor& input, std::optional<int64_t> n, int64_t dim, const Norm& norm, bool forward,
                 const char* op) {
  const Tensor x = as_real(input, op);
  const int d = checked_dim(x, dim, op);
  const int64_t size = n ? *n : x.size(d);
  check_size(size, op);
  const Tensor half = _fft_r2c(resized(x, d, size), d, factor(norm, size, forward, op));
  return forward ? half : conj(half);
}
Tensor to_real(const Tensor& input, std::optional<int64_t> n, int64_t dim, const Norm& norm, bool forward,
               const char* op) {
  const Tensor x = floating(input, op);
  const int d = checked_dim(x, dim, op);
  const int64_t size = n ? *n : 2 * (x.size(d) - 1);
  check_size(size, op);
  const Tensor half = as_complex(resized(x, d, size / 2 + 1), op);
  return _fft_c2r(forward ? conj(half) : half, d, size, factor(norm, size, forward, op));
}

}  // namespace strata::fourier
