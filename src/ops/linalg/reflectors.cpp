// Householder reflectors: QR in compact form, and products with its Q.
#include "strata/args/linalg/reflectors.h"
#include "ops/linalg/common.h"
#include "strata/ops.h"

namespace strata {
namespace {

constexpr auto run_geqrf = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::geqrf arg(c);
  const Batch batch(arg.input());
  const cpu::In<T> in(arg.input());
  const cpu::Out<T> a(c.outs[0]), tau(c.outs[1]);
  const int64_t count = std::min(batch.rows, batch.columns);
  batch.each([&](int64_t i) {
    std::copy_n(in.get() + i * batch.size(), batch.size(), a.get() + i * batch.size());
    dense.qr_factor(a.get() + i * batch.size(), batch.rows, batch.columns, tau.get() + i * count);
  });
  a.finish();
  tau.finish();
};
constexpr auto run_apply_reflectors = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_apply_reflectors arg(c);
  const Batch batch(arg.v()), sides(arg.x());
  const cpu::In<T> v(arg.v()), tau(arg.tau()), x(arg.x());
  const cpu::Out<T> out(c.out());
  const int64_t count = arg.tau().shape[arg.tau().ndim - 1];
  batch.each([&](int64_t i) {
    T* y = out.get() + i * sides.size();
    std::copy_n(x.get() + i * sides.size(), sides.size(), y);
    dense.apply_q(v.get() + i * batch.size(), batch.rows, batch.columns, tau.get() + i * count, count, arg.transpose(),
                  y, sides.columns);
  });
  out.finish();
};
constexpr auto run_form_q = []<class T>(const Call& c, const cpu::Dense<T>& dense) {
  const args::_form_q arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> a(arg.A()), tau(arg.tau());
  const cpu::Out<T> out(c.out());
  const int64_t count = arg.tau().shape[arg.tau().ndim - 1];
  batch.each([&](int64_t i) {
    dense.form_q(a.get() + i * batch.size(), batch.rows, batch.columns, tau.get() + i * count, count,
                 out.get() + i * batch.size(), batch.columns);
  });
  out.finish();
};

// One factor for each of the first reflectors of a matrix, with the same dtype and batch dimensions.
void check_factors(const TensorImpl& v, const TensorImpl& tau, const char* op) {
  check_matrix(v, op);
  const int64_t most = std::min(v.shape[v.ndim - 2], v.shape[v.ndim - 1]);
  STRATA_CHECK(tau.dtype == v.dtype && tau.ndim == v.ndim - 1 && std::equal(v.shape, v.shape + v.ndim - 2, tau.shape) &&
                 tau.shape[tau.ndim - 1] <= most,
               Runtime,
               "{}: expected at most {} factors tau of dtype {} for each matrix of shape {}, got {} of shape {}", op,
               most, name_of(v.dtype), to_string(v.sizes()), name_of(tau.dtype), to_string(tau.sizes()));
}

// Q x or Q^H x with Q = I - V T V^H, where T is (I + D S)^-1 D with D = diag(tau) and S the part of V^H V above the diagonal:
// a few products and a triangular solve instead of one step per reflector, for gradients.
Tensor times_q(const Tensor& input, const Tensor& tau, const Tensor& x, bool transposed) {
  const int64_t m = input.size(-2), k = tau.size(-1);
  const Tensor V = add(tril(narrow(input, -1, 0, k), -1), eye(m, k, input.dtype())), D = unsqueeze(tau, -1);
  const Tensor M = mul(D, triu(matmul(adjoint(V), V), 1)), y = matmul(adjoint(V), x);
  const Tensor z = transposed ? mul(conjugate(D), linalg::solve_triangular(adjoint(M), y, false, true, true))
                              : linalg::solve_triangular(M, mul(D, y), true, true, true);
  return sub(x, matmul(V, z));
}
}  // namespace

