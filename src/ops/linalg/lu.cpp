// LU decomposition: compact, as matrices, and solving with it.
#include <fmt/core.h>

#include <numeric>

#include "ops/linalg/common.h"
#include "ops/transfer.h"
#include "strata/args/linalg/lu.h"
#include "strata/ops.h"

namespace strata {
namespace {

void infer_lu(const Call& c) {
  const args::linalg_lu_factor_ex arg(c);
  const TensorImpl& a = arg.A();
  check_matrix(a, c.op.name.c_str());
  const int64_t m = a.shape[a.ndim - 2], n = a.shape[a.ndim - 1];
  set_batch_shape(*c.outs[0], a, {m, n});
  set_batch_shape(*c.outs[1], a, {std::min(m, n)});
  set_batch_shape(*c.outs[2], a, {});
  c.outs[1]->dtype = c.outs[2]->dtype = DType::I32;
}
constexpr auto run_lu = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::linalg_lu_factor_ex arg(c);
  const TensorImpl& a = arg.A();
  const Batch batch(a);
  const cpu::In<T> in(a);
  const cpu::Out<T> out(c.outs[0]);
  const int64_t k = std::min(batch.rows, batch.columns);
  auto *pivots = c.outs[1].data<int32_t>(), *info = c.outs[2].data<int32_t>();
  batch.each([&](int64_t i) {
    T* lu = out.get() + i * batch.size();
    std::copy_n(in.get() + i * batch.size(), batch.size(), lu);
    info[i] = static_cast<int32_t>(dense.lu_factor(lu, batch.rows, batch.columns, pivots + i * k, arg.pivot()));
  });
  out.finish();
};

// Pivots come from lu_factor: min(m, n) row numbers per matrix, from 1. Other values would exchange rows out of range.
void check_pivots(const Tensor& LU, const Tensor& pivots, const char* op) {
  check_matrix(*LU, op);
  STRATA_CHECK(pivots.dtype() == DType::I32 || pivots.dtype() == DType::I64, Runtime,
               "{}: pivots are expected to be a tensor of int32 dtype, got {}", op, name_of(pivots.dtype()));
  const int64_t rows = LU.size(-2), k = std::min(rows, LU.size(-1));
  STRATA_CHECK(pivots.dim() >= 1 && pivots.size(-1) == k, Runtime,
               "{}: expected {} pivots for each matrix of shape {}, got pivots of shape {}", op, k,
               to_string(LU.shape()), to_string(pivots.shape()));
  if (pivots.numel() == 0 || pivots.is_meta()) return;
  const Tensor p = autograd::detach(pivots);
  const auto low = amin(p).item<int64_t>(), high = amax(p).item<int64_t>();
  STRATA_CHECK(low >= 1 && high <= rows, Runtime,
               "{}: pivots must be between 1 and {}, found {}; did you properly pass the result of lu_factor?", op,
               rows, low < 1 ? low : high);
}

// The rows of matrices in the order of their pivots: P^T x, or P x. A row is copied, where a product with P would multiply.
Tensor permuted_rows(const Tensor& pivots, const Tensor& x, bool transposed) {
  const int64_t m = x.size(-2), n = x.size(-1), k = pivots.size(-1);
  if (x.numel() == 0) return contiguous(x);
  const int64_t count = x.numel() / (m * n);
  const Tensor order = empty({count * m}, DType::I64, staging_device(x)), flat = reshape(x, {count * m, n});
  if (x.is_meta()) return reshape(index_select(flat, 0, order), x.shape());
  const Tensor dense = contiguous(to(host_values(pivots), kInt32));
  std::vector<double> rows(static_cast<size_t>(m));
  for (int64_t i = 0; i < count; ++i) {
    std::iota(rows.begin(), rows.end(), 0);
    cpu::apply_pivots(rows.data(), m, 1, dense.data<int32_t>() + i * k, k, false);
    int64_t* to = order.data<int64_t>() + i * m;
    for (int64_t r = 0; r < m; ++r) {
      const auto place = static_cast<int64_t>(rows[static_cast<size_t>(r)]);
      if (transposed) to[r] = i * m + place;
      else to[place] = i * m + r;
    }
  }
  return reshape(index_select(flat, 0, placed(order)), x.shape());
}

// The permutation described by the pivots, as a matrix with A = P L U.
Tensor permutation(const Tensor& pivots, int64_t m, DType dtype) {
  std::vector<int64_t> shape(pivots.shape().begin(), pivots.shape().end());
  const int64_t k = shape.back(), count = k ? pivots.numel() / k : checked_numel(Shape(shape.data(), shape.size() - 1));
  shape.back() = m;
  shape.push_back(m);
  if (pivots.is_meta()) return full(shape, 0.0, dtype);
  const Tensor p = full(shape, 0.0, DType::F64, Device{}), dense = contiguous(to(host_values(pivots), kInt32));
  for (int64_t i = 0; i < count; ++i) {
    std::vector<double> rows(static_cast<size_t>(m));
    for (int64_t r = 0; r < m; ++r) rows[static_cast<size_t>(r)] = static_cast<double>(r);
    cpu::apply_pivots(rows.data(), m, 1, dense.data<int32_t>() + i * k, k, false);
    for (int64_t r = 0; r < m; ++r)
      p.data<double>()[(i * m + static_cast<int64_t>(rows[static_cast<size_t>(r)])) * m + r] = 1;
  }
  return to(placed(p), dtype);
}

Tensor unit_lower(const Tensor& lu) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  return add(tril(narrow(lu, -1, 0, k), -1), eye(m, k, lu.dtype()));
}
Tensor upper_of(const Tensor& lu) { return triu(narrow(lu, -2, 0, std::min(lu.size(-2), lu.size(-1)))); }

