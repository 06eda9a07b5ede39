// tensorinv, tensorsolve, vander, matrix_exp, trace and the linalg name of diagonal.
#include <cmath>

#include "ops/linalg/common.h"
#include "strata/ops.h"

namespace strata {
namespace {

int64_t product(Shape s) {
  int64_t n = 1;
  for (int64_t k : s) n *= k;
  return n;
}

// Pade approximant of degree 13 after scaling by a power of two, then squaring (Higham 2005). Made of differentiable ops.
Tensor exponential(const Tensor& A) {
  const int64_t n = A.size(-1);
  if (A.numel() == 0) return clone(A);
  double largest = 0;
  if (!A.is_meta()) {
    Scoped mode(thread_state.grad_mode, false);
    largest = max(linalg::vector_norm(A, 1, int64_t{-2})).item<double>();
  }
  STRATA_CHECK(std::isfinite(largest), Runtime, "linalg.matrix_exp: the input contains non-finite values");
  const int squarings = largest > 5.37 ? static_cast<int>(std::ceil(std::log2(largest / 5.37))) : 0;
  const DType wide = is_complex(A.dtype()) ? kComplex128 : kFloat64;
  const Tensor X = mul(to(A, wide), std::ldexp(1.0, -squarings)), I = eye(n, std::nullopt, wide);
  constexpr double b[] = {64764752532480000.,
                          32382376266240000.,
                          7771770303897600.,
                          1187353796428800.,
                          129060195264000.,
                          10559470521600.,
                          670442572800.,
                          33522128640.,
                          1323241920.,
                          40840800.,
                          960960.,
                          16380.,
                          182.,
                          1.};
  const Tensor X2 = matmul(X, X), X4 = matmul(X2, X2), X6 = matmul(X4, X2);
  const auto sum_of = [&](double c6, double c4, double c2) { return add(add(mul(X6, c6), mul(X4, c4)), mul(X2, c2)); };
  const Tensor U = matmul(X, add(add(matmul(X6, sum_of(b[13], b[11], b[9])), sum_of(b[7], b[5], b[3])), mul(I, b[1])));
  const Tensor V = add(add(matmul(X6, sum_of(b[12], b[10], b[8])), sum_of(b[6], b[4], b[2])), mul(I, b[0]));
  Tensor E = linalg::solve(sub(V, U), add(V, U));
  if (squarings == 0 && E.dtype() == A.dtype())
    E = clone(E);  // solve may save its result, and callers may write to theirs
  for (int i = 0; i < squarings; ++i) E = matmul(E, E);
  return to(E, A.dtype());
}
}  // namespace

STRATA_OP(linalg_matrix_exp, "linalg.matrix_exp(Tensor A) -> Tensor")
  .doc("The exponential of square matrices.")
  .alias("matrix_exp")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A) {
    check_square(*A, "linalg.matrix_exp");
    return exponential(A);
  })
  .samples({"f(3,3)", "f(2,4,4)", "f(0,3,3)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_diagonal, "linalg.diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)")
  .doc("The diagonals of matrices, as a view.")
  .composite([](const Tensor& A, int64_t offset, int64_t dim1, int64_t dim2) {
    return diagonal(A, offset, dim1, dim2);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4)", "f(2,3,3), offset=1"})
  .error("f(3)", ErrorKind::Index, "out of range");

STRATA_OP(trace, "trace(Tensor input) -> Tensor")
  .doc("The sum of a matrix's diagonal.\n\n>>> strata.trace(strata.eye(3))\ntensor(3.)")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input) {
    STRATA_CHECK(input.dim() == 2, Runtime, "trace: expected a matrix, but got tensor with dim {}", input.dim());
    // In the input's dtype, under autocast too; integers are added in int64.
    return sum(diagonal(input), is_differentiable(input.dtype()) ? std::optional(input.dtype()) : std::nullopt);
  })
  .add_dtypes(kComplexTypes)
  .autocast_cpu(Autocast::Float32)
  .samples({"f(3,3)", "f(2,4)", "f(0,3)"})
  .error("f(3)", ErrorKind::Runtime, "expected a matrix");

