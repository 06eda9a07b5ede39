// Calibration tables, thresholds, and the passes that compute in bytes and in 16 bits, on random networks.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autograd/autograd.h"
#include "compile/capture.h"
#include "engine/passes/inference.h"
#include "engine/quantize/calibrate.h"
#include "engine/quantize/insert.h"
#include "strata/ops.h"
#include "tests/expect_error.h"

namespace strata::engine {
namespace {

using graph::Graph;
using Tensors = std::vector<Tensor>;

TEST(CalibrationTable, IsTheSameAfterItsText) {
  CalibrationTable t;
  t.method = "entropy";
  t.samples = 12;
  t.values["a value with spaces"] = {3.25, 0.125};
  t.values["\n\\x0a\x01<script>"] = {1e-30, 0};
  t.errors["layer"] = 0.5;
  t.floats = {"layer", "other layer"};
  t.large["big"] = 70000;
  EXPECT_EQ(table_of(to_string(t)), t);
  EXPECT_EQ(table_of(to_string(CalibrationTable())), CalibrationTable());
}

TEST(CalibrationTable, RefusesOtherTexts) {
  for (const char* text : {"", "x", "strata calibration 1\nvalue 1\n", "strata calibration 1\nvalue 1 inf x\n",
                           "strata calibration 1\nsamples -3\n", "strata calibration 1\nfloat\n"})
    EXPECT_ERROR(Value, "calibration table", table_of(text));
  std::mt19937 random(3);
  const std::string whole = to_string(CalibrationTable{.values = {{"x", {2, 1}}}, .errors = {{"y", 0.1}}});
  for (int i = 0; i < 3000; ++i) {  // any text is read or refused
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (unsigned k = random() % 4; k > 0 && !text.empty(); --k)
      text[random() % text.size()] = static_cast<char>(random());
    try {
      table_of(text);
    } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::Value); }
  }
}

std::vector<float> normal(size_t count, double factor, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> d;
  std::vector<float> x(count);
  for (float& v : x) v = static_cast<float>(factor) * d(random);
  return x;
}

TEST(Histogram, Percentiles) {
  std::vector<float> x = normal(100000, 3);
  Histogram h;
  for (size_t i = 0; i < x.size(); i += 1000) h.add(x.data() + i, 1000);  // its range grows
  for (float& v : x) v = std::abs(v);
  std::ranges::sort(x);
  EXPECT_EQ(h.largest(), x.back());
  for (const double percent : {50.0, 99.0, 99.9, 99.99, 100.0}) {
    const auto at = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(x.size()))) - 1;
    EXPECT_NEAR(h.percentile_threshold(percent), x[at], 2 * h.largest() / 1024) << percent;
  }
}

TEST(Histogram, EntropyCutsOffFewLargeElements) {
  std::vector<float> x = normal(200000, 1);
  Histogram plain, spiked;
  plain.add(x.data(), static_cast<int64_t>(x.size()));
  x[7] = 400;  // alone: steps of 400 / 127 would leave nothing of the others
  spiked.add(x.data(), static_cast<int64_t>(x.size()));
  EXPECT_GT(plain.entropy_threshold(), 2.0);
  EXPECT_LE(plain.entropy_threshold(), plain.largest());
  EXPECT_LT(spiked.entropy_threshold(), 60);
  const auto error = [&](double threshold) {
    double sum = 0;
    for (const float v : x) {
      if (v == 400) continue;
      const double scale = threshold / 127, q = std::clamp(std::nearbyint(v / scale), -127.0, 127.0) * scale;
      sum += (v - q) * (v - q);
    }
    return sum;
  };
  EXPECT_LT(error(spiked.entropy_threshold()), 0.1 * error(spiked.largest()));
}

TEST(Histogram, OddValues) {
  Histogram h;
  EXPECT_EQ(h.entropy_threshold(), 0);
  const float zeros[] = {0, 0, -0.f};
  h.add(zeros, 3);
  EXPECT_EQ(h.entropy_threshold(), 0);
  EXPECT_EQ(h.percentile_threshold(99), 0);
  const float odd[] = {NAN, INFINITY, -INFINITY, 1e-42f, 1e30f};
  h.add(odd, 5);
  EXPECT_EQ(h.largest(), 1e30f);
  EXPECT_GT(h.entropy_threshold(), 0);
  EXPECT_TRUE(std::isfinite(h.entropy_threshold()));
}

