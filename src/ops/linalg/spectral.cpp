// Symmetric eigenvalues, singular values, and ops based on them: pinv, matrix_rank, cond, lstsq.
#include <cmath>
#include <limits>

#include "ops/linalg/common.h"
#include "strata/args/linalg/spectral.h"
#include "strata/ops.h"

namespace strata {
namespace {

void require_finite(const double* a, int64_t n, const char* op) {
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
void orient(double* v, int64_t n, double* partner = nullptr, int64_t m = 0) {
  const double largest = *std::max_element(v, v + n, [](double a, double b) { return std::abs(a) < std::abs(b); });
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

Tensor pinv_grad(const Tensor& g, const Tensor& P, const Tensor& A) {
  const Tensor Pt = mT(P), gt = mT(g);
  if (A.size(-2) <= A.size(-1)) {
    const Tensor K = matmul(gt, P), KPt = matmul(K, Pt);
    return add(sub(sub(KPt, mT(matmul(P, K))), matmul(matmul(A, P), KPt)),
               matmul(matmul(Pt, P), sub(gt, matmul(K, A))));
  }
  const Tensor K = matmul(P, gt), PtK = matmul(Pt, K);
  return add(sub(matmul(matmul(sub(gt, matmul(A, K)), P), Pt), mT(matmul(K, P))), sub(PtK, matmul(matmul(PtK, P), A)));
}

double default_rtol(const Tensor& A) {
  const double eps = A.dtype() == DType::F64 ? std::numeric_limits<double>::epsilon()
                                             : static_cast<double>(std::numeric_limits<float>::epsilon());
  return eps * static_cast<double>(std::max(A.size(-1), A.size(-2)));
}
// The threshold below which a singular value counts as zero: max(atol, rtol * largest), [..., 1].
Tensor cutoff(const Tensor& A, const Tensor& S, const Tensor& atol, const Tensor& rtol) {
  const Tensor a = atol ? atol : full({}, 0.0, S.dtype());
  const Tensor r = rtol   ? rtol
                   : atol ? where(gt(atol, 0.0), 0.0, full({}, default_rtol(A), S.dtype()))
                          : full({}, default_rtol(A), S.dtype());
  const Tensor largest =
    S.size(-1) ? amax(S, {-1}) : full(S.shape().first(static_cast<size_t>(S.dim() - 1)), 0.0, S.dtype());
  return unsqueeze(maximum(to(a, S.dtype()), mul(to(r, S.dtype()), largest)), -1);
}
Tensor number(std::optional<double> v, DType t) { return v ? full({}, *v, t) : Tensor(); }

Tensor spectrum(const Tensor& A, bool hermitian) { return hermitian ? abs(linalg::eigvalsh(A)) : linalg::svdvals(A); }
Tensor rank_of(const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian, const char* op) {
  check_matrix(*A, op);
  Scoped mode(thread_state.grad_mode, false);
  const Tensor S = spectrum(A, hermitian);
  return sum(gt(S, cutoff(A, S, atol, rtol)), int64_t{-1});
}
Tensor pinv_of(const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_matrix(*A, "linalg.pinv");
  if (hermitian) check_square(*A, "linalg.pinv");
  const auto beside = [&](const Tensor& t) { return t ? to(t, std::optional(A.device())) : Tensor(); };
  const Tensor absolute = beside(atol), relative = beside(rtol);
  return call(op__linalg_pinv, Args(A, absolute, relative, hermitian));
}

template <const cpu::Dense& dense> void run_eigh(const Call& c) {
  const args::linalg_eigh arg(c);
  const Batch batch(arg.A());
  const cpu::In<double> in(arg.A());
  const cpu::Out<double> w(c.outs[0]), v(c.outs[1]);
  const int64_t n = batch.rows;
  const bool upper = arg.UPLO() == "U" || arg.UPLO() == "u";
  require_finite(in.get(), batch.count * n * n, "linalg.eigh");
  batch.each([&](int64_t i) {
    std::vector<double> a(static_cast<size_t>(n * n)), z(static_cast<size_t>(n * n));
    const double* x = in.get() + i * n * n;
    for (int64_t r = 0; r < n; ++r)
      for (int64_t k = 0; k <= r; ++k)
        a[static_cast<size_t>(r * n + k)] = a[static_cast<size_t>(k * n + r)] = upper ? x[k * n + r] : x[r * n + k];
    require_convergence(dense.eigen_symmetric(a.data(), n, w.get() + i * n, z.data()), "linalg.eigh");
    for (int64_t k = 0; k < n; ++k) orient(z.data() + k * n, n);
    for (int64_t r = 0; r < n; ++r)
      for (int64_t k = 0; k < n; ++k) v[(i * n + r) * n + k] = z[static_cast<size_t>(k * n + r)];
  });
  w.finish();
  v.finish();
}
template <const cpu::Dense& dense> void run_svd(const Call& c) {
  const args::linalg_svd arg(c);
  const Batch batch(arg.A());
  const cpu::In<double> in(arg.A());
  const cpu::Out<double> u(c.outs[0]), s(c.outs[1]), v(c.outs[2]);
  const int64_t rows = batch.rows, columns = batch.columns, k = std::min(rows, columns);
  const bool tall = rows >= columns;  // a wide matrix is decomposed by its transpose
  const int64_t m = std::max(rows, columns), n = k, wide = arg.full_matrices() ? m : n;
  require_finite(in.get(), batch.count * rows * columns, "linalg.svd");
  batch.each([&](int64_t i) {
    std::vector<double> a(static_cast<size_t>(m * n)), ut(static_cast<size_t>(wide * m)),
      vt(static_cast<size_t>(n * n));
    const double* x = in.get() + i * rows * columns;
    for (int64_t r = 0; r < m; ++r)
      for (int64_t q = 0; q < n; ++q) a[static_cast<size_t>(r * n + q)] = tall ? x[r * n + q] : x[q * m + r];
    require_convergence(dense.singular_values(a.data(), m, n, s.get() + i * k, ut.data(), wide, vt.data()),
                        "linalg.svd");
    for (int64_t q = 0; q < n; ++q) orient(vt.data() + q * n, n, ut.data() + q * m, m);
    for (int64_t q = n; q < wide; ++q) orient(ut.data() + q * m, m);
    double *U = u.get() + i * rows * (tall ? wide : n), *V = v.get() + i * (tall ? n : wide) * columns;
    const std::vector<double>&left = tall ? ut : vt, &right = tall ? vt : ut;  // rows are the vectors
    const int64_t left_count = tall ? wide : n, right_count = tall ? n : wide;
    for (int64_t q = 0; q < left_count; ++q)
      for (int64_t r = 0; r < rows; ++r) U[r * left_count + q] = left[static_cast<size_t>(q * rows + r)];
    std::copy_n(right.data(), right_count * columns, V);
  });
  u.finish();
  s.finish();
  v.finish();
}
template <const cpu::Dense& dense> void run_svdvals(const Call& c) {
  const args::linalg_svdvals arg(c);
  const Batch batch(arg.A());
  const cpu::In<double> in(arg.A());
  const cpu::Out<double> s(c.out());
  const int64_t n = std::min(batch.rows, batch.columns), m = std::max(batch.rows, batch.columns);
  require_finite(in.get(), batch.count * batch.size(), "linalg.svdvals");
  batch.each([&](int64_t i) {
    std::vector<double> a(static_cast<size_t>(m * n));
    const double* x = in.get() + i * m * n;
    for (int64_t r = 0; r < m; ++r)
      for (int64_t q = 0; q < n; ++q) a[static_cast<size_t>(r * n + q)] = batch.rows == m ? x[r * n + q] : x[q * m + r];
    require_convergence(dense.singular_values(a.data(), m, n, s.get() + i * n, nullptr, 0, nullptr), "linalg.svdvals");
  });
  s.finish();
}
}  // namespace

STRATA_OP(linalg_eigh, "linalg.eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)")
  .doc(
    "Eigenvalues (ascending) and orthonormal eigenvectors (columns) of symmetric matrices; UPLO names the triangle "
    "that is read.")
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::linalg_eigh& c) {
    const TensorImpl& a = c.A();
    check_square(a, "linalg.eigh");
    const std::string_view part = c.UPLO();
    STRATA_CHECK(part == "L" || part == "U" || part == "l" || part == "u", Runtime,
                 "linalg.eigh: Expected UPLO argument to be 'L' or 'U', but got {}", part);
    const int64_t n = a.shape[a.ndim - 1];
    set_batch_shape(*c.out(), a, {n});
    set_batch_shape(*c.out(1), a, {n, n});
  })
  .kernel("lapack", run_eigh<cpu::dense_lapack>, cpu::lapack_when<96>)
  .from(Source::Lapack)
  .kernel("ql", run_eigh<cpu::dense_fast>)
  .kernel("reference", run_eigh<cpu::dense_reference>)
  .cuda_on_host("eigh_on_host")
  .saves_result({0, 1})
  .grad([](const GradContext& c, const Tensor&) -> Grads {
    return {eigh_grad(c.grad(0), c.grad(1), c.result(0), c.result(1))};
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"s(4,4)", "s(2,3,3)", "s(3,3), 'U'", "f(0,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square")
  .error("f(3,3), 'X'", ErrorKind::Runtime, "UPLO");

STRATA_OP(linalg_eigvalsh, "linalg.eigvalsh(Tensor A, str UPLO='L') -> Tensor")
  .doc("Eigenvalues (ascending) of symmetric matrices.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, std::string_view UPLO) { return linalg::eigh(A, UPLO)[0]; })
  .autocast_cpu(Autocast::Float32)
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
  .kernel("lapack", run_svd<cpu::dense_lapack>, cpu::lapack_when<64>)
  .from(Source::Lapack)
  .kernel("golub-kahan", run_svd<cpu::dense_fast>)
  .kernel("reference", run_svd<cpu::dense_reference>)
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

STRATA_OP(linalg_svdvals, "linalg.svdvals(Tensor A, *, str? driver=None) -> Tensor")
  .doc("Singular values in descending order.")
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::linalg_svdvals& c) {
    const TensorImpl& a = c.A();
    check_matrix(a, "linalg.svdvals");
    set_batch_shape(*c.out(), a, {std::min(a.shape[a.ndim - 2], a.shape[a.ndim - 1])});
  })
  .kernel("lapack", run_svdvals<cpu::dense_lapack>, cpu::lapack_when<64>)
  .from(Source::Lapack)
  .kernel("golub-kahan", run_svdvals<cpu::dense_fast>)
  .kernel("reference", run_svdvals<cpu::dense_reference>)
  .cuda_on_host("svdvals_on_host")
  .saves({"A"})
  .grad([](const grads::linalg_svdvals& c, const Tensor& g) -> Grads {
    const auto [U, S, Vh] = linalg::svd(c.A(), false);
    return {matmul(mul(U, unsqueeze(g, -2)), Vh)};
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "f(2,3,4)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(_linalg_pinv, "_linalg_pinv(Tensor A, Tensor? atol, Tensor? rtol, bool hermitian=False) -> Tensor")
  .doc("The pseudo-inverse by singular values.")
  .helper()
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::_linalg_pinv& c) {
    const TensorImpl& a = c.A();
    STRATA_CHECK(a.ndim >= 2 && c.op().accepts.has(a.dtype), Runtime,
                 "linalg.pinv: expected matrices of float32 or float64, got a {} tensor of shape {}", name_of(a.dtype),
                 to_string(a.sizes()));
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 1], a.shape[a.ndim - 2]});
  })
  .kernel("reference",  // rests on eigh and svd, which have faster kernels
          [](const args::_linalg_pinv& c) {
            Scoped mode(thread_state.grad_mode, false);
            const Tensor A = c.share_A();
            Tensor U, S, V;
            if (c.hermitian()) {
              const auto [w, Q] = linalg::eigh(A);
              U = V = Q;
              S = w;
            } else {
              const auto [left, s, right] = linalg::svd(A, false);
              U = left;
              S = s;
              V = mT(right);
            }
            const Tensor size = abs(S), keep = gt(size, cutoff(A, size, c.share_atol(), c.share_rtol()));
            const Tensor inverse = where(keep, reciprocal(where(keep, S, 1.0)), 0.0);
            const Tensor result = matmul(mul(V, unsqueeze(to(inverse, A.dtype()), -2)), mT(U));
            STRATA_CHECK(result->same_shape(*c.out()), Runtime,
                         "linalg.pinv: atol and rtol must have one number for each matrix; with them the result would "
                         "have shape {}, expected {}",
                         to_string(result.shape()), to_string(c.out().shape()));
            cpu::copy_values(*c.out(), *result);
          })
  .cuda_on_host("pinv_on_host")
  .saves({"A"})
  .saves_result()
  .grad([](const grads::_linalg_pinv& c, const Tensor& g) -> Grads { return {pinv_grad(g, c.result(), c.A())}; })
  .samples({"m(4,4), None, None", "f(4,3), None, None", "f(2,3,4), None, None"});

