// Prints, for modules built and called after seeding, a line of hashes; tests/python/test_module_parity.py computes the same
// in Python. A line: case; a hash each of the parameters and buffers, of the output, of the gradients; the module's text.
#include <cstdio>

#include "strata/strata.h"

using namespace strata;  // as a user's program would

namespace {

uint64_t hash_of(const std::vector<Tensor>& tensors) {  // FNV-1a of the bytes
  uint64_t h = 14695981039346656037u;
  for (const Tensor& t : tensors) {
    if (!t) continue;
    const Tensor c = contiguous(t);
    const auto* bytes = reinterpret_cast<const unsigned char*>(c.bytes());
    for (size_t i = 0; i < static_cast<size_t>(c.numel()) * size_of(c.dtype()); ++i)
      h = (h ^ bytes[i]) * 1099511628211u;
  }
  return h;
}

std::vector<Tensor> values_of(const nn::NamedTensors& named) {
  std::vector<Tensor> list;
  for (const auto& [name, tensor] : named) list.push_back(tensor);
  return list;
}

Tensor integers(std::vector<int64_t> values, std::vector<int64_t> shape) {
  Tensor t = empty(shape, DType::I64);
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}

template <class Make, class Call> void run(const char* name, const Make& make, const Call& call) {
  manual_seed(1234);
  const auto module = make();
  const uint64_t state = hash_of(values_of(module.state_dict()));
  const Tensor out = call(module);
  std::vector<Tensor> grads;
  if (out.requires_grad()) {
    sum(out).backward();
    for (const Tensor& p : module.parameters()) grads.push_back(p.grad());
  }
  std::string text;
  for (const char c : module.repr()) text += c == '\n' ? std::string("\\n") : std::string(1, c);
  std::printf("%s\t%016lx %016lx %016lx\t%s\n", name, state, hash_of({out}), hash_of(grads), text.c_str());
}

}  // namespace

int main() {
#include "tests/module_samples.inc"
  run(
    "RNN hand", [] { return nn::RNN(4, 5, {.num_layers = 2, .nonlinearity = "relu"}); },
    [](const auto& m) {
      return m(randn({3, 2, 4})).output;
    });
  run(
    "GRU hand", [] { return nn::GRU(4, 5, {.bias = false, .bidirectional = true}); },
    [](const auto& m) {
      return m(randn({3, 2, 4})).output;
    });
  run(
    "LSTM hand", [] { return nn::LSTM(4, 5, {.num_layers = 2, .batch_first = true}); },
    [](const auto& m) {
      return m(randn({2, 3, 4})).output;
    });
  run(
    "LSTM projected", [] { return nn::LSTM(4, 5, {.bidirectional = true, .proj_size = 2}); },
    [](const auto& m) {
      return m(randn({3, 2, 4})).output;
    });
  run(
    "LSTMCell hand", [] { return nn::LSTMCell(4, 5); },
    [](const auto& m) {
      return m(randn({3, 4})).c;
    });
  run(
    "MultiheadAttention hand", [] { return nn::MultiheadAttention(8, 2, {.add_bias_kv = true}); },
    [](const auto& m) {
      const Tensor x = randn({3, 2, 8});
      return m(x, x, x).output;
    });
  run(
    "Transformer hand",
    [] {
      return nn::Transformer({.d_model = 8,
                              .nhead = 2,
                              .num_encoder_layers = 2,
                              .num_decoder_layers = 2,
                              .layer = {.dim_feedforward = 16, .dropout = 0.1, .norm_first = true}});
    },
    [](const auto& m) {
      const Tensor src = randn({4, 2, 8});
      return m(src, randn({3, 2, 8}), {}, {.tgt_mask = nn::Transformer::generate_square_subsequent_mask(3)});
    });
  return 0;
}
