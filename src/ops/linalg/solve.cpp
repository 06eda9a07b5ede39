// Ops based on LU: det, slogdet, logdet, inv, solve.
#include <fmt/core.h>

#include <cmath>

#include "ops/linalg/common.h"
#include "strata/args/linalg/solve.h"
#include "strata/ops.h"

namespace strata {
namespace {

// A number of size 1 or 0, and the logarithm of the size.
template <class T> struct Determinant {
  T sign;
  double log;
};
template <class T> T sign_of(T u) {
  const auto size = std::abs(u);
  return size == 0 ? u : size != size ? T(NAN) : u / size;
}
template <class T> Determinant<T> determinant_of(const cpu::Dense<T>& dense, T* a, int64_t n) {
  std::vector<int32_t> pivots(static_cast<size_t>(n));
  dense.lu_factor(a, n, n, pivots.data(), true);
  Determinant<T> d{1, 0};
  for (int64_t i = 0; i < n; ++i) {
    const T u = a[i * n + i];
    if (pivots[static_cast<size_t>(i)] != i + 1) d.sign = -d.sign;
    d.sign *= sign_of(u);
    d.log += std::log(static_cast<double>(std::abs(u)));
  }
  return d;
}
template <class T, class Put> void each_determinant(const cpu::Dense<T>& dense, const TensorImpl& a, const Put& put) {
  const Batch batch(a);
  const cpu::In<T> in(a);
  batch.each([&](int64_t i) {
    std::vector<T> copy(in.get() + i * batch.size(), in.get() + (i + 1) * batch.size());
    put(i, determinant_of(dense, copy.data(), batch.rows), copy.data(), batch.rows);
  });
}

Tensor column(const Tensor& t) { return unsqueeze(unsqueeze(t, -1), -1); }

// The conjugates of det(A) A^-T; for singular matrices by the singular value decomposition, where the product of the other values is
// finite.
Tensor cofactors(const Tensor& A, const Tensor& det) {
  if (det.is_meta() || all(ne(autograd::detach(det), 0.0)).item<bool>())
    return mul(column(conjugate(det)), adjoint(linalg::inv_ex(A)[0]));
  const auto [U, S, Vh] = linalg::svd(A, false);
  const int64_t n = A.size(-1);
  std::vector<Tensor> others;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<Tensor> rest;
    if (i > 0) rest.push_back(narrow(S, -1, 0, i));
    if (i + 1 < n) rest.push_back(narrow(S, -1, i + 1, n - i - 1));
    others.push_back(rest.empty() ? full(det.shape(), 1.0, S.dtype()) : prod(cat(TensorList(rest), -1), int64_t{-1}));
  }
  const Tensor sign = conjugate(mul(linalg::det(autograd::detach(U)), linalg::det(autograd::detach(Vh))));
  return matmul(mul(U, unsqueeze(mul(stack(TensorList(others), -1), unsqueeze(sign, -1)), -2)), Vh);
}

std::string inverse_text(int64_t info) {
  return fmt::format(
    "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular.",
    info);
}
bool is_vector_rhs(const Tensor& A, const Tensor& B) {
  if (B.dim() == 1) return true;
  return A.dim() - 1 == B.dim() && std::equal(B.shape().begin(), B.shape().end(), A.shape().begin());
}

std::tuple<Tensor, Tensor> solve_any(const Tensor& A, const Tensor& B, bool left, const char* op) {
  check_square(*A, op);
  STRATA_CHECK(B.dtype() == A.dtype(), Runtime,
               "{}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead", op,
               info_of(A.dtype()).title, info_of(B.dtype()).title);
  STRATA_CHECK(B.dim() >= 1, Runtime, "{}: B must have at least one dimension", op);
  const bool vector = is_vector_rhs(A, B);
  STRATA_CHECK(left || !vector, Runtime,
               "{}: Vector broadcasting of the left hand side is not supported for left=False", op);
  Tensor b = vector ? unsqueeze(B, -1) : B, a = A;
  STRATA_CHECK(b.size(left ? -2 : -1) == a.size(-1), Runtime,
               "{}: Incompatible shapes of A and B for the equation {}: {} and {}", op, left ? "AX = B" : "XA = B",
               to_string(A.shape()), to_string(B.shape()));
  if (!left) {
    a = mT(a);
    b = mT(b);
  }
  const auto batch = common_batch(a, b, op);
  const auto [solution, lu, pivots, info] =
    call_array<4>(op__linalg_solve, Args(broadcast_batch(a, batch), broadcast_batch(b, batch), Value()));
  Tensor x = solution;
  if (!left) x = mT(x);
  return {vector ? squeeze(x, int64_t{-1}) : x, info};
}

constexpr auto run_det = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::linalg_det a(c);
  const cpu::Out<T> out(c.out());
  each_determinant(dense, a.A(), [&](int64_t i, const Determinant<T>& d, const T* lu, int64_t n) {
    if constexpr (std::is_floating_point_v<T>) {
      double product = d.sign;  // not exp(log): exact for small integers
      for (int64_t k = 0; k < n; ++k) product *= std::abs(lu[k * n + k]);
      out[i] = static_cast<T>(product);
    } else {
      std::complex<double> product(d.sign);
      for (int64_t k = 0; k < n; ++k) product *= static_cast<double>(std::abs(lu[k * n + k]));
      out[i] = T(product);
    }
  });
  out.finish();
};
constexpr auto run_slogdet = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::linalg_slogdet a(c);
  using Real = typename cpu::Dense<T>::Real;
  const cpu::Out<T> sign(c.outs[0]);
  const cpu::Out<Real> log(c.outs[1]);
  each_determinant(dense, a.A(), [&](int64_t i, const Determinant<T>& d, const T*, int64_t) {
    sign[i] = d.sign;
    log[i] = static_cast<Real>(d.log);
  });
  sign.finish();
  log.finish();
};
constexpr auto run_inverse = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::linalg_inv_ex arg(c);
  const TensorImpl& a = arg.A();
  const Batch batch(a);
  const cpu::In<T> in(a);
  const cpu::Out<T> out(c.outs[0]);
  const int64_t n = batch.rows;
  batch.each([&](int64_t i) {
    std::vector<T> lu(in.get() + i * n * n, in.get() + (i + 1) * n * n);
    std::vector<int32_t> pivots(static_cast<size_t>(n));
    const int64_t info = dense.lu_factor(lu.data(), n, n, pivots.data(), true);
    c.outs[1].data<int32_t>()[i] = static_cast<int32_t>(info);
    T* x = out.get() + i * n * n;
    std::fill_n(x, n * n, T(0));
    for (int64_t k = 0; k < n; ++k) x[k * n + k] = 1;
    cpu::apply_pivots(x, n, n, pivots.data(), n, false);
    dense.solve_triangle(lu.data(), n, 1, n, false, true, x, n);
    dense.solve_triangle(lu.data(), n, 1, n, true, false, x, n);
  });
  out.finish();
  if (arg.check_errors()) check_info(c.outs[1], "linalg.inv_ex", inverse_text);
};
constexpr auto run_solve = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_linalg_solve arg(c);
  const bool keep = arg.keep().value_or(false);
  const Batch batch(arg.A()), rhs(arg.B());
  const cpu::In<T> a(arg.A()), b(arg.B());
  const cpu::Out<T> out(c.outs[0]), kept(c.outs[1]);
  const int64_t n = batch.rows, r = rhs.columns;
  auto *pivots = c.outs[2].data<int32_t>(), *info = c.outs[3].data<int32_t>();
  batch.each([&](int64_t i) {
    std::vector<T> scratch(static_cast<size_t>(keep ? 0 : n * n));
    std::vector<int32_t> exchanges(static_cast<size_t>(keep ? 0 : n));
    T* lu = keep ? kept.get() + i * n * n : scratch.data();
    int32_t* p = keep ? pivots + i * n : exchanges.data();
    std::copy_n(a.get() + i * n * n, n * n, lu);
    info[i] = static_cast<int32_t>(dense.lu_factor(lu, n, n, p, true));
    T* x = out.get() + i * n * r;
    std::copy_n(b.get() + i * n * r, n * r, x);
    cpu::apply_pivots(x, n, r, p, n, false);
    dense.solve_triangle(lu, n, 1, n, false, true, x, r);
    dense.solve_triangle(lu, n, 1, n, true, false, x, r);
  });
  out.finish();
  if (keep) kept.finish();
};
// A^H X = B. The conjugate of the factors is not stored: that of B is solved with their transpose.
constexpr auto run_solve_adjoint = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_lu_solve_adjoint arg(c);
  const Batch batch(arg.LU()), rhs(arg.B());
  const cpu::In<T> lu(arg.LU()), b(arg.B());
  const Tensor exchanges = cpu::staged(arg.pivots(), DType::I32);
  const cpu::Out<T> out(c.out());
  const int64_t n = batch.rows, r = rhs.columns;
  const auto* pivots = exchanges.data<int32_t>();
  for (int64_t i = 0; i < exchanges.numel(); ++i)
    STRATA_CHECK(pivots[i] >= 1 && pivots[i] <= n, Runtime,
                 "_lu_solve_adjoint: pivots must be rows from 1 to {}, found {}", n, pivots[i]);
  batch.each([&](int64_t i) {
    T* x = out.get() + i * n * r;
    std::transform(b.get() + i * n * r, b.get() + (i + 1) * n * r, x, [](T z) { return conjugate(z); });
    dense.solve_triangle(lu.get() + i * n * n, 1, n, n, false, false, x, r);
    dense.solve_triangle(lu.get() + i * n * n, 1, n, n, true, true, x, r);
    cpu::apply_pivots(x, n, r, pivots + i * n, n, true);
    if constexpr (!std::is_floating_point_v<T>) std::transform(x, x + n * r, x, [](T z) { return conjugate(z); });
  });
  out.finish();
};

