// Packed and padded sequences, and recurrent networks over them; each sequence compared with a separate run.
#include <gtest/gtest.h>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace rnn = nn::utils::rnn;

namespace {

double largest_difference(const Tensor& a, const Tensor& b) { return max(abs(sub(a, b))).item<double>(); }
std::vector<int64_t> values(const Tensor& t) {
  const Tensor c = contiguous(t);
  return {c.data<int64_t>(), c.data<int64_t>() + c.numel()};
}
std::vector<Tensor> three() {
  return {randn({2, 3}, nullptr, kFloat64), randn({4, 3}, nullptr, kFloat64), randn({3, 3}, nullptr, kFloat64)};
}

// Each sequence alone gives the same result as in a packed batch, including states.
template <class M, class States> void expect_alone(const M& module, const States& states) {
  const std::vector<Tensor> sequences = three();
  const auto got = module(rnn::pack_sequence(sequences, false));
  const std::vector<Tensor> outputs = rnn::unpack_sequence(got.output);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto alone = module(sequences[i]);
    EXPECT_LT(largest_difference(outputs[i], alone.output), 1e-12);
    const std::vector<Tensor> ends = states(got), own = states(alone);
    for (size_t k = 0; k < ends.size(); ++k)
      EXPECT_LT(largest_difference(select(ends[k], 1, static_cast<int64_t>(i)), own[k]), 1e-12);
  }
}
const auto h_of = [](const auto& r) { return std::vector{r.h}; };
const auto h_and_c_of = [](const auto& r) { return std::vector{r.state.h, r.state.c}; };

}  // namespace

TEST(Sequences, PackingTakesStepByStepAndPaddingPutsBack) {
  const Tensor x = reshape(arange(24), {4, 3, 2});  // x[t, i, k] = 6 t + 2 i + k
  const auto packed = rnn::pack_padded_sequence(x, {2, 4, 1}, false, false);
  EXPECT_EQ(values(packed.batch_sizes), (std::vector<int64_t>{3, 2, 1, 1}));
  EXPECT_EQ(values(packed.sorted_indices), (std::vector<int64_t>{1, 0, 2}));
  EXPECT_EQ(values(select(packed.data, 1, 0)), (std::vector<int64_t>{2, 0, 4, 8, 6, 14, 20}));
  const auto [padded, lengths] = rnn::pad_packed_sequence(packed, true, -1, 5);
  EXPECT_EQ(values(lengths), (std::vector<int64_t>{2, 4, 1}));
  EXPECT_EQ(to_string(padded.shape()), "[3, 5, 2]");
  EXPECT_EQ(values(select(select(padded, 0, 0), 1, 1)), (std::vector<int64_t>{1, 7, -1, -1, -1}));
  EXPECT_EQ(values(select(select(padded, 0, 2), 1, 0)), (std::vector<int64_t>{4, -1, -1, -1, -1}));
  // The same from [batch, steps, ...], a strided view.
  const auto turned = rnn::pack_padded_sequence(transpose(x, 0, 1), {2, 4, 1}, true, false);
  EXPECT_EQ(values(turned.data), values(packed.data));
  const Tensor left = rnn::pad_sequence(std::vector{arange(2), arange(3)}, true, 9, "left");
  EXPECT_EQ(values(left), (std::vector<int64_t>{9, 0, 1, 0, 1, 2}));
  EXPECT_EQ(packed.to(kFloat64).data.dtype(), DType::F64);
  EXPECT_EQ(values(rnn::invert_permutation(packed.sorted_indices)), values(packed.unsorted_indices));
}

TEST(Sequences, GradientsReachTheStepsThatCountOnly) {
  const Tensor x = ones({3, 2, 1}).set_requires_grad();
  const auto packed = rnn::pack_padded_sequence(x, {3, 1});
  sum(mul(rnn::pad_packed_sequence(packed).first, 2)).backward();
  const Tensor g = contiguous(x.grad());
  EXPECT_EQ(std::vector<float>(g.data<float>(), g.data<float>() + 6), (std::vector<float>{2, 2, 2, 0, 2, 0}));
}

