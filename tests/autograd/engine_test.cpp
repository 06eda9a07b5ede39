#include <array>
#include <cmath>
#include <thread>

#include "tests/autograd/small_stack.h"
#include "tests/autograd/values.h"

namespace strata {
namespace {
using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder
using autograd::backward, autograd::grad;

TEST(Backward, AddsToTheLeaves) {
  const Tensor x = leaf({1, 2, 3}), y = leaf({4, 5, 6});
  sum(x * y + x).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{5, 6, 7}));
  EXPECT_EQ(numbers(y.grad()), (Numbers{1, 2, 3}));
  EXPECT_FALSE(x.grad().requires_grad());
}

TEST(Backward, NamesWhatADefinitionForgetsToSave) {
  const auto run = [](const OpRecord& op) {
    const Tensor x = leaf({1, 2});
    Tensor y = autograd::detach(exp(x));
    record_node(op, Args(x), &y, 1);
    sum(y).backward();
  };
  OpRecord square = op_square.record, exponential = op_exp.record;
  square.saved_inputs = 0;
  exponential.saved_outputs = 0;
  EXPECT_ERROR(Runtime, "square: the gradient reads 'input', which is not saved; add .saves({\"input\"})", run(square));
  EXPECT_ERROR(Runtime, "exp: the gradient reads the result, which is not saved", run(exponential));
}

TEST(Backward, AccumulatesIntoTheSameTensor) {
  const Tensor x = leaf({1, 2});
  sum(x * 3).backward();
  const Tensor first = x.grad();
  sum(x * 4).backward();
  EXPECT_EQ(x.grad().get(), first.get());
  EXPECT_EQ(numbers(first), (Numbers{7, 7}));
}

TEST(Backward, PartsAddUpInTheirPlaces) {
  const Tensor x = leaf({1, 2, 3, 4});
  for (bool computed : {false, true}) {
    Tensor(x).set_grad({});
    const Tensor y = computed ? x * 1 : x;
    (sum(slice(y, 0, 0, 2) * 2) + sum(slice(y, 0, 1, 3) * 3) + select(y, 0, 3) * 5 + sum(slice(y, 0, 0, 4, 2)))
      .backward();
    EXPECT_EQ(numbers(x.grad()), (Numbers{3, 5, 4, 5})) << computed;
  }
  // The gradient of a sum goes to both terms; neither may be changed while the other is still needed.
  Tensor(x).set_grad({});
  const Tensor a = x * 1, b = x * 10, seed = values({1, 1, 1, 1});
  const Tensor part = sum(select(a, 0, 0) * 7);
  autograd::backward(std::array{a + b, part}, std::array{seed, Tensor()});
  EXPECT_EQ(numbers(x.grad()), (Numbers{18, 11, 11, 11}));
  EXPECT_EQ(numbers(seed), (Numbers{1, 1, 1, 1}));
}

TEST(Backward, GradientsAreNobodyElsesMemory) {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4}), seed = values({1, 1});
  for (bool create : {false, true}) {
    Tensor(x).set_grad({});
    Tensor(y).set_grad({});
    backward(x + y, seed, false, create);
    EXPECT_NE(x.grad().bytes(), y.grad().bytes()) << create;
    EXPECT_NE(x.grad().bytes(), seed.bytes()) << create;
    EXPECT_NE(y.grad().bytes(), seed.bytes()) << create;
  }
  Tensor(x).set_grad({});
  Tensor(y).set_grad({});  // with create_graph a leaf and its gradient own each other
  const Tensor z = x * 1;
  autograd::retain_grad(z);
  backward(z, seed);
  EXPECT_NE(z.grad().bytes(), seed.bytes());
}

TEST(Backward, BroadcastingAndPromotionAreUndone) {
  const Tensor row = leaf({1, 2, 3}), one = full({}, 2.0, kFloat64).set_requires_grad(),
               narrow = leaf({1, 1, 1}, kFloat32);
  sum(reshape(values({1, 2, 3, 4, 5, 6}), {2, 3}) * row * one + narrow).backward();
  EXPECT_EQ(numbers(row.grad()), (Numbers{10, 14, 18}));
  EXPECT_EQ(numbers(one.grad()), (Numbers{5 + 14 + 27}));
  EXPECT_EQ(numbers(narrow.grad()), (Numbers{2, 2, 2}));
  EXPECT_EQ(narrow.grad().dtype(), kFloat32);
  EXPECT_EQ(one.grad().dim(), 0);
}

TEST(Backward, OneTensorUsedManyTimes) {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  sum(y * y + y + x).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{4 * 8 + 2 * 2 + 1}));
}

TEST(Backward, NeedsAScalarOrAGradientOfTheRightShape) {
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(Runtime, "only for scalar outputs", (x * 2).backward());
  EXPECT_ERROR(Runtime, "Mismatch in shape", (x * 2).backward(ones({3}, kFloat64)));
  (x * 2).backward(values({1, 10}));
  EXPECT_EQ(numbers(x.grad()), (Numbers{2, 20}));
  EXPECT_ERROR(Runtime, "does not require grad", values({1}).backward());
  const Tensor roots[2] = {x * 1, x * 2}, one[1] = {values({1, 1})};
  EXPECT_ERROR(Runtime, "got 2 tensors and 1 gradients", backward(roots, one));
}

