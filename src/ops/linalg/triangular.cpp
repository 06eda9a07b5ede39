// Triangular systems, Cholesky and QR.
#include <fmt/core.h>

#include "ops/linalg/common.h"
#include "strata/args/linalg/triangular.h"
#include "strata/ops.h"

namespace strata {
namespace {

// Only the named triangle of A is read.
std::string not_positive_text(int64_t info) {
  return fmt::format(
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order "
    "{} is not positive-definite).",
    info);
}

// With g the gradient of L: the symmetric part of L^-H phi(L^H g) L^-1, where phi keeps the lower triangle and halves the diagonal.
Tensor cholesky_grad(const Tensor& g, const Tensor& L) {
  Tensor phi = tril(matmul(adjoint(L), g));
  phi = sub(phi, mul(diag_embed(diagonal(phi, 0, -2, -1)), 0.5));
  const Tensor Lt = adjoint(L);
  Tensor s = linalg::solve_triangular(Lt, phi, true);           // L^-H phi
  s = adjoint(linalg::solve_triangular(Lt, adjoint(s), true));  // ... L^-1
  return mul(add(s, adjoint(s)), 0.5);
}

Tensor half_diagonal_sum(const Tensor& x) {  // x + x^H with the real part of the diagonal counted once
  const Tensor middle = diagonal(x, 0, -2, -1);
  return sub(add(x, adjoint(x)), diag_embed(is_complex(x.dtype()) ? real(middle) : middle));
}

// m >= n: (Q half(triu(gR R^H - Q^H gQ)) + gQ) R^-H
Tensor qr_grad(const Tensor& gQ, const Tensor& gR, const Tensor& Q, const Tensor& R) {
  Tensor inner;
  if (gR) inner = matmul(gR, adjoint(R));
  if (gQ) inner = inner ? sub(inner, matmul(adjoint(Q), gQ)) : neg(matmul(adjoint(Q), gQ));
  Tensor a = matmul(Q, half_diagonal_sum(triu(inner)));
  if (gQ) a = add(a, gQ);
  return adjoint(linalg::solve_triangular(R, adjoint(a), true));
}

constexpr auto run_triangular = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_solve_triangular arg(c);
  const Batch batch(arg.A()), rhs(arg.B());
  const cpu::In<T> a(arg.A()), b(arg.B());
  const cpu::Out<T> out(c.out());
  const int64_t n = batch.rows, r = rhs.columns;
  batch.each([&](int64_t i) {
    T* x = out.get() + i * n * r;
    std::copy_n(b.get() + i * n * r, n * r, x);
    dense.solve_triangle(a.get() + i * n * n, n, 1, n, arg.upper(), arg.unitriangular(), x, r);
  });
  out.finish();
};
constexpr auto run_cholesky = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::linalg_cholesky_ex arg(c);
  const TensorImpl& a = arg.A();
  const Batch batch(a);
  const cpu::In<T> in(a);
  const cpu::Out<T> out(c.outs[0]);
  const int64_t n = batch.rows;
  const bool upper = arg.upper();
  batch.each([&](int64_t i) {
    const T* x = in.get() + i * n * n;
    T* L = out.get() + i * n * n;
    for (int64_t r = 0; r < n; ++r) {
      if (!upper) std::copy_n(x + r * n, r + 1, L + r * n);
      for (int64_t k = 0; upper && k <= r; ++k) L[r * n + k] = conjugate(x[k * n + r]);
      std::fill(L + r * n + r + 1, L + (r + 1) * n, T(0));
    }
    c.outs[1].data<int32_t>()[i] = static_cast<int32_t>(dense.cholesky_factor(L, n));
    for (int64_t r = 0; upper && r < n; ++r)
      for (int64_t k = 0; k < r; ++k) L[k * n + r] = conjugate(std::exchange(L[r * n + k], L[k * n + r]));
  });
  out.finish();
  if (arg.check_errors()) check_info(c.outs[1], "linalg.cholesky_ex", not_positive_text);
};
constexpr auto run_cholesky_inverse = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::cholesky_inverse a(c);
  const Batch batch(a.L());
  const cpu::In<T> in(a.L());
  const cpu::Out<T> out(c.out());
  const int64_t n = batch.rows;
  const bool upper = a.upper();
  batch.each([&](int64_t i) {
    const T* L = in.get() + i * n * n;
    T* x = out.get() + i * n * n;
    std::fill_n(x, n * n, T(0));
    for (int64_t k = 0; k < n; ++k) x[k * n + k] = 1;
    const int64_t row = upper ? 1 : n,
                  column = upper ? n : 1;  // the lower factor, stored as either triangle
    // The second solve is with the conjugate of the stored factor.
    std::vector<T> other(L, L + n * n);
    std::ranges::transform(other, other.begin(), [](T z) { return conjugate(z); });
    const T *first = upper ? other.data() : L, *second = upper ? L : other.data();
    dense.solve_triangle(first, row, column, n, false, false, x, n);
    dense.solve_triangle(second, column, row, n, true, false, x, n);
  });
  out.finish();
};
constexpr auto run_qr = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_linalg_qr arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> in(arg.A());
  const cpu::Out<T> q(c.outs[0]), r(c.outs[1]);
  const int64_t m = batch.rows, n = batch.columns, k = c.outs[0].size(-1), count = std::min(m, n);
  batch.each([&](int64_t i) {
    std::vector<T> a(in.get() + i * m * n, in.get() + (i + 1) * m * n), tau(static_cast<size_t>(count));
    dense.qr_factor(a.data(), m, n, tau.data());
    dense.form_q(a.data(), m, n, tau.data(), count, q.get() + i * m * k, k);
    T* R = r.get() + i * k * n;
    for (int64_t row = 0; row < k; ++row)
      for (int64_t col = 0; col < n; ++col)
        R[row * n + col] = col >= row ? a[static_cast<size_t>(row * n + col)] : T(0);
  });
  q.finish();
  r.finish();
};
}  // namespace