Grads solve_grad(const grads::_linalg_solve& c, const Tensor& b) {
  return {c.needs_A() ? neg(matmul(b, adjoint(c.result()))) : Tensor(), b};
}
Grads solve_graph_grad(const GradContext& context, const Tensor& g) {
  const grads::_linalg_solve c(context);
  return solve_grad(c, call_array<4>(op__linalg_solve, Args(adjoint(c.A()), g, Value()))[0]);
}
}  // namespace

STRATA_OP(linalg_det, "linalg.det(Tensor A) -> Tensor")
  .doc("The determinant of square matrices.")
  .alias("det")
  .dtypes(kMatrixTypes)
  .infer([](const args::linalg_det& c) {
    check_square(c.A(), "linalg.det");
    set_batch_shape(*c.out(), c.A(), {});
  })
  .kernel("lapack", by_lapack<run_det>, cpu::lapack_when<2048, 2048>)
  .from(Source::Lapack)
  .kernel("lu", by_blocks<run_det>)
  .kernel("reference", by_reference<run_det>)
  .cuda_on_host("det_on_host")
  .handles_complex()
  .saves({"A"})
  .saves_result()
  .grad([](const grads::linalg_det& c, const Tensor& g) -> Grads {
    return {mul(column(g), cofactors(c.A(), c.result()))};
  })
  .samples({"m(4,4)", "m(2,3,3)", "f(1,1)", "f(0,3,3)", "f(0,0)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_slogdet, "linalg.slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)")
  .doc("The sign of the determinant and the logarithm of its absolute value.")
  .alias("slogdet")
  .dtypes(kMatrixTypes)
  .infer([](const args::linalg_slogdet& c) {
    check_square(c.A(), "linalg.slogdet");
    for (int o = 0; o < 2; ++o) set_batch_shape(*c.out(o), c.A(), {});
    set_real(*c.out(1));
  })
  .kernel("lapack", by_lapack<run_slogdet>, cpu::lapack_when<2048, 2048>)
  .from(Source::Lapack)
  .kernel("lu", by_blocks<run_slogdet>)
  .kernel("reference", by_reference<run_slogdet>)
  .cuda_on_host("slogdet_on_host")
  .handles_complex()
  .saves({"A"})
  .saves_result({0})
  .grad([](const grads::linalg_slogdet& c, const Tensor&) -> Grads {
    // The sign of a real determinant is a step function; that of a complex one turns with the imaginary part of its logarithm.
    const bool turns = c.grad(0) && is_complex(c.A().dtype());
    if (!c.grad(1) && !turns) return {};
    Tensor factor = c.grad(1);
    if (turns) {
      const Tensor turn = neg(imag(mul(conj(c.grad(0)), c.result(0))));
      factor = complex(factor ? factor : zeros_like(turn), turn);
    }
    return {mul(column(factor), adjoint(linalg::inv_ex(c.A())[0]))};
  })
  .samples({"m(4,4)", "m(2,3,3)", "f(0,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(logdet, "logdet(Tensor input) -> Tensor")
  .doc("The logarithm of the determinant; NaN if it is negative. That of a complex matrix is complex.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& input) {
    const auto [sign, log] = linalg::slogdet(input);
    if (is_complex(input.dtype())) return add(log, strata::log(sign));
    return where(lt(sign, 0.0), full({}, NAN, input.dtype()), log);
  })
  .samples({"s(4,4)", "s(2,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_inv_ex, "linalg.inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)")
  .doc("The inverse, and per matrix the position of the first zero pivot or 0.")
  .dtypes(kMatrixTypes)
  .infer([](const args::linalg_inv_ex& c) {
    const TensorImpl& a = c.A();
    check_square(a, c.op().name.c_str());
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 1], a.shape[a.ndim - 1]});
    set_batch_shape(*c.out(1), a, {});
    c.out(1)->dtype = DType::I32;
  })
  .kernel("lapack", by_lapack<run_inverse>, cpu::lapack_when<2048, 2048>)
  .from(Source::Lapack)
  .kernel("lu", by_blocks<run_inverse>)
  .kernel("reference", by_reference<run_inverse>)
  .cuda_on_host("inverse_on_host")
  .handles_complex()
  .saves_result()
  .no_grad_outputs({1})
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    const Tensor t = adjoint(c.result());
    return {neg(matmul(t, matmul(g, t)))};
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4)", "m(2,3,3)", "f(0,3,3)", "f(0,0)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_inv, "linalg.inv(Tensor A) -> Tensor")
  .doc("The inverse of square matrices; raises if one is singular.")
  .alias("inverse")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A) {
    const auto [x, info] = linalg::inv_ex(A);
    check_info(info, "linalg.inv", inverse_text);
    return x;
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4)", "m(2,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(_lu_solve_adjoint, "_lu_solve_adjoint(Tensor LU, Tensor pivots, Tensor B) -> Tensor")
  .doc("Solves A^H X = B from the LU decomposition of A, for matrices with the same batch dimensions.")
  .helper()
  .no_out()
  .dtypes(kMatrixTypes)
  .infer([](const args::_lu_solve_adjoint& c) {
    const TensorImpl &lu = c.LU(), &b = c.B(), &pivots = c.pivots();
    check_system(lu, b, "_lu_solve_adjoint");
    STRATA_CHECK(pivots.numel * lu.shape[lu.ndim - 1] == lu.numel, Runtime,
                 "_lu_solve_adjoint: pivots of shape {} do not fit LU of shape {}", to_string(pivots.sizes()),
                 to_string(lu.sizes()));
    set_batch_shape(*c.out(), b, {b.shape[b.ndim - 2], b.shape[b.ndim - 1]});
  })
  .kernel("lapack", by_lapack<run_solve_adjoint>, cpu::lapack_when<2048, 2048>)
  .from(Source::Lapack)
  .kernel("lu", by_blocks<run_solve_adjoint>)
  .kernel("reference", by_reference<run_solve_adjoint>)
  .cuda_on_host("lu_solve_adjoint_on_host")
  .handles_complex()
  .samples({"m(3,3), t[3,2,3], f(3,2)", "m(2,3,3), t[[1,3,3],[2,2,3]], f(2,3,1)"})
  .error("m(3,3), t[1,2], f(3,2)", ErrorKind::Runtime, "do not fit")
  .error("m(3,3), t[3,2,4], f(3,2)", ErrorKind::Runtime, "rows from 1 to 3, found 4");

STRATA_OP(
  _linalg_solve,
  "_linalg_solve(Tensor A, Tensor B, bool? keep=None) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)")
  .doc(
    "Solves A X = B for matrices with the same batch dimensions; with `keep`, the LU decomposition, which the gradient "
    "uses.")
  .keeps_for_grad("keep")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_linalg_solve& c) {
    const TensorImpl &a = c.A(), &b = c.B();
    check_system(a, b, "linalg.solve");
    set_batch_shape(*c.out(), b, {b.shape[b.ndim - 2], b.shape[b.ndim - 1]});
    const int64_t n = a.shape[a.ndim - 1];
    if (c.keep().value_or(false)) {
      set_batch_shape(*c.out(1), a, {n, n});
      set_batch_shape(*c.out(2), a, {n});
    } else {
      for (int o = 1; o < 3; ++o) {
        const int64_t none = 0;
        c.out(o)->set_shape(Shape(&none, 1));
        c.out(o)->dtype = a.dtype;
        c.out(o)->device = a.device;
      }
    }
    set_batch_shape(*c.out(3), a, {});
    c.out(2)->dtype = c.out(3)->dtype = DType::I32;
  })
  .kernel("lapack", by_lapack<run_solve>, cpu::lapack_when<2048, 2048>)
  .from(Source::Lapack)
  .kernel("lu", by_blocks<run_solve>)
  .kernel("reference", by_reference<run_solve>)
  .cuda_on_host("solve_on_host")
  .handles_complex()
  .saves({"A"})
  .saves_result({0, 1, 2})
  .no_grad_outputs({1, 2, 3})
  .grad([](const GradContext& context, const Tensor& g) -> Grads {
    const grads::_linalg_solve c(context);
    if (!c.keep().value_or(false)) return solve_graph_grad(context, g);
    return solve_grad(c, _lu_solve_adjoint(c.result(1), c.result(2), g));
  })
  .grad_for_graph(solve_graph_grad)
  .samples({"m(4,4), f(4,2)", "m(2,3,3), f(2,3,1)", "m(2,3,3), f(2,3,2), True"});

