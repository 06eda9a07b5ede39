#include "nn/data/synthetic_digits.h"

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "strata/ops.h"
#include "tests/expect_error.h"
#include "tests/ops/exact.h"

namespace strata::data {
namespace {

TEST(SyntheticDigits, SameForAnyThreadCountAndCutOfTheStream) {
  EXPECT_EQ(testing::for_thread_counts([] { return draw_digits(5, 300, 3).images; }), "");
  const ImageSet whole = draw_digits(0, 200, 1), part = draw_digits(150, 50, 1);
  EXPECT_EQ(testing::difference(narrow(whole.images, 0, 150, 50), part.images), "");
  EXPECT_EQ(testing::difference(narrow(whole.labels, 0, 150, 50), part.labels), "");
  EXPECT_NE(testing::difference(draw_digits(0, 200, 2).images, whole.images), "");
}

TEST(SyntheticDigits, EveryDigitIsDrawnWithInkOnPaper) {
  const ImageSet set = draw_digits(0, 5000, 0);
  const Tensor counts = bincount(set.labels);
  EXPECT_EQ(counts.numel(), 10);
  EXPECT_GT(min(counts).item<int>(), 400);
  const Tensor share = mean(to(gt(set.images, 100), DType::F32), {1, 2});  // of each image that is ink
  EXPECT_GT(min(share).item<double>(), 0.01);
  EXPECT_LT(max(share).item<double>(), 0.4);
}

TEST(SyntheticDigits, TestSetIsAnotherPieceOfTheStream) {
  const ImageSet test = synthetic_digits(false);
  EXPECT_EQ(to_string(test.images.shape()), "[10000, 28, 28]");
  EXPECT_EQ(testing::difference(narrow(test.images, 0, 0, 10), draw_digits(60000, 10, 0).images), "");
  EXPECT_EQ(draw_digits(0, 0, 0).images.numel(), 0);
  EXPECT_ERROR(Value, "must not be negative", draw_digits(-1, 1, 0));
}

}  // namespace
}  // namespace strata::data
