// LU and what rests on it: det, slogdet, logdet, inv, solve.
#include <cmath>

#include "ops/linalg_common.h"
#include "strata/ops.h"

namespace strata {
namespace {

void infer_lu(const Call& c) {
  const TensorImpl& a = c.args.tensor(0);
  check_matrix(a, c.op.name.c_str());
  const int64_t m = a.shape[a.ndim - 2], n = a.shape[a.ndim - 1];
  set_batch_shape(*c.outs[0], a, {m, n});
  set_batch_shape(*c.outs[1], a, {std::min(m, n)});
  set_batch_shape(*c.outs[2], a, {});
  c.outs[1]->dtype = c.outs[2]->dtype = DType::I32;
}
void run_lu(const Call& c) {
  const TensorImpl& a = c.args.tensor(0);
  const Batch batch(a);
  const cpu::In<double> in(a);
  const cpu::Out<double> out(c.outs[0]);
  const int64_t k = std::min(batch.rows, batch.columns);
  auto *pivots = c.outs[1].data<int32_t>(), *info = c.outs[2].data<int32_t>();
  batch.each([&](int64_t i) {
    double* lu = out.get() + i * batch.size();
    std::copy_n(in.get() + i * batch.size(), batch.size(), lu);
    info[i] = static_cast<int32_t>(cpu::lu_factor(lu, batch.rows, batch.columns, pivots + i * k, c.args[1].boolean()));
  });
  out.finish();
}

// P^T applied to rows: the permutation that pivots stand for, as a matrix with A = P L U.
Tensor permutation(const Tensor& pivots, int64_t m, DType dtype) {
  std::vector<int64_t> shape(pivots.shape().begin(), pivots.shape().end());
  const int64_t k = shape.back(), count = k ? pivots.numel() / k : checked_numel(Shape(shape.data(), shape.size() - 1));
  shape.back() = m, shape.push_back(m);
  const Tensor p = full(shape, 0.0, DType::F64), dense = contiguous(pivots.dtype() == DType::I32 ? pivots : to(pivots, kInt32));
  for (int64_t i = 0; i < count; ++i) {
    std::vector<double> rows(static_cast<size_t>(m));
    for (int64_t r = 0; r < m; ++r) rows[static_cast<size_t>(r)] = static_cast<double>(r);
    cpu::apply_pivots(rows.data(), m, 1, dense.data<int32_t>() + i * k, k, false);
    for (int64_t r = 0; r < m; ++r) p.data<double>()[(i * m + static_cast<int64_t>(rows[static_cast<size_t>(r)])) * m + r] = 1;
  }
  return dtype == DType::F64 ? p : to(p, dtype);
}

Tensor unit_lower(const Tensor& lu) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  return add(tril(narrow(lu, -1, 0, k), -1), eye(m, k, lu.dtype()));
}
Tensor upper_of(const Tensor& lu) { return triu(narrow(lu, -2, 0, std::min(lu.size(-2), lu.size(-1)))); }

// With B = L U and square B: L^-T [tril(L^T gL, -1) + triu(gU U^T)] U^-T.
Tensor square_lu_grad(const Tensor& gL, const Tensor& gU, const Tensor& L, const Tensor& U) {
  const Tensor inner = add(tril(matmul(mT(L), tril(gL, -1)), -1), triu(matmul(triu(gU), mT(U))));
  const Tensor left = linalg::solve_triangular(mT(L), inner, true, true, true);
  return mT(linalg::solve_triangular(U, mT(left), true));
}
// A = P B. The part of B beyond the square is B2 = L2 U (tall) or B2 = L U2 (wide), and passes a share on to the square.
Tensor lu_grad(const Tensor& g, const Tensor& lu, const Tensor& pivots) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  const Tensor P = permutation(pivots, m, lu.dtype());
  const Tensor square = narrow(narrow(lu, -2, 0, k), -1, 0, k), g1 = narrow(narrow(g, -2, 0, k), -1, 0, k);
  const Tensor L = unit_lower(square), U = upper_of(square);
  if (m == n) return matmul(P, square_lu_grad(g1, g1, L, U));
  if (m > n) {
    const Tensor L2 = narrow(lu, -2, n, m - n);
    const Tensor g2 = mT(linalg::solve_triangular(U, mT(narrow(g, -2, n, m - n)), true));
    return matmul(P, cat({square_lu_grad(g1, sub(g1, matmul(mT(L2), g2)), L, U), g2}, -2));
  }
  const Tensor U2 = narrow(lu, -1, m, n - m);
  const Tensor g2 = linalg::solve_triangular(mT(L), narrow(g, -1, m, n - m), true, true, true);
  return matmul(P, cat({square_lu_grad(sub(g1, matmul(g2, mT(U2))), g1, L, U), g2}, -1));
}

