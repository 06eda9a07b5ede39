// Linear layers in float8 with delayed scaling.
#include <gtest/gtest.h>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

TEST(Fp8, TrainsALayer) {
  manual_seed(0);
  amp::Fp8Linear layer(16, 8, {.history_length = 4});
  EXPECT_EQ(layer.buffers().size(), 3u);
  optim::AdamW optimizer(layer.parameters(), {.lr = 0.02, .weight_decay = 0});
  const Tensor x = randn({64, 16}), y = matmul(x, randn({16, 8}));
  double first = 0, last = 0;
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    const Tensor loss = mean(square(layer(x) - y));
    loss.backward();
    optimizer.step();
    layer.update();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.1 * first);
  const double largest = x.abs().max().item<double>();
  EXPECT_FLOAT_EQ(layer.fp8.scale[0].item<float>(), static_cast<float>(448 / largest));
}

TEST(Fp8, MatchesALayerInFloat32) {
  manual_seed(1);
  amp::Fp8Linear layer(32, 16);
  const Tensor x = randn({4, 3, 32}).set_requires_grad();
  for (int i = 0; i < 2; ++i) {
    layer(x).sum().backward();
    layer.update();
  }
  layer.eval();
  const Tensor plain = nn::functional::linear(x, layer.weight, layer.bias);
  EXPECT_TRUE(allclose(layer(x), plain, 0.1, 0.1));
  EXPECT_EQ(layer.fp8.amax.sum().item<double>(), 0);
  EXPECT_TRUE(std::ranges::equal(x.grad().shape(), x.shape()));
}

TEST(Fp8, RejectsWhatDoesNotFit) {
  amp::Fp8Linear layer(4, 3);
  EXPECT_ERROR(Runtime, "weight has 4 columns", layer(ones({2, 5})));
  EXPECT_ERROR(Runtime, "found float64", layer(ones({2, 4}, kFloat64)));
  EXPECT_ERROR(Value, "expected 1 to 65536", amp::make_fp8_state(0));
  EXPECT_ERROR(Value, "expected 0 to 16", amp::fp8_update(layer.fp8, 17));
  EXPECT_ERROR(Value, "3 columns", amp::fp8_linear(ones({2, 4}), layer.weight, {}, {}, ones({2})));
  layer.to(kFloat16);
  EXPECT_ERROR(Value, "must be float32", layer(ones({2, 4}, kFloat16)));
}

}  // namespace
}  // namespace strata
