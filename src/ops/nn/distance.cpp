// Similarities and distances between vectors.
#include "strata/args/nn/distance.h"
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {

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

}  // namespace strata
