// Symmetric eigenvalues and singular values.
#include <cmath>
#include <limits>

#include "ops/complex_parts.h"
#include "ops/linalg/common.h"
#include "strata/args/linalg/spectral.h"
#include "strata/ops.h"

namespace strata {
namespace {

template <class T> void require_finite(const T* a, int64_t n, const char* op) {
  for (int64_t i = 0; i < n; ++i)
    STRATA_CHECK(std::isfinite(a[i]), Runtime,
                 "{}: The algorithm failed to converge because the input matrix contained non-finite values.", op);
}
void require_convergence(bool done, const char* op) {
  STRATA_CHECK(
    done, Runtime,
    "{}: The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated values.",
    op);
}

// The sign of a vector is arbitrary: makes its largest component positive, and flips its partner (or null) with it.
template <class T> void orient(T* v, int64_t n, T* partner = nullptr, int64_t m = 0) {
  const T largest = *std::max_element(v, v + n, [](T a, T b) { return std::abs(a) < std::abs(b); });
  if (!(largest < 0)) return;
  for (int64_t i = 0; i < n; ++i) v[i] = -v[i];
  for (int64_t i = 0; i < m; ++i) partner[i] = -partner[i];
}

// If two values are equal, no gradient flows between their vectors (it is not defined there).
Tensor finite_gap(const Tensor& gap) { return where(eq(gap, 0.0), std::numeric_limits<double>::infinity(), gap); }

// V (diag(gw) + (V^T gV) / (w_j - w_i)) V^T
Tensor eigh_grad(const Tensor& gw, const Tensor& gV, const Tensor& w, const Tensor& V) {
  Tensor inner;
  if (gV) {
    const Tensor gap = finite_gap(sub(unsqueeze(w, -2), unsqueeze(w, -1)));
    const Tensor projected = matmul(mT(V), gV);
    inner = div(sub(projected, diag_embed(diagonal(projected, 0, -2, -1))), gap);
  }
  if (gw) inner = inner ? add(inner, diag_embed(gw)) : diag_embed(gw);
  return matmul(matmul(V, inner), mT(V));
}

Tensor skew(const Tensor& x) { return sub(x, mT(x)); }

Tensor svd_grad(const Tensor& gU, const Tensor& gS, const Tensor& gVh, const Tensor& U, const Tensor& S,
                const Tensor& Vh) {
  const int64_t k = S.size(-1), m = U.size(-2), n = Vh.size(-1);
  Tensor inner;
  const auto plus = [](const Tensor& a, const Tensor& b) { return a ? (b ? add(a, b) : a) : b; };
  if (gU || gVh) {
    const Tensor squares = mul(S, S);
    const Tensor gap = finite_gap(sub(unsqueeze(squares, -2), unsqueeze(squares, -1)));
    if (gU) inner = mul(div(skew(matmul(mT(U), gU)), gap), unsqueeze(S, -2));
    if (gVh) inner = plus(inner, mul(unsqueeze(S, -1), div(skew(matmul(Vh, mT(gVh))), gap)));
  }
  if (gS) inner = plus(inner, diag_embed(gS));
  Tensor a = matmul(U, inner);
  if (gU && m > k) {
    const Tensor scaled = div(gU, unsqueeze(S, -2));
    a = add(a, sub(scaled, matmul(U, matmul(mT(U), scaled))));
  }
  a = matmul(a, Vh);
  if (gVh && n > k) {
    const Tensor scaled = div(gVh, unsqueeze(S, -1));
    a = add(a, matmul(U, sub(scaled, matmul(matmul(scaled, mT(Vh)), Vh))));
  }
  return a;
}

// A symmetric n x n matrix from one of its triangles.
template <class T> std::vector<T> symmetric_copy(const T* x, int64_t n, bool upper) {
  std::vector<T> a(static_cast<size_t>(n * n));
  for (int64_t r = 0; r < n; ++r)
    for (int64_t k = 0; k <= r; ++k)
      a[static_cast<size_t>(r * n + k)] = a[static_cast<size_t>(k * n + r)] = upper ? x[k * n + r] : x[r * n + k];
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
  const cpu::Out<T> w(c.outs[0]), v(c.outs[1]);
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
  const cpu::Out<T> w(c.out());
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
  const cpu::Out<T> u(c.outs[0]), s(c.outs[1]), v(c.outs[2]);
  const int64_t rows = batch.rows, columns = batch.columns, k = std::min(rows, columns);
  const bool tall = rows >= columns;  // a wide matrix is decomposed by its transpose
  const int64_t m = std::max(rows, columns), n = k, wide = arg.full_matrices() ? m : n;
  require_finite(in.get(), batch.count * rows * columns, "linalg.svd");
  batch.each([&](int64_t i) {
    std::vector<T> a(static_cast<size_t>(m * n)), ut(static_cast<size_t>(wide * m)), vt(static_cast<size_t>(n * n));
    const T* x = in.get() + i * rows * columns;
    for (int64_t r = 0; r < m; ++r)
      for (int64_t q = 0; q < n; ++q) a[static_cast<size_t>(r * n + q)] = tall ? x[r * n + q] : x[q * m + r];
    require_convergence(dense.singular_values(a.data(), m, n, s.get() + i * k, ut.data(), wide, vt.data()),
                        "linalg.svd");
    for (int64_t q = 0; q < n; ++q) orient(vt.data() + q * n, n, ut.data() + q * m, m);
    for (int64_t q = n; q < wide; ++q) orient(ut.data() + q * m, m);
    T *U = u.get() + i * rows * (tall ? wide : n), *V = v.get() + i * (tall ? n : wide) * columns;
    const std::vector<T>&left = tall ? ut : vt, &right = tall ? vt : ut;  // rows are the vectors
    const int64_t left_count = tall ? wide : n, right_count = tall ? n : wide;
    for (int64_t q = 0; q < left_count; ++q)
      for (int64_t r = 0; r < rows; ++r) U[r * left_count + q] = left[static_cast<size_t>(q * rows + r)];
    std::copy_n(right.data(), right_count * columns, V);
  });
  u.finish();
  s.finish();
  v.finish();
};
constexpr auto run_svdvals = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_linalg_svdvals arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> in(arg.A());
  const cpu::Out<T> s(c.out());
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
    "Eigenvalues (ascending) and orthonormal eigenvectors (columns) of symmetric matrices; UPLO names the triangle "
    "that is read.")
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::linalg_eigh& c) {
    const TensorImpl& a = c.A();
    check_square(a, "linalg.eigh");
    check_triangle(c.UPLO(), "linalg.eigh");
    const int64_t n = a.shape[a.ndim - 1];
    set_batch_shape(*c.out(), a, {n});
    set_batch_shape(*c.out(1), a, {n, n});
  })
  .kernel("lapack", by_lapack<run_eigh>, cpu::lapack_when<224, 104>)
  .from(Source::Lapack)
  .kernel("ql", by_blocks<run_eigh>)
  .kernel("reference", by_reference<run_eigh>)
  .cuda_on_host("eigh_on_host")
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
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::_linalg_eigvalsh& c) {
    const TensorImpl& a = c.A();
    check_square(a, "linalg.eigvalsh");
    check_triangle(c.UPLO(), "linalg.eigvalsh");
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 1]});
  })
  .kernel("lapack", by_lapack<run_eigvalsh>, cpu::lapack_when<512, 88>)
  .from(Source::Lapack)
  .kernel("ql", by_blocks<run_eigvalsh>)
  .kernel("reference", by_reference<run_eigvalsh>)
  .cuda_on_host("eigvalsh_on_host")
  .saves({"A"})
  .grad([](const grads::_linalg_eigvalsh& c, const Tensor& g) -> Grads {
    const auto [w, V] = linalg::eigh(c.A(), c.UPLO());
    return {eigh_grad(g, Tensor(), w, V)};
  })
  .samples({"s(4,4), 'L'", "s(2,3,3), 'U'", "f(0,3,3), 'L'"});

