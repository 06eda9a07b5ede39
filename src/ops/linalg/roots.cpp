// The polar decomposition and the root of a symmetric matrix.
#include "strata/args/linalg/roots.h"
#include "ops/linalg/common.h"
#include "strata/ops.h"

namespace strata {
namespace {

// x_ij / (s_i + s_j), 0 where both are 0.
Tensor over_sums(const Tensor& x, const Tensor& s) {
  const Tensor sums = add(unsqueeze(s, -1), unsqueeze(s, -2));
  return div(x, where(eq(sums, 0.0), std::numeric_limits<double>::infinity(), sums));
}

// With H = V diag(s) V^H: dU is U Z with Z H + H Z = U^H dA - dA^H U, and (1 - U U^H) dA H^-1 outside of U's columns.
Tensor polar_grad(const Tensor& gU, const Tensor& gH, const Tensor& U, const Tensor& H) {
  const auto [s, V] = linalg::eigh(H);
  Tensor turn;  // the gradient of Z
  if (gU) turn = matmul(adjoint(U), gU);
  if (gH) turn = turn ? sub(turn, matmul(gH, H)) : neg(matmul(gH, H));
  turn = matmul(matmul(adjoint(V), turn), V);
  turn = matmul(matmul(V, over_sums(sub(turn, adjoint(turn)), s)), adjoint(V));
  Tensor a = matmul(U, gH ? add(turn, gH) : turn);
  if (gU && U.size(-2) > U.size(-1)) {
    const Tensor outside = sub(gU, matmul(U, matmul(adjoint(U), gU)));
    a = add(a, matmul(mul(matmul(outside, V), unsqueeze(reciprocal(s), -2)), adjoint(V)));
  }
  return a;
}
}  // namespace

STRATA_OP(linalg_polar, "linalg.polar(Tensor A) -> (Tensor U, Tensor H)")
  .doc(
    "The polar decomposition A = U H of matrices with at least as many rows as columns: U has orthonormal columns, H "
    "is "
    "symmetric (or Hermitian) and has no negative eigenvalues.")
  .dtypes(kMatrixTypes)
  .infer([](const args::linalg_polar& c) {
    const TensorImpl& a = c.A();
    check_matrix(a, "linalg.polar");
    const int64_t m = a.shape[a.ndim - 2], n = a.shape[a.ndim - 1];
    STRATA_CHECK(m >= n, Runtime,
                 "linalg.polar: input must have at least as many rows as columns, but got {} by {} matrices", m, n);
    set_batch_shape(*c.out(), a, {m, n});
    set_batch_shape(*c.out(1), a, {n, n});
  })
  .kernel("reference",  // rests on svd, which has faster kernels
          [](const args::linalg_polar& c) {
            Scoped mode(thread_state.grad_mode, false);
            const auto [left, S, right] = linalg::svd(c.share_A(), false);
            cpu::copy_values(*c.out(), *matmul(left, right));
            cpu::copy_values(*c.out(1), *matmul(mul(adjoint(right), unsqueeze(S, -2)), right));
          })
  .cuda_on_host("polar_on_host")
  .handles_complex()
  .saves_result({0, 1})
  .grad([](const GradContext& c, const Tensor&) -> Grads {
    return {polar_grad(c.grad(0), c.grad(1), c.result(0), c.result(1))};
  })
  .samples({"m(4,4)", "f(4,3)", "f(2,3,2)", "f(0,3,2)", "f(0,0)"})
  .error("f(2,3)", ErrorKind::Runtime, "as many rows as columns")
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_matrix_sqrth, "linalg.matrix_sqrth(Tensor A) -> Tensor")
  .doc(
    "The symmetric (or Hermitian) positive definite X with X X = A, of such matrices A; only their lower triangle is "
    "read.\n\n>>> strata.linalg.matrix_sqrth(strata.tensor([[4., 0.], [0., 9.]]))\ntensor([[2., 0.],\n        [0., "
    "3.]])")
  .dtypes(kMatrixTypes)
  .no_out()
  .infer([](const args::linalg_matrix_sqrth& c) {
    const TensorImpl& a = c.A();
    check_square(a, "linalg.matrix_sqrth");
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 1], a.shape[a.ndim - 1]});
  })
  .kernel("reference",  // rests on eigh, which has faster kernels
          [](const args::linalg_matrix_sqrth& c) {
            Scoped mode(thread_state.grad_mode, false);
            const auto [w, V] = linalg::eigh(c.share_A());
            cpu::copy_values(*c.out(), *matmul(mul(V, unsqueeze(sqrt(clamp_min(w, 0)), -2)), adjoint(V)));
          })
  .cuda_on_host("matrix_sqrth_on_host")
  .handles_complex()
  .saves_result()
  .grad([](const GradContext& c, const Tensor& g) -> Grads {  // dA = dX X + X dX, in the basis of X's eigenvectors
    const auto [r, V] = linalg::eigh(c.result());
    const Tensor symmetric = mul(add(g, adjoint(g)), 0.5);
    return {matmul(matmul(V, over_sums(matmul(matmul(adjoint(V), symmetric), V), r)), adjoint(V))};
  })
  .autocast(Autocast::Float32)
  .samples({"s(4,4)", "s(2,3,3)", "f(0,3,3)", "f(0,0)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

}  // namespace strata
