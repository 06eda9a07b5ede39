#include "dispatch/deferred.h"

#include <gtest/gtest.h>

#include "cuda/pointwise/fused.h"
#include "strata/strata.h"

namespace strata {
namespace {

class Deferred : public testing::Test {
 protected:
  Deferred() { fill_promised(true); }
  ~Deferred() override {
    set_least_deferred(before_);
    fill_promised(false);
  }
  int64_t before_ = set_least_deferred(1);
};

TEST_F(Deferred, ResultsHaveTheBitsOfSingleOps) {
  const auto f = [](const Tensor& x, const Tensor& y) { return tanh(x * 1.5 + y) * x - y; };
  auto compiled = compile(f);
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16})
    for (const int64_t columns : {1, 5, 4099}) {
      const Tensor x = to(randn({7, columns}), dtype), y = to(randn({columns}), dtype);
      EXPECT_TRUE(equal(compiled(x, y), f(x, y))) << name_of(dtype) << " " << columns;
      EXPECT_TRUE(equal(compiled(x.t(), y.unsqueeze(1)), f(x.t(), y.unsqueeze(1)))) << "transposed";
    }
}

TEST_F(Deferred, HostReadsSeeComputedValues) {
  auto compiled = compile([](const Tensor& x) {
    const Tensor y = x * 2;
    EXPECT_EQ(y.data<float>()[1], 4);
    const Tensor z = y + 1;
    EXPECT_EQ(z[2].item<float>(), 7);
    EXPECT_EQ((z * 1).to_string(), "tensor([3., 5., 7.])");
    return z;
  });
  EXPECT_TRUE(equal(compiled(tensor({1.f, 2.f, 3.f})), tensor({3.f, 5.f, 7.f})));
}

TEST_F(Deferred, GradientsAndUpdates) {
  const auto step = [](Tensor w) {
    w.set_requires_grad();
    sum(nn::functional::gelu(w * 2) * w).backward();
    NoGradGuard off;
    w.sub_(w.grad() * 0.1);
    return w.detach();
  };
  strata::manual_seed(1);
  const Tensor start = randn({300});
  EXPECT_TRUE(equal(compile(step)(start.clone()), step(start.clone())));
}

TEST_F(Deferred, OpsOnRowsAreSteps) {
  const auto f = [](const Tensor& x) {
    const Tensor y = softmax(x * 2, 1);
    return y - mean(y, {1}, true);
  };
  auto compiled = compile(f);
  const Tensor x = randn({33, 40});
  const std::vector<FusedGroup> groups = compiled.explain(x);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].ops, (std::vector<std::string>{"mul", "softmax", "mean", "sub"}));
  EXPECT_TRUE(equal(compiled(x), f(x)));
}

TEST_F(Deferred, ExplainListsGroups) {
  auto compiled = compile([](const Tensor& x) { return exp(x * 2) + sum(x); });
  const std::vector<FusedGroup> groups = compiled.explain(ones({4, 4}));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].ops, (std::vector<std::string>{"mul", "exp", "add"}));
  EXPECT_EQ(groups[0].stored, 1u);
  EXPECT_EQ(groups[0].ended_by, "return");
  compile([] {}).explain();
}

TEST_F(Deferred, AnExceptionComputesWhatIsHeld) {
  Tensor held;
  auto compiled = compile([&](const Tensor& x) -> Tensor {
    held = x * 2 + 1;
    return add(held, ones({5}));
  });
  EXPECT_THROW(compiled(ones({3})), Error);
  EXPECT_TRUE(equal(held, full({3}, 3)));
}

TEST_F(Deferred, GroupsOnDevicesAreOneKernel) {
  const Device vgpu("vgpu");
  const auto f = [](const Tensor& x, const Tensor& y) { return tanh(x * 1.5 + y) * x - y; };
  auto compiled = compile(f);
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16})
    for (const int64_t columns : {1, 5, 4099}) {
      const Tensor x = to(randn({7, columns}), dtype).to(vgpu), y = to(randn({columns}), dtype).to(vgpu);
      EXPECT_TRUE(equal(compiled(x, y), f(x, y))) << name_of(dtype) << " " << columns;
      const std::vector<FusedGroup> groups = compiled.explain(x, y);
      ASSERT_EQ(groups.size(), 1u);
      EXPECT_EQ(groups[0].how, "one kernel");
      EXPECT_EQ(groups[0].device, "vgpu:0");
      EXPECT_NE(groups[0].source.find("fn::Tanh<T>{}"), std::string::npos);
    }
}

TEST_F(Deferred, OpsOnRowsAreInTheKernelsOfDevices) {
  const Device vgpu("vgpu");
  const auto f = [](const Tensor& x, const Tensor& w) {
    const Tensor y = layer_norm(x * 1.5, {x.size(-1)}, w, w);
    return softmax(y + x, -1) * sum(x, -1, true);
  };
  auto compiled = compile(f);
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16})
    for (const int64_t columns : {1, 5, 24, 1000}) {
      const Tensor x = to(randn({7, columns}), dtype).to(vgpu), w = to(randn({columns}), dtype).to(vgpu);
      EXPECT_TRUE(equal(compiled(x, w), f(x, w))) << name_of(dtype) << " " << columns;
    }
  const Tensor x = to(randn({7, 24}), DType::BF16).to(vgpu), w = to(randn({24}), DType::BF16).to(vgpu);
  const std::vector<FusedGroup> groups = compiled.explain(x, w);
  ASSERT_FALSE(groups.empty());
  EXPECT_EQ(groups[0].how, "one kernel");
  EXPECT_NE(groups[0].source.find("NormRow<true, false, cuda::Scaled, cuda::Shifted>"), std::string::npos);
}

TEST_F(Deferred, GroupsWithoutAKernelHaveTheSameBits) {
  const bool before = cuda::set_fused_kernels(false);
  const auto f = [](const Tensor& x) { return where(x > 0, nn::functional::leaky_relu(x * 2, 0.1), exp(x)) + x; };
  auto compiled = compile(f);
  const Tensor x = to(randn({13, 9}), DType::BF16).to(Device("vgpu"));
  EXPECT_TRUE(equal(compiled(x), f(x)));
  const std::vector<FusedGroup> groups = compiled.explain(x);
  cuda::set_fused_kernels(before);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].how, "op by op: kernels are switched off");
  EXPECT_EQ(groups[0].source, "");
}

}  // namespace
}  // namespace strata
