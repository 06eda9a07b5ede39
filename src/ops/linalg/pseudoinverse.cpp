// Ops based on singular values: pinv, matrix_rank, cond, lstsq.
#include <cmath>
#include <limits>

#include "ops/linalg/common.h"
#include "strata/args/linalg/pseudoinverse.h"
#include "strata/ops.h"

namespace strata {
namespace {

Tensor pinv_grad(const Tensor& g, const Tensor& P, const Tensor& A) {
  const Tensor Pt = adjoint(P), gt = adjoint(g);
  if (A.size(-2) <= A.size(-1)) {
    const Tensor K = matmul(gt, P), KPt = matmul(K, Pt);
    return add(sub(sub(KPt, adjoint(matmul(P, K))), matmul(matmul(A, P), KPt)),
               matmul(matmul(Pt, P), sub(gt, matmul(K, A))));
  }
  const Tensor K = matmul(P, gt), PtK = matmul(Pt, K);
  return add(sub(matmul(matmul(sub(gt, matmul(A, K)), P), Pt), adjoint(matmul(K, P))),
             sub(PtK, matmul(matmul(PtK, P), A)));
}

double default_rtol(const Tensor& A) {
  const double eps = (A.dtype() == DType::F64 || A.dtype() == DType::C128)
                       ? std::numeric_limits<double>::epsilon()
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
Tensor number(double v, const Tensor& A) { return full({}, v, real_type(A.dtype())); }

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
// The least-squares solution (of least norm, for fewer rows than columns) by QR, if all matrices surely have full rank: the ratio
// of the extreme singular values is at least 1 / (norm(R) norm(R^-1)). Otherwise an empty Tensor.
Tensor solve_by_qr(const Tensor& A, const Tensor& b, double rcond) {
  const bool tall = A.size(-2) >= A.size(-1);
  if (A.numel() == 0 || b.numel() == 0) return {};
  const auto [Q, R] = linalg::qr(tall ? A : adjoint(A));
  if (!A.is_meta()) {  // where the rank, like other values, is not known: most matrices have full rank
    const Tensor r = autograd::detach(R), unit = expand(eye(r.size(-1), std::nullopt, r.dtype()), r.shape());
    const Tensor inverse = linalg::solve_triangular(r, unit, true);
    const Tensor squares = mul(sum(square(abs(r)), {-2, -1}), sum(square(abs(inverse)), {-2, -1}));
    const double most = 1 / std::max(rcond, std::numeric_limits<float>::epsilon() * 1e-3);
    if (!all(lt(squares, most * most)).item<bool>()) return {};  // also for NaN
  }
  if (tall) return linalg::solve_triangular(R, matmul(adjoint(Q), b), true);
  return matmul(Q, linalg::solve_triangular(adjoint(R), b, false));
}

// The pseudo-inverse by QR, if all matrices surely have full rank: A+ = R^-1 Q^H, which takes a fifth of the time of singular
// values. The largest one is at most the root of the norm of R^H R, the smallest at least 1 / norm(R^-1). Otherwise an empty
// Tensor.
Tensor pinv_by_qr(const Tensor& A, const Tensor& atol, const Tensor& rtol) {
  constexpr int64_t kLeast = 64;  // rows and columns: small matrices have fast singular values
  const bool tall = A.size(-2) >= A.size(-1);
  if (A.numel() == 0 || std::min(A.size(-1), A.size(-2)) < kLeast) return {};
  const auto [Q, R] = linalg::qr(tall ? A : adjoint(A));
  const Tensor inverse = linalg::solve_triangular(R, expand(eye(R.size(-1), std::nullopt, R.dtype()), R.shape()), true);
  const auto norm = [](const Tensor& t) { return sqrt(sum(square(abs(t)), {-2, -1})); };
  const Tensor largest = unsqueeze(sqrt(norm(matmul(adjoint(R), R))), -1), smallest = reciprocal(norm(inverse));
  // Twice the threshold, for rounding errors; also false for NaN.
  const Tensor least = mul(squeeze(cutoff(A, largest, atol, rtol), int64_t{-1}), 2);
  if (!all(gt(smallest, least)).item<bool>()) return {};
  const Tensor tall_inverse = matmul(inverse, adjoint(Q));
  return tall ? tall_inverse : adjoint(tall_inverse);
}
// By qr, eigh and svd, which have fast kernels.
template <bool tries_qr> void run_pinv(const Call& call) {
  const args::_linalg_pinv c(call);
  Scoped mode(thread_state.grad_mode, false);
  const Tensor A = c.share_A();
  if (tries_qr && !c.hermitian()) {
    const Tensor fast = pinv_by_qr(A, c.share_atol(), c.share_rtol());
    if (fast && fast->same_shape(*c.out())) return cpu::copy_values(*c.out(), *fast);
  }
  Tensor U, S, V;
  if (c.hermitian()) {
    const auto [w, Q] = linalg::eigh(A);
    U = V = Q;
    S = w;
  } else {
    const auto [left, s, right] = linalg::svd(A, false);
    U = left;
    S = s;
    V = adjoint(right);
  }
  const Tensor size = abs(S), keep = gt(size, cutoff(A, size, c.share_atol(), c.share_rtol()));
  const Tensor inverse = where(keep, reciprocal(where(keep, S, 1.0)), 0.0);
  const Tensor result = matmul(mul(V, unsqueeze(to(inverse, A.dtype()), -2)), adjoint(U));
  STRATA_CHECK(result->same_shape(*c.out()), Runtime,
               "linalg.pinv: atol and rtol must have one number for each matrix; with them the result would "
               "have shape {}, expected {}",
               to_string(result.shape()), to_string(c.out().shape()));
  cpu::copy_values(*c.out(), *result);
}
}  // namespace

STRATA_OP(_linalg_pinv, "_linalg_pinv(Tensor A, Tensor? atol, Tensor? rtol, bool hermitian=False) -> Tensor")
  .doc("The pseudo-inverse by singular values.")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_linalg_pinv& c) {
    const TensorImpl& a = c.A();
    STRATA_CHECK(a.ndim >= 2 && c.op().accepts.has(a.dtype), Runtime,
                 "linalg.pinv: expected matrices of float32, float64 or complex numbers, got a {} tensor of shape {}",
                 name_of(a.dtype), to_string(a.sizes()));
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 1], a.shape[a.ndim - 2]});
  })
  .kernel("qr", run_pinv<true>)  // or singular values, where the rank may be lower
  .kernel("reference", run_pinv<false>)
  .cuda_on_host("pinv_on_host")
  .handles_complex()
  .saves({"A"})
  .saves_result()
  .grad([](const grads::_linalg_pinv& c, const Tensor& g) -> Grads { return {pinv_grad(g, c.result(), c.A())}; })
  .samples({"m(4,4), None, None", "f(4,3), None, None", "f(2,3,4), None, None"});