STRATA_OP(linalg_pinv, "linalg.pinv(Tensor A, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor")
  .doc("The Moore-Penrose pseudo-inverse; singular values below max(atol, rtol * largest) count as zero.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian) {
    return pinv_of(A, atol, rtol, hermitian);
  })
  .samples({"f(4,3)", "f(2,3,4)", "s(3,3), hermitian=True"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions")
  .error("f(3,2), atol=f(5)", ErrorKind::Runtime, "one number for each matrix");

STRATA_OP(linalg_pinv_rcond, "linalg.pinv.rcond(Tensor A, float rcond, bool hermitian=False) -> Tensor")
  .doc("The Moore-Penrose pseudo-inverse with a relative tolerance.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, double rcond, bool hermitian) {
    return pinv_of(A, full({}, 0.0, A.dtype()), full({}, rcond, A.dtype()), hermitian);
  })
  .samples({"f(4,3), 0.001", "s(3,3), 0.001, True"})
  .error("f(3), 0.1", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(pinverse, "pinverse(Tensor input, float rcond=1e-15) -> Tensor")
  .doc("The Moore-Penrose pseudo-inverse; see linalg.pinv.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, double rcond) {
    return pinv_of(input, full({}, 0.0, input.dtype()), full({}, rcond, input.dtype()), false);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "m(3,3), 0.001"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_matrix_rank,
          "linalg.matrix_rank(Tensor A, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor")
  .doc("The number of singular values larger than max(atol, rtol * largest).")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian) {
    return rank_of(A, atol, rtol, hermitian, "linalg.matrix_rank");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "f(2,3,4)", "s(3,3), hermitian=True"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_matrix_rank_tol, "linalg.matrix_rank.tol(Tensor A, float tol, bool hermitian=False) -> Tensor")
  .doc("The number of singular values larger than tol.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, double tol, bool hermitian) {
    return rank_of(A, number(tol, A.dtype()), full({}, 0.0, A.dtype()), hermitian, "linalg.matrix_rank");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3), 0.1"})
  .error("f(3), 0.1", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_cond, "linalg.cond(Tensor A, Scalar? p=None) -> Tensor")
  .doc("The condition number: the ratio of extreme singular values (p None, 2, -2), or norm(A) norm(A^-1).")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, std::optional<Scalar> p) {
    check_matrix(*A, "linalg.cond");
    if (!p || std::abs(p->to_double()) == 2) {
      const Tensor S = linalg::svdvals(A);
      const Tensor largest = amax(S, {-1}), smallest = amin(S, {-1});
      return p && p->to_double() < 0 ? div(smallest, largest) : div(largest, smallest);
    }
    check_square(*A, "linalg.cond");
    const auto [inverse, info] = linalg::inv_ex(A);
    const Tensor value = mul(linalg::matrix_norm(A, *p), linalg::matrix_norm(inverse, *p));
    return where(eq(info, 0), value, full({}, std::numeric_limits<double>::infinity(), A.dtype()));
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4)", "m(2,3,3), 1", "m(3,3), inf", "f(4,3), -2"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_cond_p_str, "linalg.cond.p_str(Tensor A, str p) -> Tensor")
  .doc("The condition number in the Frobenius or the nuclear norm.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, std::string_view p) {
    check_square(*A, "linalg.cond");
    return mul(linalg::matrix_norm(A, p), linalg::matrix_norm(linalg::inv(A), p));
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4), 'fro'", "m(2,3,3), 'nuc'"})
  .error("f(3,4), 'fro'", ErrorKind::Runtime, "square");

