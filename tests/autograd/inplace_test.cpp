#include <cmath>

#include "tests/autograd/values.h"

namespace strata {
namespace {
using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

TEST(InPlaceGrad, HistoryMovesOn) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  mul_(y, 3);
  add_(y, x);
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{7, 7}));
}

TEST(InPlaceGrad, OldValuesAreKeptWhereTheGradientNeedsThem) {
  const Tensor x = leaf({1, 2}), w = leaf({5, 7});
  const Tensor y = x * 1;
  mul_(y, w);
  sum(y).backward();
  EXPECT_EQ(numbers(w.grad()), (Numbers{1, 2}));
  EXPECT_EQ(numbers(x.grad()), (Numbers{5, 7}));
}

TEST(InPlaceGrad, WithItselfAsTheOtherOperand) {
  const Tensor x = leaf({3, -2});
  const Tensor y = x * 1;
  mul_(y, y);
  EXPECT_EQ(numbers(y), (Numbers{9, 4}));
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{6, -4}));
  const Tensor u = leaf({3, 2});
  const Tensor v = u * 1;
  div_(narrow(v, 0, 0, 1), narrow(v, 0, 1, 1));  // u0 / u1
  sum(v).backward();
  EXPECT_EQ(numbers(u.grad()), (Numbers{0.5, -0.75 + 1}));
}

TEST(InPlaceGrad, AConstantBecomesPartOfTheGraph) {
  const Tensor x = leaf({1, 2}), buffer = zeros({2}, kFloat64);
  add_(buffer, x * 5);
  EXPECT_TRUE(buffer.requires_grad());
  EXPECT_FALSE(autograd::is_leaf(buffer));
  const Tensor base = zeros({4}, kFloat64), view = narrow(base, 0, 0, 2);
  EXPECT_FALSE(view.requires_grad());
  add_(base, select(x, 0, 0));
  EXPECT_TRUE(view.requires_grad());
  sum(buffer * 2).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{10, 10}));
}

TEST(InPlaceGrad, AWriteThroughAViewReachesTheBase) {
  const Tensor x = leaf({1, 2, 3, 4}), w = leaf({10, 20});
  const Tensor base = x * 1;
  const Tensor view = narrow(base, 0, 1, 2);
  mul_(view, w);
  EXPECT_EQ(numbers(base), (Numbers{1, 20, 60, 4}));
  sum(base * values({1, 2, 3, 4})).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{1, 20, 60, 4}));
  EXPECT_EQ(numbers(w.grad()), (Numbers{4, 9}));
}

TEST(InPlaceGrad, EarlierViewsAreRefreshed) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor base = x * 1;
  const Tensor early = narrow(base, 0, 0, 2), other = reshape(base, {2, 2});
  mul_(base, 10);
  sum(early).backward({}, true);
  EXPECT_EQ(numbers(x.grad()), (Numbers{10, 10, 0, 0}));
  mul_(early, 2);  // through one view, read through another
  Tensor(x).set_grad({});
  sum(select(other, 0, 0)).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{20, 20, 0, 0}));
}

TEST(InPlaceGrad, ViewsOfViewsAndStrides) {
  const Tensor x = leaf({1, 2, 3, 4, 5, 6});
  const Tensor base = x * 1;
  const Tensor column = select(transpose(reshape(base, {2, 3}), 0, 1), 0, 2);  // elements 2 and 5
  zero_(column);
  EXPECT_EQ(numbers(base), (Numbers{1, 2, 0, 4, 5, 0}));
  sum(base * base).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{2, 4, 0, 8, 10, 0}));
}

TEST(InPlaceGrad, CopyAndIndexAssignment) {
  const Tensor x = leaf({1, 2}), base = zeros({4}, kFloat64);
  copy_(narrow(base, 0, 1, 2), x);
  index_put_(base, {values({3}, kInt64)}, select(x, 0, 0) * 7);
  EXPECT_EQ(numbers(base), (Numbers{0, 1, 2, 7}));
  sum(base * values({1, 10, 100, 1000})).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{7010, 100}));
}

TEST(InPlaceGrad, ASavedInputThatWasWrittenToIsAnErrorNamingTheOp) {
  const Tensor x = leaf({1, 2}), w = values({3, 4});
  const Tensor y = x * w;
  add_(w, 1);
  EXPECT_ERROR(
    Runtime,
    "modified by an inplace operation: mul saved a float64 tensor of shape [2] at version 0, it is now at version 1",
    sum(y).backward());
}

TEST(InPlaceGrad, ASavedResultThatWasWrittenToIsAnErrorNamingTheOp) {
  const Tensor x = leaf({1, 2});
  const Tensor y = exp(x);
  add_(y, 1);
  EXPECT_ERROR(Runtime, "modified by an inplace operation: exp saved", sum(y).backward());
  const Tensor z = sigmoid(x), part = narrow(z, 0, 0, 1);
  mul_(part, 2);  // through a view
  EXPECT_ERROR(Runtime, "modified by an inplace operation: sigmoid saved", sum(z).backward());
}

TEST(InPlaceGrad, AWriteThatNobodySavedIsFine) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x + 1;
  mul_(y, 2);
  EXPECT_NO_THROW(sum(y).backward());
  const Tensor z = exp_(x * 1);  // the result is saved after the write
  sum(z).backward();
  for (int i : {0, 1}) EXPECT_NEAR(x.grad().data<double>()[i], 2 + std::exp(1.0 + i), 1e-12);
}

TEST(InPlaceGrad, DetachedWritesAreNoticedToo) {
  const Tensor x = leaf({1, 2}), w = leaf({1, 1});
  const Tensor y = x * w;
  add_(autograd::detach(w), 1);
  EXPECT_ERROR(Runtime, "modified by an inplace operation", sum(y).backward());
}

TEST(InPlaceGrad, LeavesAndTheirViewsAreRefused) {
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(Runtime, "a leaf Variable that requires grad is being used in an in-place operation (add_)", add_(x, 1));
  EXPECT_ERROR(Runtime, "a view of a leaf Variable that requires grad is being used in an in-place operation (mul_)",
               mul_(narrow(x, 0, 0, 1), 2));
  EXPECT_EQ(numbers(x), (Numbers{1, 2}));
  autograd::NoGrad off;
  add_(x, 1);
  EXPECT_EQ(numbers(x), (Numbers{2, 3}));
  EXPECT_TRUE(x.requires_grad());
}

TEST(InPlaceGrad, UnderNoGradTheHistoryStays) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x + 1;
  {
    autograd::NoGrad off;
    mul_(y, 100);
  }
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{1, 1}));
}

TEST(InPlaceGrad, HooksOnTheOldValueStillRun) {
  const Tensor x = leaf({1});
  const Tensor y = x * 2;
  int calls = 0;
  autograd::register_hook(y, [&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  mul_(y, 3);
  sum(y).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(numbers(x.grad()), (Numbers{6}));
}

TEST(InPlaceGrad, DoubleBackwardThroughAWrite) {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  mul_(y, x);
  const Tensor first = grad_of(y, x, true, true);
  EXPECT_EQ(numbers(first), (Numbers{12}));
  EXPECT_EQ(numbers(grad_of(first, x)), (Numbers{12}));
}

}  // namespace
}  // namespace strata
