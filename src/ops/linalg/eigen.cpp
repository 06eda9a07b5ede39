// Eigenvalues and eigenvectors of general matrices.
#include "strata/args/linalg/eigen.h"
#include "ops/linalg/common.h"
#include "strata/ops.h"

namespace strata {
namespace {

template <class T> void refuse_nonfinite(const T* a, int64_t n, const char* op) {
  for (int64_t i = 0; i < n; ++i)
    STRATA_CHECK(is_finite(a[i]), Runtime, "{}: input tensor should not contain infs or NaNs.", op);
}

// Length 1, and the largest component positive.
template <class T> void normalize_vector(T* v, int64_t n) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += std::norm(std::complex<double>(v[i]));
  for (int64_t i = 0; i < n; ++i) v[i] = T(std::complex<double>(v[i]) / std::sqrt(squares));
  orient(v, n);
}

constexpr auto run_eig = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  using Number = typename cpu::Dense<T>::Number;
  const args::linalg_eig arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> in(arg.A());
  const cpu::Out<Number> w(c.outs[0]), v(c.outs[1]);
  const int64_t n = batch.rows;
  refuse_nonfinite(in.get(), batch.count * n * n, "linalg.eig");
  batch.each([&](int64_t i) {
    std::vector<T> a(in.get() + i * n * n, in.get() + (i + 1) * n * n);
    std::vector<Number> z(static_cast<size_t>(n * n));
    require_convergence(dense.eigen_general(a.data(), n, w.get() + i * n, z.data()), "linalg.eig");
    for (int64_t k = 0; k < n; ++k) normalize_vector(z.data() + k * n, n);
    for (int64_t r = 0; r < n; ++r)
      for (int64_t k = 0; k < n; ++k) v[(i * n + r) * n + k] = z[static_cast<size_t>(k * n + r)];
  });
  w.finish();
  v.finish();
};
constexpr auto run_eigvals = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_linalg_eigvals arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> in(arg.A());
  const cpu::Out<typename cpu::Dense<T>::Number> w(c.out());
  const int64_t n = batch.rows;
  refuse_nonfinite(in.get(), batch.count * n * n, "linalg.eigvals");
  batch.each([&](int64_t i) {
    std::vector<T> a(in.get() + i * n * n, in.get() + (i + 1) * n * n);
    require_convergence(dense.eigen_general(a.data(), n, w.get() + i * n, nullptr), "linalg.eigvals");
  });
  w.finish();
};

// V^-H (diag(gw) + (V^H gV - V^H V diag(Re(V^H gV))) / conj(w_j - w_i)) V^H: the vectors keep the length 1.
Tensor eig_grad(const Tensor& gw, const Tensor& gV, const Tensor& w, const Tensor& V) {
  const Tensor Vh = adjoint(V);
  Tensor inner;
  if (gV) {
    const Tensor projected = matmul(Vh, gV), middle = diagonal(projected, 0, -2, -1);
    require_no_turn(imag(middle), "linalg_eig_backward", "eigenvectors");
    const Tensor rest = sub(projected, matmul(Vh, mul(V, unsqueeze(real(middle), -2))));
    const Tensor values = conj(w), gap = sub(unsqueeze(values, -2), unsqueeze(values, -1));
    const Tensor unit = eye(w.size(-1), std::nullopt, real_type(w.dtype()));
    inner = mul(div(rest, add(gap, unit)), add(neg(unit), 1));
  }
  if (gw) inner = inner ? add(inner, diag_embed(gw)) : diag_embed(gw);
  return linalg::solve(Vh, matmul(inner, Vh));
}
}  // namespace

STRATA_OP(linalg_eig, "linalg.eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)")
  .doc(
    "Eigenvalues, in no particular order, and eigenvectors (columns of length 1) of square matrices, as complex "
    "numbers.")
  .dtypes(kMatrixTypes)
  .infer([](const args::linalg_eig& c) {
    const TensorImpl& a = c.A();
    check_square(a, "linalg.eig");
    const int64_t n = a.shape[a.ndim - 1];
    set_batch_shape(*c.out(), a, {n});
    set_batch_shape(*c.out(1), a, {n, n});
    for (int o = 0; o < 2; ++o) c.out(o)->dtype = complex_type(a.dtype);
  })
  .kernel("lapack", by_lapack<run_eig>, cpu::lapack_when<1, 1>)
  .from(Source::Lapack)
  .kernel("qr", by_blocks<run_eig>)
  .kernel("reference", by_reference<run_eig>)
  .cuda_on_host("eig_on_host")
  .handles_complex()
  .saves_result({0, 1})
  .grad([](const GradContext& c, const Tensor&) -> Grads {
    return {eig_grad(c.grad(0), c.grad(1), c.result(0), c.result(1))};
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4)", "m(2,3,3)", "f(1,1)", "f(0,3,3)", "f(0,0)"})
  .error("f(3,4)", ErrorKind::Runtime, "square")
  .error("i5(3,3)", ErrorKind::Runtime, "floating point");

STRATA_OP(_linalg_eigvals, "_linalg_eigvals(Tensor A) -> Tensor")
  .doc("Eigenvalues of square matrices without their vectors.")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_linalg_eigvals& c) {
    const TensorImpl& a = c.A();
    check_square(a, "linalg.eigvals");
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 1]});
    c.out()->dtype = complex_type(a.dtype);
  })
  .kernel("lapack", by_lapack<run_eigvals>, cpu::lapack_when<1, 1>)
  .from(Source::Lapack)
  .kernel("qr", by_blocks<run_eigvals>)
  .kernel("reference", by_reference<run_eigvals>)
  .cuda_on_host("eigvals_on_host")
  .handles_complex()
  .saves({"A"})
  .grad([](const grads::_linalg_eigvals& c, const Tensor& g) -> Grads {
    const auto [w, V] = linalg::eig(c.A());
    return {eig_grad(g, Tensor(), w, V)};
  })
  .samples({"m(4,4)", "m(2,3,3)", "f(0,3,3)"});

STRATA_OP(_eigvals, "_eigvals(Tensor A, bool? vectors=None) -> Tensor")
  .doc("linalg.eigvals, with the eigenvectors if a gradient will use them.")
  .keeps_for_grad("vectors")
  .helper()
  .no_out()
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, std::optional<bool> vectors) {
    return vectors.value_or(false) ? linalg::eig(A)[0] : _linalg_eigvals(A);
  })
  .samples({"m(4,4)", "m(2,3,3), False"});

STRATA_OP(linalg_eigvals, "linalg.eigvals(Tensor A) -> Tensor")
  .doc("Eigenvalues of square matrices, in no particular order, as complex numbers.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A) { return _eigvals(A); })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4)", "m(2,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

}  // namespace strata