STRATA_OP(geqrf, "geqrf(Tensor input) -> (Tensor a, Tensor tau)")
  .doc("QR as reflectors: R on and above the diagonal, the reflectors below it, and their factors.")
  .dtypes(kMatrixTypes)
  .infer([](const args::geqrf& c) {
    const TensorImpl& a = c.input();
    check_matrix(a, "geqrf");
    const int64_t m = a.shape[a.ndim - 2], n = a.shape[a.ndim - 1];
    set_batch_shape(*c.out(), a, {m, n});
    set_batch_shape(*c.out(1), a, {std::min(m, n)});
  })
  .kernel("lapack", by_lapack<run_geqrf>, cpu::lapack_when<8192, 8192>)
  .from(Source::Lapack)
  .kernel("householder", by_blocks<run_geqrf>)
  .kernel("reference", by_reference<run_geqrf>)
  .cuda_on_host("geqrf_on_host")
  .handles_complex()
  .grad(no_derivative)
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3)", "f(2,3,4)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(_apply_reflectors, "_apply_reflectors(Tensor v, Tensor tau, Tensor x, bool transpose) -> Tensor")
  .doc("Q x or Q^H x, with Q kept as reflectors.")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_apply_reflectors& c) {
    const TensorImpl &v = c.v(), &x = c.x(), &tau = c.tau();
    check_factors(v, tau, "ormqr");
    STRATA_CHECK(x.dtype == v.dtype && x.ndim == v.ndim && std::equal(v.shape, v.shape + v.ndim - 1, x.shape), Runtime,
                 "ormqr: expected as many rows of dtype {} as the reflectors of shape {} have, got {} of shape {}",
                 name_of(v.dtype), to_string(v.sizes()), name_of(x.dtype), to_string(x.sizes()));
    set_batch_shape(*c.out(), x, {x.shape[x.ndim - 2], x.shape[x.ndim - 1]});
  })
  .kernel("rows", by_blocks<run_apply_reflectors>)
  .kernel("reference", by_reference<run_apply_reflectors>)
  .cuda_on_host("apply_reflectors_on_host")
  .handles_complex()
  .grad(no_derivative)
  .samples({"f(4,3), f(3), f(4,2), False", "f(2,4,3), f(2,2), f(2,4,9), True"});