// A network of random layers; its parameters do not change.
std::function<Tensors(const Tensors&)> random_network(std::mt19937& random, int64_t channels) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto made = [&](std::vector<int64_t> shape, double factor) {
    Tensor t = zeros(shape);
    const std::vector<float> x = normal(static_cast<size_t>(t.numel()), factor, static_cast<unsigned>(random()));
    std::copy(x.begin(), x.end(), t.data<float>());
    return t;
  };
  struct Step {
    int kind;
    Tensor w, b;
  };
  std::vector<Step> steps;
  for (int k = 0, count = 2 + pick(6); k < count; ++k) {
    Step s{pick(4), {}, {}};
    if (s.kind == 0 || k == 0) {
      s.kind = 0;
      const int64_t to = k ? channels : 8, size = 1 + 2 * pick(2);
      s.w = made({to, channels, size, size}, 0.4 / std::sqrt(static_cast<double>(channels)));
      if (pick(2)) s.b = made({to}, 0.1);
      channels = to;
    }
    steps.push_back(s);
  }
  return [steps](const Tensors& in) -> Tensors {
    Tensor x = in[0], before = in[0];
    for (const Step& s : steps) {
      const Tensor here = x;
      const int64_t padding = s.w ? s.w.size(2) / 2 : 0;
      if (s.kind == 0) x = convolution(x, s.w, s.b, {1, 1}, {padding, padding}, {1, 1}, false, {0, 0}, 1);
      else if (s.kind == 1) x = relu(x);
      else if (s.kind == 2 && std::ranges::equal(x.shape(), before.shape())) x = add(x, before);
      else x = nn::functional::silu(x);
      before = here;
    }
    return {x};
  };
}
Graph captured(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs) {
  const autograd::NoGrad off;
  graph::CaptureOptions how;
  how.composites = false;
  return graph::capture(f, inputs, how);
}
double largest_error(const Tensor& a, const Tensor& b) {
  return amax(abs(sub(to(a, DType::F64), to(b, DType::F64)))).item<double>();
}

TEST(Bytes, ProductsOfBytesAreThoseOfTheConversionsTheyReplace) {
  std::mt19937 random(11);
  for (int round = 0; round < 25; ++round) {
    const int64_t channels = 1 + static_cast<int64_t>(random() % 5);
    const auto f = random_network(random, channels);
    const Tensor x = zeros({2, channels, 6, 5});
    const std::vector<float> values = normal(static_cast<size_t>(x.numel()), 1, static_cast<unsigned>(round));
    std::copy(values.begin(), values.end(), x.data<float>());
    const Tensors inputs = {x};
    Graph floats = captured(f, inputs);
    optimize(floats);
    CalibrationTable table;
    for (const graph::Graph::Value& v : floats.values) table.values[table_name(v.name)] = {4, 4};
    Graph rounded = floats;
    const size_t layers = insert_bytes(rounded, table, {});
    EXPECT_GT(layers, 0U);
    Graph bytes = rounded;
    fuse_bytes(bytes, {});
    size_t joined = 0;
    for (const graph::Node& n : bytes.nodes) joined += n.op == &op_int8_convolution;
    EXPECT_EQ(joined, layers) << graph::to_string(bytes);
    const Tensor want = graph::run(rounded, inputs)[0], got = graph::run(bytes, inputs)[0];
    // The sums are equal; one step of a value may differ where a quotient is near a half, and goes on from there.
    EXPECT_LE(largest_error(got, want), 0.2 * std::max(1.0, amax(abs(want)).item<double>())) << round;
    EXPECT_LE(to(mean(abs(sub(got, want))), DType::F64).item<double>(),
              0.01 * std::max(1.0, to(mean(abs(want)), DType::F64).item<double>()));
    EXPECT_LE(largest_error(want, graph::run(floats, inputs)[0]), 0.5 * std::max(1.0, amax(abs(want)).item<double>()));
  }
}

// As models with QuantizeLinear are imported: int8 weights of products have a scale per column, per row, or one for all.
TEST(Bytes, ProductsOfImportedModels) {
  const autograd::NoGrad off;
  std::mt19937 random(4);
  Tensor w = zeros({6, 5}, TensorOptions(DType::I8)), scales = zeros({5}), x = zeros({3, 6});
  for (int8_t *p = w.data<int8_t>(), *end = p + 30; p != end; ++p) *p = static_cast<int8_t>(random());
  for (int i = 0; i < 5; ++i) scales.data<float>()[i] = 0.01f * static_cast<float>(i + 1);
  const std::vector<float> values = normal(18, 1);
  std::copy(values.begin(), values.end(), x.data<float>());
  const auto rounded = [](const Tensor& t) { return _dequantize(_quantize(t, 0.03, 5, DType::I8), 0.03, 5); };
  const auto ops_after = [&](const std::function<Tensor(const Tensor&)>& layer) {
    const Graph before = captured([&](const Tensors& in) -> Tensors { return {layer(in[0])}; }, {x});
    Graph after = before;
    optimize(after);
    const Tensor want = graph::run(before, {x})[0], got = graph::run(after, {x})[0];
    EXPECT_LE(largest_error(want, got), 1e-5 * std::max(1.0, amax(abs(want)).item<double>()));
    std::string names;
    for (const graph::Node& n : after.nodes) names += n.op->name + " ";
    return names;
  };
  EXPECT_EQ(ops_after([&](const Tensor& t) { return matmul(rounded(t), _dequantize_channels(w, scales, 1)); }),
            "_quantize _int8_linear ");
  EXPECT_EQ(ops_after([&](const Tensor& t) { return matmul(rounded(t), _dequantize(w, 0.02, 0)); }),
            "_quantize _int8_linear ");
  const Tensor rows = contiguous(transpose(w, 0, 1));
  EXPECT_EQ(ops_after([&](const Tensor& t) {
              return relu(nn::functional::linear(rounded(t), _dequantize_channels(rows, scales, 0), scales));
            }),
            "_quantize _int8_linear ");
  // Scales along the sums cannot be applied after them, nor can weights with an offset.
  const Tensor along = add(zeros({6}), 0.02);
  EXPECT_EQ(ops_after([&](const Tensor& t) { return matmul(rounded(t), _dequantize_channels(w, along, 0)); }),
            "_quantize _dequantize matmul ");
  EXPECT_EQ(ops_after([&](const Tensor& t) { return matmul(rounded(t), _dequantize(w, 0.02, 3)); }),
            "_quantize _dequantize matmul ");
}