STRATA_OP(_solve_triangular, "_solve_triangular(Tensor A, Tensor B, bool upper, bool unitriangular) -> Tensor")
  .doc("Solves A X = B with triangular A, for matrices with the same batch dimensions.")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_solve_triangular& c) {
    const TensorImpl& b = c.B();
    check_system(c.A(), b, "linalg.solve_triangular");
    set_batch_shape(*c.out(), b, {b.shape[b.ndim - 2], b.shape[b.ndim - 1]});
  })
  .kernel("lapack", by_lapack<run_triangular>, cpu::lapack_when<2048, 2048>)
  .from(Source::Lapack)
  .kernel("blocked", by_blocks<run_triangular>)
  .kernel("reference", by_reference<run_triangular>)
  .cuda_on_host("triangular_on_host")
  .handles_complex()
  .saves({"A"})
  .saves_result()
  .grad([](const grads::_solve_triangular& c, const Tensor& g) -> Grads {
    const bool upper = c.upper(), unit = c.unitriangular();
    const Tensor b = call(op__solve_triangular, Args(adjoint(c.A()), g, !upper, unit));
    if (!c.needs_A()) return {Tensor(), b};
    const Tensor a = neg(matmul(b, adjoint(c.result())));
    return {upper ? triu(a, unit ? 1 : 0) : tril(a, unit ? -1 : 0), b};
  })
  .samples({"m(4,4), f(4,2), True, False", "m(2,3,3), f(2,3,2), False, False", "m(3,3), f(3,1), False, True"});

STRATA_OP(
  linalg_solve_triangular,
  "linalg.solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor")
  .doc("Solves A X = B (or X A = B) with triangular A; the other triangle is not read.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, const Tensor& B, bool upper, bool left, bool unit) {
    check_square(*A, "linalg.solve_triangular");
    STRATA_CHECK(B.dim() >= 2, Runtime,
                 "linalg.solve_triangular: The input tensor B must have at least 2 dimensions, got {}", B.dim());
    STRATA_CHECK(A.dtype() == B.dtype(), Runtime,
                 "linalg.solve_triangular: Expected A and B to have the same dtype, got {} and {}", name_of(A.dtype()),
                 name_of(B.dtype()));
    STRATA_CHECK(B.size(left ? -2 : -1) == A.size(-1), Runtime,
                 "linalg.solve_triangular: Incompatible shapes of A and B for the equation {}: {} and {}",
                 left ? "AX = B" : "XA = B", to_string(A.shape()), to_string(B.shape()));
    const Tensor a = left ? A : mT(A), b = left ? B : mT(B);
    const auto batch = common_batch(a, b, "linalg.solve_triangular");
    const Tensor x = call(op__solve_triangular,
                          Args(broadcast_batch(a, batch), broadcast_batch(b, batch), left ? upper : !upper, unit));
    return left ? x : mT(x);
  })
  .samples({"m(4,4), f(4,2), upper=True", "m(2,3,3), f(3,2), upper=False", "m(3,3), f(2,3), upper=True, left=False",
            "m(3,3), f(3,2), upper=False, unitriangular=True"})
  .error("f(3,4), f(3,2), upper=True", ErrorKind::Runtime, "square")
  .error("m(3,3), f(4,2), upper=True", ErrorKind::Runtime, "Incompatible shapes");

