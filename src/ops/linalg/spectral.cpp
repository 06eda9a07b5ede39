// Symmetric eigenvalues and singular values.
#include <cmath>
#include <limits>

#include "ops/linalg/common.h"
#include "strata/args/linalg/spectral.h"
#include "strata/ops.h"

namespace strata {
namespace {

// If two values are equal, no gradient flows between their vectors (it is not defined there).
Tensor finite_gap(const Tensor& gap) { return where(eq(gap, 0.0), std::numeric_limits<double>::infinity(), gap); }

// V (diag(gw) + (V^H gV) / (w_j - w_i)) V^H
Tensor eigh_grad(const Tensor& gw, const Tensor& gV, const Tensor& w, const Tensor& V) {
  Tensor inner;
  if (gV) {
    const Tensor gap = finite_gap(sub(unsqueeze(w, -2), unsqueeze(w, -1)));
    const Tensor projected = matmul(adjoint(V), gV), middle = diagonal(projected, 0, -2, -1);
    if (is_complex(V.dtype())) require_no_turn(imag(middle), "eigh_backward", "eigenvectors");
    inner = div(sub(projected, diag_embed(middle)), gap);
  }
  if (gw) inner = inner ? add(inner, diag_embed(gw)) : to(diag_embed(gw), V.dtype());
  return matmul(matmul(V, inner), adjoint(V));
}

Tensor skew(const Tensor& x) { return sub(x, adjoint(x)); }

Tensor svd_grad(const Tensor& gU, const Tensor& gS, const Tensor& gVh, const Tensor& U, const Tensor& S,
                const Tensor& Vh) {
  const int64_t k = S.size(-1), m = U.size(-2), n = Vh.size(-1);
  Tensor inner;
  const auto plus = [](const Tensor& a, const Tensor& b) { return a ? (b ? add(a, b) : a) : b; };
  if (gU || gVh) {
    const Tensor squares = mul(S, S);
    const Tensor gap = finite_gap(sub(unsqueeze(squares, -2), unsqueeze(squares, -1)));
    Tensor left, right;
    if (gU) left = skew(matmul(adjoint(U), gU));
    if (gVh) right = skew(matmul(Vh, adjoint(gVh)));
    if (gU) inner = mul(div(left, gap), unsqueeze(S, -2));
    if (gVh) inner = plus(inner, mul(unsqueeze(S, -1), div(right, gap)));
    if (is_complex(U.dtype())) {  // the phase of a vector of U relative to its partner
      require_no_turn(imag(diagonal(plus(left, right), 0, -2, -1)), "svd_backward", "singular vectors");
      if (gU) inner = add(inner, diag_embed(div(diagonal(left, 0, -2, -1), mul(S, 2))));
    }
  }
  if (gS) inner = inner ? add(inner, diag_embed(gS)) : to(diag_embed(gS), U.dtype());
  Tensor a = matmul(U, inner);
  if (gU && m > k) {
    const Tensor scaled = div(gU, unsqueeze(S, -2));
    a = add(a, sub(scaled, matmul(U, matmul(adjoint(U), scaled))));
  }
  a = matmul(a, Vh);
  if (gVh && n > k) {
    const Tensor scaled = div(gVh, unsqueeze(S, -1));
    a = add(a, matmul(U, sub(scaled, matmul(matmul(scaled, adjoint(Vh)), Vh))));
  }
  return a;
}

// A symmetric (or Hermitian) n x n matrix from one of its triangles.
template <class T> std::vector<T> symmetric_copy(const T* x, int64_t n, bool upper) {
  std::vector<T> a(static_cast<size_t>(n * n));
  for (int64_t r = 0; r < n; ++r)
    for (int64_t k = 0; k <= r; ++k) {
      const T lower = upper ? conjugate(x[k * n + r]) : x[r * n + k];
      a[static_cast<size_t>(r * n + k)] = lower;
      a[static_cast<size_t>(k * n + r)] = conjugate(lower);
    }
  return a;
}
bool names_upper(std::string_view part) { return part == "U" || part == "u"; }
void check_triangle(std::string_view part, const char* op) {
  STRATA_CHECK(part == "L" || part == "l" || names_upper(part), Runtime,
               "{}: Expected UPLO argument to be 'L' or 'U', but got {}", op, part);
}

constexpr auto run_eigh = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::linalg_eigh arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> in(arg.A());
  const cpu::Out<typename cpu::Dense<T>::Real> w(c.outs[0]);
  const cpu::Out<T> v(c.outs[1]);
  const int64_t n = batch.rows;
  const bool upper = names_upper(arg.UPLO());
  require_finite(in.get(), batch.count * n * n, "linalg.eigh");
  batch.each([&](int64_t i) {
    std::vector<T> a = symmetric_copy(in.get() + i * n * n, n, upper), z(static_cast<size_t>(n * n));
    require_convergence(dense.eigen_symmetric(a.data(), n, w.get() + i * n, z.data()), "linalg.eigh");
    for (int64_t k = 0; k < n; ++k) orient(z.data() + k * n, n);
    for (int64_t r = 0; r < n; ++r)
      for (int64_t k = 0; k < n; ++k) v[(i * n + r) * n + k] = z[static_cast<size_t>(k * n + r)];
  });
  w.finish();
  v.finish();
};
constexpr auto run_eigvalsh = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_linalg_eigvalsh arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> in(arg.A());
  const cpu::Out<typename cpu::Dense<T>::Real> w(c.out());
  const int64_t n = batch.rows;
  const bool upper = names_upper(arg.UPLO());
  require_finite(in.get(), batch.count * n * n, "linalg.eigvalsh");
  batch.each([&](int64_t i) {
    std::vector<T> a = symmetric_copy(in.get() + i * n * n, n, upper);
    require_convergence(dense.eigen_symmetric(a.data(), n, w.get() + i * n, nullptr), "linalg.eigvalsh");
  });
  w.finish();
};
constexpr auto run_svd = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::linalg_svd arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> in(arg.A());
  const cpu::Out<T> u(c.outs[0]), v(c.outs[2]);
  const cpu::Out<typename cpu::Dense<T>::Real> s(c.outs[1]);
  const int64_t rows = batch.rows, columns = batch.columns, k = std::min(rows, columns);
  const bool tall = rows >= columns;  // a wide matrix is decomposed by its conjugate transpose
  const int64_t m = std::max(rows, columns), n = k, wide = arg.full_matrices() ? m : n;
  require_finite(in.get(), batch.count * rows * columns, "linalg.svd");
  batch.each([&](int64_t i) {
    std::vector<T> a(static_cast<size_t>(m * n)), ut(static_cast<size_t>(wide * m)), vt(static_cast<size_t>(n * n));
    const T* x = in.get() + i * rows * columns;
    for (int64_t r = 0; r < m; ++r)
      for (int64_t q = 0; q < n; ++q) a[static_cast<size_t>(r * n + q)] = tall ? x[r * n + q] : conjugate(x[q * m + r]);
    require_convergence(dense.singular_values(a.data(), m, n, s.get() + i * k, ut.data(), wide, vt.data()),
                        "linalg.svd");
    for (int64_t q = 0; q < n; ++q) {
      const T factor = orient(vt.data() + q * n, n);
      for (int64_t r = 0; r < m && factor != T(1); ++r) ut[static_cast<size_t>(q * m + r)] *= conjugate(factor);
    }
    for (int64_t q = n; q < wide; ++q) orient(ut.data() + q * m, m);
    const auto outer = [tall](T z) { return tall ? z : conjugate(z); };  // U and V^H exchange their places
    T *U = u.get() + i * rows * (tall ? wide : n), *V = v.get() + i * (tall ? n : wide) * columns;
    const std::vector<T>&left = tall ? ut : vt, &right = tall ? vt : ut;  // rows are the vectors
    const int64_t left_count = tall ? wide : n, right_count = tall ? n : wide;
    for (int64_t q = 0; q < left_count; ++q)
      for (int64_t r = 0; r < rows; ++r) U[r * left_count + q] = outer(left[static_cast<size_t>(q * rows + r)]);
    std::transform(right.begin(), right.begin() + right_count * columns, V, outer);
  });
  u.finish();
  s.finish();
  v.finish();
};
constexpr auto run_svdvals = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_linalg_svdvals arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> in(arg.A());
  const cpu::Out<typename cpu::Dense<T>::Real> s(c.out());
  const int64_t n = std::min(batch.rows, batch.columns), m = std::max(batch.rows, batch.columns);
  require_finite(in.get(), batch.count * batch.size(), "linalg.svdvals");
  batch.each([&](int64_t i) {
    std::vector<T> a(static_cast<size_t>(m * n));
    const T* x = in.get() + i * m * n;
    for (int64_t r = 0; r < m; ++r)
      for (int64_t q = 0; q < n; ++q) a[static_cast<size_t>(r * n + q)] = batch.rows == m ? x[r * n + q] : x[q * m + r];
    require_convergence(dense.singular_values(a.data(), m, n, s.get() + i * n, nullptr, 0, nullptr), "linalg.svdvals");
  });
  s.finish();
};
}  // namespace