STRATA_OP(_q_times, "_q_times(Tensor v, Tensor tau, Tensor x, bool transpose, bool? products=None) -> Tensor")
  .doc("_apply_reflectors with broadcast batch dimensions, as products of matrices if a gradient is recorded.")
  .keeps_for_grad("products")
  .helper()
  .no_out()
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& v, const Tensor& tau, const Tensor& x, bool transposed, std::optional<bool> products) {
    check_matrix(*v, "ormqr");
    check_matrix(*x, "ormqr");
    STRATA_CHECK(tau.dim() > 0, Runtime,
                 "ormqr: expected factors tau of at least 1 dimension, got a tensor of shape []");
    if (products.value_or(false)) return times_q(v, tau, x, transposed);
    std::vector<int64_t> factors = common_batch(v, x, "ormqr");
    const Tensor reflectors = broadcast_batch(v, factors), sides = broadcast_batch(x, factors);
    factors.push_back(tau.size(-1));
    return _apply_reflectors(reflectors, expand(tau, factors), sides, transposed);
  })
  .samples({"f(4,3), f(3), f(4,2), False", "f(2,4,3), f(2,2), f(2,4,9), True"})
  .error("f(3), f(3), f(3), False", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(ormqr, "ormqr(Tensor input, Tensor tau, Tensor other, bool left=True, bool transpose=False) -> Tensor")
  .doc("The product of Q, kept as reflectors, with another matrix.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& input, const Tensor& tau, const Tensor& other, bool left, bool transposed) {
    check_matrix(*input, "ormqr");
    const int64_t m = input.size(-2), k = tau.size(-1);
    STRATA_CHECK(other.dim() == input.dim() && other.size(left ? -2 : -1) == m, Runtime,
                 "ormqr: other.shape[{}] must be equal to input.shape[-2], got {} and {}", left ? -2 : -1,
                 to_string(other.shape()), to_string(input.shape()));
    STRATA_CHECK(tau.dim() == input.dim() - 1 && k <= std::min(m, input.size(-1)), Runtime,
                 "ormqr: tau has shape {}, input has shape {}", to_string(tau.shape()), to_string(input.shape()));
    const Tensor x = left ? other : adjoint(other);
    const bool turned = left ? transposed : !transposed;  // x Q is the conjugate transpose of Q^H x^H
    const Tensor y = _q_times(input, tau, x, turned);
    return left ? y : adjoint(y);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3), f(3), f(4,2)", "f(4,3), f(3), f(2,4), False, True"})
  .error("f(4,3), f(3), f(3,2)", ErrorKind::Runtime, "must be equal")
  .error("f(3,5), f(5), f(3,2)", ErrorKind::Runtime, "tau has shape");

STRATA_OP(_form_q, "_form_q(Tensor A, Tensor tau) -> Tensor")
  .doc("The first n columns of Q, from reflectors below the diagonal of A (m x n).")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_form_q& c) {
    const TensorImpl& a = c.A();
    check_factors(a, c.tau(), "linalg.householder_product");
    STRATA_CHECK(a.shape[a.ndim - 2] >= a.shape[a.ndim - 1], Runtime,
                 "linalg.householder_product: expected at least as many rows as columns, got shape {}",
                 to_string(a.sizes()));
    set_batch_shape(*c.out(), a, {a.shape[a.ndim - 2], a.shape[a.ndim - 1]});
  })
  .kernel("lapack", by_lapack<run_form_q>, cpu::lapack_when<8192, 8192>)
  .from(Source::Lapack)
  .kernel("householder", by_blocks<run_form_q>)
  .kernel("reference", by_reference<run_form_q>)
  .cuda_on_host("form_q_on_host")
  .handles_complex()
  .grad(no_derivative)
  .samples({"f(4,3), f(3)", "f(2,3,3), f(2,2)"});

STRATA_OP(_q_columns, "_q_columns(Tensor A, Tensor tau, bool? products=None) -> Tensor")
  .doc("_form_q with broadcast batch dimensions, as products of matrices if a gradient is recorded.")
  .keeps_for_grad("products")
  .helper()
  .no_out()
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, const Tensor& tau, std::optional<bool> products) {
    check_matrix(*A, "linalg.householder_product");
    STRATA_CHECK(tau.dim() > 0, Runtime,
                 "linalg.householder_product: expected factors tau of at least 1 dimension, got a tensor of shape []");
    if (products.value_or(false))
      return times_q(A, tau, expand(eye(A.size(-2), A.size(-1), A.dtype()), A.shape()), false);
    std::vector<int64_t> factors(A.shape().begin(), A.shape().end() - 2);
    factors.push_back(tau.size(-1));
    return _form_q(A, expand(tau, factors));
  })
  .samples({"f(4,3), f(3)", "f(2,3,3), f(2,2)"});

STRATA_OP(linalg_householder_product, "linalg.householder_product(Tensor A, Tensor tau) -> Tensor")
  .doc("The first n columns of the product of reflectors kept below the diagonal of A (m x n).")
  .alias("orgqr")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, const Tensor& tau) {
    check_matrix(*A, "linalg.householder_product");
    const int64_t m = A.size(-2), n = A.size(-1);
    STRATA_CHECK(
      m >= n, Runtime,
      "linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1], got {} and {}", m,
      n);
    STRATA_CHECK(tau.dim() == A.dim() - 1 && tau.size(-1) <= n, Runtime,
                 "linalg.householder_product: tau has shape {}, A has shape {}", to_string(tau.shape()),
                 to_string(A.shape()));
    return _q_columns(A, tau);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,3), f(3)", "f(2,3,3), f(2,2)"})
  .error("f(3,4), f(3)", ErrorKind::Runtime, "greater than or equal");

}  // namespace strata