struct Determinant {
  double sign, log;
};
Determinant determinant_of(double* a, int64_t n) {
  std::vector<int32_t> pivots(static_cast<size_t>(n));
  cpu::lu_factor(a, n, n, pivots.data());
  Determinant d{1, 0};
  for (int64_t i = 0; i < n; ++i) {
    const double u = a[i * n + i];
    if (pivots[static_cast<size_t>(i)] != i + 1) d.sign = -d.sign;
    d.sign *= u == 0 ? 0 : u != u ? NAN : std::copysign(1.0, u), d.log += std::log(std::abs(u));
  }
  return d;
}
template <class Put> void each_determinant(const TensorImpl& a, const Put& put) {
  const Batch batch(a);
  const cpu::In<double> in(a);
  batch.each([&](int64_t i) {
    std::vector<double> copy(in.get() + i * batch.size(), in.get() + (i + 1) * batch.size());
    put(i, determinant_of(copy.data(), batch.rows), copy.data(), batch.rows);
  });
}

Tensor column(const Tensor& t) { return unsqueeze(unsqueeze(t, -1), -1); }

// det(A) A^-T; of singular matrices by the singular value decomposition, where the product of the other values is finite.
Tensor cofactors(const Tensor& A, const Tensor& det) {
  if (all(ne(autograd::detach(det), 0.0)).item<bool>()) return mul(column(det), mT(linalg::inv_ex(A)[0]));
  const auto [U, S, Vh] = linalg::svd(A, false);
  const int64_t n = A.size(-1);
  std::vector<Tensor> others;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<Tensor> rest;
    if (i > 0) rest.push_back(narrow(S, -1, 0, i));
    if (i + 1 < n) rest.push_back(narrow(S, -1, i + 1, n - i - 1));
    others.push_back(rest.empty() ? full(det.shape(), 1.0, A.dtype()) : prod(cat(TensorList(rest), -1), int64_t{-1}));
  }
  const Tensor sign = mul(linalg::det(autograd::detach(U)), linalg::det(autograd::detach(Vh)));
  return matmul(mul(U, unsqueeze(mul(stack(TensorList(others), -1), unsqueeze(sign, -1)), -2)), Vh);
}

std::string inverse_text(int64_t info) {
  return fmt::format("The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular.", info);
}
bool is_vector_rhs(const Tensor& A, const Tensor& B) {
  if (B.dim() == 1) return true;
  return A.dim() - 1 == B.dim() && std::equal(B.shape().begin(), B.shape().end(), A.shape().begin());
}

std::tuple<Tensor, Tensor> solve_any(const Tensor& A, const Tensor& B, bool left, const char* op) {
  check_square(*A, op);
  STRATA_CHECK(B.dtype() == A.dtype(), Runtime, "{}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead", op,
               long_name(A.dtype()), long_name(B.dtype()));
  STRATA_CHECK(B.dim() >= 1, Runtime, "{}: B must have at least one dimension", op);
  const bool vector = is_vector_rhs(A, B);
  STRATA_CHECK(left || !vector, Runtime, "{}: Vector broadcasting of the left hand side is not supported for left=False", op);
  Tensor b = vector ? unsqueeze(B, -1) : B, a = A;
  STRATA_CHECK(b.size(left ? -2 : -1) == a.size(-1), Runtime, "{}: Incompatible shapes of A and B for the equation {}: {} and {}", op, left ? "AX = B" : "XA = B",
               to_string(A.shape()), to_string(B.shape()));
  if (!left) a = mT(a), b = mT(b);
  const auto batch = common_batch(a, b, op);
  auto [x, info] = call_array<2>(op__linalg_solve, Args(broadcast_batch(a, batch), broadcast_batch(b, batch)));
  if (!left) x = mT(x);
  return {vector ? squeeze(x, int64_t{-1}) : x, info};
}
}  // namespace

