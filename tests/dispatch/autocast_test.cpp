#include "dispatch/autocast.h"

#include <gtest/gtest.h>

#include <thread>

#include "autograd/autograd.h"
#include "record/precision.h"
#include "strata/ops.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

TEST(Autocast, ScopesCastAndNest) {
  const Tensor a = ones({2, 2});
  {
    const autocast::Scope scope(DeviceType::Cpu);
    EXPECT_EQ(mm(a, a).dtype(), DType::BF16);
    {
      const autocast::Scope inner(DeviceType::Cpu, DType::F16);
      EXPECT_EQ(mm(a, a).dtype(), DType::F16);
      const autocast::Scope off(DeviceType::Cpu, {}, false);
      EXPECT_EQ(mm(a, a).dtype(), DType::F32);
    }
    EXPECT_EQ(mm(a, a).dtype(), DType::BF16);
    EXPECT_EQ(nn::functional::mse_loss(mm(a, a), a).dtype(), DType::F32);
  }
  EXPECT_EQ(mm(a, a).dtype(), DType::F32);
  EXPECT_FALSE(autocast::is_autocast_enabled(DeviceType::Cpu));
}

TEST(Autocast, GradientsHaveTheDtypeOfTheirLeaf) {
  Tensor w = ones({2, 2});
  w.set_requires_grad();
  {
    const autocast::Scope scope(DeviceType::Cpu);
    sum(to(mm(w, w), DType::F32)).backward();  // one cast of w, used twice
    EXPECT_TRUE(autocast::is_autocast_enabled(DeviceType::Cpu));
  }
  EXPECT_EQ(w.grad().dtype(), DType::F32);
  EXPECT_EQ(w.grad().data<float>()[0], 4);
}

TEST(Autocast, AnotherThreadIsNotAffected) {
  const autocast::Scope scope(DeviceType::Cpu);
  DType found = DType::Bool;
  std::thread([&] { found = mm(ones({2, 2}), ones({2, 2})).dtype(); }).join();
  EXPECT_EQ(found, DType::F32);
}

TEST(Autocast, RefusesOtherDtypesAndDevices) {
  EXPECT_ERROR(Runtime, "expected bfloat16 or float16", autocast::Scope(DeviceType::Cpu, DType::F32));
  EXPECT_ERROR(Runtime, "not supported", autocast::Scope(DeviceType::Meta));
  EXPECT_EQ(autocast::increment_nesting(), 1);
  EXPECT_EQ(autocast::decrement_nesting(), 0);
}

TEST(Precision, NamesAndSwitchAgree) {
  EXPECT_EQ(float32_matmul_precision(), "highest");
  set_float32_matmul_precision("medium");
  EXPECT_TRUE(allow_tf32_products());
  set_allow_tf32_products(true);
  EXPECT_EQ(float32_matmul_precision(), "high");
  EXPECT_ERROR(Value, "expected 'highest'", set_float32_matmul_precision("low"));
  set_allow_tf32_products(false);
  EXPECT_EQ(float32_matmul_precision(), "highest");
}

}  // namespace
}  // namespace strata
