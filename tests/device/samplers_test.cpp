// The building blocks of device/samplers.h against the C library.
#include "device/samplers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace strata {
namespace {

TEST(Samplers, LogarithmsAndExponentialsAreAccurate) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-300, 300), small(-700, 700), unit(0, 1);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::pow(10.0, exponent(random)), want = std::log(x);
    EXPECT_NEAR(samplers::log_of(x), want, 4e-16 * std::max(1.0, std::fabs(want)));
    const double y = small(random);
    EXPECT_NEAR(samplers::exp_of(y) / std::exp(y), 1, 1e-14);
    const double near = 1 + 1e-3 * (unit(random) - 0.5);
    EXPECT_NEAR(samplers::log_of(near) / std::log(near), 1, 1e-12);
    const double p = unit(random) / 2;
    EXPECT_NEAR(samplers::log_of_rest(p) / std::log1p(-p), 1, 1e-14);
  }
  EXPECT_EQ(samplers::log_of(1), 0);
  EXPECT_EQ(samplers::exp_of(0), 1);
  EXPECT_EQ(samplers::exp_of(-746), 0);
  EXPECT_EQ(samplers::exp_of(-INFINITY), 0);
  EXPECT_NEAR(samplers::exp_of(-740) / std::exp(-740), 1, 1e-6);  // subnormal
}

TEST(Samplers, ProbabilitiesAreThoseOfTheFormulas) {
  for (const double rate : {10.0, 33.3, 1e4})
    for (double k = 0; k < 3 * rate; k += std::floor(rate / 5)) {
      const double want = k * std::log(rate) - rate - std::lgamma(k + 1);
      EXPECT_NEAR(samplers::log_poisson(k, rate), want, 1e-9 * std::max(1.0, rate)) << k << " " << rate;
    }
  for (const double n : {25.0, 1000.0})
    for (const double p : {0.02, 0.3, 0.5})
      for (double k = 0; k <= n; k += 5) {
        const double ways = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
        const double want = ways + k * std::log(p) + (n - k) * std::log1p(-p);
        EXPECT_NEAR(samplers::log_binomial(k, n, p, 1 - p), want, 1e-9 * n) << k << " " << n << " " << p;
      }
}

TEST(Samplers, InnerBlocksAreIndependentOfOtherPositions) {
  const PhiloxBlock plain = philox(5, 7), inner = philox(5, 7, 1), next = philox(5, 8);
  EXPECT_EQ(plain.word[0], philox(5, 7, 0).word[0]);
  EXPECT_NE(inner.word[0], plain.word[0]);
  EXPECT_NE(inner.word[0], next.word[0]);
}

}  // namespace
}  // namespace strata