STRATA_OP(linalg_lu_factor_ex, "linalg.lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)")
  .doc("The compact LU decomposition with row exchanges, the exchanges (from 1), and per matrix the place of the first zero pivot or 0.")
  .dtypes({DType::F32, DType::F64}).infer(infer_lu).kernel("blocked", run_lu).saves_result({0, 1}).no_grad_outputs({1, 2})
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {lu_grad(g, c.result(0), autograd::detach(c.result(1)))}; })
  .samples({"m(4,4)", "m(2,3,3)", "f(4,3)", "f(2,3,4)", "f(0,3,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions")
  .error("i5(3,3)", ErrorKind::Runtime, "floating point");

STRATA_OP(linalg_lu_factor, "linalg.lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)")
  .doc("The compact LU decomposition with row exchanges, and the exchanges (from 1).").dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, bool pivot) {
    const auto [LU, pivots, info] = linalg::lu_factor_ex(A, pivot);
    check_info(info, "linalg.lu_factor", [](int64_t i) { return fmt::format("U[{},{}] is zero and using it on lu_solve would result in a division by zero", i, i); });
    return std::tuple(LU, pivots);
  })
  .samples({"m(4,4)", "m(2,3,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(lu_unpack, "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)")
  .doc("The matrices P, L and U with A = P L U from a compact LU decomposition.").dtypes({DType::F32, DType::F64}).no_method()
  .composite([](const Tensor& LU, const Tensor& pivots, bool data, bool perm) {
    STRATA_CHECK(!perm || is_integral(pivots.dtype(), false), Runtime, "lu_unpack: LU_pivots is expected to be a tensor of int32 dtype, got {}", name_of(pivots.dtype()));
    const Tensor none = full({0}, 0.0, LU.dtype());
    return std::tuple(perm ? permutation(pivots, LU.size(-2), LU.dtype()) : none, data ? unit_lower(LU) : none, data ? upper_of(LU) : none);
  })
  .samples({"m(3,3), i3(3)", "m(2,3,3), i3(2,3)"})
  .error("f(3,3), f(3)", ErrorKind::Runtime, "int32");

STRATA_OP(linalg_lu, "linalg.lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)")
  .doc("A = P L U: a permutation, a unit lower and an upper triangular matrix.").dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, bool pivot) {
    const auto [LU, pivots, info] = linalg::lu_factor_ex(A, pivot);
    const Tensor P = pivot ? permutation(pivots, A.size(-2), A.dtype()) : full({0}, 0.0, A.dtype());
    return std::tuple(P, unit_lower(LU), upper_of(LU));
  })
  .samples({"m(4,4)", "m(2,3,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_lu_solve, "linalg.lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor")
  .doc("Solves A X = B (or X A = B, or with A transposed) from a compact LU decomposition.").dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left, bool adjoint) {
    check_square(*LU, "linalg.lu_solve", "LU");
    STRATA_CHECK(is_integral(pivots.dtype(), false), Runtime, "linalg.lu_solve: pivots should be a tensor of int32 dtype, got {}", name_of(pivots.dtype()));
    const Tensor P = permutation(pivots, LU.size(-2), LU.dtype()), b = left ? B : mT(B);
    const bool transposed = adjoint == left;
    Tensor x;
    if (!transposed) {
      x = linalg::solve_triangular(LU, matmul(mT(P), b), false, true, true);
      x = linalg::solve_triangular(LU, x, true);
    } else {
      x = linalg::solve_triangular(mT(LU), b, false);
      x = matmul(P, linalg::solve_triangular(mT(LU), x, true, true, true));
    }
    return left ? x : mT(x);
  })
  .samples({"m(3,3), i3(3), f(3,2)", "m(2,3,3), i3(2,3), f(2,3,2), adjoint=True", "m(3,3), i3(3), f(2,3), left=False"})
  .error("f(3,4), i5(3), f(3,2)", ErrorKind::Runtime, "square");