STRATA_OP(linalg_eigh, "linalg.eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)")
  .doc(
    "Eigenvalues (ascending) and orthonormal eigenvectors (columns) of symmetric or Hermitian matrices; UPLO names the "
    "triangle "
    "that is read.")
  .dtypes(kMatrixTypes)
  .infer([](const args::linalg_eigh& c) {
    const TensorImpl& a = c.A();
    check_square(a, "linalg.eigh");
    check_triangle(c.UPLO(), "linalg.eigh");
    const int64_t n = a.shape[a.ndim - 1];
    set_batch_shape(*c.out(), a, {n});
    set_real(*c.out());
    set_batch_shape(*c.out(1), a, {n, n});
  })
  .kernel("lapack", by_lapack<run_eigh>, cpu::lapack_when<224, 104>)
  .from(Source::Lapack)
  .kernel("ql", by_blocks<run_eigh>)
  .kernel("reference", by_reference<run_eigh>)
  .cuda_on_host("eigh_on_host")
  .handles_complex()
  .saves_result({0, 1})
  .grad([](const GradContext& c, const Tensor&) -> Grads {
    return {eigh_grad(c.grad(0), c.grad(1), c.result(0), c.result(1))};
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"s(4,4)", "s(2,3,3)", "s(3,3), 'U'", "f(0,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square")
  .error("f(3,3), 'X'", ErrorKind::Runtime, "UPLO");

STRATA_OP(_linalg_eigvalsh, "_linalg_eigvalsh(Tensor A, str UPLO) -> Tensor")
  .doc("Eigenvalues of symmetric matrices without their vectors.")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_linalg_eigvalsh& c) {
    const TensorImpl& a = c.A();
    check_square(a, "linalg.eigvalsh");
    check_triangle(c.UPLO(), "linalg.eigvalsh");
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 1]});
    set_real(*c.out());
  })
  .kernel("lapack", by_lapack<run_eigvalsh>, cpu::lapack_when<512, 88>)
  .from(Source::Lapack)
  .kernel("ql", by_blocks<run_eigvalsh>)
  .kernel("reference", by_reference<run_eigvalsh>)
  .cuda_on_host("eigvalsh_on_host")
  .handles_complex()
  .saves({"A"})
  .grad([](const grads::_linalg_eigvalsh& c, const Tensor& g) -> Grads {
    const auto [w, V] = linalg::eigh(c.A(), c.UPLO());
    return {eigh_grad(g, Tensor(), w, V)};
  })
  .samples({"s(4,4), 'L'", "s(2,3,3), 'U'", "f(0,3,3), 'L'"});

