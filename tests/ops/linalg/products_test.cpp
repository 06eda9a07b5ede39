#include "tests/ops/exact.h"

namespace strata {
namespace {
using testing::against_reference;
using testing::for_thread_counts;
using testing::fractions;
using testing::small_integers;

constexpr DType kTypes[] = {DType::F32, DType::F64, DType::BF16, DType::F16,
                            DType::I64, DType::I32, DType::I8,   DType::U8};

std::vector<int64_t> sizes(std::initializer_list<int64_t> l) { return l; }

TEST(Matmul, EqualsReferenceOnIntegersOfEveryTypeAndSize) {
  for (DType type : kTypes)
    for (int64_t m : {1, 3, 17, 50})
      for (int64_t n : {1, 5, 32, 67})
        for (int64_t k : {1, 2, 31}) {
          const Tensor a = small_integers(sizes({m, k}), type, 1), b = small_integers(sizes({k, n}), type, 2);
          EXPECT_EQ(against_reference([&] { return matmul(a, b); }), "")
            << name_of(type) << ' ' << m << ' ' << n << ' ' << k;
        }
}

TEST(Matmul, EqualsReferenceInEveryLayout) {
  for (int64_t n : {5, 40, 300}) {
    const Tensor wide = small_integers(sizes({n + 3, 2 * n}), DType::F32, 1),
                 other = small_integers(sizes({n, n}), DType::F32, 2);
    const Tensor layouts[] = {narrow(narrow(wide, 0, 1, n), 1, 2, n), transpose(other, 0, 1),
                              as_strided(wide, {n, n}, {2 * n, 2}), expand(narrow(other, 0, 0, 1), {n, n}), other};
    for (const Tensor& a : layouts)
      for (const Tensor& b : layouts) {
        EXPECT_EQ(against_reference([&] { return matmul(a, b); }), "") << n;
        EXPECT_EQ(against_reference([&] { return addmm(narrow(other, 0, 0, 1), a, b, 2, 3); }), "") << n;
      }
  }
}

TEST(Matmul, EqualsReferenceForEveryPairOfRanks) {
  const std::vector<int64_t> left[] = {{6}, {5, 6}, {3, 5, 6}, {2, 1, 5, 6}, {1, 3, 1, 6}},
                             right[] = {{6}, {6, 4}, {3, 6, 4}, {2, 3, 6, 4}, {1, 6, 4}};
  for (DType type : {DType::F32, DType::F64, DType::I64})
    for (const auto& l : left)
      for (const auto& r : right) {
        const Tensor a = small_integers(l, type, 1), b = small_integers(r, type, 2);
        EXPECT_EQ(against_reference([&] { return matmul(a, b); }), "") << to_string(Shape(l)) << to_string(Shape(r));
      }
}

TEST(Matmul, EmptySizesGiveZeros) {
  const Tensor out = matmul(small_integers(sizes({3, 0}), DType::F32, 1), small_integers(sizes({0, 4}), DType::F32, 1));
  for (int64_t i = 0; i < out.numel(); ++i) EXPECT_EQ(out.data<float>()[i], 0);
  EXPECT_EQ(matmul(small_integers(sizes({0, 3}), DType::F32, 1), small_integers(sizes({3, 4}), DType::F32, 1)).numel(),
            0);
}

TEST(Linear, EqualsReferenceWithAndWithoutBias) {
  for (DType type : kTypes)
    for (int64_t rows : {1, 7, 64}) {
      const Tensor x = small_integers(sizes({2, rows, 19}), type, 1), w = small_integers(sizes({23, 19}), type, 2),
                   b = small_integers(sizes({23}), type, 3);
      EXPECT_EQ(against_reference([&] { return nn::functional::linear(x, w, b); }), "") << name_of(type);
      EXPECT_EQ(against_reference([&] { return nn::functional::linear(x, w); }), "") << name_of(type);
    }
}

TEST(Matmul, SameBitsForEveryThreadCount) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{512, 512, 512},
                         {3, 2000, 700},
                         {8, 8, 100000},
                         {2000, 1, 900},
                         {1, 700, 5000},
                         {33, 17, 4096}}) {
    const Tensor a = fractions(sizes({m, k}), 1), b = fractions(sizes({k, n}), 2);
    EXPECT_EQ(for_thread_counts([&] { return matmul(a, b); }), "") << m << ' ' << n << ' ' << k;
    const Tensor a64 = to(a, DType::F64), b64 = to(b, DType::F64);
    EXPECT_EQ(for_thread_counts([&] { return matmul(a64, b64); }), "") << "f64 " << m << ' ' << n << ' ' << k;
  }
}

}  // namespace
}  // namespace strata