STRATA_OP(lu, "lu(Tensor A, bool pivot=True, bool get_infos=False) -> (Tensor LU, Tensor pivots)")
  .doc("The compact LU decomposition; see linalg.lu_factor.").dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, bool pivot, bool) {
    const auto [LU, pivots, info] = linalg::lu_factor_ex(A, pivot);
    return std::tuple(LU, pivots);
  })
  .samples({"m(4,4)", "f(2,4,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(lu_solve, "lu_solve(Tensor b, Tensor LU_data, Tensor LU_pivots) -> Tensor")
  .doc("Solves A x = b from a compact LU decomposition.").dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& b, const Tensor& LU, const Tensor& pivots) { return linalg::lu_solve(LU, pivots, b); })
  .samples({"f(3,2), m(3,3), i3(3)"})
  .error("f(3,2), f(3,4), i5(3)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_det, "linalg.det(Tensor A) -> Tensor")
  .doc("The determinant of square matrices.").alias("det").dtypes({DType::F32, DType::F64})
  .infer([](const Call& c) {
    check_square(c.args.tensor(0), "linalg.det");
    set_batch_shape(*c.out(), c.args.tensor(0), {});
  })
  .kernel("lu", [](const Call& c) {
    const cpu::Out<double> out(c.out());
    each_determinant(c.args.tensor(0), [&](int64_t i, const Determinant& d, const double* lu, int64_t n) {
      double product = d.sign;  // not exp(log): exact for small integers
      for (int64_t k = 0; k < n; ++k) product *= std::abs(lu[k * n + k]);
      out[i] = product;
    });
    out.finish();
  })
  .saves({0}).saves_result()
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {mul(column(g), cofactors(c.input(0), c.result()))}; })
  .samples({"m(4,4)", "m(2,3,3)", "f(1,1)", "f(0,3,3)", "f(0,0)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_slogdet, "linalg.slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)")
  .doc("The sign of the determinant and the logarithm of its size.").alias("slogdet").dtypes({DType::F32, DType::F64})
  .infer([](const Call& c) {
    check_square(c.args.tensor(0), "linalg.slogdet");
    for (int o = 0; o < 2; ++o) set_batch_shape(*c.outs[o], c.args.tensor(0), {});
  })
  .kernel("lu", [](const Call& c) {
    const cpu::Out<double> sign(c.outs[0]), log(c.outs[1]);
    each_determinant(c.args.tensor(0), [&](int64_t i, const Determinant& d, const double*, int64_t) { sign[i] = d.sign, log[i] = d.log; });
    sign.finish(), log.finish();
  })
  .saves({0}).no_grad_outputs({0})
  .grad([](const GradContext& c, const Tensor&) -> Grads {
    if (!c.grad(1)) return {};
    return {mul(column(c.grad(1)), mT(linalg::inv_ex(c.input(0))[0]))};
  })
  .samples({"m(4,4)", "m(2,3,3)", "f(0,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(logdet, "logdet(Tensor input) -> Tensor")
  .doc("The logarithm of the determinant; NaN where it is negative.").dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input) {
    const auto [sign, log] = linalg::slogdet(input);
    return where(lt(sign, 0.0), full({}, NAN, input.dtype()), log);
  })
  .samples({"s(4,4)", "s(2,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_inv_ex, "linalg.inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)")
  .doc("The inverse, and per matrix the place of the first zero pivot or 0.").dtypes({DType::F32, DType::F64})
  .infer([](const Call& c) {
    const TensorImpl& a = c.args.tensor(0);
    check_square(a, c.op.name.c_str());
    set_batch_shape(*c.outs[0], a, {a.shape[a.ndim - 1], a.shape[a.ndim - 1]});
    set_batch_shape(*c.outs[1], a, {});
    c.outs[1]->dtype = DType::I32;
  })
  .kernel("lu", [](const Call& c) {
    const TensorImpl& a = c.args.tensor(0);
    const Batch batch(a);
    const cpu::In<double> in(a);
    const cpu::Out<double> out(c.outs[0]);
    const int64_t n = batch.rows;
    batch.each([&](int64_t i) {
      std::vector<double> lu(in.get() + i * n * n, in.get() + (i + 1) * n * n);
      std::vector<int32_t> pivots(static_cast<size_t>(n));
      const int64_t info = cpu::lu_factor(lu.data(), n, n, pivots.data());
      c.outs[1].data<int32_t>()[i] = static_cast<int32_t>(info);
      double* x = out.get() + i * n * n;
      std::fill_n(x, n * n, 0.0);
      for (int64_t k = 0; k < n; ++k) x[k * n + k] = 1;
      cpu::apply_pivots(x, n, n, pivots.data(), n, false);
      cpu::solve_triangle(lu.data(), n, 1, n, false, true, x, n);
      cpu::solve_triangle(lu.data(), n, 1, n, true, false, x, n);
    });
    out.finish();
    if (c.args[1].boolean()) check_info(c.outs[1], "linalg.inv_ex", inverse_text);
  })
  .saves_result().no_grad_outputs({1})
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    const Tensor t = mT(c.result());
    return {neg(matmul(t, matmul(g, t)))};
  })
  .samples({"m(4,4)", "m(2,3,3)", "f(0,3,3)", "f(0,0)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_inv, "linalg.inv(Tensor A) -> Tensor")
  .doc("The inverse of square matrices; an error when one is singular.").alias("inverse").dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A) {
    const auto [x, info] = linalg::inv_ex(A);
    check_info(info, "linalg.inv", inverse_text);
    return x;
  })
  .samples({"m(4,4)", "m(2,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(_linalg_solve, "_linalg_solve(Tensor A, Tensor B) -> (Tensor result, Tensor info)")
  .doc("Solves A X = B for matrices with the same batch dimensions.").helper().dtypes({DType::F32, DType::F64})
  .infer([](const Call& c) {
    const TensorImpl &a = c.args.tensor(0), &b = c.args.tensor(1);
    set_batch_shape(*c.outs[0], b, {b.shape[b.ndim - 2], b.shape[b.ndim - 1]});
    set_batch_shape(*c.outs[1], a, {});
    c.outs[1]->dtype = DType::I32;
  })
  .kernel("lu", [](const Call& c) {
    const Batch batch(c.args.tensor(0)), rhs(c.args.tensor(1));
    const cpu::In<double> a(c.args.tensor(0)), b(c.args.tensor(1));
    const cpu::Out<double> out(c.outs[0]);
    const int64_t n = batch.rows, r = rhs.columns;
    batch.each([&](int64_t i) {
      std::vector<double> lu(a.get() + i * n * n, a.get() + (i + 1) * n * n);
      std::vector<int32_t> pivots(static_cast<size_t>(n));
      c.outs[1].data<int32_t>()[i] = static_cast<int32_t>(cpu::lu_factor(lu.data(), n, n, pivots.data()));
      double* x = out.get() + i * n * r;
      std::copy_n(b.get() + i * n * r, n * r, x);
      cpu::apply_pivots(x, n, r, pivots.data(), n, false);
      cpu::solve_triangle(lu.data(), n, 1, n, false, true, x, r);
      cpu::solve_triangle(lu.data(), n, 1, n, true, false, x, r);
    });
    out.finish();
  })
  .saves({0}).saves_result().no_grad_outputs({1})
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    const Tensor b = call_array<2>(op__linalg_solve, Args(mT(c.input(0)), g))[0];
    return {c.needs(0) ? neg(matmul(b, mT(c.result()))) : Tensor(), b};
  })
  .samples({"m(4,4), f(4,2)", "m(2,3,3), f(2,3,1)"});