STRATA_OP(linalg_lstsq,
          "linalg.lstsq(Tensor A, Tensor B, float? rcond=None, *, str? driver=None)"
          " -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)")
  .doc(
    "The least-squares solution of A X = B by the pseudo-inverse, the rank, the squared residuals (drivers"
    " other than 'gelsy', more rows than columns, full rank), and the singular values (drivers 'gelss' and 'gelsd').")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, const Tensor& B, std::optional<double> rcond, std::optional<std::string_view> driver) {
    check_matrix(*A, "linalg.lstsq");
    STRATA_CHECK(A.dtype() == B.dtype(), Runtime,
                 "linalg.lstsq: Expected input and other to have the same dtype, but got {} and {}", name_of(A.dtype()),
                 name_of(B.dtype()));
    STRATA_CHECK(!driver || *driver == "gels" || *driver == "gelsy" || *driver == "gelsd" || *driver == "gelss",
                 Runtime, "linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {}",
                 *driver);
    const bool vector = A.dim() - 1 == B.dim() && std::equal(B.shape().begin(), B.shape().end(), A.shape().begin());
    STRATA_CHECK(vector || B.dim() >= 2, Runtime,
                 "linalg.lstsq: input.dim() must be greater or equal to other.dim(), got {} and {}", A.dim(), B.dim());
    const Tensor b = vector ? unsqueeze(B, -1) : B;
    STRATA_CHECK(b.size(-2) == A.size(-2), Runtime,
                 "linalg.lstsq: input.size(-2) should match other.size(-2), got {} and {}", A.size(-2), b.size(-2));
    const Tensor tolerance = rcond ? full({}, *rcond, A.dtype()) : Tensor();
    const Tensor x = matmul(pinv_of(A, tolerance ? full({}, 0.0, A.dtype()) : Tensor(), tolerance, false), b);
    const Tensor none = full({0}, 0.0, A.dtype());
    Tensor residuals = none, S = none, rank = full({0}, 0, kInt64);
    const bool with_rank = !driver || *driver != "gels";
    const Tensor found = rank_of(A, tolerance ? full({}, 0.0, A.dtype()) : Tensor(), tolerance, false, "linalg.lstsq");
    if (with_rank) rank = found;
    const bool gelsy = !driver || *driver == "gelsy";  // which does not return residuals
    const bool tall = !gelsy && A.size(-2) > A.size(-1);
    if (tall && with_rank && A.is_meta()) refuse_shape_from_values("linalg.lstsq: residuals");
    if (tall && (!with_rank || all(eq(found, A.size(-1))).item<bool>()))
      residuals = sum(square(sub(matmul(A, x), b)), int64_t{-2});
    if (driver && (*driver == "gelsd" || *driver == "gelss")) S = linalg::svdvals(A);
    return std::tuple(vector ? squeeze(x, int64_t{-1}) : x, residuals, rank, S);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3), f(4,2)", "f(3,4), f(3,2)", "f(2,4,3), f(2,4,1)"})
  .error("f(3), f(3)", ErrorKind::Runtime, "at least 2 dimensions")
  .error("f(3,3), f(4,2)", ErrorKind::Runtime, "should match");

}  // namespace strata