// With B = L U and square B: L^-H [tril(L^H gL, -1) + triu(gU U^H)] U^-H.
Tensor square_lu_grad(const Tensor& gL, const Tensor& gU, const Tensor& L, const Tensor& U) {
  const Tensor inner = add(tril(matmul(adjoint(L), tril(gL, -1)), -1), triu(matmul(triu(gU), adjoint(U))));
  const Tensor left = linalg::solve_triangular(adjoint(L), inner, true, true, true);
  return adjoint(linalg::solve_triangular(U, adjoint(left), true));
}
// A = P B. The part of B beyond the square is B2 = L2 U (tall) or B2 = L U2 (wide), and contributes to the square's
// gradient.
Tensor lu_grad(const Tensor& g, const Tensor& lu, const Tensor& pivots) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  const Tensor square = narrow(narrow(lu, -2, 0, k), -1, 0, k), g1 = narrow(narrow(g, -2, 0, k), -1, 0, k);
  const Tensor L = unit_lower(square), U = upper_of(square);
  if (m == n) return permuted_rows(pivots, square_lu_grad(g1, g1, L, U), false);
  if (m > n) {
    const Tensor L2 = narrow(lu, -2, n, m - n);
    const Tensor g2 = adjoint(linalg::solve_triangular(U, adjoint(narrow(g, -2, n, m - n)), true));
    return permuted_rows(pivots, cat({square_lu_grad(g1, sub(g1, matmul(adjoint(L2), g2)), L, U), g2}, -2), false);
  }
  const Tensor U2 = narrow(lu, -1, m, n - m);
  const Tensor g2 = linalg::solve_triangular(adjoint(L), narrow(g, -1, m, n - m), true, true, true);
  return permuted_rows(pivots, cat({square_lu_grad(sub(g1, matmul(g2, adjoint(U2))), g1, L, U), g2}, -1), false);
}
}  // namespace

