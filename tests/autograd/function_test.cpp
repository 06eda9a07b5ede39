#include "strata/strata.h"

#include <cmath>

#include "tests/autograd/values.h"

namespace strata {
namespace {
using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

struct Cube : Function<Cube> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x, double factor) {
    ctx.save_for_backward({x});
    ctx.saved_data["factor"] = factor;
    return x * x * x * factor;
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    const Tensor x = ctx.get_saved_variables()[0];
    return {grads[0] * x * x * (3 * std::any_cast<double>(ctx.saved_data["factor"])), {}};
  }
};

TEST(Function, ForwardAndBackward) {
  const Tensor x = leaf({1, 2});
  const Tensor y = Cube::apply(x, 2.0);
  EXPECT_EQ(numbers(y), (Numbers{2, 16}));
  EXPECT_NE(y.to_string().find("CubeBackward"), std::string::npos);
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{6, 24}));
}

TEST(Function, PassesGradcheckAndGradgradcheck) {
  const autograd::TensorFunction f = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{Cube::apply(in[0], 0.5)};
  };
  EXPECT_TRUE(gradcheck(f, {leaf({1, -2, 0.5})}));
  EXPECT_TRUE(gradgradcheck(f, {leaf({1, -2, 0.5})}));
}

TEST(Function, NothingIsRecordedWithoutNeed) {
  EXPECT_FALSE(Cube::apply(values({1}), 1.0).requires_grad());
  autograd::NoGrad off;
  EXPECT_FALSE(Cube::apply(leaf({1}), 1.0).requires_grad());
}

TEST(Function, GraphIsFreedAndSavedTensorsAreChecked) {
  const Tensor x = leaf({2});
  const Tensor y = Cube::apply(x, 1.0);
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{24}));
  EXPECT_ERROR(Runtime, "Trying to backward through the graph a second time (at CubeBackward)", y.backward());
  const Tensor mid = x * 1;
  const Tensor z = Cube::apply(mid, 1.0);
  mul_(mid, 2);
  EXPECT_ERROR(Runtime, "modified by an inplace operation: CubeBackward saved", z.backward());
}

struct SavedResult : Function<SavedResult> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    const Tensor y = exp(x);
    ctx.save_for_backward({y});
    return y;
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    return {grads[0] * ctx.get_saved_variables()[0]};
  }
};
TEST(Function, ASavedOutputIsNoCycle) {
  const size_t before = memory_stats().allocated_bytes;
  {
    const Tensor x = leaf({1, 2});
    const Tensor y = SavedResult::apply(x);
  }
  EXPECT_EQ(memory_stats().allocated_bytes, before);
  EXPECT_TRUE(gradgradcheck(
    [](const std::vector<Tensor>& in) { return std::vector<Tensor>{SavedResult::apply(in[0])}; }, {leaf({0.5, -1})}));
}

struct SplitSum : Function<SplitSum> {
  static std::vector<Tensor> forward(FunctionContext& ctx, const std::vector<Tensor>& parts, const Tensor& shift,
                                     bool materialize) {
    ctx.set_materialize_grads(materialize);
    const Tensor whole = argmax(parts[0]);
    ctx.mark_non_differentiable({whole});
    return {parts[0] + shift, parts[1] + shift, whole};
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    EXPECT_TRUE(ctx.needs_input_grad(0));
    EXPECT_FALSE(ctx.needs_input_grad(1));
    seen = static_cast<bool>(grads[1]);
    return {grads[0], {}, grads[0], {}};
  }
  static inline bool seen = false;
};
TEST(Function, ListsSeveralOutputsAndMissingGradients) {
  for (bool materialize : {true, false}) {
    const Tensor a = leaf({1, 2}), b = values({3, 4}), shift = leaf({10, 10});
    const auto outs = SplitSum::apply(std::vector<Tensor>{a, b}, shift, materialize);
    ASSERT_EQ(outs.size(), 3u);
    EXPECT_FALSE(outs[2].requires_grad());
    sum(outs[0]).backward();
    EXPECT_EQ(SplitSum::seen, materialize);
    EXPECT_EQ(numbers(a.grad()), (Numbers{1, 1}));
    EXPECT_EQ(numbers(shift.grad()), (Numbers{1, 1}));
  }
}

struct Wrong : Function<Wrong> {
  static Tensor forward(FunctionContext&, const Tensor& x, int64_t) { return x * 1; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    return mode ? std::vector<Tensor>{ones({5}, kFloat64), {}} : grads;
  }
  static inline int mode = 0;
};
TEST(Function, WrongGradientsAreTypedErrors) {
  Wrong::mode = 0;
  EXPECT_ERROR(Runtime, "function WrongBackward returned an incorrect number of gradients (expected 2, got 1)",
               sum(Wrong::apply(leaf({1, 2}), int64_t{1})).backward());
  Wrong::mode = 1;
  EXPECT_ERROR(Runtime, "returned an invalid gradient at index 0 - got [5] but expected shape compatible with [2]",
               sum(Wrong::apply(leaf({1, 2}), int64_t{1})).backward());
}

