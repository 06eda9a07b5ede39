#include "compile/control_flow.h"

#include <gtest/gtest.h>

#include "compile/passes.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

using graph::Graph;
using Tensors = std::vector<Tensor>;

Tensors doubled(const Tensors& in) { return {in[0] * 2}; }
Tensors negated(const Tensors& in) { return {-in[0]}; }

TEST(ControlFlow, RunsTheBranchThatPredSelects) {
  const Tensor x = ones({2});
  EXPECT_EQ(cond(tensor({1.0f}), doubled, negated, {x})[0].sum().item<float>(), 4);
  EXPECT_EQ(cond(tensor({0.0f}), doubled, negated, {x})[0].sum().item<float>(), -2);
  const auto itself = [](const Tensors& in) { return in; };
  const Tensor copy = cond(tensor({1.0f}), itself, negated, {x})[0];
  EXPECT_NE(copy.data<float>(), x.data<float>());
  const auto writes = [](const Tensors& in) { return Tensors{in[0].add_(1)}; };
  EXPECT_ERROR(Runtime, "writes to its argument 0", cond(tensor({1.0f}), writes, negated, {x.clone()}));
  EXPECT_ERROR(Value, "pred has 2 elements", cond(x, doubled, negated, {x}));
  EXPECT_ERROR(Type, "undefined", cond(Tensor(), doubled, negated, {x}));
  EXPECT_ERROR(Type, "operand 0 is an undefined tensor", cond(tensor({1.0f}), doubled, negated, {Tensor()}));
}

// The loop of ONNX: a number of trips, a condition that is carried, and results of each trip.
Tensors loop(const Tensor& x, const Tensor& limit, std::optional<int64_t> trips) {
  return while_loop([](const Tensors& now) { return now[0]; },
                    [&](const Tensors& now) {
                      const Tensor next = now[1] + x;
                      return Tensors{next.sum() < limit, next, now[1] * now[1]};
                    },
                    {ones({}, DType::Bool), zeros_like(x)}, {.max_trips = trips, .stacked = 1});
}

TEST(ControlFlow, LoopsWithTripsAndStackedResults) {
  const Tensor x = ones({2});
  const Tensors by_trips = loop(x, tensor(100.0f), 3), by_value = loop(x, tensor(5.0f), std::nullopt);
  for (const Tensors& r : {by_trips, by_value}) {
    EXPECT_EQ(r[1].sum().item<float>(), 6);
    ASSERT_EQ(r[2].dim(), 2);
    EXPECT_EQ(r[2].sum().item<float>(), 2 * (0 + 1 + 4));
  }
  const Tensors none = loop(x, tensor(5.0f), 0);
  EXPECT_EQ(none[2].size(0), 0);
  EXPECT_EQ(none[2].size(1), 2);

  const Graph g = graph::capture([](const Tensors& in) { return loop(in[0], in[1], 7); }, {x, tensor(5.0f)});
  const Graph again = graph::from_json(graph::to_json(g), {});
  EXPECT_EQ(graph::to_string(again), graph::to_string(g));
  for (const Graph* run : {&g, &again}) {
    const Tensors got = graph::run(*run, {ones({2}) * 0.8f, tensor(4.0f)});
    EXPECT_TRUE(equal(got[2], loop(ones({2}) * 0.8f, tensor(4.0f), 7)[2]));
    EXPECT_THROW(graph::run(*run, {x, tensor(100.0f)}), graph::OtherResult);  // 7 trips: the graph is for 3
  }
}