STRATA_OP(linalg_lu_factor_ex,
          "linalg.lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, "
          "Tensor info)")
  .doc(
    "The compact LU decomposition with row exchanges, the exchanges (from 1), and per matrix the position of the first "
    "zero pivot or 0.")
  .dtypes(kMatrixTypes)
  .infer(infer_lu)
  .kernel("lapack", by_lapack<run_lu>, cpu::lapack_when<2048, 2048>)
  .from(Source::Lapack)
  .kernel("blocked", by_blocks<run_lu>)
  .kernel("reference", by_reference<run_lu>)
  .cuda_on_host("lu_on_host")
  .handles_complex()
  .saves_result({0, 1})
  .no_grad_outputs({1, 2})
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    return {lu_grad(g, c.result(0), autograd::detach(c.result(1)))};
  })
  .samples({"m(4,4)", "m(2,3,3)", "f(4,3)", "f(2,3,4)", "f(0,3,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions")
  .error("i5(3,3)", ErrorKind::Runtime, "floating point");

STRATA_OP(linalg_lu_factor, "linalg.lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)")
  .doc("The compact LU decomposition with row exchanges, and the exchanges (from 1).")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, bool pivot) {
    const auto [LU, pivots, info] = linalg::lu_factor_ex(A, pivot);
    check_info(info, "linalg.lu_factor", [](int64_t i) {
      return fmt::format("U[{},{}] is zero and using it on lu_solve would result in a division by zero", i, i);
    });
    return std::tuple(LU, pivots);
  })
  .samples({"m(4,4)", "m(2,3,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(lu_unpack,
          "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, "
          "Tensor L, Tensor U)")
  .doc("The matrices P, L and U with A = P L U from a compact LU decomposition.")
  .dtypes(kMatrixTypes)
  .no_method()
  .composite([](const Tensor& LU, const Tensor& pivots, bool data, bool perm) {
    if (perm) {
      check_pivots(LU, pivots, "lu_unpack");
      STRATA_CHECK(
        std::ranges::equal(pivots.shape().first(pivots.shape().size() - 1), LU.shape().first(LU.shape().size() - 2)),
        Runtime, "lu_unpack: LU_pivots of shape {} do not fit LU_data of shape {}", to_string(pivots.shape()),
        to_string(LU.shape()));
    }
    const Tensor none = full({0}, 0.0, LU.dtype());
    return std::tuple(perm ? permutation(pivots, LU.size(-2), LU.dtype()) : none, data ? unit_lower(LU) : none,
                      data ? upper_of(LU) : none);
  })
  .samples({"m(3,3), t[3,2,3]", "m(2,3,3), t[[1,3,3],[2,2,3]]"})
  .error("f(3,3), f(3)", ErrorKind::Runtime, "int32")
  .error("f(3,3), t[0,1,2]", ErrorKind::Runtime, "between 1 and 3, found 0")
  .error("f(3,3), t[1,2]", ErrorKind::Runtime, "expected 3 pivots");

STRATA_OP(linalg_lu, "linalg.lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)")
  .doc("A = P L U: a permutation, a unit lower and an upper triangular matrix.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, bool pivot) {
    const auto [LU, pivots, info] = linalg::lu_factor_ex(A, pivot);
    const Tensor P = pivot ? permutation(pivots, A.size(-2), A.dtype()) : full({0}, 0.0, A.dtype());
    return std::tuple(P, unit_lower(LU), upper_of(LU));
  })
  .samples({"m(4,4)", "m(2,3,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(linalg_lu_solve,
          "linalg.lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor")
  .doc("Solves A X = B (or X A = B, or with the conjugate transpose of A) from a compact LU decomposition.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left, bool turned) {
    check_square(*LU, "linalg.lu_solve", "LU");
    check_pivots(LU, pivots, "linalg.lu_solve");
    Tensor b = left ? B : adjoint(B);
    STRATA_CHECK(b.dim() >= 2 && b.size(-2) == LU.size(-1), Runtime,
                 "linalg.lu_solve: Incompatible shapes of LU and B for the equation {}: {} and {}",
                 left ? "AX = B" : "XA = B", to_string(LU.shape()), to_string(B.shape()));
    std::vector<int64_t> batch = common_batch(LU, b, "linalg.lu_solve");
    b = broadcast_batch(b, batch);
    batch.push_back(pivots.size(-1));
    const Tensor exchanges = expand(pivots, batch);
    const bool transposed = turned == left;
    Tensor x;
    if (!transposed) {
      x = linalg::solve_triangular(LU, permuted_rows(exchanges, b, true), false, true, true);
      x = linalg::solve_triangular(LU, x, true);
    } else {
      x = linalg::solve_triangular(adjoint(LU), b, false);
      x = permuted_rows(exchanges, linalg::solve_triangular(adjoint(LU), x, true, true, true), false);
    }
    return left ? x : adjoint(x);
  })
  .samples({"m(3,3), t[3,2,3], f(3,2)", "m(2,3,3), t[[1,3,3],[2,2,3]], f(2,3,2), adjoint=True",
            "m(3,3), t[3,2,3], f(2,3), left=False"})
  .error("f(3,4), i5(3), f(3,2)", ErrorKind::Runtime, "square")
  .error("m(3,3), t[6,5,4,3,2,1], f(3,2)", ErrorKind::Runtime, "expected 3 pivots")
  .error("m(3,3), t[1,2,4], f(3,2)", ErrorKind::Runtime, "between 1 and 3, found 4");

STRATA_OP(lu, "lu(Tensor A, bool pivot=True) -> (Tensor LU, Tensor pivots, Tensor info)")
  .doc(
    "The compact LU decomposition, its pivots, and 0 or the position of the first zero pivot; see linalg.lu_factor_ex. "
    "In Python the last one is returned only with get_infos=True.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, bool pivot) { return linalg::lu_factor_ex(A, pivot); })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4)", "f(2,4,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(lu_solve, "lu_solve(Tensor b, Tensor LU_data, Tensor LU_pivots) -> Tensor")
  .doc("Solves A x = b from a compact LU decomposition.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& b, const Tensor& LU, const Tensor& pivots) { return linalg::lu_solve(LU, pivots, b); })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(3,2), m(3,3), t[3,2,3]"})
  .error("f(3,2), f(3,4), i5(3)", ErrorKind::Runtime, "square");

}  // namespace strata
