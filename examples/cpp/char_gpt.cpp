// A character-level GPT on any text file: char_gpt FILE [STEPS] [--chunked-loss] [--compile]. With --chunked-loss the logits of all
// positions never exist at once, which saves memory with a large vocabulary. With --compile, ops of a step are computed in groups.
#include <strata/strata.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

using namespace strata;
namespace F = strata::nn::functional;

constexpr int64_t kWidth = 128, kHeads = 4, kLayers = 4, kContext = 64, kBatch = 16;

struct Block : nn::Module {
  nn::LayerNorm norm1 = add("norm1", nn::LayerNorm(kWidth)), norm2 = add("norm2", nn::LayerNorm(kWidth));
  nn::Linear qkv = add("qkv", nn::Linear(kWidth, 3 * kWidth)), out = add("out", nn::Linear(kWidth, kWidth));
  nn::Linear up = add("up", nn::Linear(kWidth, 4 * kWidth)), down = add("down", nn::Linear(4 * kWidth, kWidth));

  Tensor forward(const Tensor& x) override {
    const int64_t batch = x.size(0), time = x.size(1);
    const auto parts = qkv(norm1(x)).view({batch, time, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor mixed = F::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    const Tensor y = x + out(mixed.transpose(1, 2).reshape({batch, time, kWidth}));
    return y + down(F::gelu(up(norm2(y))));
  }
};

struct CharGpt : nn::Module {
  explicit CharGpt(int64_t letters)
      : token(add("token", nn::Embedding(letters, kWidth))),
        head(add("head", nn::Linear(kWidth, letters, {.bias = false}))) {
    for (int64_t i = 0; i < kLayers; ++i) blocks.push_back(Block());
  }
  nn::Embedding token, place = add("place", nn::Embedding(kContext, kWidth));
  nn::Sequential blocks = add("blocks", nn::Sequential());
  nn::LayerNorm norm = add("norm", nn::LayerNorm(kWidth));
  nn::Linear head;

  Tensor features(const Tensor& text) { return norm(blocks(token(text) + place(arange(text.size(1))))); }
  Tensor forward(const Tensor& text) override { return head(features(text)); }
  Tensor loss(const Tensor& text, const Tensor& target, bool chunked) {
    if (chunked) return F::linear_cross_entropy(features(text).flatten(0, 1), head.weight(), target.flatten());
    return F::cross_entropy((*this)(text).flatten(0, 1), target.flatten());
  }
};

int main(int argc, char** argv) {
  bool chunked = false, compiled = false;
  for (; argc > 2 && std::string_view(argv[argc - 1]).starts_with("--"); --argc) {
    chunked |= std::string_view(argv[argc - 1]) == "--chunked-loss";
    compiled |= std::string_view(argv[argc - 1]) == "--compile";
  }
  if (argc < 2) {
    std::fprintf(stderr, "usage: char_gpt FILE [STEPS] [--chunked-loss] [--compile]\n");
    return 1;
  }
  const int steps = argc > 2 ? std::atoi(argv[2]) : 500;
  manual_seed(0);
  std::ifstream file(argv[1], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::set<char> letters(text.begin(), text.end());
  Tensor codes = empty({static_cast<int64_t>(text.size())}, kInt64);
  for (size_t i = 0; i < text.size(); ++i)
    codes.data<int64_t>()[i] = std::distance(letters.begin(), letters.find(text[i]));
  CharGpt net(static_cast<int64_t>(letters.size()));
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
  const auto train = [&](const Tensor& batch) {
    Tensor loss = net.loss(batch.narrow(1, 0, kContext), batch.narrow(1, 1, kContext), chunked);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto in_groups = compile(train);
  for (int step = 1; step <= steps; ++step) {
    const Tensor windows = randint(0, codes.size(0) - kContext, {kBatch, 1}) + arange(kContext + 1);
    const Tensor batch = index(codes, {windows});
    const Tensor loss = compiled ? in_groups(batch) : train(batch);
    if (step % 100 == 0 || step == steps) std::printf("step %d: loss %.3f\n", step, loss.item<double>());
  }
  const autograd::NoGrad no_grad;
  Tensor written = codes.narrow(0, 0, 1).view({1, 1});
  for (int i = 0; i < 200; ++i) {
    const int64_t seen = std::min<int64_t>(written.size(1), kContext);
    const Tensor chances = softmax(net(written.narrow(1, written.size(1) - seen, seen)).select(1, -1), -1);
    written = cat({written, multinomial(chances, 1)}, 1);
  }
  for (int64_t i = 0; i < written.size(1); ++i) std::putchar(*std::next(letters.begin(), written.data<int64_t>()[i]));
  std::putchar('\n');
}
