#include "compile/graph.h"

#include <gtest/gtest.h>

#include "compile/capture.h"
#include "compile/passes.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

using graph::Graph;
using Tensors = std::vector<Tensor>;

Tensors network(const Tensors& in) {
  const Tensor hidden = relu(nn::functional::linear(in[0], in[1]));
  return {softmax(hidden, -1), hidden.sum()};
}

TEST(Graph, RunsAnotherInput) {
  const Tensor w = randn({4, 3});
  const Graph g = graph::capture(
    [&](const Tensors& in) {
      return network({in[0], w});
    },
    {randn({2, 3})}, {.states = {{"w", w}}, .input_names = {"x"}});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = randn({2, 3});
    const Tensors got = graph::run(g, {x}), want = network({x, w});
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(equal(got[k], want[k])) << k;
  }
}

TEST(Graph, IsTextForPeople) {
  const Tensor w = ones({4, 3});
  const Graph g = graph::capture(
    [&](const Tensors& in) {
      return network({in[0], w});
    },
    {randn({2, 3})}, {.states = {{"w", w}}, .input_names = {"x"}});
  EXPECT_EQ(graph::to_string(g),
            "graph(%x: float32[2, 3]):\n"
            "  %w: float32[4, 3]  # state\n"
            "  %v2: float32[2, 4] = nn.functional.linear(%x, %w)\n"
            "  %v3: float32[2, 4] = relu(%v2)\n"
            "  %v4: float32[2, 4] = softmax(%v3, -1)\n"
            "  %v5: float32[] = sum(%v3)\n"
            "  return %v4, %v5\n");
}

TEST(Graph, TextOfJsonIsTheSameGraph) {
  const Tensor w = randn({4, 3});
  const Graph g = graph::capture([&](const Tensors& in) { return network({in[0], w}); }, {randn({2, 3})});
  const Graph again = graph::from_json(graph::to_json(g), {{"constant_0", w}});
  EXPECT_EQ(graph::to_string(again), graph::to_string(g));
  const Tensor x = randn({2, 3});
  EXPECT_TRUE(equal(graph::run(again, {x})[0], graph::run(g, {x})[0]));
}

// Each rule, broken on purpose.
TEST(Graph, SpecificationRefusesBadGraphs) {
  const Graph good = graph::capture(
    [](const Tensors& in) {
      Tensor y = in[0] * 2;
      y.add_(1);
      return Tensors{cat(Tensors{y, y}), in[0]};
    },
    {randn({3})});
  graph::verify(good);
  const auto refused = [&](const char* message, auto change) {
    Graph bad = good;
    change(bad);
    EXPECT_ERROR(Value, message, graph::verify(bad));
  };
  refused("not computed before", [](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); });
  refused("arguments; its op takes", [](Graph& g) { g.nodes[0].args.pop_back(); });
  refused("another type than its parameter", [](Graph& g) { g.nodes[0].args[0] = std::string("x"); });
  refused("another type than its parameter", [](Graph& g) { g.nodes[2].args[0] = graph::ValueRef{0}; });
  refused("has 2 results", [](Graph& g) { g.nodes[0].results.push_back(0); });
  refused("defined twice", [](Graph& g) { g.nodes[1].results[0] = 0; });
  refused("undefined or defined twice", [](Graph& g) { g.nodes[0].results[0] = 1000; });
  refused("the outputs use", [](Graph& g) { g.outputs[0] = 1000; });
  refused("no input or state", [](Graph& g) { g.writes.push_back({g.outputs[0], 0}); });
  refused("another shape", [](Graph& g) { g.writes.push_back({0, g.outputs[0]}); });
  refused("has no op", [](Graph& g) { g.nodes[0].op = nullptr; });
  refused("is empty or taken", [](Graph& g) { g.values[1].name = g.values[0].name; });
  refused("is in place", [](Graph& g) { g.nodes[1].args[0] = int64_t{3}; });
}

TEST(Graph, PassesKeepTheResults) {
  const Tensor table = arange(4.0);
  const auto f = [&](const Tensors& in) {
    const Tensor unused = exp(in[0]);
    return Tensors{sin(in[0]) * cos(table) + sin(in[0]) * cos(table)};
  };
  Graph g = graph::capture(f, {randn({2, 4})});
  EXPECT_EQ(graph::remove_unused(g), 1u);
  EXPECT_EQ(graph::merge_equal(g), 3u);
  EXPECT_EQ(graph::fold_constants(g), 1u);
  EXPECT_EQ(g.nodes.size(), 3u);  // sin, mul, add
  const Tensor x = randn({2, 4});
  EXPECT_TRUE(equal(graph::run(g, {x})[0], f({x})[0]));
}

TEST(Graph, LeavesValuesAloneThatTheProgramWritesTo) {
  const auto f = [](const Tensors& in) {
    Tensor y = in[0] + 1;
    const Tensor before = y * 1;
    y[0].mul_(5);
    return Tensors{before, y};
  };
  const Graph g = graph::capture(f, {randn({3, 2})});
  const Tensor x = randn({3, 2});
  const autograd::NoGrad off;  // memory is used again where nobody else sees it
  const Tensors got = graph::run(g, {x}), want = f({x});
  EXPECT_TRUE(equal(got[0], want[0]));
  EXPECT_TRUE(equal(got[1], want[1]));
}

TEST(Graph, ReadsAreRefused) {
  const auto f = [](const Tensors& in) { return Tensors{in[0].sum().item<float>() > 0 ? in[0] : -in[0]}; };
  EXPECT_ERROR(Runtime, "reads values", graph::capture(f, {ones({2})}));
  const Graph g = graph::capture(f, {ones({2})}, {.allow_reads = true});
  EXPECT_EQ(g.outputs.size(), 1u);
}

TEST(Graph, WrongArgumentsAreErrors) {
  const auto twice = [](const Tensors& in) { return Tensors{in[0] * 2}; };
  const Graph g = graph::capture(twice, {ones({2})});
  EXPECT_ERROR(Value, "expected 1 inputs, found 0", graph::run(g, {}));
  EXPECT_ERROR(Type, "undefined", graph::run(g, {Tensor()}));
  EXPECT_ERROR(Value, "captured with float32[2]", graph::run(g, {ones({3})}));
  EXPECT_ERROR(Type, "undefined", graph::capture(twice, {Tensor()}));
  EXPECT_ERROR(Type, "undefined", graph::capture([](const Tensors&) { return Tensors{Tensor()}; }, {}));
  EXPECT_ERROR(Value, "no text of a graph", graph::from_json("{}", {}));
}

}  // namespace
}  // namespace strata
