// Decompositions: the product of the factors is the matrix, for every shape, in both types; singular input is an error.
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "strata/ops.h"

namespace strata {
namespace {

double distance(const Tensor& a, const Tensor& b) {
  return a.numel() ? max(abs(sub(to(a, kFloat64), to(b, kFloat64)))).item<double>() : 0;
}
Tensor identity_like(const Tensor& q) { return matmul(mT(q), q); }
double tolerance(DType t) { return t == DType::F64 ? 1e-11 : 2e-4; }

class Decomposition : public testing::TestWithParam<std::tuple<DType, std::pair<int64_t, int64_t>>> {
 protected:
  DType dtype = std::get<0>(GetParam());
  int64_t m = std::get<1>(GetParam()).first, n = std::get<1>(GetParam()).second;
  Tensor A = randn({2, m, n}, {}, dtype);
};

TEST_P(Decomposition, SvdRebuildsTheMatrix) {
  for (bool whole : {false, true}) {
    const auto [U, S, Vh] = linalg::svd(A, whole);
    const int64_t k = S.size(-1);
    EXPECT_LT(distance(matmul(mul(narrow(U, -1, 0, k), unsqueeze(S, -2)), narrow(Vh, -2, 0, k)), A), tolerance(dtype));
    EXPECT_LT(distance(identity_like(U), expand(eye(U.size(-1), std::nullopt, dtype), {2, U.size(-1), U.size(-1)})),
              tolerance(dtype));
    EXPECT_LT(distance(S, linalg::svdvals(A)), tolerance(dtype));
  }
}

TEST_P(Decomposition, QrRebuildsTheMatrix) {
  for (const char* mode : {"reduced", "complete"}) {
    const auto [Q, R] = linalg::qr(A, mode);
    EXPECT_LT(distance(matmul(Q, R), A), tolerance(dtype));
    EXPECT_LT(distance(triu(R), R), 1e-30);
    EXPECT_LT(distance(identity_like(Q), expand(eye(Q.size(-1), std::nullopt, dtype), {2, Q.size(-1), Q.size(-1)})),
              tolerance(dtype));
  }
}

TEST_P(Decomposition, LuRebuildsTheMatrix) {
  const auto [P, L, U] = linalg::lu(A);
  EXPECT_LT(distance(matmul(P, matmul(L, U)), A), tolerance(dtype));
}

TEST_P(Decomposition, PseudoInverseSatisfiesItsDefinition) {
  const Tensor P = linalg::pinv(A);
  EXPECT_LT(distance(matmul(matmul(A, P), A), A), 10 * tolerance(dtype));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Decomposition,
                         testing::Combine(testing::Values(DType::F32, DType::F64),
                                          testing::Values(std::pair{1, 1}, std::pair{2, 2}, std::pair{5, 3},
                                                          std::pair{3, 5}, std::pair{40, 40}, std::pair{65, 50},
                                                          std::pair{50, 130})));

class Square : public testing::TestWithParam<std::tuple<DType, int64_t>> {
 protected:
  DType dtype = std::get<0>(GetParam());
  int64_t n = std::get<1>(GetParam());
  Tensor A = add(randn({3, n, n}, {}, dtype), mul(eye(n, std::nullopt, dtype), 3 + static_cast<double>(n)));
  Tensor S = add(matmul(A, mT(A)), eye(n, std::nullopt, dtype));
  double scale = static_cast<double>(n) * static_cast<double>(n) + 10;
};

TEST_P(Square, EighRebuildsTheMatrix) {
  const auto [w, V] = linalg::eigh(S);
  EXPECT_LT(distance(matmul(mul(V, unsqueeze(w, -2)), mT(V)), S), scale * tolerance(dtype));
  EXPECT_TRUE(all(ge(narrow(w, -1, 1, n - 1), narrow(w, -1, 0, n - 1))).item<bool>());
}

TEST_P(Square, CholeskyAndSolvesAgree) {
  const Tensor L = linalg::cholesky(S), B = randn({3, n, 2}, {}, dtype);
  EXPECT_LT(distance(matmul(L, mT(L)), S), scale * tolerance(dtype));
  EXPECT_LT(distance(matmul(A, linalg::solve(A, B)), B), tolerance(dtype) * 10);
  EXPECT_LT(distance(cholesky_solve(B, L), linalg::solve(S, B)), tolerance(dtype) * 10);
  EXPECT_LT(distance(matmul(A, linalg::inv(A)), expand(eye(n, std::nullopt, dtype), {3, n, n})), tolerance(dtype) * 10);
}

TEST_P(Square, DeterminantIsTheProductOfEigenvalues) {
  if (n > 20) return;
  const Tensor small = mul(S, 1 / scale), w = linalg::eigvalsh(small), det = linalg::det(small);
  // A product of n factors has n rounding errors: their bound is relative.
  EXPECT_LT(distance(div(prod(w, int64_t{-1}), det), ones_like(det)), dtype == DType::F64 ? 1e-13 : 3e-6);
  const auto [sign, log_size] = linalg::slogdet(small);
  EXPECT_LT(distance(sum(log(w), int64_t{-1}), log_size), 50 * tolerance(dtype));
  EXPECT_LT(distance(sign, ones_like(sign)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Square,
                         testing::Combine(testing::Values(DType::F32, DType::F64),
                                          testing::Values(1, 2, 3, 17, 48, 49, 130)));

TEST(Linalg, SingularMatricesAreErrors) {
  const Tensor zero = full({3, 3}, 0.0, kFloat32), batch = stack({eye(3, std::nullopt, kFloat32), zero});
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Runtime);
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(message([&] { linalg::inv(zero); }).find("singular"), std::string::npos);
  EXPECT_NE(message([&] { linalg::inv(batch); }).find("(Batch element 1)"), std::string::npos);
  EXPECT_NE(message([&] { linalg::solve(zero, full({3}, 1.0, kFloat32)); }).find("singular"), std::string::npos);
  EXPECT_NE(message([&] { linalg::cholesky(neg(eye(3, std::nullopt, kFloat32))); }).find("positive-definite"),
            std::string::npos);
  EXPECT_NE(message([&] { linalg::svd(full({2, 2}, NAN, kFloat32)); }).find("non-finite"), std::string::npos);
  EXPECT_EQ(linalg::det(zero).item<double>(), 0);
}

TEST(Linalg, ResultsDoNotDependOnTheThreadCount) {
  const Tensor A = randn({4, 150, 150}, {}, kFloat32);
  Tensor first;
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const Tensor x = linalg::inv(A);
    if (!first) first = x;
    EXPECT_TRUE(all(eq(x, first)).item<bool>());
  }
  set_num_threads(hardware_threads());
}

TEST(Linalg, HardSpectra) {
  const Tensor same = mul(eye(6, std::nullopt, kFloat64), 2.0);
  EXPECT_LT(distance(linalg::svdvals(same), full({6}, 2.0, kFloat64)), 1e-14);
  EXPECT_LT(distance(linalg::eigvalsh(same), full({6}, 2.0, kFloat64)), 1e-14);
  const Tensor low_rank = matmul(randn({20, 2}, {}, kFloat64), randn({2, 15}, {}, kFloat64));
  EXPECT_EQ(linalg::matrix_rank(low_rank).item<int64_t>(), 2);
  const Tensor tiny = mul(randn({5, 5}, {}, kFloat64), 1e-200), huge = mul(randn({5, 5}, {}, kFloat64), 1e200);
  EXPECT_TRUE(all(isfinite(linalg::svdvals(tiny))).item<bool>());
  EXPECT_TRUE(all(isfinite(linalg::svdvals(huge))).item<bool>());
}

}  // namespace
}  // namespace strata
