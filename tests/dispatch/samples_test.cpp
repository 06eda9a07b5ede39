#include "strata/strata.h"

#include <cmath>

#include "dispatch/samples.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

TEST(Samples, FillsDefaultsAndNamesWhatWasGiven) {
  const Sample s(op_add, "f(3,4), 2.5, alpha=3");
  EXPECT_EQ(s.args.size, 3u);
  EXPECT_EQ(to_string(s.args.tensor(0).sizes()), "[3, 4]");
  EXPECT_EQ(s.args[1].number(), 2.5);
  EXPECT_EQ(s.args[2].integer(), 3);
  EXPECT_EQ(s.given, (std::vector<uint32_t>{0, 1, 2}));
  const Sample plain(op_add, "f(), f(2)");
  EXPECT_EQ(plain.args[2].integer(), 1);
  EXPECT_EQ(plain.tensors.size(), 2u);
}

TEST(Samples, KindsOfTensorsKeepTheirRanges) {
  const auto check = [](const char* text, double low, double high) {
    const Sample s(op_neg, text, kFloat64);
    const Tensor t = s.args.share(0);
    EXPECT_EQ(t.numel(), 500);
    for (int64_t i = 0; i < t.numel(); ++i) {
      const double v = t.dtype() == kFloat64 ? t.data<double>()[i] : static_cast<double>(t.data<int64_t>()[i]);
      ASSERT_GE(v, low) << text;
      ASSERT_LE(v, high) << text;
    }
  };
  check("p(500)", 0.1, 3);
  check("u(500)", -0.95, 0.95);
  check("o(500)", 1.1, 3);
  check("z(500)", 0.05, 0.95);
  check("i5(500)", 0, 4);
  check("f(500)", -7, 7);
  const Sample b(op_logical_not, "b(100)");
  EXPECT_EQ(b.args.tensor(0).dtype, kBool);
}

TEST(Samples, SymmetricMatricesAreSymmetricPositiveDefinite) {
  const Sample s(op_neg, "s(2,4,4)", kFloat64);
  const Tensor a = s.args.share(0);
  EXPECT_EQ(max(abs(a - transpose(a, -1, -2))).item<double>(), 0.0);
  EXPECT_GT(amin(linalg::eigvalsh(a)).item<double>(), 0.0);
}

TEST(Samples, SameTextAndSeedGiveTheSameValues) {
  const Sample a(op_neg, "f(50)", kFloat64, 1), b(op_neg, "f(50)", kFloat64, 1), c(op_neg, "f(50)", kFloat64, 2);
  EXPECT_TRUE(all(eq(a.args.share(0), b.args.share(0))).item<bool>());
  EXPECT_FALSE(all(eq(a.args.share(0), c.args.share(0))).item<bool>());
}

TEST(Samples, ListsLiteralsAndWords) {
  const Sample cat_sample(op_cat, "[f(2), f(3)], dim=-1");
  EXPECT_EQ(cat_sample.args[0].tensor_list().size(), 2u);
  EXPECT_EQ(cat_sample.args[1].integer(), -1);
  const Sample literal(op_neg, "t[[3, -2, 1]]");
  EXPECT_EQ(to_string(literal.args.tensor(0).sizes()), "[1, 3]");
  EXPECT_EQ(literal.args.share(0).data<int64_t>()[1], -2);
  const Sample one(find_op("nn.functional.interpolate"),
                   "f(1,2,4), scale_factor=2.0");  // a number where a list is expected
  ASSERT_EQ(one.args[2].float_list().size(), 1u);
  EXPECT_EQ(one.args[2].float_list()[0], 2.0);
  const Sample words(op_clamp, "f(2), -inf, None");
  EXPECT_EQ(words.args[1].number(), -HUGE_VAL);
  EXPECT_FALSE(words.args[2]);
}

TEST(Samples, ReplaceSwapsATensorEverywhere) {
  Sample s(op_cat, "[f(2), f(3)]");
  const Tensor other = zeros({2});
  s.replace(0, other);
  EXPECT_EQ(s.args[0].tensor_list()[0].get(), other.get());
  EXPECT_EQ(s.tensors[0].get(), other.get());
}

TEST(Samples, MistakesAreInternalErrorsWithTheColumn) {
  const auto bad = [](const char* text, const char* why) { EXPECT_ERROR(Internal, why, Sample(op_add, text)); };
  bad("f(3), 1, 2, 3", "too many arguments");
  bad("f(3)", "a required argument is missing");
  bad("f(3), beta=1", "unknown argument name");
  bad("f(3) 1", "expected ','");
  bad("f(3", "expected a number");
  bad("f3", "expected '('");
  bad("x(3), 1", "unknown kind of tensor");
  bad("f(3), 'abc", "unterminated string");
  bad("f(3), [1, 2", "expected a value");
  bad("f(3), t[1, 2", "expected a number");
  bad("f(3), 1-2", "not a number");
  bad("f(3), --1", "not a number");
  bad("f(3), 1, other=2", "given twice");
  bad("f(3),,", "expected a number");
}

}  // namespace
}  // namespace strata
