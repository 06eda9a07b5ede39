// Each pass on hand-made and random graphs: the results stay the same up to rounding, and the ops are those expected.
#include "engine/passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autograd/autograd.h"
#include "compile/capture.h"
#include "engine/passes/inference.h"
#include "strata/ops.h"
#include "tests/expect_error.h"

namespace strata::engine {
namespace {

namespace F = nn::functional;
using graph::Graph;
using Tensors = std::vector<Tensor>;
using Program = std::function<Tensors(const Tensors&)>;

class Passes : public ::testing::Test {
 protected:
  Tensor normal(std::vector<int64_t> shape, double factor = 1) {
    Tensor t = zeros(shape);
    std::normal_distribution<float> d;
    for (float *p = t.data<float>(), *end = p + t.numel(); p != end; ++p) *p = static_cast<float>(factor) * d(random_);
    return t;
  }
  Tensor positive(std::vector<int64_t> shape) { return add(abs(normal(shape)), 0.5); }
  static Graph captured(const Program& f, const Tensors& inputs, bool composites = false) {
    const autograd::NoGrad off;
    graph::CaptureOptions how;
    how.composites = composites;
    return graph::capture(f, inputs, how);
  }
  // Runs the graph before and after; the errors are relative to the largest element.
  static void expect_equal(const Graph& before, const Graph& after, const Tensors& inputs, double tolerance = 2e-5) {
    const autograd::NoGrad off;
    const Tensors want = graph::run(before, inputs), got = graph::run(after, inputs);
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_TRUE(std::ranges::equal(want[i].shape(), got[i].shape()));
      EXPECT_EQ(want[i].dtype(), got[i].dtype());
      if (want[i].numel() == 0) continue;
      const Tensor a = to(want[i], DType::F64), b = to(got[i], DType::F64);
      const double largest = std::max(1.0, amax(abs(a)).item<double>());
      EXPECT_LE(amax(abs(sub(a, b))).item<double>(), tolerance * largest) << graph::to_string(after);
    }
  }
  static std::string ops_of(const Graph& g) {
    std::string names;
    for (const graph::Node& n : g.nodes) {
      const std::string& name = n.op->name;
      names += (names.empty() ? "" : " ") + name.substr(name.rfind('.') + 1);
    }
    return names;
  }
  static std::string optimized(const Program& f, const Tensors& inputs, bool composites = false,
                               double tolerance = 2e-5) {
    const Graph before = captured(f, inputs, composites);
    Graph after = before;
    optimize(after);
    graph::verify(after);
    expect_equal(before, after, inputs, tolerance);
    return ops_of(after);
  }
  std::mt19937 random_{7};
};

Tensor conv(const Tensor& x, const Tensor& w, const Tensor& b = {}, int64_t padding = 0, int64_t stride = 1,
            int64_t groups = 1) {
  const auto dims = static_cast<size_t>(w.dim()) - 2;
  const std::vector<int64_t> s(dims, stride), p(dims, padding), one(dims, 1), none(dims, 0);
  return convolution(x, w, b, s, p, one, false, none, groups);
}

TEST_F(Passes, FoldBatchNormAfterAConvolution) {
  const Tensor w = normal({6, 4, 3, 3}), mean = normal({6}), var = positive({6}), gamma = normal({6}),
               beta = normal({6});
  for (const bool composites : {false, true})
    for (const Tensor& bias : {Tensor(), normal({6})}) {
      const Program f = [&](const Tensors& in) -> Tensors {
        return {F::batch_norm(conv(in[0], w, bias, 1), mean, var, gamma, beta, false, 0.1, 1e-5)};
      };
      EXPECT_EQ(optimized(f, {normal({2, 4, 5, 6})}, composites).find("batch_norm"), std::string::npos);
    }
  // without weight and bias, and with an activation after
  const Program f = [&](const Tensors& in) -> Tensors {
    return {relu(F::batch_norm(conv(in[0], w, {}, 1), mean, var, {}, {}, false, 0.1, 1e-5))};
  };
  EXPECT_EQ(optimized(f, {normal({2, 4, 5, 6})}), "clone _fused_convolution clone");
}

TEST_F(Passes, FoldBatchNormBeforeAConvolutionOnlyWithoutPadding) {
  const Tensor w = normal({6, 4, 3, 3}), mean = normal({4}), var = positive({4}), gamma = normal({4}),
               beta = normal({4});
  for (const int64_t padding : {0, 1}) {
    const Program f = [&](const Tensors& in) -> Tensors {
      return {conv(F::batch_norm(in[0], mean, var, gamma, beta, false, 0.1, 1e-5), w, {}, padding)};
    };
    const Tensors inputs = {normal({2, 4, 5, 6})};
    EXPECT_EQ(optimized(f, inputs).find("batch_norm") == std::string::npos, padding == 0);
    std::vector<Decision> decisions;
    Graph g = captured(f, inputs);
    fold_norms(g, {.decisions = &decisions});
    ASSERT_FALSE(decisions.empty());
    EXPECT_EQ(decisions[0].applied, padding == 0) << decisions[0].what;
  }
}

TEST_F(Passes, KeepWhatOthersUse) {
  const Tensor w = normal({6, 4, 1, 1}), mean = normal({6}), var = positive({6});
  const Program f = [&](const Tensors& in) -> Tensors {
    const Tensor y = conv(in[0], w);
    return {F::batch_norm(y, mean, var, {}, {}, false, 0.1, 1e-5), relu(y), y};
  };
  EXPECT_NE(optimized(f, {normal({2, 4, 5, 6})}).find("batch_norm"), std::string::npos);
  // training: the statistics are those of the batch
  const Program trains = [&](const Tensors& in) -> Tensors {
    return {F::batch_norm(conv(in[0], w), {}, {}, {}, {}, true, 0.1, 1e-5)};
  };
  EXPECT_NE(optimized(trains, {normal({2, 4, 5, 6})}).find("batch_norm"), std::string::npos);
}

TEST_F(Passes, FoldProductsAndSumsPerChannel) {
  const Tensor w = normal({6, 4, 3, 3}), scale = positive({1, 6, 1, 1}), shift = normal({6, 1, 1});
  const Program f = [&](const Tensors& in) -> Tensors {
    return {relu(add(div(mul(conv(in[0], w, {}, 1), scale), 3.0), shift))};
  };
  EXPECT_EQ(optimized(f, {normal({1, 4, 5, 6})}), "clone _fused_convolution clone");
  // a row of a product is not a channel of a convolution
  const Tensor columns = normal({6});
  const Program row = [&](const Tensors& in) -> Tensors { return {mul(conv(in[0], w, {}, 1), columns)}; };
  EXPECT_NE(optimized(row, {normal({1, 4, 5, 6})}).find("mul"), std::string::npos);
}

TEST_F(Passes, FoldPadsIntoConvolutions) {
  const Tensor w = normal({6, 4, 3, 3}), b = normal({6});
  const auto padded = [&](std::vector<int64_t> amounts, double value) {
    return Program(
      [=](const Tensors& in) -> Tensors { return {relu(conv(constant_pad_nd(in[0], amounts, value), w, b, 1))}; });
  };
  const Tensors inputs = {normal({2, 4, 5, 6})};
  EXPECT_EQ(optimized(padded({0, 1, 2, 0}, 0), inputs), "clone _fused_convolution clone");
  EXPECT_EQ(optimized(padded({1, 1}, 0), inputs), "clone _fused_convolution clone");
  EXPECT_NE(optimized(padded({1, 1}, 0.5), inputs).find("pad"), std::string::npos);
  EXPECT_NE(optimized(padded({-1, 1}, 0), inputs).find("pad"), std::string::npos);
  EXPECT_NE(optimized(padded({0, 0, 0, 0, 0, 0, 1, 1}, 0), inputs).find("pad"), std::string::npos);
}

TEST_F(Passes, JoinResidualsAndActivations) {
  const Tensor a = normal({8, 8, 3, 3}, 0.2), b = normal({8, 8, 1, 1}, 0.3), bias = normal({8});
  const Program before = [&](const Tensors& in) -> Tensors {
    const Tensor y = relu(conv(in[0], a, bias, 1));
    return {relu(add(conv(y, a, {}, 1), conv(in[0], b)))};
  };
  EXPECT_EQ(optimized(before, {normal({2, 8, 7, 9})}), "clone _fused_convolution convolution _fused_convolution clone");
  const Program after = [&](const Tensors& in) -> Tensors { return {add(in[0], F::silu(conv(in[0], a, bias, 1)))}; };
  EXPECT_EQ(optimized(after, {normal({2, 8, 7, 9})}), "clone _fused_convolution clone");
  const Tensor c = normal({3, 8, 2, 2});
  const Program clamps = [&](const Tensors& in) -> Tensors {
    return {F::relu6(conv(in[0], a)), clamp(conv(in[0], b), -1, 1), F::leaky_relu(conv(in[0], c), 0.2)};
  };
  const std::string ops = optimized(clamps, {normal({2, 8, 7, 9})});
  EXPECT_EQ(ops.find("clamp"), std::string::npos) << ops;
}

TEST_F(Passes, JoinProductsWithTheirBias) {
  const Tensor w = normal({12, 20}, 0.3), row = normal({20});
  const Program f = [&](const Tensors& in) -> Tensors { return {F::gelu(add(row, matmul(in[0], w)))}; };
  EXPECT_EQ(optimized(f, {normal({3, 5, 12})}), "_fused_linear");
  const Program residual = [&](const Tensors& in) -> Tensors { return {add(in[1], F::linear(in[0], t(w), row))}; };
  EXPECT_EQ(optimized(residual, {normal({3, 5, 12}), normal({3, 5, 20})}), "_fused_linear");
  const Program broadcast = [&](const Tensors& in) -> Tensors { return {add(in[1], F::linear(in[0], t(w), row))}; };
  EXPECT_EQ(optimized(broadcast, {normal({3, 5, 12}), normal({5, 20})}), "linear add");
}

TEST_F(Passes, JoinActivationsAsExportersWriteThem) {
  const Tensors x = {normal({3, 40})};
  const auto ops = [&](Tensor (*f)(const Tensor&)) {
    return optimized([f](const Tensors& in) -> Tensors { return {f(in[0])}; }, x);
  };
  EXPECT_EQ(ops([](const Tensor& v) { return mul(mul(v, add(erf(div(v, std::sqrt(2.0))), 1)), 0.5); }), "gelu");
  EXPECT_EQ(ops([](const Tensor& v) { return mul(mul(v, 0.5), add(erf(mul(v, std::sqrt(0.5))), 1)); }), "gelu");
  EXPECT_EQ(ops([](const Tensor& v) {
              return mul(mul(v, 0.5), add(tanh(mul(add(v, mul(pow(v, 3), 0.044715)), std::sqrt(2 / M_PI))), 1));
            }),
            "gelu");
  EXPECT_EQ(ops([](const Tensor& v) {
              const Tensor inner = mul(mul(v, 0.7978845608), add(mul(mul(v, 0.044715), v), 1));
              return mul(mul(v, add(tanh(inner), 1)), 0.5);
            }),
            "gelu");
  EXPECT_EQ(ops([](const Tensor& v) { return mul(v, sigmoid(v)); }), "silu");
  EXPECT_EQ(ops([](const Tensor& v) { return div(mul(v, clamp(add(v, 3), 0, 6)), 6); }), "hardswish");
  EXPECT_EQ(ops([](const Tensor& v) { return mul(v, F::hardsigmoid(v)); }), "hardswish");
  // near misses
  EXPECT_EQ(ops([](const Tensor& v) { return mul(v, sigmoid(mul(v, 1.702))); }).find("silu"), std::string::npos);
  EXPECT_EQ(ops([](const Tensor& v) { return mul(mul(v, add(erf(div(v, 1.5)), 1)), 0.5); }).find("gelu"),
            std::string::npos);
}

TEST_F(Passes, JoinLimits) {
  const Tensor low = full({}, -1), high = full({}, 2), w = normal({8, 4, 1, 1});
  const auto ops = [&](const Program& f) { return optimized(f, {normal({2, 4, 5, 5}, 3)}); };
  EXPECT_EQ(ops([&](const Tensors& in) -> Tensors { return {minimum(maximum(in[0], low), high)}; }), "clamp");
  EXPECT_EQ(ops([&](const Tensors& in) -> Tensors { return {maximum(low, minimum(in[0], high))}; }), "clamp");
  EXPECT_EQ(ops([&](const Tensors& in) -> Tensors { return {minimum(maximum(in[0], high), low)}; }), "maximum minimum");
  const Tensor three = full({}, 3), zero = full({}, 0), six = full({}, 6);
  EXPECT_EQ(ops([&](const Tensors& in) -> Tensors {
              const Tensor y = conv(in[0], w);
              return {div(mul(y, minimum(maximum(add(y, three), zero), six)), six)};
            }),
            "clone _fused_convolution clone");
  EXPECT_EQ(ops([&](const Tensors& in) -> Tensors { return {maximum(conv(in[0], w), zero)}; }),
            "clone _fused_convolution clone");
}

TEST_F(Passes, JoinNorms) {
  const Tensor w = normal({16}), b = normal({16});
  const auto centred = [](const Tensor& x) { return sub(x, mean(x, {-1}, true)); };
  const Program layer = [&](const Tensors& in) -> Tensors {
    const Tensor d = centred(in[0]);
    return {add(mul(div(d, sqrt(add(mean(pow(d, 2), {-1}, true), 1e-5))), w), b)};
  };
  EXPECT_EQ(optimized(layer, {normal({3, 5, 16})}), "_layer_norm");
  const Program rms = [&](const Tensors& in) -> Tensors {
    return {mul(mul(in[0], rsqrt(add(mean(mul(in[0], in[0]), {2}, true), 1e-6))), w)};
  };
  EXPECT_EQ(optimized(rms, {normal({3, 5, 16})}), "rms_norm");
  const Program other_axis = [&](const Tensors& in) -> Tensors {
    const Tensor d = sub(in[0], mean(in[0], {1}, true));
    return {div(d, sqrt(add(mean(pow(d, 2), {1}, true), 1e-5)))};
  };
  EXPECT_EQ(optimized(other_axis, {normal({3, 5, 16})}).find("norm"), std::string::npos);
}

TEST_F(Passes, JoinAttention) {
  const Tensors inputs = {normal({2, 3, 10, 8}), normal({2, 3, 12, 8}), normal({2, 3, 12, 8}), normal({2, 1, 10, 12})};
  const Program masked = [](const Tensors& in) -> Tensors {
    const Tensor scores = add(div(matmul(in[0], transpose(in[1], -1, -2)), std::sqrt(8.0)), in[3]);
    return {matmul(softmax(scores, -1), in[2])};
  };
  EXPECT_EQ(optimized(masked, inputs), "scaled_dot_product_attention");
  const Program scaled_before = [](const Tensors& in) -> Tensors {
    const Tensor k = permute(in[1], {0, 1, 3, 2});
    return {matmul(softmax(matmul(mul(in[0], 0.6), mul(k, 0.6)), -1), in[2])};
  };
  EXPECT_EQ(optimized(scaled_before, inputs), "scaled_dot_product_attention clone");
  const Program other_dim = [](const Tensors& in) -> Tensors {
    return {matmul(softmax(matmul(in[0], transpose(in[1], -1, -2)), -2), in[2])};
  };
  EXPECT_EQ(optimized(other_dim, inputs).find("attention"), std::string::npos);
}

TEST_F(Passes, CancelTransposes) {
  const Program same = [](const Tensors& in) -> Tensors {
    return {relu(permute(permute(in[0], {0, 2, 3, 1}), {0, 3, 1, 2}))};
  };
  EXPECT_EQ(optimized(same, {normal({2, 3, 4, 5})}), "relu");
  const Program other = [](const Tensors& in) -> Tensors {
    return {relu(transpose(permute(in[0], {0, 2, 3, 1}), 1, 2))};
  };
  EXPECT_EQ(optimized(other, {normal({2, 3, 4, 5})}), "permute relu");
}

TEST_F(Passes, ChannelsLastThroughANetwork) {
  const Tensor a = normal({16, 3, 3, 3}), b = normal({16, 16, 3, 3}, 0.2), w = normal({10, 16 * 4 * 4}, 0.1);
  const Program f = [&](const Tensors& in) -> Tensors {
    Tensor x = F::max_pool2d(relu(conv(in[0], a, {}, 1)), {2, 2});
    x = relu(add(conv(x, b, {}, 1), x));
    return {F::linear(reshape(x, {2, -1}), w), x};
  };
  const Graph before = captured(f, {normal({2, 3, 8, 8})});
  Graph after = before;
  optimize(after);
  expect_equal(before, after, {normal({2, 3, 8, 8})});
  // The outputs keep their order; what is computed in between does not.
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(before.values[before.outputs[i]].type, after.values[after.outputs[i]].type);
  size_t turned = 0;
  for (const graph::Node& n : after.nodes)
    if (n.op == &op_fused_convolution) turned += after.values[n.results[0]].type.strides[1] == 1;
  EXPECT_EQ(turned, 2U);
}

TEST_F(Passes, OneChannelBecomesManyInChannelsLastOrder) {
  const Tensor a = normal({16, 1, 3, 3}), b = normal({1, 16, 1, 1});
  const Program f = [&](const Tensors& in) -> Tensors {
    return {relu(conv(F::leaky_relu(conv(in[0], a, {}, 1), 0.1), b)), permute(conv(in[0], a), {0, 2, 3, 1})};
  };
  const Tensors inputs = {normal({2, 1, 6, 7})};
  const Graph before = captured(f, inputs);
  Graph after = before;
  optimize(after);
  expect_equal(before, after, inputs);
  for (const graph::Node& n : after.nodes) {
    const graph::ValueType& type = after.values[n.results[0]].type;
    EXPECT_TRUE(n.op != &op_fused_convolution || type.shape[1] != 16 || type.strides[1] == 1);
  }
}

// Networks of random layers, whose parameters and shapes nobody chose.
TEST_F(Passes, RandomNetworks) {
  for (int round = 0; round < 40; ++round) {
    const auto pick = [&](int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); };
    struct Step {
      int kind;
      Tensor a, b, c, d;
      int64_t n;
    };
    std::vector<Step> steps;
    int64_t channels = 1 + pick(8);
    const int64_t first = channels;
    for (int k = 0, count = 3 + pick(9); k < count; ++k) {
      Step s{pick(9), {}, {}, {}, {}, 0};
      if (s.kind <= 1) {
        const int64_t to = s.kind == 0 ? channels : 1 + pick(20), size = 1 + 2 * pick(2);
        s.a = normal({to, channels, size, size}, 0.3);
        if (pick(2)) s.b = normal({to});
        s.n = size / 2;
        channels = to;
      } else if (s.kind == 2) {
        s.a = normal({channels});
        s.b = positive({channels});
        s.c = normal({channels});
        s.d = normal({channels});
      } else if (s.kind == 3) {
        s.a = normal({channels, 1, 1});
      } else {
        s.n = pick(5);
      }
      steps.push_back(s);
    }
    const Program f = [&](const Tensors& in) -> Tensors {
      Tensor x = in[0], before = in[0];
      Tensors out;
      for (const Step& s : steps) {
        const Tensor here = x;
        if (s.kind <= 1) x = conv(x, s.a, s.b, s.n);
        else if (s.kind == 2) x = F::batch_norm(x, s.a, s.b, s.c, s.d, false, 0.1, 1e-5);
        else if (s.kind == 3) x = s.n ? mul(x, s.a) : add(s.a, x);
        else if (s.kind == 4)
          x = s.n == 0   ? relu(x)
              : s.n == 1 ? mul(x, sigmoid(x))
              : s.n == 2 ? F::gelu(x)
              : s.n == 3 ? tanh(x)
                         : F::relu6(x);
        else if (s.kind == 5 && std::ranges::equal(x.shape(), before.shape())) x = add(x, before);
        else if (s.kind == 6) x = constant_pad_nd(x, {s.n % 2, s.n / 2, 1, 0}, 0);
        else if (s.kind == 7) x = permute(permute(x, {0, 2, 3, 1}), {0, 3, 1, 2});
        else if (s.kind == 8 && s.n == 0) out.push_back(x);
        before = here;
      }
      out.push_back(x);
      return out;
    };
    const Tensors inputs = {normal({1 + pick(2), first, 4 + pick(4), 4 + pick(4)})};
    SCOPED_TRACE(round);
    optimized(f, inputs, pick(2) == 1, 1e-4);
  }
}

