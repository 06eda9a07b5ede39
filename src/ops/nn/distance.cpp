// Distances and similarities between vectors.
#include <cmath>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "cpu/nn/rows.h"
#include "cpu/staging.h"
#include "ops/transfer.h"
#include "strata/args/nn/distance.h"
#include "strata/ops.h"

namespace strata {
namespace {

// Whether cdist computes Euclidean distances from the products of rows: PyTorch's modes and its bound of 25 rows.
bool by_products(const Tensor& x1, const Tensor& x2, std::optional<std::string_view> mode) {
  constexpr std::string_view kUse = "use_mm_for_euclid_dist", kNecessary = "use_mm_for_euclid_dist_if_necessary",
                             kNever = "donot_use_mm_for_euclid_dist";
  const std::string_view chosen = mode.value_or(kNecessary);
  STRATA_CHECK(chosen == kUse || chosen == kNecessary || chosen == kNever, Value,
               "cdist: {} is not a valid value for compute_mode; use {}, {} or {}", chosen, kUse, kNecessary, kNever);
  const bool exact_enough = x1.dtype() == x2.dtype() && (x1.dtype() == DType::F32 || x1.dtype() == DType::F64);
  return exact_enough && (chosen == kUse || (chosen == kNecessary && (x1.size(-2) > 25 || x2.size(-2) > 25)));
}

// |a - b|^2 = |a|^2 + |b|^2 - 2 a b. The rounding errors are those of the squares: distances that are small compared with
// the lengths lose digits.
Tensor euclidean_by_products(const Tensor& x1, const Tensor& x2) {
  const auto squared_length = [](const Tensor& x) { return sum(square(x), -1, true); };
  const Tensor lengths = add(squared_length(x1), transpose(squared_length(x2), -1, -2));
  return _root_of_positive(add(lengths, matmul(x1, transpose(x2, -1, -2)), -2));
}

// As in PyTorch, equal rows get no gradient, even if NaN comes in, unless the norm's slope at 0 is a factor (p = 1, inf).
Tensor distance(const Tensor& difference, double p) {
  const Tensor norm = linalg::vector_norm(difference, p, -1);
  return p == 1 || std::isinf(p) ? norm : masked_fill(norm, eq(norm, 0), 0);
}

int64_t pairs_of(int64_t n) { return (Checked(n) * (n - 1)).get() / 2; }
int64_t pairs_before(int64_t i, int64_t n) { return i * n - i * (i + 1) / 2; }  // those of earlier rows

// With W the symmetric matrix of g / distance: the sum over j of W_ij (x_i - x_j). A common offset of all rows does not matter,
// and without it the two terms cancel less.
Tensor pdist_grad(const Tensor& g, const Tensor& input, const Tensor& distances) {
  const int64_t n = input.size(0);
  const Tensor apart = ne(autograd::detach(distances), 0);
  const Tensor weights = where(apart, div(g, where(apart, distances, 1.0)), 0.0);
  const Tensor above = to(triu(ones({n, n}, DType::U8), 1), DType::Bool);
  const Tensor half = masked_scatter(zeros({n, n}, input.dtype()), above, weights);
  const Tensor W = add(half, transpose(half, 0, 1)), x = sub(input, mean(autograd::detach(input), 0, true));
  return sub(mul(sum(W, 1, true), x), matmul(W, x));
}
}  // namespace

STRATA_OP(cosine_similarity, "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-8) -> Tensor")
  .doc("The cosine of the angle between vectors along dim; lengths below eps are replaced by eps.")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
    STRATA_CHECK(is_floating(promote(x1.dtype(), x2.dtype())), Runtime,
                 "cosine_similarity: expected a floating-point dtype, got {}",
                 name_of(promote(x1.dtype(), x2.dtype())));
    // Broadcast both first: dim refers to the common shape.
    std::vector<int64_t> shape;
    const int n = std::max(x1.dim(), x2.dim());
    for (int d = 0; d < n; ++d) {
      const int a = d - (n - x1.dim()), b = d - (n - x2.dim());
      const int64_t p = a < 0 ? 1 : x1->shape[a], q = b < 0 ? 1 : x2->shape[b];
      STRATA_CHECK(p == q || p == 1 || q == 1, Runtime, "cosine_similarity: shapes {} and {} do not broadcast",
                   to_string(x1.shape()), to_string(x2.shape()));
      shape.push_back(p == 1 ? q : p);
    }
    const Tensor a = expand(x1, shape), b = expand(x2, shape);
    const auto length = [&](const Tensor& t) { return clamp_min(linalg::vector_norm(t, 2, dim, true), eps); };
    return sum(mul(div(a, length(a)), div(b, length(b))), dim);
  })
  .autocast_cuda(Autocast::Float32)
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4), 0", "f(2,3,4), f(2,3,4), -1", "f(4), f(4), 0"})
  .error("f(3,4), f(2,4)", ErrorKind::Runtime, "do not broadcast");

STRATA_OP(pairwise_distance,
          "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-6, bool keepdim=False) -> Tensor")
  .doc("The p-norm of x1 - x2 + eps along the last dimension.")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
    const Tensor difference = add(sub(x1, x2), eps);
    return linalg::vector_norm(difference, p, -1, keepdim);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4), 1.0, keepdim=True", "f(4), f(4)"})
  .error("f(3,4), f(2,3)", ErrorKind::Runtime, "");