TEST(ControlFlow, ScansInBothDirections) {
  const Tensor xs = arange(6.0).reshape({2, 3}), weight = tensor({2.0f}).set_requires_grad();
  const auto step = [&](const Tensors& in) { return Tensors{in[0] + in[1] * weight, in[0]}; };
  for (const bool reverse : {false, true}) {
    const Tensors out = scan(step, {zeros({2})}, {xs}, {.dim = 1, .reverse = reverse});
    EXPECT_TRUE(equal(out[0], xs.sum({1}) * 2));
    EXPECT_EQ(out[1].size(1), 3);
    EXPECT_EQ(out[1].sum().item<float>(), reverse ? 2 * (2 * (2 + 5) + 1 + 4) : 2 * (2 * (0 + 3) + 1 + 4));
  }
  scan(step, {zeros({2})}, {xs}, {.dim = 1})[0].sum().backward();
  EXPECT_EQ(weight.grad().item<float>(), 15);
  EXPECT_EQ(scan(step, {zeros({2})}, {xs.narrow(1, 0, 0)}, {.dim = 1})[1].numel(), 0);
  EXPECT_ERROR(Value, "expected a length", scan(step, {zeros({2})}, {}));
  EXPECT_ERROR(Index, "out of range", scan(step, {zeros({2})}, {xs}, {.dim = 2}));
}

TEST(ControlFlow, GraphsDecideAgain) {
  const Tensor w = ones({2});
  const Graph g = graph::capture(
    [&](const Tensors& in) {
      const Tensors a = cond(
        in[0].sum() > 0, [&](const Tensors& x) { return Tensors{(x[0] * w).exp()}; }, negated, in);
      return scan([](const Tensors& x) { return Tensors{x[0] + x[1], x[0]}; }, {in[0].sum()}, {a[0]});
    },
    {ones({2})}, {.states = {{"w", w}}, .input_names = {"x"}});
  EXPECT_EQ(graph::to_string(g),
            "graph(%x: float32[2]):\n"
            "  %w: float32[2]  # state\n"
            "  %v2: float32[] = sum(%x)\n"
            "  %v3: bool[] = gt(%v2, 0)\n"
            "  %v4: float32[2] = cond(%v3, [%x, %w])\n"
            "    true_fn(%x: float32[2], %w: float32[2]):\n"
            "      %a2: float32[2] = mul(%x, %w)\n"
            "      %a3: float32[2] = exp(%a2)\n"
            "      return %a3\n"
            "    false_fn(%x: float32[2], %w: float32[2]):\n"
            "      %a1: float32[2] = neg(%x)\n"
            "      return %a1\n"
            "  %v5: float32[] = sum(%x)\n"
            "  %v6: float32[], %v7: float32[2] = scan([%v5], [%v4], [])\n"
            "    combine_fn(%v5: float32[], %v4: float32[]):\n"
            "      %a2: float32[] = add(%v5, %v4)\n"
            "      return %a2, %v5\n"
            "  return %v6, %v7\n");
  for (const float sign : {1.0f, -1.0f}) {
    const Tensor x = w * sign;
    const Tensor a = sign > 0 ? (x * w).exp() : -x;
    const Tensors got = graph::run(g, {x});
    EXPECT_EQ(got[0].item<float>(), (x.sum() + a[0] + a[1]).item<float>());
    EXPECT_EQ(got[1][1].item<float>(), (x.sum() + a[0]).item<float>());
  }
  EXPECT_ERROR(NotImplemented, "writes to a tensor that it did not compute",
               graph::capture(
                 [&](const Tensors& in) {
                   return cond(
                     in[0].sum() > 0, [&](const Tensors&) { return Tensors{w.add_(1)}; }, negated, in);
                 },
                 {w}));
  EXPECT_EQ(w.sum().item<float>(), 2);
}

TEST(ControlFlow, ReplaysTheOtherBranch) {
  int runs = 0;
  auto f = compile(
    [&](const Tensor& x) {
      ++runs;
      return cond(x.sum() > 0, doubled, negated, {x})[0];
    },
    Replay{});
  for (int k = 0; k < 20; ++k) {
    const float sign = k % 3 ? 1.0f : -1.0f;
    EXPECT_EQ(f(ones({4}) * sign).sum().item<float>(), sign > 0 ? 8 : 4);
  }
  EXPECT_EQ(runs, 5);
}

}  // namespace
}  // namespace strata