STRATA_OP(linalg_eigvalsh, "linalg.eigvalsh(Tensor A, str UPLO='L') -> Tensor")
  .doc("Eigenvalues (ascending) of symmetric matrices.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, std::string_view UPLO) {
    if (needs_gradient(A)) return linalg::eigh(A, UPLO)[0];  // the gradient uses the vectors
    return _linalg_eigvalsh(A, UPLO);
  })
  .autocast_cpu(Autocast::Float32)
  .complex_composite([](const Tensor& A, std::string_view UPLO) {
    check_square(*A, "linalg.eigvalsh");
    refuse_complex_gradient(A, "linalg.eigvalsh");
    STRATA_CHECK(UPLO == "L" || UPLO == "U", Runtime, "linalg.eigvalsh: UPLO must be 'L' or 'U', got '{}'", UPLO);
    // The whole Hermitian matrix from the triangle that counts.
    const Tensor part = UPLO == "L" ? tril(A, -1) : triu(A, 1);
    const Tensor whole = add(add(part, conj(mT(part))), diag_embed(real(diagonal(A, 0, -2, -1))));
    return mean_of_pairs(linalg::eigvalsh(real_form(whole)));
  })
  .samples({"s(4,4)", "s(2,3,3), 'U'"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_svd,
          "linalg.svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)")
  .doc("A = U diag(S) Vh with singular values in descending order. full_matrices=False gives the reduced form.")
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::linalg_svd& c) {
    const TensorImpl& a = c.A();
    check_matrix(a, "linalg.svd");
    const int64_t m = a.shape[a.ndim - 2], n = a.shape[a.ndim - 1], k = std::min(m, n);
    const bool whole = c.full_matrices();
    set_batch_shape(*c.out(), a, {m, whole ? m : k});
    set_batch_shape(*c.out(1), a, {k});
    set_batch_shape(*c.out(2), a, {whole ? n : k, n});
  })
  .kernel("lapack", by_lapack<run_svd>, cpu::lapack_when<224, 96>)
  .from(Source::Lapack)
  .kernel("golub-kahan", by_blocks<run_svd>)
  .kernel("reference", by_reference<run_svd>)
  .cuda_on_host("svd_on_host")
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
  .doc("Singular value decomposition with V instead of its transpose; see linalg.svd.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, bool some, bool compute_uv) {
    const auto [U, S, Vh] = linalg::svd(input, !some);
    if (compute_uv) return std::tuple(U, S, mT(Vh));
    return std::tuple(full(U.shape(), 0.0, U.dtype()), S, full(mT(Vh).shape(), 0.0, U.dtype()));
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "!f(3,4), False"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(_linalg_svdvals, "_linalg_svdvals(Tensor A) -> Tensor")
  .doc("Singular values without their vectors.")
  .helper()
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::_linalg_svdvals& c) {
    const TensorImpl& a = c.A();
    check_matrix(a, "linalg.svdvals");
    set_batch_shape(*c.out(), a, {std::min(a.shape[a.ndim - 2], a.shape[a.ndim - 1])});
  })
  .kernel("lapack", by_lapack<run_svdvals>, cpu::lapack_when<512, 12>)
  .from(Source::Lapack)
  .kernel("golub-kahan", by_blocks<run_svdvals>)
  .kernel("reference", by_reference<run_svdvals>)
  .cuda_on_host("svdvals_on_host")
  .saves({"A"})
  .grad([](const grads::_linalg_svdvals& c, const Tensor& g) -> Grads {
    const auto [U, S, Vh] = linalg::svd(c.A(), false);
    return {matmul(mul(U, unsqueeze(g, -2)), Vh)};
  })
  .samples({"f(4,3)", "f(2,3,4)", "f(0,3,2)"});

STRATA_OP(linalg_svdvals, "linalg.svdvals(Tensor A, *, str? driver=None) -> Tensor")
  .doc("Singular values in descending order.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, std::optional<std::string_view>) {
    if (needs_gradient(A)) return linalg::svd(A, false)[1];  // the gradient uses the vectors
    return _linalg_svdvals(A);
  })
  .autocast_cpu(Autocast::Float32)
  .complex_composite([](const Tensor& A, std::optional<std::string_view> driver) {
    check_matrix(*A, "linalg.svdvals");
    refuse_complex_gradient(A, "linalg.svdvals");
    return mean_of_pairs(linalg::svdvals(real_form(A), driver));
  })
  .samples({"f(4,3)", "f(2,3,4)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

}  // namespace strata
