// Engines from C++: graphs against the interpreter, memory, profiles, threads.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "compile/capture.h"
#include "engine/builder.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

using engine::BuilderConfig;
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
}  // namespace
}  // namespace strata