TEST(Bytes, LayersThatTheTableLeavesOut) {
  const autograd::NoGrad off;
  std::mt19937 random(2);
  const auto f = random_network(random, 3);
  const Tensors inputs = {ones({1, 3, 6, 6})};
  Graph g = captured(f, inputs);
  optimize(g);
  std::vector<Decision> decisions;
  const PassOptions options{.decisions = &decisions};
  Graph none = g;
  EXPECT_EQ(insert_bytes(none, {}, options), 0U);
  EXPECT_EQ(none.nodes.size(), g.nodes.size());
  ASSERT_FALSE(decisions.empty());
  EXPECT_NE(decisions[0].what.find("not calibrated"), std::string::npos);
}

TEST(Bytes, OddWeightsAndRanges) {
  const autograd::NoGrad off;
  const Tensor x = ones({1, 2, 4, 4});
  for (const double odd : {static_cast<double>(NAN), static_cast<double>(INFINITY), 0.0, 1e-40, 3e38}) {
    Tensor w = ones({3, 2, 1, 1});
    w.data<float>()[1] = static_cast<float>(odd);
    Graph g = captured(
      [&](const Tensors& in) -> Tensors {
        return {convolution(in[0], w, {}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1)};
      },
      {x});
    for (const double threshold : {0.0, 1e-300, 1e-40, 1.0, 1e300}) {
      CalibrationTable table;
      for (const graph::Graph::Value& v : g.values) table.values[v.name] = {threshold, threshold};
      Graph bytes = g;
      EXPECT_EQ(insert_bytes(bytes, table, {}), std::isfinite(odd) ? 1U : 0U);
      fuse_bytes(bytes, {});
      const Tensor y = graph::run(bytes, {x})[0];
      EXPECT_EQ(all(isfinite(y)).item<bool>(), std::isfinite(odd)) << odd << " " << threshold;
    }
  }
}

TEST(Precision, SixteenBitsOnRandomNetworks) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const auto f = random_network(random, 3);
    const Tensor x = zeros({2, 3, 6, 5});
    const std::vector<float> values = normal(static_cast<size_t>(x.numel()), 1, static_cast<unsigned>(round));
    std::copy(values.begin(), values.end(), x.data<float>());
    for (const DType low : {DType::F16, DType::BF16}) {
      Graph floats = captured(f, {x});
      optimize(floats);
      Graph g = floats;
      lower_precision(g, low, nullptr, {});
      graph::verify(g);
      size_t lowered = 0;
      for (const graph::Node& n : g.nodes)
        for (const graph::ValueId id : n.results) lowered += g.values[id].type.dtype == low;
      EXPECT_GT(lowered, 1U);
      const Tensor want = graph::run(floats, {x})[0], got = graph::run(g, {x})[0];
      EXPECT_EQ(got.dtype(), DType::F32);
      const double scale = std::max(1.0, amax(abs(want)).item<double>());
      EXPECT_LE(largest_error(got, want), (low == DType::F16 ? 0.01 : 0.08) * scale) << round;
    }
  }
}

TEST(Precision, SoftmaxStaysInFloat32) {
  const Tensor w = ones({4, 4});
  Graph g = captured([&](const Tensors& in) -> Tensors { return {softmax(matmul(in[0], w), -1)}; }, {ones({3, 4})});
  lower_precision(g, DType::F16, nullptr, {});
  for (const graph::Node& n : g.nodes)
    EXPECT_TRUE(n.op != &op_softmax || g.values[n.results[0]].type.dtype == DType::F32);
}

TEST(LargeGraphs, AreOptimised) {
  const Tensor one = ones({4});
  const auto nodes_of = [&](int count) {
    Graph g = captured(
      [&](const Tensors& in) -> Tensors {
        Tensor x = in[0];
        for (int i = 0; i < count; ++i) x = relu(add(x, one));
        return {x};
      },
      {ones({4})});
    optimize(g);
    return g.nodes.size();
  };
  EXPECT_EQ(nodes_of(20000), 40000U);
}

}  // namespace
}  // namespace strata::engine
