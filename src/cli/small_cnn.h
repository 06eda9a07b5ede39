// The network that `strata train` trains: two convolutions and two linear layers for images of 28 x 28.
#pragma once
#include <strata/strata.h>

namespace strata::cli {

struct SmallCnn : nn::Module {
  nn::Conv2d conv1 = add("conv1", nn::Conv2d(1, 32, 3, {.padding = 1}));
  nn::Conv2d conv2 = add("conv2", nn::Conv2d(32, 64, 3, {.padding = 1}));
  nn::Linear fc1 = add("fc1", nn::Linear(3136, 128));
  nn::Linear fc2 = add("fc2", nn::Linear(128, 10));

  Tensor forward(const Tensor& images) override {
    Tensor x = layer("conv1", [&] { return max_pool2d(relu(conv1(images)), 2); });
    x = layer("conv2", [&] { return max_pool2d(relu(conv2(x)), 2); });
    x = layer("fc1", [&] { return relu(fc1(flatten(x, 1))); });
    return layer("fc2", [&] { return fc2(x); });
  }

 private:
  // A span in traces, with the activation and the pool of the layer.
  template <class F> static Tensor layer(const char* name, F run) {
    const tracing::Span span(tracing::Layer::Module, name);
    return run();
  }
};

}  // namespace strata::cli
