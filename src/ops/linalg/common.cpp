#include "ops/linalg/common.h"

#include <fmt/core.h>

#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {

void check_float(const TensorImpl& a, const char* op) {
  STRATA_CHECK(is_differentiable(a.dtype), Runtime, "{}: Expected a floating point or complex tensor as input. Got {}",
               op, info_of(a.dtype).title);
  STRATA_CHECK(a.dtype == DType::F32 || a.dtype == DType::F64 || is_complex(a.dtype), Runtime,
               "{}: Low precision dtypes not supported. Got {}", op, info_of(a.dtype).title);
}
void check_matrix(const TensorImpl& a, const char* op) {
  STRATA_CHECK(a.ndim >= 2, Runtime, "{}: The input tensor A must have at least 2 dimensions, got shape {}", op,
               to_string(a.sizes()));
  check_float(a, op);
}
void check_square(const TensorImpl& a, const char* op, const char* name) {
  check_matrix(a, op);
  STRATA_CHECK(a.shape[a.ndim - 1] == a.shape[a.ndim - 2], Runtime,
               "{}: {} must be batches of square matrices, but they are {} by {} matrices", op, name,
               a.shape[a.ndim - 2], a.shape[a.ndim - 1]);
}

Tensor broadcast_batch(const Tensor& a, Shape batch) {
  std::vector<int64_t> shape(batch.begin(), batch.end());
  shape.push_back(a.size(-2));
  shape.push_back(a.size(-1));
  if (std::equal(shape.begin(), shape.end(), a.shape().begin(), a.shape().end())) return a;
  return expand(a, shape);
}

std::vector<int64_t> common_batch(const Tensor& a, const Tensor& b, const char* op) {
  const Shape x = a.shape().first(static_cast<size_t>(a.dim() - 2)),
              y = b.shape().first(static_cast<size_t>(b.dim() - 2));
  std::vector<int64_t> out(std::max(x.size(), y.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t p = i < x.size() ? x[x.size() - 1 - i] : 1, q = i < y.size() ? y[y.size() - 1 - i] : 1;
    STRATA_CHECK(p == q || p == 1 || q == 1, Runtime, "{}: the batch dimensions of {} and {} do not broadcast", op,
                 to_string(a.shape()), to_string(b.shape()));
    out[out.size() - 1 - i] = p == 1 ? q : p;
  }
  return out;
}

void check_info(const Tensor& info, const char* op, const std::function<std::string(int64_t)>& what) {
  if (info.is_meta()) return;
  const Tensor flat = contiguous(host_values(info));
  for (int64_t i = 0; i < flat.numel(); ++i)
    if (const int64_t code = flat.data<int32_t>()[i])
      fail(ErrorKind::Runtime,
           fmt::format("{}: {}{}", op, info.dim() ? fmt::format("(Batch element {}): ", i) : "", what(code)));
}

std::string singular_text(int64_t info) {
  return fmt::format(
    "The diagonal element {} is zero, the operation could not be completed because the input matrix is singular.",
    info);
}

Tensor conjugate(const Tensor& t) { return is_complex(t.dtype()) ? conj(t) : t; }

void require_convergence(bool done, const char* op) {
  STRATA_CHECK(
    done, Runtime,
    "{}: The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated values.",
    op);
}

void require_no_turn(const Tensor& turn, const char* op, const char* vectors) {
  if (turn.is_meta() || turn.numel() == 0) return;
  const auto most = amax(abs(autograd::detach(turn))).item<double>();
  STRATA_CHECK(most <= 1e-2, Runtime,
               "{}: The {} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss "
               "function depends on this quantity, so it is ill-defined.",
               op, vectors);
}

void check_system(const TensorImpl& a, const TensorImpl& b, const char* op) {
  check_square(a, op, "A");
  check_matrix(b, op);
  bool fits = a.ndim == b.ndim && a.shape[a.ndim - 2] == b.shape[b.ndim - 2];
  for (int d = 0; fits && d + 2 < a.ndim; ++d) fits = a.shape[d] == b.shape[d];
  STRATA_CHECK(fits && a.dtype == b.dtype, Runtime, "{}: A of shape {} and B of shape {} do not fit each other", op,
               to_string(a.sizes()), to_string(b.sizes()));
}

}  // namespace strata