STRATA_OP(cdist,
          "cdist(Tensor x1, Tensor x2, float p=2.0, str? compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor")
  .doc(
    "The p-norm distance between each row of x1 [..., P, M] and each row of x2 [..., R, M]. Euclidean distances (p=2) "
    "of float32 and float64 rows are computed from matrix products if there are more than 25 rows on one side, which "
    "is faster, but loses digits if the distance is small compared with the rows' lengths. compute_mode "
    "'donot_use_mm_for_euclid_dist' turns this off, 'use_mm_for_euclid_dist' uses it for any number of rows.")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x1, const Tensor& x2, double p, std::optional<std::string_view> compute_mode) {
    STRATA_CHECK(x1.dim() >= 2 && x2.dim() >= 2, Runtime,
                 "cdist: x1 and x2 must have at least 2 dimensions, got shapes {} and {}", to_string(x1.shape()),
                 to_string(x2.shape()));
    STRATA_CHECK(x1.size(-1) == x2.size(-1), Runtime,
                 "cdist: x1 and x2 must have the same number of columns, got {} and {}", x1.size(-1), x2.size(-1));
    STRATA_CHECK(p >= 0, Runtime, "cdist: only non-negative p values are supported, got {}", p);
    if (by_products(x1, x2, compute_mode) && p == 2) return euclidean_by_products(x1, x2);
    return distance(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), f(5,4)", "f(2,3,4), f(5,4), 1.0", "f(3,4), f(5,4), 3.0",
            "f(3,4), f(5,4), compute_mode='use_mm_for_euclid_dist'"})
  .error("f(3,4), f(5,4), compute_mode='mm'", ErrorKind::Value, "compute_mode")
  .error("f(3,4), f(5,3)", ErrorKind::Runtime, "same number of columns")
  .error("f(4), f(5,4)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(_pdist_euclidean, "_pdist_euclidean(Tensor input) -> Tensor")
  .doc("The Euclidean distances between all pairs of rows.")
  .helper()
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::_pdist_euclidean& c) {
    STRATA_CHECK(c.input().ndim == 2, Runtime, "pdist: only supports 2D tensors, got {}D", c.input().ndim);
    const int64_t shape[] = {pairs_of(c.input().shape[0])};
    c.out()->dtype = c.input().dtype;
    c.out()->set_shape(shape);
  })
  .kernel("rows",
          [](const args::_pdist_euclidean& c) {
            const int64_t n = c.input().shape[0], d = c.input().shape[1];
            cpu::dispatch_float(c.input().dtype, [&]<class T>() {
              const cpu::In<T> x(c.input());
              const cpu::Out<T> out(c.out());
              const int64_t grain = std::max<int64_t>(1, 20000 / std::max<int64_t>(1, n * d));
              parallel_for(n, grain, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i)
                  cpu::distances_after(x.get(), n, d, i, out.get() + pairs_before(i, n));
              });
              out.finish();
            });
          })
  .kernel("reference",
          [](const args::_pdist_euclidean& c) {
            const int64_t n = c.input().shape[0], d = c.input().shape[1];
            const cpu::In<double> x(c.input());
            const cpu::Out<double> out(c.out());
            for (int64_t i = 0; i < n; ++i)
              for (int64_t j = i + 1; j < n; ++j) {
                double length = 0;
                for (int64_t k = 0; k < d; ++k) length = std::hypot(length, x[i * d + k] - x[j * d + k]);
                out[pairs_before(i, n) + j - i - 1] = length;
              }
            out.finish();
          })
  .cuda_on_host("pdist_on_host")
  .saves({"input"})
  .saves_result()
  .grad([](const grads::_pdist_euclidean& c, const Tensor& g) -> Grads {
    return {pdist_grad(g, c.input(), c.result())};
  })
  .samples({"f(4,3)", "f(1,3)", "f(6,20)"});

STRATA_OP(pdist, "pdist(Tensor input, float p=2.0) -> Tensor")
  .doc("The p-norm distances between all pairs of rows, in the order (0,1), (0,2), …, (1,2), ….")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p) {
    STRATA_CHECK(input.dim() == 2, Runtime, "pdist: only supports 2D tensors, got {}D", input.dim());
    STRATA_CHECK(p >= 0, Runtime, "pdist: only supports non-negative p values, got {}", p);
    const bool plain = input.dtype() == DType::F32 || input.dtype() == DType::F64;
    if (p == 2 && plain && input.device().type == DeviceType::Cpu) return _pdist_euclidean(input);
    const int64_t n = input.size(0), shape[] = {pairs_of(n)};
    const Device where = staging_device(input);
    const Tensor left = make_tensor(shape, DType::I64, where), right = make_tensor(shape, DType::I64, where);
    for (int64_t i = 0, at = 0; i < n && !input.is_meta(); ++i)
      for (int64_t j = i + 1; j < n; ++j, ++at) {
        left.data<int64_t>()[at] = i;
        right.data<int64_t>()[at] = j;
      }
    return distance(sub(index_select(input, 0, placed(left)), index_select(input, 0, placed(right))), p);
  })
  .autocast_cuda(Autocast::Float32)
  .samples({"f(4,3)", "f(4,3), 1.0", "f(1,3)"})
  .error("f(4)", ErrorKind::Runtime, "only supports 2D");

}  // namespace strata
