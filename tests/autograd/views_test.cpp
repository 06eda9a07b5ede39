// Views and in-place writes: one history per write, which writes are allowed, what moves with the history, versions.
#include "tests/autograd/values.h"

namespace strata {
namespace {
using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

TEST(WrittenViews, EveryUseAfterTheWriteSharesOneHistory) {
  const Tensor x = leaf({1, 2});
  const Tensor base = x * 2, view = narrow(base, 0, 0, 2);
  mul_(base, 3);
  const Tensor a = view * 7, b = view * 11;
  int calls = 0;
  autograd::register_hook(view, [&](const Tensor& g) {
    EXPECT_EQ(numbers(g), (Numbers{18, 18}));
    ++calls;
    return Tensor();
  });
  const Tensor loss = sum(a + b);
  EXPECT_EQ(numbers(grad_of(loss, x, true)), (Numbers{108, 108}));
  EXPECT_EQ(numbers(grad_of(loss, view, true)), (Numbers{18, 18}));
  autograd::backward({&loss, 1}, {}, false, false, {&x, 1});
  EXPECT_EQ(numbers(x.grad()), (Numbers{108, 108}));
  EXPECT_EQ(calls, 3) << "once per pass, with the sum";
}

TEST(WrittenViews, OpsWithoutAGradientCut) {
  const Tensor x = leaf({1, 3});
  const Tensor y = x * 1;
  lt_(narrow(y, 0, 0, 1), 2.0);
  EXPECT_TRUE(y.requires_grad());
  sum(y * 5).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{0, 5}));
}

TEST(WrittenViews, CompositesKeepTheOldValuesTheirGradientsNeed) {
  const Tensor x = leaf({-1, 0.5});
  const Tensor y = x * 1;
  nan_to_num_(y);
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{1, 1}));
}

TEST(WrittenViews, IntegersDoNotAskForGradients) {
  const Tensor n = zeros({2}, kInt64);
  copy_(n, leaf({1, 2}));
  EXPECT_FALSE(n.requires_grad());
  EXPECT_TRUE(autograd::is_leaf(n));
}

TEST(WrittenViews, ALeafThatIsAViewIsRefused) {
  const Tensor x = reshape(values({1, 2, 3, 4}), {2, 2}).set_requires_grad();
  EXPECT_ERROR(Runtime, "a view of a leaf Variable", mul_(x, 2));
  EXPECT_ERROR(Runtime, "a view of a leaf Variable", fill_(select(x, 0, 0), 2));
}

TEST(WrittenViews, ViewsMadeWithoutRecordingAreRefused) {
  const Tensor base = leaf({1, 2}) * 2;
  const Tensor view = [&] {
    const autograd::NoGrad off;
    return narrow(base, 0, 0, 1);
  }();
  EXPECT_ERROR(Runtime, "created in no_grad mode and is being modified", mul_(view, 2));
  mul_(base, 2);
  EXPECT_ERROR(Runtime, "its base or another view of its base has been modified", view * 2);
}

TEST(WrittenViews, InferenceTensorsAreWrittenOnlyInTheirMode) {
  Tensor t;
  {
    const autograd::InferenceMode on;
    t = ones({2});
    mul_(t, 2);
  }
  EXPECT_ERROR(Runtime, "inference tensor", mul_(t, 2));
  EXPECT_ERROR(Runtime, "inference tensor", t.set_requires_grad());
}

TEST(WrittenViews, RetainedGradientsMoveAndHooksStay) {
  const Tensor x = leaf({1, 1});
  const Tensor y = x * 2;
  Numbers seen;
  autograd::retain_grad(y);
  const int64_t id = autograd::register_hook(y, [&](const Tensor& g) {
    seen = numbers(g);
    return Tensor();
  });
  mul_(y, 3);
  const Tensor loss = sum(y * y);
  loss.backward({}, true);
  EXPECT_EQ(numbers(y.grad()), (Numbers{12, 12}));
  EXPECT_EQ(seen, (Numbers{36, 36}));
  seen.clear();
  autograd::remove_hook(y, id);
  loss.backward();
  EXPECT_TRUE(seen.empty());
}

TEST(Versions, DataCountsItsOwnWritesAndCachesSeeThemAll) {
  const Tensor x = leaf({1, 2});
  const Tensor y = sin(x), data = data_of(*x), part = narrow(data, 0, 0, 1);
  const uint64_t writes = x->storage->writes();
  mul_(part, 2);
  EXPECT_EQ(x->version(), 0u);
  EXPECT_EQ(data->version(), 1u);
  EXPECT_EQ(x->storage->writes(), writes + 1);
  EXPECT_NO_THROW(sum(y).backward());
  EXPECT_EQ(data->storage.get(), x->storage.get()) << "overlaps are found by it";
}

TEST(Versions, AnExchangeOfDataIsAWrite) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * x;
  set_data(x, values({3, 4}));
  EXPECT_ERROR(Runtime, "modified by an inplace operation", sum(y).backward());
}

struct Twice : Function<Twice> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    mul_(x, 2);
    ctx.mark_dirty({x});
    return x;
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) { return {grads[0] * 2}; }
};
struct Same : Function<Same> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) { return grads; }
};
struct Many : Function<Many> {
  static std::vector<Tensor> forward(FunctionContext&, const Tensor& x) {
    std::vector<Tensor> outs;
    for (int i = 0; i < 300; ++i) outs.push_back(x * i);
    return outs;
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    Tensor g = grads[0] * 0;
    for (size_t i = 1; i < grads.size(); ++i) g = g + grads[i] * static_cast<double>(i);
    return {g};
  }
};

TEST(WrittenViews, AFunctionThatWritesToAViewReachesTheBase) {
  const Tensor x = leaf({1, 1, 1});
  const Tensor y = x * 1, view = narrow(y, 0, 1, 2);
  EXPECT_EQ(Twice::apply(view).get(), view.get());
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{1, 2, 2}));
  EXPECT_ERROR(Runtime, "a leaf Variable", Twice::apply(x));
  EXPECT_ERROR(Runtime, "a view of a leaf Variable", Twice::apply(narrow(x, 0, 1, 2)));
}

TEST(WrittenViews, AnInputThatAFunctionReturnsIsNotWritten) {
  const Tensor y = leaf({1, 1}) * 1, same = Same::apply(y);
  EXPECT_NE(same.get(), y.get());
  EXPECT_ERROR(Runtime, "created inside a custom Function", mul_(same, 2));
}

TEST(Function, HasMoreThan255Outputs) {
  const Tensor x = leaf({1});
  const auto outs = Many::apply(x);
  (outs[299] + outs[256]).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{555}));
}

TEST(Function, WithNothingSavedRunsBackwardAgain) {
  const Tensor x = leaf({1});
  const Tensor y = Same::apply(x);
  y.backward();
  y.backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{2}));
}

}  // namespace
}  // namespace strata
