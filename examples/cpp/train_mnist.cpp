// Trains a small CNN on MNIST: train_mnist [FOLDER WITH THE MNIST FILES] [EPOCHS] [--compile]
// Without a folder it learns synthetic digits, which need no download. With --compile, ops of a step are computed in groups.
#include <strata/strata.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace strata;

struct Net : nn::Module {
  nn::Conv2d conv1 = add("conv1", nn::Conv2d(1, 32, 3, {.padding = 1}));
  nn::Conv2d conv2 = add("conv2", nn::Conv2d(32, 64, 3, {.padding = 1}));
  nn::Linear fc1 = add("fc1", nn::Linear(3136, 128));
  nn::Linear fc2 = add("fc2", nn::Linear(128, 10));

  Tensor forward(const Tensor& images) override {
    Tensor x = max_pool2d(relu(conv1(images)), 2);
    x = max_pool2d(relu(conv2(x)), 2);
    return fc2(relu(fc1(flatten(x, 1))));
  }
};

data::DatasetRef digits(const char* folder, bool train) {
  const data::ImageSet set = folder ? data::mnist(folder, train) : data::synthetic_digits(train);
  const std::vector<Tensor> fields = {(set.images.unsqueeze(1).to(kFloat32) / 255 - 0.1307) / 0.3081, set.labels};
  return std::make_shared<data::TensorDataset>(fields);
}

int main(int argc, char** argv) {
  const bool compiled = argc > 1 && std::string_view(argv[argc - 1]) == "--compile";
  argc -= compiled;
  const char* folder = argc > 1 && *argv[1] ? argv[1] : nullptr;
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 1;
  manual_seed(0);
  const data::DatasetRef train = digits(folder, true), test = digits(folder, false);
  Net net;
  net.to("channels_last");
  optim::Adam optimizer(net.parameters(), {.lr = 1e-3});
  const auto step = [&](const data::Example& batch) {
    optimizer.zero_grad();
    Tensor loss = nn::functional::cross_entropy(net(batch[0]), batch[1]);
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto in_groups = compile(step);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    Tensor loss;
    for (const data::Example& batch : data::DataLoader(train, {.batch_size = 128, .shuffle = true}))
      loss = compiled ? in_groups(batch) : step(batch);
    const autograd::NoGrad no_grad;
    int64_t right = 0;
    for (const data::Example& batch : data::DataLoader(test, {.batch_size = 500}))
      right += sum(eq(argmax(net(batch[0]), 1), batch[1])).item<int64_t>();
    std::printf("epoch %d: loss %.4f, test accuracy %.2f%%\n", epoch, loss.item<double>(),
                100.0 * right / test->size());
  }
  save("mnist.safetensors", net.state_dict());
}
