#include "tests/autograd/values.h"

namespace strata {
namespace {
using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder
using autograd::register_hook, autograd::remove_hook, autograd::retain_grad;

TEST(Hooks, OnALeafSeeAndChangeTheGradient) {
  const Tensor x = leaf({1, 2});
  Numbers seen;
  register_hook(x, [&](const Tensor& g) {
    seen = numbers(g);
    return g * 10;
  });
  register_hook(x, [&](const Tensor& g) { return g + 1; });
  sum(x * 3).backward();
  EXPECT_EQ(seen, (Numbers{3, 3}));
  EXPECT_EQ(numbers(x.grad()), (Numbers{31, 31}));
}

TEST(Hooks, OnALeafSeeTheTotal) {
  const Tensor x = leaf({1});
  int calls = 0;
  register_hook(x, [&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  sum(x * 3 + x * 4).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{7}));
  EXPECT_EQ(calls, 1) << "once per backward, with the sum";
}

TEST(Hooks, OnAnIntermediateTensorChangeWhatFlowsOn) {
  const Tensor x = leaf({1, 2});
  const Tensor mid = x * 2;
  const int64_t id = register_hook(mid, [](const Tensor& g) { return g * 100; });
  sum(mid * 3).backward({}, true);
  EXPECT_EQ(numbers(x.grad()), (Numbers{600, 600}));
  remove_hook(mid, id);
  sum(mid * 3).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{606, 606}));
}

TEST(Hooks, MayRemoveThemselves) {
  const Tensor x = leaf({1});
  int64_t id = 0;
  int calls = 0;
  id = register_hook(x, [&](const Tensor&) {
    ++calls;
    remove_hook(x, id);
    return Tensor();
  });
  sum(x * 1).backward();
  sum(x * 1).backward();
  EXPECT_EQ(calls, 1);
}

TEST(Hooks, ExceptionsReachTheCallerAndTheNextBackwardWorks) {
  const Tensor x = leaf({1});
  const int64_t id = register_hook(x, [](const Tensor&) -> Tensor { fail(ErrorKind::Value, "hook refused"); });
  EXPECT_ERROR(Value, "hook refused", sum(x * 2).backward());
  remove_hook(x, id);
  sum(x * 2).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{2}));
}

TEST(Hooks, NeedATensorThatRequiresAGradient) {
  EXPECT_ERROR(Runtime, "doesn't require gradient", register_hook(values({1}), [](const Tensor&) { return Tensor(); }));
}

TEST(Hooks, OneOutputOfSeveral) {
  const Tensor x = reshape(leaf({3, 1, 2, 9}), {2, 2});
  const auto [values_out, at] = sort(x, 1);
  register_hook(values_out, [](const Tensor& g) { return g * 5; });
  EXPECT_EQ(numbers(grad_of(sum(values_out), x)), (Numbers{5, 5, 5, 5}));
}

TEST(RetainGrad, KeepsTheGradientOfAComputedTensor) {
  const Tensor x = leaf({2});
  const Tensor mid = x * x;
  EXPECT_FALSE(autograd::retains_grad(mid));
  retain_grad(mid);
  retain_grad(mid);  // a second call does nothing
  EXPECT_TRUE(autograd::retains_grad(mid));
  sum(mid * 3).backward({}, true);
  EXPECT_EQ(numbers(mid.grad()), (Numbers{3}));
  sum(mid * 3).backward();
  EXPECT_EQ(numbers(mid.grad()), (Numbers{6}));
  EXPECT_ERROR(Runtime, "can't retain_grad on Tensor that has requires_grad=False", retain_grad(values({1})));
}

TEST(RetainGrad, SeesWhatHooksMadeOfIt) {
  const Tensor x = leaf({2});
  const Tensor mid = x * x;
  retain_grad(mid);
  register_hook(mid, [](const Tensor& g) { return g * 2; });
  sum(mid * 3).backward();
  EXPECT_EQ(numbers(mid.grad()), (Numbers{6}));
}

TEST(RetainGrad, ATensorThatIsGoneIsForgotten) {
  const Tensor x = leaf({2});
  Tensor out;
  {
    const Tensor mid = x * x;
    retain_grad(mid);
    out = mid * 3;
  }
  EXPECT_NO_THROW(sum(out).backward());
  EXPECT_EQ(numbers(x.grad()), (Numbers{12}));
}

TEST(Leaf, IsALeafUntilItIsComputed) {
  const Tensor x = leaf({1});
  EXPECT_TRUE(autograd::is_leaf(x));
  EXPECT_TRUE(autograd::is_leaf(values({1})));
  EXPECT_FALSE(autograd::is_leaf(x * 1));
  EXPECT_TRUE(autograd::is_leaf(autograd::detach(x * 1)));
}

}  // namespace
}  // namespace strata
