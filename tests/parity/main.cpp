// Prints a line of hashes for modules built and called after seeding; tests/python/test_module_parity.py computes the
// same in Python. A line: case; a hash each of the parameters and buffers, of the output, of the gradients; the
// module's text.
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
    "GRU packed", [] { return nn::GRU(4, 5, {.num_layers = 2, .bidirectional = true}); },
    [](const auto& m) {
      const Tensor x = randn({5, 3, 4});
      return m(nn::utils::rnn::pack_padded_sequence(x, {2, 5, 3}, false, false)).output.data;
    });
  run(
    "LSTM packed", [] { return nn::LSTM(4, 5, {.proj_size = 2}); },
    [](const auto& m) {
      const auto packed = nn::utils::rnn::pack_sequence({randn({2, 4}), randn({4, 4})}, false);
      const auto [output, state] = m(packed, {randn({1, 2, 2}), randn({1, 2, 5})});
      return cat({reshape(nn::utils::rnn::pad_packed_sequence(output, true, 7).first, {-1}), reshape(state.c, {-1})});
    });
  run(
    "AdaptiveLogSoftmaxWithLoss hand",
    [] {
      return nn::AdaptiveLogSoftmaxWithLoss(8, 12, {4, 8}, {.div_value = 2, .head_bias = true});
    },
    [](const auto& m) {
      const Tensor x = randn({6, 8});
      const auto [output, loss] = m(x, integers({0, 3, 4, 7, 8, 11}, {6}));
      return cat({output, unsqueeze(loss, 0)});
    });
  run(
    "LinearCrossEntropyLoss hand",
    [] { return nn::LinearCrossEntropyLoss(4, 3, {.out_features = {2}, .bias = true, .label_smoothing = 0.1}); },
    [](const auto& m) {
      const Tensor x = randn({5, 4});
      return m(x, integers({0, 1, 2, 0, 1, 2, 0, 1, 2, 0}, {5, 2}));
    });
  run(
    "TripletMarginWithDistanceLoss hand",
    [] { return nn::TripletMarginWithDistanceLoss({.margin = 0.5, .swap = true}); },
    [](const auto& m) {
      const Tensor a = randn({5, 4}).set_requires_grad(), b = randn({5, 4});
      return m(a, b, randn({5, 4}));
    });
  run(
    "gumbel_softmax", [] { return nn::Identity(); },
    [](const auto& m) {
      return nn::functional::gumbel_softmax(m(randn({3, 4})), 0.5, true);
    });
  run(
    "ParameterList hand",
    [] {
      return nn::ParameterList({randn({2, 3}), randn({4})});
    },
    [](const auto& m) { return mul(sum(m[0]), m[-1]); });
  run(
    "ParameterDict hand",
    [] {
      return nn::ParameterDict({{"b", randn({2})}, {"a", randn({2})}});
    },
    [](const auto& m) { return mul(m["a"], m["b"]); });
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