STRATA_OP(triangular_solve,
          "triangular_solve(Tensor b, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> "
          "(Tensor solution, Tensor cloned_coefficient)")
  .doc("Solves A X = b with triangular A, or its transpose; also returns a copy of A.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& b, const Tensor& A, bool upper, bool transposed, bool unit) {
    check_square(*A, "triangular_solve");
    const Tensor x = transposed ? linalg::solve_triangular(mT(A), b, !upper, true, unit)
                                : linalg::solve_triangular(A, b, upper, true, unit);
    return std::tuple(x, clone(A));
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(3,2), m(3,3)", "f(3,2), m(3,3), False, True"})
  .error("f(3,2), f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_cholesky_ex,
          "linalg.cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)")
  .doc(
    "The Cholesky factor of symmetric positive definite matrices; info is the order of the first minor that is not, or "
    "0.")
  .dtypes(kMatrixTypes)
  .infer([](const args::linalg_cholesky_ex& c) {
    const TensorImpl& a = c.A();
    check_square(a, c.op().name.c_str());
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 1], a.shape[a.ndim - 1]});
    set_batch_shape(*c.out(1), a, {});
    c.out(1)->dtype = DType::I32;
  })
  .kernel("lapack", by_lapack<run_cholesky>, cpu::lapack_when<1024, 1024>)
  .from(Source::Lapack)
  .kernel("blocked", by_blocks<run_cholesky>)
  .kernel("reference", by_reference<run_cholesky>)
  .cuda_on_host("cholesky_on_host")
  .handles_complex()
  .saves_result()
  .no_grad_outputs({1})
  .grad([](const grads::linalg_cholesky_ex& c, const Tensor& g) -> Grads {
    const bool upper = c.upper();
    return {upper ? cholesky_grad(adjoint(g), adjoint(c.result())) : cholesky_grad(g, c.result())};
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"s(4,4)", "s(2,3,3)", "f(0,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_cholesky, "linalg.cholesky(Tensor A, *, bool upper=False) -> Tensor")
  .doc(
    "The Cholesky factor L with A = L L^H of symmetric (or Hermitian) positive definite matrices (or its transpose).")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, bool upper) {
    const auto [L, info] = linalg::cholesky_ex(A, upper);
    check_info(info, "linalg.cholesky", not_positive_text);
    return L;
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"s(4,4)", "s(2,3,3), upper=True"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(cholesky, "cholesky(Tensor input, bool upper=False) -> Tensor")
  .doc("The Cholesky factor; see linalg.cholesky.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& input, bool upper) { return linalg::cholesky(input, upper); })
  .autocast_cpu(Autocast::Float32)
  .samples({"s(4,4)", "s(2,3,3), True"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(cholesky_solve, "cholesky_solve(Tensor B, Tensor L, bool upper=False) -> Tensor")
  .doc("Solves A X = B from the Cholesky factor of A.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& B, const Tensor& L, bool upper) {
    check_square(*L, "cholesky_solve", "L");
    const Tensor lower = upper ? adjoint(L) : L;
    return linalg::solve_triangular(adjoint(lower), linalg::solve_triangular(lower, B, false), true);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,2), m(4,4)", "f(2,3,2), m(2,3,3), True"})
  .error("f(3,2), f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(cholesky_inverse, "cholesky_inverse(Tensor L, bool upper=False) -> Tensor")
  .doc("The inverse of A from its Cholesky factor.")
  .dtypes(kMatrixTypes)
  .infer([](const args::cholesky_inverse& c) {
    const TensorImpl& a = c.L();
    check_square(a, "cholesky_inverse", "L");
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 1], a.shape[a.ndim - 1]});
  })
  .kernel("lapack", by_lapack<run_cholesky_inverse>, cpu::lapack_when<2048, 2048>)
  .from(Source::Lapack)
  .kernel("triangular", by_blocks<run_cholesky_inverse>)
  .kernel("reference", by_reference<run_cholesky_inverse>)
  .cuda_on_host("cholesky_inverse_on_host")
  .handles_complex()
  .saves({"L"})
  .saves_result()
  .grad([](const grads::cholesky_inverse& c, const Tensor& g) -> Grads {
    const Tensor L = c.L(), X = c.result(), common = neg(matmul(X, matmul(add(g, adjoint(g)), X)));
    return {c.upper() ? matmul(L, common) : matmul(common, L)};
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"p(1,1)", "!m(4,4)", "!m(2,3,3), True"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(_linalg_qr, "_linalg_qr(Tensor A, bool complete) -> (Tensor Q, Tensor R)")
  .doc("QR of matrices: reduced, or with a square Q.")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_linalg_qr& c) {
    const TensorImpl& a = c.A();
    check_matrix(a, "linalg.qr");
    const int64_t m = a.shape[a.ndim - 2], n = a.shape[a.ndim - 1], k = c.complete() ? m : std::min(m, n);
    set_batch_shape(*c.out(), a, {m, k});
    set_batch_shape(*c.out(1), a, {k, n});
  })
  .kernel("lapack", by_lapack<run_qr>, cpu::lapack_when<8192, 8192>)
  .from(Source::Lapack)
  .kernel("householder", by_blocks<run_qr>)
  .kernel("reference", by_reference<run_qr>)
  .cuda_on_host("qr_on_host")
  .handles_complex()
  .saves_result({0, 1})
  .grad([](const grads::_linalg_qr& c, const Tensor& g) -> Grads {
    STRATA_CHECK(!c.complete() || c.shape_of_A()[c.shape_of_A().size() - 2] <= c.shape_of_A().back(), NotImplemented,
                 "linalg.qr: the gradient in mode 'complete' needs a matrix with at least as many columns as rows; use "
                 "mode 'reduced'");
    return {qr_grad(g, c.grad(1), c.result(0), c.result(1))};
  })
  .samples({"f(4,3), False", "m(3,3), True", "f(2,4,2), False"})
  .error("f(3), False", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_qr, "linalg.qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)")
  .doc("A = Q R with orthonormal columns of Q and upper triangular R; mode is 'reduced', 'complete' or 'r' (Q empty).")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, std::string_view mode) {
    check_matrix(*A, "linalg.qr");
    STRATA_CHECK(
      mode == "reduced" || mode == "complete" || mode == "r", Runtime,
      "linalg.qr: received unrecognized mode '{}' but expected one of 'reduced' (default), 'r', or 'complete'", mode);
    const int64_t m = A.size(-2), n = A.size(-1);
    Tensor Q, R;
    if (m < n) {  // the first m columns determine Q; the rest of R follows
      const auto [q, r] = call_array<2>(op__linalg_qr, Args(narrow(A, -1, 0, m), true));
      Q = q;
      R = cat({r, matmul(adjoint(q), narrow(A, -1, m, n - m))}, -1);
    } else {
      const auto [q, r] = call_array<2>(op__linalg_qr, Args(A, mode == "complete"));
      Q = q;
      R = r;
    }
    if (mode == "r") Q = full({0}, 0.0, A.dtype());
    return std::tuple(Q, R);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "f(3,4)", "f(2,3,3)", "f(3,4), 'complete'"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions")
  .error("f(3,3), 'full'", ErrorKind::Runtime, "unrecognized mode");

STRATA_OP(qr, "qr(Tensor input, bool some=True) -> (Tensor Q, Tensor R)")
  .doc("QR decomposition; see linalg.qr.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& input, bool some) { return linalg::qr(input, some ? "reduced" : "complete"); })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "f(3,4)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

}  // namespace strata