struct Broadcast : Function<Broadcast> {
  static Tensor forward(FunctionContext&, const Tensor& a, const Tensor& b) { return a + b; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    return {grads[0], grads[0]};
  }
};
TEST(Function, GradientsAreSummedToTheInput) {
  const Tensor a = leaf({1, 2, 3}), b = leaf({1}, kFloat32);
  sum(Broadcast::apply(a, b)).backward();
  EXPECT_EQ(numbers(b.grad()), (Numbers{3}));
  EXPECT_EQ(b.grad().dtype(), kFloat32);
}

struct Double_ : Function<Double_> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.mark_dirty({x});
    return mul_(x, 2);
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) { return {grads[0] * 2}; }
};
TEST(Function, MayWriteToItsInput) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 3;
  EXPECT_EQ(Double_::apply(y).get(), y.get());
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{6, 6}));
  const Tensor base = x * 1;
  Double_::apply(narrow(base, 0, 1, 1));
  Tensor(x).set_grad({});
  sum(base).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{1, 2}));
  EXPECT_ERROR(Runtime, "a leaf Variable that requires grad", Double_::apply(leaf({1})));
}

struct Identity : Function<Identity> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) { return {grads[0] * -1}; }
};
TEST(Function, AnInputPassedThroughGetsAHistoryOfItsOwn) {
  const Tensor x = leaf({1, 2});
  const Tensor y = Identity::apply(x);
  EXPECT_NE(y.get(), x.get());
  EXPECT_EQ(y.bytes(), x.bytes());
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{-1, -1}));
  EXPECT_TRUE(autograd::is_leaf(x));
}

struct Throws : Function<Throws> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 1; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>&) {
    fail(ErrorKind::Value, "no gradient today");
  }
};
TEST(Function, ErrorsReachTheCaller) {
  EXPECT_ERROR(Value, "no gradient today", sum(Throws::apply(leaf({1}))).backward());
}

struct MakesNaN : Function<MakesNaN> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 1; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    Tensor g = clone(grads[0]);
    g.data<double>()[0] = NAN;
    return {g};
  }
};
TEST(Function, AnomalyModeNamesIt) {
  const Scoped<bool> on(thread_state.anomaly_mode, true);
  EXPECT_ERROR(Runtime, "Function 'MakesNaNBackward' returned nan values", sum(MakesNaN::apply(leaf({1}))).backward());
}

TEST(Checkpoint, SameGradientsWithLessMemory) {
  const Tensor w = leaf({0.5, 0.25});
  const autograd::TensorFunction f = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{exp(sin(in[0] * w)) * in[0]};
  };
  const Tensor x = leaf({1, 2}), y = leaf({1, 2});
  sum(f({x})[0]).backward();
  const Numbers plain = numbers(w.grad());
  Tensor(w).set_grad({});
  const size_t before = memory_stats().allocated_bytes;
  const Tensor out = autograd::checkpoint(f, {y})[0];
  EXPECT_EQ(memory_stats().allocated_bytes, before + 16);  // only the output
  sum(out).backward();
  EXPECT_EQ(numbers(y.grad()), numbers(x.grad()));
  EXPECT_EQ(numbers(w.grad()), plain);
}

TEST(Checkpoint, DrawsTheSameNumbersAgain) {
  manual_seed(3);
  Tensor first, second;
  int calls = 0;
  const autograd::TensorFunction f = [&](const std::vector<Tensor>& in) {
    const Tensor noise = to(rand({2}), kFloat64);
    (calls++ ? second : first) = noise;
    return std::vector<Tensor>{in[0] * noise};
  };
  const Tensor x = leaf({1, 2});
  const Tensor out = autograd::checkpoint(f, {x})[0];
  const auto state = default_generator().state();
  sum(out).backward();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(numbers(first), numbers(second));
  EXPECT_EQ(numbers(x.grad()), numbers(first));
  EXPECT_EQ(default_generator().state().position, state.position);
}

TEST(Checkpoint, RefusesWhatItCannotDo) {
  const autograd::TensorFunction f = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * in[0]}; };
  const Tensor x = leaf({1});
  const Tensor mid = x * 1, out = autograd::checkpoint(f, {mid})[0];
  EXPECT_ERROR(Runtime, "call the function without checkpoint()", grad_of(out, x, true, true));
  add_(mid, 1);
  EXPECT_ERROR(Runtime, "modified by an inplace operation", out.backward());
  EXPECT_FALSE(autograd::checkpoint(f, {values({1})})[0].requires_grad());
}

}  // namespace
}  // namespace strata