STRATA_OP(linalg_pinv, "linalg.pinv(Tensor A, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor")
  .doc("The Moore-Penrose pseudo-inverse; singular values below max(atol, rtol * largest) count as zero.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian) {
    return pinv_of(A, atol, rtol, hermitian);
  })
  .samples({"f(4,3)", "f(2,3,4)", "s(3,3), hermitian=True"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions")
  .error("f(3,2), atol=f(5)", ErrorKind::Runtime, "one number for each matrix");

STRATA_OP(linalg_pinv_rcond, "linalg.pinv.rcond(Tensor A, float rcond, bool hermitian=False) -> Tensor")
  .doc("The Moore-Penrose pseudo-inverse with a relative tolerance.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, double rcond, bool hermitian) {
    return pinv_of(A, number(0, A), number(rcond, A), hermitian);
  })
  .samples({"f(4,3), 0.001", "s(3,3), 0.001, True"})
  .error("f(3), 0.1", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(pinverse, "pinverse(Tensor input, float rcond=1e-15) -> Tensor")
  .doc("The Moore-Penrose pseudo-inverse; see linalg.pinv.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& input, double rcond) {
    return pinv_of(input, number(0, input), number(rcond, input), false);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "m(3,3), 0.001"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_matrix_rank,
          "linalg.matrix_rank(Tensor A, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor")
  .doc("The number of singular values larger than max(atol, rtol * largest).")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian) {
    return rank_of(A, atol, rtol, hermitian, "linalg.matrix_rank");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "f(2,3,4)", "s(3,3), hermitian=True"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_matrix_rank_tol, "linalg.matrix_rank.tol(Tensor A, float tol, bool hermitian=False) -> Tensor")
  .doc("The number of singular values larger than tol.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, double tol, bool hermitian) {
    return rank_of(A, number(tol, A), number(0, A), hermitian, "linalg.matrix_rank");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3), 0.1"})
  .error("f(3), 0.1", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_cond, "linalg.cond(Tensor A, Scalar? p=None) -> Tensor")
  .doc("The condition number: the ratio of extreme singular values (p None, 2, -2), or norm(A) norm(A^-1).")
  .dtypes(kMatrixTypes)
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
    return where(eq(info, 0), value, full({}, std::numeric_limits<double>::infinity(), value.dtype()));
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4)", "m(2,3,3), 1", "m(3,3), inf", "f(4,3), -2"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_cond_p_str, "linalg.cond.p_str(Tensor A, str p) -> Tensor")
  .doc("The condition number in the Frobenius or the nuclear norm.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, std::string_view p) {
    check_square(*A, "linalg.cond");
    if (p != "nuc") return mul(linalg::matrix_norm(A, p), linalg::matrix_norm(linalg::inv(A), p));
    // The singular values of the inverse are the reciprocals of those of A.
    {
      const autograd::NoGrad no_grad;
      check_info(linalg::lu_factor_ex(A)[2], "linalg.cond", singular_text);
    }
    const Tensor S = linalg::svdvals(A);
    return mul(sum(S, {-1}), sum(reciprocal(S), {-1}));
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4), 'fro'", "m(2,3,3), 'nuc'"})
  .error("f(3,4), 'fro'", ErrorKind::Runtime, "square");