STRATA_OP(linalg_vander, "linalg.vander(Tensor x, *, int? N=None) -> Tensor")
  .doc("The Vandermonde matrix: powers 0 to N-1 of each element as rows.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& given, std::optional<int64_t> N) {
    const Tensor x = given.dim() ? given : unsqueeze(given, 0);
    STRATA_CHECK(x.size(-1) > 0, Runtime, "linalg.vander: the last dimension of x must not be empty, got shape {}",
                 to_string(x.shape()));
    const int64_t n = N ? *N : x.size(-1);
    STRATA_CHECK(n >= 1, Runtime, "linalg.vander: N must be greater than 1, got {}", n);
    const DType dtype = is_differentiable(x.dtype()) ? x.dtype() : DType::I64;
    std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
    shape.push_back(1);
    const Tensor ones = full(shape, 1, dtype);
    if (n == 1) return ones;
    shape.back() = n - 1;
    return cat({ones, cumprod(expand(unsqueeze(to(x, dtype), -1), shape), -1)}, -1);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(4)", "f(2,3), N=5", "i5(4), N=3"})
  .error("f(0)", ErrorKind::Runtime, "must not be empty");

STRATA_OP(linalg_tensorinv, "linalg.tensorinv(Tensor A, int ind=2) -> Tensor")
  .doc("The inverse of A as a linear map from its last dimensions to its first `ind` dimensions.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, int64_t ind) {
    STRATA_CHECK(ind > 0, Runtime, "linalg.tensorinv: Expected a strictly positive integer for 'ind' but got {}", ind);
    const auto cut = static_cast<size_t>(std::min<int64_t>(ind, A.dim()));
    const Shape head = A.shape().first(cut), tail = A.shape().subspan(cut);
    STRATA_CHECK(product(head) == product(tail), Runtime,
                 "linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
                 "prod(self.shape[:ind]), but got {} != {}",
                 product(tail), product(head));
    std::vector<int64_t> shape(tail.begin(), tail.end());
    shape.insert(shape.end(), head.begin(), head.end());
    return reshape(linalg::inv(reshape(A, {product(head), product(tail)})), shape);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4), 1"})
  .error("f(2,3), 1", ErrorKind::Runtime, "requirement")
  .error("f(2,2), 0", ErrorKind::Runtime, "strictly positive");

STRATA_OP(linalg_tensorsolve, "linalg.tensorsolve(Tensor A, Tensor B, int[]? dims=None) -> Tensor")
  .doc("Solves tensordot(A, X) = B for X.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, const Tensor& B, OptIntList dims) {
    Tensor a = A;
    if (dims.given && dims.size > 0) {
      std::vector<int64_t> from(dims.begin(), dims.end()), to_end;
      for (size_t i = 0; i < dims.size; ++i) to_end.push_back(A.dim() - static_cast<int64_t>(dims.size - i));
      a = movedim(A, from, to_end);
    }
    STRATA_CHECK(a.dim() >= B.dim(), Runtime, "linalg.tensorsolve: A has {} dimensions, B has {}", a.dim(), B.dim());
    const Shape rest = a.shape().subspan(static_cast<size_t>(B.dim()));
    STRATA_CHECK(product(rest) == B.numel(), Runtime,
                 "linalg.tensorsolve: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                 "prod(self.shape[:other.ndim]), but got {} != {}",
                 product(rest), B.numel());
    return reshape(linalg::solve(reshape(a, {B.numel(), product(rest)}), reshape(B, {-1})), rest);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"m(4,4), f(4)"})
  .error("f(2,3), f(2)", ErrorKind::Runtime, "requirement");

}  // namespace strata
