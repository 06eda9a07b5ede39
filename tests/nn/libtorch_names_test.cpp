// Forms of libtorch: a dtype as the options of any factory, comparisons and printing of sizes, devices, dtypes, modules.
#include <gtest/gtest.h>

#include <sstream>

#include "strata/strata.h"

namespace strata {
namespace {

template <class T> std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(LibtorchNames, EveryFactoryTakesADtypeAlone) {
  for (const Tensor& t :
       {zeros({2}, kFloat64), full({2}, 1.5, kFloat64), arange(3, kFloat64), linspace(0, 1, 3, kFloat64),
        eye(3, kFloat64), rand({2}, kFloat64), randn({2, 3}, kFloat64), normal(0, 1, {2}, kFloat64),
        randint(9, {2}, kFloat64), randint(1, 9, {2}, kFloat64), randperm(4, kFloat64), empty({2}, kFloat64)})
    EXPECT_EQ(t.dtype(), kFloat64);
  EXPECT_EQ(eye(2, 3, dtype(kInt64)).dtype(), kInt64);
  EXPECT_EQ(randint(0, 10, {3}, kInt32).dtype(), kInt32);
  EXPECT_EQ(randint(0, 10, {3}).dtype(), kInt64);
  EXPECT_GE(randint(1, 3, {50}, kInt32).min().item<int>(), 1);
}

TEST(LibtorchNames, SizesAreComparedAndPrinted) {
  const Tensor x = ones({2, 3});
  const IntArrayRef sizes = x.sizes();
  EXPECT_TRUE(sizes == zeros({2, 3}).sizes());
  EXPECT_FALSE(sizes == x.t().sizes());
  EXPECT_TRUE(sizes == (std::vector<int64_t>{2, 3}));
  EXPECT_FALSE(sizes == (std::vector<int64_t>{2}));
  EXPECT_EQ(printed(sizes), "[2, 3]");
}

TEST(LibtorchNames, DevicesDtypesAndModulesArePrinted) {
  const ScalarType type = kFloat64;
  EXPECT_EQ(printed(type), "float64");
  EXPECT_EQ(printed(Device("cuda:1")) + printed(Device(kCPU)), "cuda:1cpu");
  EXPECT_EQ(printed(nn::Sequential(nn::Linear(1, 2), nn::ReLU())),
            "Sequential(\n  (0): Linear(in_features=1, out_features=2, bias=True)\n  (1): ReLU()\n)");
}

TEST(LibtorchNames, ComplexParametersAreTrained) {
  Tensor p = complex(full({2}, 1.0), full({2}, -2.0)).requires_grad_();
  optim::LBFGS optimizer({p}, {.lr = 0.1});
  for (int i = 0; i < 3; ++i)
    optimizer.step([&] {
      optimizer.zero_grad();
      Tensor loss = square(abs(p)).sum();
      loss.backward();
      return loss;
    });
  EXPECT_LT(abs(p).max().item<double>(), 0.1);
}

}  // namespace
}  // namespace strata