TEST(Backward, FreesTheGraphUnlessItIsRetained) {
  const Tensor x = leaf({2, 3});
  const Tensor y = sum(x * x);
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{8, 12}));
  EXPECT_ERROR(Runtime, "Trying to backward through the graph a second time (at mul)", y.backward());
  EXPECT_EQ(numbers(x.grad()), (Numbers{8, 12}));
}

TEST(Backward, FreeingGivesTheSavedTensorsBack) {
  const Tensor x = leaf({1, 2, 3});
  const size_t before = memory_stats().allocated_bytes;
  const Tensor y = sum(exp(x * 2) * 3);
  EXPECT_GT(memory_stats().allocated_bytes, before + 8);
  y.backward();
  EXPECT_EQ(memory_stats().allocated_bytes, before + 8 + 24);  // y and the gradient
}

TEST(Backward, DroppingTheResultFreesEverything) {
  const Tensor x = leaf({1, 2, 3});
  const size_t before = memory_stats().allocated_bytes;
  { const Tensor y = sum(exp(x * 2) * sigmoid(x)); }
  EXPECT_EQ(memory_stats().allocated_bytes, before);
}

TEST(Backward, OnlyForTheGivenInputs) {
  const Tensor x = leaf({1}), y = leaf({2});
  const Tensor root = x * y, inputs[1] = {x};
  backward({&root, 1}, {}, false, false, inputs);
  EXPECT_EQ(numbers(x.grad()), (Numbers{2}));
  EXPECT_FALSE(y.grad());
}

TEST(Grad, OfLeavesAndIntermediateTensors) {
  const Tensor x = leaf({3});
  const Tensor mid = x * x, out = mid * x;
  const Tensor inputs[2] = {x, mid};
  const auto g = grad({&out, 1}, inputs);
  EXPECT_EQ(numbers(g[0]), (Numbers{27}));
  EXPECT_EQ(numbers(g[1]), (Numbers{3}));
  EXPECT_FALSE(x.grad());
}

TEST(Grad, UnusedInputsAreAnErrorOrUndefined) {
  const Tensor x = leaf({1}), unused = leaf({1}), constant = values({1});
  const Tensor inputs[2] = {x, unused};
  {
    const Tensor out = x * 2;
    EXPECT_ERROR(Runtime, "appears to not have been used in the graph (input 1)", grad({&out, 1}, inputs));
  }
  const Tensor out = x * 2;
  const auto g = grad({&out, 1}, inputs, {}, false, false, true);
  EXPECT_EQ(numbers(g[0]), (Numbers{2}));
  EXPECT_FALSE(g[1]);
  EXPECT_ERROR(Runtime, "One of the differentiated Tensors does not require grad", grad_of(out, constant));
}

