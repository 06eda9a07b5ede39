#include "nn/amp/grad_scaler.h"

#include <gtest/gtest.h>

#include <limits>

#include "nn/optim/rules.h"
#include "strata/ops.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

Tensor parameter(double value, Device device) {
  Tensor p = full({2}, value, DType::F32, device);
  p.set_requires_grad();
  return p;
}

float first(const Tensor& t) { return select(t, 0, 0).item<float>(); }

void check_training(Device device) {
  const Tensor w = parameter(1, device);
  optim::SGD optimizer({w}, {.lr = 0.25});
  amp::GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  const auto step = [&](double slope) {
    optimizer.zero_grad();
    scaler.scale(sum(mul(w, slope))).backward();
    const bool taken = scaler.step(optimizer);
    scaler.update();
    return taken;
  };
  EXPECT_TRUE(step(1));
  EXPECT_EQ(first(w), 0.75F);
  EXPECT_FALSE(step(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(first(w), 0.75F);
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_TRUE(step(1));
  EXPECT_TRUE(step(1));
  EXPECT_EQ(scaler.get_scale(), 8);

  amp::GradScaler other;
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 8);
  EXPECT_EQ(other.get_growth_interval(), 2);
  scaler.update(3);
  EXPECT_EQ(scaler.get_scale(), 3);
}

TEST(GradScaler, SkipsStepsAndAdaptsTheScale) { check_training(Device{}); }
TEST(GradScaler, SkipsStepsAndAdaptsTheScaleOnADevice) { check_training(Device{DeviceType::Vgpu, 0}); }

TEST(GradScaler, RefusesMisuse) {
  const Tensor w = parameter(1, Device{});
  optim::SGD optimizer({w}, {.lr = 0.25});
  amp::GradScaler scaler;
  EXPECT_ERROR(Runtime, "before scale()", scaler.step(optimizer));
  scaler.scale(sum(w)).backward();
  EXPECT_ERROR(Runtime, "prior to update", scaler.update());
  scaler.unscale_(optimizer);
  EXPECT_EQ(first(w.grad()), 1);
  EXPECT_ERROR(Runtime, "already been called", scaler.unscale_(optimizer));
  scaler.step(optimizer);
  EXPECT_ERROR(Runtime, "after step()", scaler.unscale_(optimizer));
  EXPECT_ERROR(Runtime, "since the last update", scaler.step(optimizer));
  EXPECT_ERROR(Runtime, "empty", scaler.load_state_dict({}));
  EXPECT_ERROR(Value, "'growth_factor' is missing", scaler.load_state_dict({{"scale", ones({})}}));
  EXPECT_ERROR(Value, "growth factor", amp::GradScaler({.growth_factor = 1}));
  EXPECT_ERROR(Value, "backoff factor", amp::GradScaler({.backoff_factor = 1}));
}

TEST(GradScaler, DisabledIsTransparent) {
  const Tensor w = parameter(1, Device{});
  optim::SGD optimizer({w}, {.lr = 1});
  amp::GradScaler scaler({.enabled = false});
  scaler.scale(sum(w)).backward();
  EXPECT_TRUE(scaler.step(optimizer));
  scaler.update();
  EXPECT_EQ(first(w), 0);
  EXPECT_TRUE(scaler.state_dict().empty());
}

}  // namespace
}  // namespace strata