TEST(Sequences, RecurrentNetworksTakeThemAsSequencesOfTheirOwn) {
  manual_seed(3);
  const nn::RNNOptions both{.num_layers = 2, .bidirectional = true, .dtype = kFloat64};
  expect_alone(nn::RNN(3, 4, both), h_of);
  expect_alone(nn::RNN(3, 4, {.nonlinearity = "relu", .bias = false, .dtype = kFloat64}), h_of);
  expect_alone(nn::GRU(3, 4, both), h_of);
  expect_alone(nn::LSTM(3, 4, both), h_and_c_of);
  expect_alone(nn::LSTM(3, 4, {.bidirectional = true, .proj_size = 2, .dtype = kFloat64}), h_and_c_of);
}

TEST(Sequences, StatesAreInTheOrderOfTheBatch) {
  manual_seed(4);
  const nn::GRU gru(3, 4, {.dtype = kFloat64});
  const std::vector<Tensor> sequences = three();
  const Tensor h = randn({1, 3, 4}, nullptr, kFloat64);
  const auto got = gru(rnn::pack_sequence(sequences, false), h);
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_LT(largest_difference(select(got.h, 1, i), gru(sequences[static_cast<size_t>(i)], select(h, 1, i)).h),
              1e-12);
}

TEST(Sequences, HooksSeeTheData) {
  nn::GRU gru(3, 4);
  int64_t rows = 0;
  gru.register_forward_hook([&](const nn::Module&, const std::vector<Tensor>& in, const std::vector<Tensor>& out) {
    rows = in[0].size(0);
    return std::vector{mul(out[0], 0), out[1]};
  });
  const auto got = gru(rnn::pack_sequence({ones({3, 3}), ones({2, 3})}));
  EXPECT_EQ(rows, 5);
  EXPECT_EQ(largest_difference(got.output.data, zeros({5, 4})), 0);
}

TEST(Sequences, MistakesAreExplained) {
  const Tensor x = ones({3, 2, 1});
  EXPECT_ERROR(Runtime, "sorted in decreasing order", rnn::pack_padded_sequence(x, {1, 3}));
  EXPECT_ERROR(Runtime, "greater than 0", rnn::pack_padded_sequence(x, {3, 0}));
  EXPECT_ERROR(Runtime, "but got 1 (batch_size=2)", rnn::pack_padded_sequence(x, {3}));
  EXPECT_ERROR(Runtime, "at most 3", rnn::pack_padded_sequence(x, {4, 2}));
  EXPECT_ERROR(Runtime, "an empty list", rnn::pack_sequence({}));
  EXPECT_ERROR(Value, "either 'right' or 'left'", rnn::pad_sequence(std::vector{ones({1})}, false, 0, "up"));
  EXPECT_ERROR(Value, "from 0 to 3", rnn::unpad_sequence(x, full({2}, 4, kInt64)));
  EXPECT_ERROR(Value, "one length for each of the 2", rnn::unpad_sequence(x, full({3}, 1, kInt64)));
  EXPECT_ERROR(Value, "the packed sequence is empty", rnn::unpack_sequence({}));
  const auto packed = rnn::pack_padded_sequence(x, {3, 2});
  EXPECT_ERROR(Value, "total_length=2", rnn::pad_packed_sequence(packed, false, 0, 2));
  EXPECT_ERROR(Runtime, "Expected 4, got 1", nn::LSTM(4, 5)(packed));
  EXPECT_ERROR(Runtime, "Expected hidden state size [1, 2, 5]", nn::GRU(1, 5)(packed, ones({1, 3, 5})));
  EXPECT_ERROR(Value, "the packed sequence is empty", nn::GRU(1, 5)(nn::PackedSequence()));
  EXPECT_ERROR(Runtime, "batch sizes add up to", nn::GRU(1, 5)(nn::PackedSequence(packed.data, arange(2, 0, -1))));
}

}  // namespace strata
