#include "tests/ops/exact.h"

namespace strata {
namespace {
using testing::against_reference;
using testing::for_thread_counts;
using testing::fractions;
using testing::small_integers;

struct Case {
  std::vector<int64_t> input, weight, stride, padding, dilation;
  int64_t groups;
};
const Case kCases[] = {
  {{2, 3, 9}, {4, 3, 3}, {1}, {0}, {1}, 1},
  {{2, 4, 12}, {6, 2, 3}, {2}, {1}, {2}, 2},
  {{2, 3, 9, 7}, {5, 3, 3, 2}, {1, 1}, {0, 0}, {1, 1}, 1},
  {{3, 4, 8, 9}, {8, 1, 3, 3}, {2, 1}, {1, 2}, {1, 2}, 4},
  {{2, 12, 10, 10}, {32, 12, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},  // too few channels for Winograd: exact
  {{1, 32, 7, 7}, {16, 32, 1, 1}, {2, 2}, {0, 0}, {1, 1}, 1},
  {{1, 1, 5, 5}, {1, 1, 5, 5}, {1, 1}, {2, 2}, {1, 1}, 1},
  {{2, 2, 5, 6, 4}, {4, 2, 2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}, 1},
};

TEST(Convolution, EqualsReferenceInAllPasses) {
  for (DType type : {DType::F32, DType::F64, DType::BF16, DType::I64})
    for (const Case& c : kCases) {
      const Tensor x = small_integers(c.input, type, 1), w = small_integers(c.weight, type, 2),
                   b = small_integers(Shape(c.weight).first(1), type, 3);
      const auto forward = [&] { return convolution(x, w, b, c.stride, c.padding, c.dilation, false, {0}, c.groups); };
      EXPECT_EQ(against_reference(forward), "") << name_of(type) << to_string(Shape(c.input));
      const Tensor y = small_integers(forward().shape(), type, 4);
      EXPECT_EQ(
        against_reference([&] { return convolution(y, w, {}, c.stride, c.padding, c.dilation, true, {0}, c.groups); }),
        "")
        << name_of(type) << to_string(Shape(c.input));
      EXPECT_EQ(against_reference(
                  [&] { return _convolution_weight_grad(x, y, c.weight, c.stride, c.padding, c.dilation, c.groups); }),
                "")
        << name_of(type) << to_string(Shape(c.input));
    }
}

// Large images: their weight gradients are summed in pieces of rows, some of which read only padding.
TEST(Convolution, WeightGradientsOfLargeImages) {
  for (const Case& c :
       {Case{{1, 3, 9000}, {4, 3, 5}, {1}, {2}, {1}, 1}, Case{{3, 4, 5001}, {6, 2, 4}, {3}, {40}, {9}, 2},
        Case{{1, 2, 70, 90}, {3, 2, 3, 2}, {1, 1}, {0, 0}, {2, 1}, 1},
        Case{{2, 2, 60, 50}, {4, 2, 1, 1}, {1, 2}, {30, 0}, {1, 1}, 1},
        Case{{5, 1, 40, 40}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
        Case{{1, 4, 15, 17, 16}, {8, 4, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1}})
    for (DType type : {DType::F32, DType::BF16}) {
      const Tensor x = small_integers(c.input, type, 1), w = small_integers(c.weight, type, 2);
      const auto forward = [&] { return convolution(x, w, {}, c.stride, c.padding, c.dilation, false, {0}, c.groups); };
      const Tensor y = small_integers(forward().shape(), type, 4);
      const auto gradient = [&] {
        return _convolution_weight_grad(x, y, c.weight, c.stride, c.padding, c.dilation, c.groups);
      };
      EXPECT_EQ(against_reference(gradient), "") << name_of(type) << to_string(Shape(c.input));
      EXPECT_EQ(for_thread_counts(gradient), "") << name_of(type) << to_string(Shape(c.input));
    }
}

TEST(Convolution, TakesChannelsLastAndSlices) {
  const std::vector<int64_t> shape = {2, 9, 7, 16};
  const Tensor last = permute(small_integers(shape, DType::F32, 1), {0, 3, 1, 2}),
               w = small_integers(std::vector<int64_t>{8, 16, 3, 3}, DType::F32, 2);
  const Tensor out = conv2d(last, w, {}, 1, 1);
  EXPECT_EQ(out->strides[1], 1);  // channels-last stays channels-last
  EXPECT_EQ(against_reference([&] { return conv2d(last, w, {}, 1, 1); }), "");
  EXPECT_EQ(testing::difference(contiguous(out), conv2d(contiguous(last), w, {}, 1, 1)), "");
  const Tensor slice = narrow(last, 2, 1, 5);
  EXPECT_EQ(testing::difference(contiguous(conv2d(slice, w)), contiguous(conv2d(contiguous(slice), w))), "");
}

TEST(Convolution, TakesSlicesAndExpandedGradientsInAllPasses) {
  const std::vector<int64_t> window = {8, 6, 3, 2};
  for (DType type : {DType::F32, DType::BF16}) {
    const Tensor x = narrow(small_integers(std::vector<int64_t>{3, 9, 12, 11}, type, 1), 1, 2, 6),
                 w = narrow(small_integers(std::vector<int64_t>{8, 7, 3, 4}, type, 2), 1, 1, 6),
                 odd = as_strided(w, window, {84, 12, 4, 2});
    EXPECT_EQ(against_reference([&] { return conv2d(x, odd, {}, 1, 1); }), "") << name_of(type);
    const Tensor one = expand(small_integers(std::vector<int64_t>{1, 8, 1, 1}, type, 3), {3, 8, 12, 12}),
                 slice = narrow(small_integers(std::vector<int64_t>{3, 8, 12, 20}, type, 4), 3, 5, 12);
    for (const Tensor& g : {one, slice}) {
      EXPECT_EQ(against_reference([&] { return convolution(g, odd, {}, {1}, {1}, {1}, true, {0}, 1); }), "");
      EXPECT_EQ(against_reference([&] { return _convolution_weight_grad(x, g, window, {1}, {1}, {1}, 1); }), "");
    }
  }
}

TEST(Convolution, SameBitsForEveryThreadCount) {
  for (const Case& c : {Case{{16, 16, 14, 14}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
                        Case{{1, 8, 40, 40}, {8, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
                        Case{{32, 1, 28, 28}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
                        Case{{7, 4, 20, 20}, {4, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 4}}) {
    const Tensor x = fractions(c.input, 1), w = fractions(c.weight, 2);
    const auto forward = [&] { return convolution(x, w, {}, c.stride, c.padding, c.dilation, false, {0}, c.groups); };
    EXPECT_EQ(for_thread_counts(forward), "") << to_string(Shape(c.input));
    const Tensor y = fractions(forward().shape(), 4);
    EXPECT_EQ(
      for_thread_counts([&] { return convolution(y, w, {}, c.stride, c.padding, c.dilation, true, {0}, c.groups); }),
      "")
      << "input gradient " << to_string(Shape(c.input));
    EXPECT_EQ(for_thread_counts(
                [&] { return _convolution_weight_grad(x, y, c.weight, c.stride, c.padding, c.dilation, c.groups); }),
              "")
      << "weight gradient " << to_string(Shape(c.input));
  }
}

TEST(Softmax, SpecialValuesAndLongRows) {
  const int64_t shape[] = {5, 301};
  const Tensor x = fractions(shape, 1);
  x.data<float>()[0] = HUGE_VALF;
  x.data<float>()[301] = NAN;
  x.data<float>()[602] = -HUGE_VALF;
  x.data<float>()[903] = 3e38f;
  for (const Tensor& y : {softmax(x, 1), log_softmax(x, 1)}) {
    const Tensor d = y;
    for (int64_t i = 0; i < 301; ++i)
      EXPECT_TRUE(std::isnan(d.data<float>()[i]) && std::isnan(d.data<float>()[301 + i]));
    EXPECT_FALSE(std::isnan(d.data<float>()[602]) || std::isnan(d.data<float>()[903]));
  }
  double sum = 0;
  const Tensor y = softmax(x, 1);
  for (int64_t i = 0; i < 301; ++i) sum += y.data<float>()[4 * 301 + i];
  EXPECT_NEAR(sum, 1, 1e-6);
}

}  // namespace
}  // namespace strata