TEST(Grad, TouchesOnlyTheGraphBetweenOutputAndInputs) {
  const Tensor x = leaf({2}), w = leaf({5});
  int calls = 0;
  autograd::register_hook(w, [&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  const Tensor mid = exp(x) * w, out = mid * mid;
  const Tensor g = grad_of(out, mid);
  EXPECT_EQ(numbers(g), (Numbers{2 * 5 * std::exp(2.0)}));
  EXPECT_EQ(calls, 0);
  EXPECT_NO_THROW(mid.backward());  // below mid nothing was freed
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(numbers(w.grad()), (Numbers{std::exp(2.0)}));
}

TEST(Grad, OfTheOutputItself) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  EXPECT_EQ(numbers(grad_of(y, y)), (Numbers{1}));
  EXPECT_EQ(numbers(grad_of(x, x)), (Numbers{1}));
}

TEST(Grad, OneOutputOfSeveral) {
  const Tensor x = reshape(leaf({3, 1, 2, 9}), {2, 2});
  const auto [top, at] = max(x, 1);
  const auto parts = unbind(x * 2, 0);
  EXPECT_EQ(numbers(grad_of(sum(top), x)), (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(numbers(grad_of(sum(parts[1]), x)), (Numbers{0, 0, 2, 2}));
  EXPECT_FALSE(at.requires_grad());
}

TEST(DoubleBackward, CreateGraph) {
  const Tensor x = leaf({2});
  const Tensor y = pow(x, 3);
  const Tensor first = grad_of(y, x, true, true), second = grad_of(first, x, true, true),
               third = grad_of(second, x, true, true);
  EXPECT_EQ(numbers(first), (Numbers{12}));
  EXPECT_EQ(numbers(second), (Numbers{12}));
  EXPECT_EQ(numbers(third), (Numbers{6}));
  EXPECT_FALSE(grad_of(y, x).requires_grad());
}

TEST(DoubleBackward, ThroughSavedResults) {
  const Tensor x = leaf({0.5});
  const Tensor y = exp(x) * sigmoid(x) + tanh(x) + sqrt(x);
  const double e = std::exp(0.5), s = 1 / (1 + std::exp(-0.5)), t = std::tanh(0.5);
  const Tensor first = grad_of(y, x, true, true);
  EXPECT_NEAR(first.item<double>(), e * s + e * s * (1 - s) + 1 - t * t + 0.5 / std::sqrt(0.5), 1e-12);
  const double second =
    e * s + 2 * e * s * (1 - s) + e * s * (1 - s) * (1 - 2 * s) - 2 * t * (1 - t * t) - 0.25 / std::pow(0.5, 1.5);
  EXPECT_NEAR(grad_of(first, x).item<double>(), second, 1e-12);
}

TEST(DoubleBackward, AccumulatedGradientsAreDifferentiable) {
  const Tensor x = leaf({3});
  sum(x * x * x).backward({}, false, true);
  EXPECT_TRUE(x.grad().requires_grad());
  const Tensor g = x.grad();
  EXPECT_EQ(numbers(grad_of(sum(g), x)), (Numbers{18}));
  Tensor(x).set_grad({});
}

TEST(LongGraphs, AMillionNodesRunBackwardAndAreFreedWithoutRecursion) {
  on_small_stack([] {
    const Tensor x = leaf({1});
    Tensor y = x * 1;
    for (int i = 0; i < 1'000'000; ++i) y = y + 1;
    y.backward();
    EXPECT_EQ(numbers(x.grad()), (Numbers{1}));
    y = {};  // frees the chain
  });
  on_small_stack([] {  // with saved tensors, dropped before any backward
    const Tensor x = leaf({1});
    Tensor y = x;
    for (int i = 0; i < 100'000; ++i) y = y * y;
    y = {};
  });
  on_small_stack([] {  // grad() first searches the path to its inputs
    const Tensor x = leaf({1});
    Tensor y = x;
    for (int i = 0; i < 100'000; ++i) y = y * 1.0;
    EXPECT_EQ(numbers(grad_of(y, x)), (Numbers{1}));
  });
}

TEST(LongGraphs, WideGraphsAndManyPaths) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = (y + y) * 0.5;  // 2^60 paths
  y.backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{1}));
  const Tensor z = leaf({1});
  std::vector<Tensor> parts;
  parts.reserve(5000);
  for (int i = 0; i < 5000; ++i) parts.push_back(z * i);
  sum(stack(parts)).backward();
  EXPECT_EQ(numbers(z.grad()), (Numbers{5000.0 * 4999 / 2}));
}

TEST(Threads, BackwardOnDifferentGraphsAtOnce) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::array<double, 4> results{};
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&results, t] {
      for (int i = 0; i < 50; ++i) {
        const Tensor x = leaf({static_cast<double>(t) + 1});
        Tensor y = x;
        for (int k = 0; k < 20; ++k) y = y * 1.5 + x;
        sum(y * y).backward();
        results[t] = x.grad().item<double>();
      }
    });
  for (auto& t : threads) t.join();
  for (size_t t = 1; t < 4; ++t) EXPECT_NEAR(results[t] / results[0], static_cast<double>(t) + 1, 1e-9);
}

TEST(Threads, GraphsMayShareTheirLeaves) {
  const Tensor w = leaf({1, 2}), v = leaf({3});
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) sum(w * 2 + v).backward();
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(numbers(w.grad()), (Numbers{4000, 4000}));
  EXPECT_EQ(numbers(v.grad()), (Numbers{4000}));
}

TEST(Threads, AGraphMayBeBuiltByOneAndFreedByAnother) {
  const Tensor x = leaf({2});
  Tensor y;
  std::thread([&] {
    y = x;
    for (int i = 0; i < 3000; ++i) y = y * 1.0;
  }).join();
  std::thread([&] {
    y.backward();
    y = {};
  }).join();
  EXPECT_EQ(numbers(x.grad()), (Numbers{1}));
}

struct Anomaly {
  Scoped<bool> on{thread_state.anomaly_mode, true};
};
TEST(Anomaly, NamesTheOpWhoseResultIsTheFirstNaN) {
  const Anomaly on;
  const Tensor x = values({-1});
  EXPECT_ERROR(Runtime, "log returned nan values", exp(log(x) + 1));
  EXPECT_NO_THROW(exp(values({NAN})) + 1);  // the NaN was in the input
}

TEST(Anomaly, NamesTheOpWhoseGradientIsNaN) {
  const Tensor x = leaf({0});
  {
    const Tensor y = sum(sqrt(x) * 0.0);
    const Anomaly on;
    EXPECT_ERROR(Runtime, "Function 'sqrt' returned nan values in its backward", y.backward());
  }
  const Tensor y = sum(sqrt(x) * 0.0);
  EXPECT_NO_THROW(y.backward());
  EXPECT_TRUE(std::isnan(x.grad().item<double>()));
}

TEST(Anomaly, NamesTheLineWhereTheBindingKnowsIt) {
  const auto before = autograd::current_line;
  autograd::current_line = [] { return std::string("model.py:42"); };
  {
    const Anomaly on;
    const Tensor x = leaf({0});
    EXPECT_ERROR(Runtime, "model.py:42", sum(sqrt(x) * 0.0).backward());
  }
  autograd::current_line = before;
}

}  // namespace
}  // namespace strata