TEST_F(Passes, NothingToDo) {
  const Program f = [](const Tensors& in) -> Tensors { return {in[0], add(in[0], in[1])}; };
  EXPECT_EQ(optimized(f, {normal({3}), normal({3})}), "add");
  const Tensor w = normal({2, 3, 1, 1});
  const Program empty = [&](const Tensors& in) -> Tensors { return {relu(conv(in[0], w))}; };
  optimized(empty, {normal({0, 3, 4, 4})});
  Graph none;
  EXPECT_EQ(optimize(none), 0U);
}

// The checks above find a pass that is wrong.
TEST_F(Passes, PlantedMistakesAreFound) {
  const Tensor w = normal({6, 4, 1, 1});
  const Tensors inputs = {normal({2, 4, 5, 6})};
  const Program f = [&](const Tensors& in) -> Tensors { return {relu(conv(in[0], w))}; };
  Graph uses_before_it_is_computed = captured(f, inputs);
  std::swap(uses_before_it_is_computed.nodes[0], uses_before_it_is_computed.nodes[1]);
  EXPECT_ERROR(Value, "not computed before", graph::verify(uses_before_it_is_computed));
  Graph missing = captured(f, inputs);
  missing.nodes.erase(missing.nodes.begin());
  EXPECT_ERROR(Value, "not computed before", graph::verify(missing));
  Graph other_weight = captured(f, inputs);
  other_weight.states[0].tensor = mul(other_weight.states[0].tensor, 1.001);
  const Tensor a = graph::run(captured(f, inputs), inputs)[0], b = graph::run(other_weight, inputs)[0];
  EXPECT_GT(amax(abs(sub(a, b))).item<double>(), 2e-5 * amax(abs(a)).item<double>());
}

}  // namespace
}  // namespace strata::engine