STRATA_OP(
  linalg_solve_ex,
  "linalg.solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)")
  .doc("Solves A X = B (or X A = B); per matrix the position of the first zero pivot or 0.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, const Tensor& B, bool left, bool check_errors) {
    const auto [x, info] = solve_any(A, B, left, "linalg.solve_ex");
    if (check_errors) check_info(info, "linalg.solve_ex", singular_text);
    return std::tuple(x, info);
  })
  .samples({"m(4,4), f(4)", "m(2,3,3), f(3,2)"})
  .error("f(3,4), f(3)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_solve, "linalg.solve(Tensor A, Tensor B, *, bool left=True) -> Tensor")
  .doc("Solves A X = B (or X A = B) for X; raises if a matrix is singular.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, const Tensor& B, bool left) {
    const auto [x, info] = solve_any(A, B, left, "linalg.solve");
    check_info(info, "linalg.solve",
               [](int64_t) { return std::string("The solver failed because the input matrix is singular."); });
    return x;
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4), f(4)", "m(4,4), f(4,2)", "m(2,3,3), f(3,2)", "m(3,3), f(2,3), left=False"})
  .error("f(3,4), f(3)", ErrorKind::Runtime, "square")
  .error("m(3,3), f(4,2)", ErrorKind::Runtime, "Incompatible shapes");

}  // namespace strata