STRATA_OP(linalg_solve_ex, "linalg.solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)")
  .doc("Solves A X = B (or X A = B); per matrix the place of the first zero pivot or 0.").dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, const Tensor& B, bool left, bool check_errors) {
    const auto [x, info] = solve_any(A, B, left, "linalg.solve_ex");
    if (check_errors) check_info(info, "linalg.solve_ex", singular_text);
    return std::tuple(x, info);
  })
  .samples({"m(4,4), f(4)", "m(2,3,3), f(3,2)"})
  .error("f(3,4), f(3)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_solve, "linalg.solve(Tensor A, Tensor B, *, bool left=True) -> Tensor")
  .doc("Solves A X = B (or X A = B) for X; an error when a matrix is singular.").dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, const Tensor& B, bool left) {
    const auto [x, info] = solve_any(A, B, left, "linalg.solve");
    check_info(info, "linalg.solve", [](int64_t) { return std::string("The solver failed because the input matrix is singular."); });
    return x;
  })
  .samples({"m(4,4), f(4)", "m(4,4), f(4,2)", "m(2,3,3), f(3,2)", "m(3,3), f(2,3), left=False"})
  .error("f(3,4), f(3)", ErrorKind::Runtime, "square")
  .error("m(3,3), f(4,2)", ErrorKind::Runtime, "Incompatible shapes");

}  // namespace strata