STRATA_OP(linalg_lstsq,
          "linalg.lstsq(Tensor A, Tensor B, float? rcond=None, *, str? driver=None)"
          " -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)")
  .doc(
    "The least-squares solution of A X = B by QR, or by the pseudo-inverse without full rank, the rank, the squared "
    "residuals (drivers"
    " other than 'gelsy', more rows than columns, full rank), and the singular values (drivers 'gelss' and 'gelsd').")
  .dtypes(kMatrixTypes)
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
    const Tensor tolerance = rcond ? number(*rcond, A) : Tensor();
    Tensor x = solve_by_qr(A, b, rcond ? *rcond : default_rtol(A)), found;
    const Tensor none = full({0}, 0.0, real_type(A.dtype()));
    Tensor residuals = none, S = none, rank = full({0}, 0, kInt64);
    const bool with_rank = !driver || *driver != "gels";
    if (x) {
      found = full(A.shape().first(static_cast<size_t>(A.dim() - 2)), std::min(A.size(-2), A.size(-1)), kInt64);
    } else {
      const Tensor zero = tolerance ? number(0, A) : Tensor();
      x = matmul(pinv_of(A, zero, tolerance, false), b);
      found = rank_of(A, zero, tolerance, false, "linalg.lstsq");
    }
    if (with_rank) rank = found;
    const bool gelsy = !driver || *driver == "gelsy";  // which does not return residuals
    const bool tall = !gelsy && A.size(-2) > A.size(-1);
    if (tall && with_rank && A.is_meta()) refuse_shape_from_values("linalg.lstsq: residuals");
    if (tall && (!with_rank || all(eq(found, A.size(-1))).item<bool>()))
      residuals = sum(square(abs(sub(matmul(A, x), b))), int64_t{-2});
    if (driver && (*driver == "gelsd" || *driver == "gelss")) S = linalg::svdvals(A);
    return std::tuple(vector ? squeeze(x, int64_t{-1}) : x, residuals, rank, S);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3), f(4,2)", "f(3,4), f(3,2)", "f(2,4,3), f(2,4,1)"})
  .error("f(3), f(3)", ErrorKind::Runtime, "at least 2 dimensions")
  .error("f(3,3), f(4,2)", ErrorKind::Runtime, "should match");

}  // namespace strata