STRATA_OP(_eigvalsh, "_eigvalsh(Tensor A, str UPLO, bool? vectors=None) -> Tensor")
  .doc("linalg.eigvalsh, with the eigenvectors if a gradient will use them.")
  .keeps_for_grad("vectors")
  .helper()
  .no_out()
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, std::string_view UPLO, std::optional<bool> vectors) {
    return vectors.value_or(false) ? linalg::eigh(A, UPLO)[0] : _linalg_eigvalsh(A, UPLO);
  })
  .samples({"s(4,4), 'L'", "s(2,3,3), 'U', False"});

STRATA_OP(linalg_eigvalsh, "linalg.eigvalsh(Tensor A, str UPLO='L') -> Tensor")
  .doc("Eigenvalues (ascending) of symmetric matrices.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, std::string_view UPLO) { return _eigvalsh(A, UPLO); })
  .autocast_cpu(Autocast::Float32)
  .samples({"s(4,4)", "s(2,3,3), 'U'"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_svd,
          "linalg.svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)")
  .doc("A = U diag(S) Vh with singular values in descending order. full_matrices=False gives the reduced form.")
  .dtypes(kMatrixTypes)
  .infer([](const args::linalg_svd& c) {
    const TensorImpl& a = c.A();
    check_matrix(a, "linalg.svd");
    const int64_t m = a.shape[a.ndim - 2], n = a.shape[a.ndim - 1], k = std::min(m, n);
    const bool whole = c.full_matrices();
    set_batch_shape(*c.out(), a, {m, whole ? m : k});
    set_batch_shape(*c.out(1), a, {k});
    set_real(*c.out(1));
    set_batch_shape(*c.out(2), a, {whole ? n : k, n});
  })
  .kernel("lapack", by_lapack<run_svd>, cpu::lapack_when<224, 96>)
  .from(Source::Lapack)
  .kernel("golub-kahan", by_blocks<run_svd>)
  .kernel("reference", by_reference<run_svd>)
  .cuda_on_host("svd_on_host")
  .handles_complex()
  .saves_result({0, 1, 2})
  .grad([](const grads::linalg_svd& c, const Tensor&) -> Grads {
    const Tensor U = c.result(0), S = c.result(1), Vh = c.result(2);
    const int64_t k = S.size(-1);
    if (!c.full_matrices() || U.size(-1) == Vh.size(-1)) return {svd_grad(c.grad(0), c.grad(1), c.grad(2), U, S, Vh)};
    const auto columns = [&](const Tensor& t) { return t ? narrow(t, -1, 0, k) : t; };
    const auto rows = [&](const Tensor& t) { return t ? narrow(t, -2, 0, k) : t; };
    return {svd_grad(columns(c.grad(0)), c.grad(1), rows(c.grad(2)), columns(U), S, rows(Vh))};
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"!f(4,3)", "f(3,4), False", "f(2,3,3), False", "f(0,3,2)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions")
  .error("i5(3,3)", ErrorKind::Runtime, "floating point");

STRATA_OP(svd, "svd(Tensor input, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)")
  .doc("Singular value decomposition with V instead of its conjugate transpose; see linalg.svd.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& input, bool some, bool compute_uv) {
    const auto [U, S, Vh] = linalg::svd(input, !some);
    if (compute_uv) return std::tuple(U, S, adjoint(Vh));
    return std::tuple(full(U.shape(), 0.0, U.dtype()), S, full(mT(Vh).shape(), 0.0, U.dtype()));
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "!f(3,4), False"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(_linalg_svdvals, "_linalg_svdvals(Tensor A) -> Tensor")
  .doc("Singular values without their vectors.")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_linalg_svdvals& c) {
    const TensorImpl& a = c.A();
    check_matrix(a, "linalg.svdvals");
    set_batch_shape(*c.out(), a, {std::min(a.shape[a.ndim - 2], a.shape[a.ndim - 1])});
    set_real(*c.out());
  })
  .kernel("lapack", by_lapack<run_svdvals>, cpu::lapack_when<512, 12>)
  .from(Source::Lapack)
  .kernel("golub-kahan", by_blocks<run_svdvals>)
  .kernel("reference", by_reference<run_svdvals>)
  .cuda_on_host("svdvals_on_host")
  .handles_complex()
  .saves({"A"})
  .grad([](const grads::_linalg_svdvals& c, const Tensor& g) -> Grads {
    const auto [U, S, Vh] = linalg::svd(c.A(), false);
    return {matmul(mul(U, unsqueeze(g, -2)), Vh)};
  })
  .samples({"f(4,3)", "f(2,3,4)", "f(0,3,2)"});

STRATA_OP(_svdvals, "_svdvals(Tensor A, bool? vectors=None) -> Tensor")
  .doc("linalg.svdvals, with the singular vectors if a gradient will use them.")
  .keeps_for_grad("vectors")
  .helper()
  .no_out()
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, std::optional<bool> vectors) {
    return vectors.value_or(false) ? linalg::svd(A, false)[1] : _linalg_svdvals(A);
  })
  .samples({"f(4,3)", "f(2,3,4), False"});

STRATA_OP(linalg_svdvals, "linalg.svdvals(Tensor A, *, str? driver=None) -> Tensor")
  .doc("Singular values in descending order.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, std::optional<std::string_view>) { return _svdvals(A); })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "f(2,3,4)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

}  // namespace strata
