// Engines from C++: graphs against the interpreter, memory, profiles, threads.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "compile/capture.h"
#include "engine/builder.h"
#include "engine/definition.h"
#include "engine/plan.h"
#include "engine/trace.h"
#include "strata/strata.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace strata {
namespace {

using Tensors = std::vector<Tensor>;

// A small network for images with all kinds of steps: kernels, views, calls (in place), several outputs.
struct Net {
  nn::Conv2d conv{3, 8, 3, {.padding = 1}};
  nn::BatchNorm2d norm{8};
  nn::Linear head{8, 5};
  Net() {
    conv.eval();
    norm.eval();
    head.eval();
  }
  Tensors operator()(const Tensors& in) {
    Tensor x = relu(norm(conv(in[0])));
    x = x + x.flip({3});
    const Tensor features = x.mean({2, 3});
    Tensor scores = head(features);
    scores = scores.clone();
    scores.add_(1);
    return {softmax(scores, -1), features.transpose(0, 1), in[0].slice(1, 0, 2)};
  }
};

graph::Graph graph_of(Net& net, const Tensor& x) {
  const autograd::NoGrad off;
  return graph::capture([&](const Tensors& in) { return net(in); }, {x}, {.input_names = {"x"}});
}

TEST(Engine, GivesTheResultsOfTheOps) {
  for (const char* device : {"cpu", "vgpu"}) {
    Net net;
    const Tensor x = randn({2, 3, 6, 7});
    const auto network = std::make_shared<engine::GraphNetwork>(graph_of(net, x), Device(device));
    const auto e = engine::build(network, {.level = 0});
    const auto context = e->create_context();
    for (int i = 0; i < 4; ++i) {
      const Tensor y = randn({2, 3, 6, 7}).to(network->device());
      const Tensors got = context->run({y});
      const onnx::Values want = network->run(onnx::Values{y});
      ASSERT_EQ(got.size(), want.size());
      for (size_t k = 0; k < got.size(); ++k)
        EXPECT_TRUE(got[k].cpu().allclose(want[k].tensor.cpu(), 1e-5, 1e-6)) << device << ' ' << k;
      EXPECT_EQ(context->last_mode(), i > 0 && network->device().type != DeviceType::Cpu ? "cuda graph" : "graph");
    }
  }
}

TEST(Engine, IsMadeOfProgramsThatAreFollowed) {
  Net net;
  const auto program = [&](const Tensors& in) { return net(in); };
  const engine::Input input({1, 3, 6, 7}, {2, 3, 6, 7}, {9, 3, 6, 7});
  const auto network = engine::trace(program, {input});
  EXPECT_EQ(engine::to_string(network->inputs()[0]), "input_0: float[s0, 3, 6, 7]");
  engine::BuilderConfig config{.level = 0};
  config.profiles.emplace_back().set("input_0", {1, 3, 6, 7}, {2, 3, 6, 7}, {9, 3, 6, 7});
  const auto e = engine::build(network, config);
  const auto context = e->create_context();
  const autograd::NoGrad off;
  for (const int64_t n : {1, 2, 5, 9}) {
    const Tensor x = randn({n, 3, 6, 7});
    const Tensors got = context->run({x}), want = net({x});
    for (size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(got[k].allclose(want[k], 1e-5, 1e-6)) << n << ' ' << k;
  }
  EXPECT_ERROR(Value, "1x3x6x7 to 9x3x6x7 (tuned for 2x3x6x7)", context->run({randn({10, 3, 6, 7})}));
  EXPECT_ERROR(Value, "min <= opt <= max", engine::trace(program, {engine::Input({4}, {3}, {5})}));
}

TEST(Engine, IsMadeOfLayersByName) {
  const Tensor w = randn({4, 3, 3, 3}), b = randn({4});
  engine::NetworkDefinition d;
  const engine::Layer x = d.add_input(engine::Input({2, 3, 8, 8}));
  const engine::Layer y = d.add("conv2d", {x, w, b}, {{"padding", std::vector<int64_t>{1, 1}}});
  const engine::Layer z = d.add("relu", {y});
  d.mark_output(d.add("cat", {std::vector<engine::Layer>{z, x}, int64_t{1}}));
  const auto context = engine::build(d.finish(), {.level = 0})->create_context();
  for (int i = 0; i < 2; ++i) {
    const Tensor image = randn({2, 3, 8, 8});
    const Tensor want = cat({relu(nn::functional::conv2d(image, w, b, 1, 1)), image}, 1);
    EXPECT_TRUE(context->run({image})[0].allclose(want, 1e-5, 1e-6));
  }
  EXPECT_ERROR(Type, "has no parameter 'stride2'", d.add("relu", {x}, {{"stride2", int64_t{1}}}));
  EXPECT_ERROR(Value, "is of another network", d.add("relu", {engine::Layer{99, 0}}));
  EXPECT_ERROR(Value, "has no outputs", engine::NetworkDefinition().finish());
}

TEST(Engine, ContextsOfThreadsGiveTheSameBits) {
  Net net;
  const Tensor x = randn({2, 3, 6, 7});
  const auto e = engine::build(std::make_shared<engine::GraphNetwork>(graph_of(net, x), Device()), {.level = 0});
  const Tensor want = e->create_context()->run({x})[0];
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      const auto context = e->create_context();
      for (int i = 0; i < 50; ++i) wrong += !context->run({x})[0].equal(want);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Engine, PlanIsTheSameEngine) {
  Net net;
  const Tensor x = randn({2, 3, 6, 7});
  const auto e = engine::build(std::make_shared<engine::GraphNetwork>(graph_of(net, x), Device()), {.level = 1});
  const testing::TempFolder folder;
  engine::save_plan(*e, folder / "m.plan");
  const auto again = engine::load_plan(folder / "m.plan");
  const Tensors got = again->create_context()->run({x}), want = e->create_context()->run({x});
  for (size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(got[k].equal(want[k]));
  EXPECT_EQ(again->tactics(), e->tactics());
}

TEST(Engine, CorpusOfPlansIsReadOrRefused) {
  int good = 0, all = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(STRATA_CORPUS) + "/plan")) {
    ++all;
    try {
      engine::load_plan(entry.path().string());
      ++good;
    } catch (const Error& e) { EXPECT_NE(e.kind(), ErrorKind::Internal) << entry.path() << e.what(); }
  }
  EXPECT_GE(all, 4);
  EXPECT_GE(good, 2);
}
}  // namespace
}  // namespace strata
