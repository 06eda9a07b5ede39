// Undefined tensors in methods, operators, modules and functions that are no ops: a typed error, never a crash. Ops are
// in tests/dispatch/undefined_test.cpp.
#include "strata/strata.h"

#include "tests/expect_error.h"

namespace strata {
namespace {

const Tensor none;

// "" if the call throws a strata::Error that speaks of an undefined tensor.
template <class F> std::string not_refused(F f) {
  try {
    f();
  } catch (const Error& e) {
    const bool says = std::string_view(e.what()).find("undefined") != std::string_view::npos;
    return says && e.kind() != ErrorKind::Internal ? "" : e.what();
  }
  return "nothing was thrown";
}
#define EXPECT_REFUSED(...) EXPECT_EQ(not_refused([&] { static_cast<void>(__VA_ARGS__); }), "") << #__VA_ARGS__

TEST(Undefined, MethodsOfTensor) {
  EXPECT_REFUSED(none.sizes());
  EXPECT_REFUSED(none.stride(0));
  EXPECT_REFUSED(none.options());
  EXPECT_REFUSED(none.element_size());
  EXPECT_REFUSED(none.nbytes());
  EXPECT_REFUSED(none.is_cpu());
  EXPECT_REFUSED(none.is_cuda());
  EXPECT_REFUSED(none.is_meta());
  EXPECT_REFUSED(none.data_ptr<float>());
  EXPECT_REFUSED(none.data_ptr());
  EXPECT_REFUSED(none.item());
  EXPECT_REFUSED(Tensor().requires_grad_());
  EXPECT_REFUSED(none[0]);
  EXPECT_REFUSED(none[ones({1}, kInt64)]);
  EXPECT_REFUSED(ones({2})[none]);
  EXPECT_REFUSED(none.index({0, indexing::Slice()}));
  EXPECT_REFUSED(ones({2}).index({none}));
  EXPECT_REFUSED(none.index_put_({0}, 1));
  EXPECT_REFUSED(ones({2}).index_put_({0}, none));
  EXPECT_REFUSED(none.slice());
  EXPECT_REFUSED(none.to(dtype(kFloat64)));
  EXPECT_REFUSED(none.to(kFloat64));
  EXPECT_REFUSED(none.to(ones({1})));
  EXPECT_REFUSED(none.cpu());
  EXPECT_REFUSED(none.cuda());
  EXPECT_REFUSED(none.equal(ones({1})));
  EXPECT_REFUSED(ones({1}).equal(none));
  EXPECT_REFUSED(none.allclose(ones({1})));
  EXPECT_REFUSED(ones({1}).allclose(none));
  EXPECT_REFUSED(none.is_leaf());
  EXPECT_REFUSED(none.retain_grad());
  EXPECT_REFUSED(none.sum());
  EXPECT_REFUSED(none.view({-1}));
  EXPECT_REFUSED(none.detach());
  EXPECT_REFUSED(none.add_(1));
  EXPECT_REFUSED(ones({1}).add_(none));
}

TEST(Undefined, Operators) {
  const Tensor x = ones({2});
  Tensor target = ones({2}), undefined_target;
  EXPECT_REFUSED(none + x);
  EXPECT_REFUSED(x + none);
  EXPECT_REFUSED(none - 1);
  EXPECT_REFUSED(1 - none);
  EXPECT_REFUSED(none * 0.1);
  EXPECT_REFUSED(x.grad() * 0.1);  // no backward pass has run
  EXPECT_REFUSED(0.1 * x.grad());
  EXPECT_REFUSED(none / x);
  EXPECT_REFUSED(none % 2);
  EXPECT_REFUSED(none < x);
  EXPECT_REFUSED(x >= none);
  EXPECT_REFUSED(none == x);
  EXPECT_REFUSED(x != none);
  EXPECT_REFUSED(-none);
  EXPECT_REFUSED(~none);
  EXPECT_REFUSED(none & x);
  EXPECT_REFUSED(target += none);
  EXPECT_REFUSED(undefined_target += 1);
  EXPECT_REFUSED(undefined_target -= x.grad());
  EXPECT_REFUSED(undefined_target *= 2);
  EXPECT_REFUSED(undefined_target /= 2);
}

TEST(Undefined, FunctionsThatAreNoOps) {
  const Tensor x = ones({2});
  EXPECT_REFUSED(equal(none, x));
  EXPECT_REFUSED(allclose(x, none));
  EXPECT_REFUSED(numel(none));
  EXPECT_REFUSED(is_floating_point(none));
  EXPECT_REFUSED(is_complex(none));
  EXPECT_REFUSED(is_nonzero(none));
  EXPECT_REFUSED(result_type(none, x));
  EXPECT_REFUSED(to_dlpack(none));
  EXPECT_REFUSED(set_rng_state(none));
}

TEST(Undefined, Autograd) {
  const Tensor x = ones({2}).set_requires_grad();
  const Tensor y = sum(x);
  EXPECT_REFUSED(autograd::backward(none));
  EXPECT_REFUSED(autograd::grad({&none, 1}, {&x, 1}));
  EXPECT_REFUSED(autograd::grad({&y, 1}, {&none, 1}));
  EXPECT_REFUSED(autograd::register_hook(none, [](const Tensor& g) { return g; }));
  EXPECT_REFUSED(autograd::register_post_accumulate_grad_hook(none, [](const Tensor&) {}));
  EXPECT_REFUSED(autograd::remove_hook(none, 1));
  EXPECT_REFUSED(autograd::retain_grad(none));
  EXPECT_REFUSED(autograd::retains_grad(none));
  EXPECT_REFUSED(autograd::is_leaf(none));
  EXPECT_REFUSED(autograd::detach(none));
}

TEST(Undefined, FunctionsOfNn) {
  const std::vector<Tensor> list = {ones({2}), Tensor()};
  const Tensor x = ones({2, 4});
  namespace F = nn::functional;
  EXPECT_REFUSED(F::gumbel_softmax(none));
  EXPECT_REFUSED(F::adaptive_max_pool3d(none, 2));
  EXPECT_REFUSED(F::adaptive_max_pool2d(none, 2));
  EXPECT_REFUSED(F::triplet_margin_with_distance_loss(x, none, x));
  EXPECT_REFUSED(F::multi_head_attention_forward(none, x, x, 4, 1, none, none, none, none, false, 0, none, none));
  EXPECT_REFUSED(nn::utils::clip_grad_norm_(list, 1));
  EXPECT_REFUSED(nn::utils::clip_grad_value_(list, 1));
  EXPECT_REFUSED(nn::utils::get_total_norm(list));
  EXPECT_REFUSED(nn::utils::parameters_to_vector(list));
  EXPECT_REFUSED(nn::utils::vector_to_parameters(none, list));
  EXPECT_REFUSED(nn::utils::vector_to_parameters(ones({4}), list));
  EXPECT_REFUSED(nn::utils::fuse_conv_bn_weights(none, none, none, none, 1e-5, none, none));
  EXPECT_FALSE(nn::utils::rnn::invert_permutation(none));  // of sequences in order of their lengths
  EXPECT_REFUSED(nn::utils::rnn::pack_padded_sequence(none, {1}));
  EXPECT_REFUSED(nn::utils::rnn::pack_padded_sequence(ones({2, 1, 3}), none));
  EXPECT_THROW(nn::utils::rnn::pad_packed_sequence({}), Error);
  EXPECT_REFUSED(nn::utils::rnn::pad_sequence(list));
  EXPECT_REFUSED(nn::utils::rnn::unpad_sequence(none, none));
  EXPECT_REFUSED(nn::utils::rnn::pack_sequence(list));
  EXPECT_THROW(nn::utils::rnn::unpack_sequence({}), Error);
}

TEST(Undefined, HandWrittenModules) {
  const Tensor x = ones({3, 2, 8});
  EXPECT_REFUSED(nn::RNN(4, 5)(none));
  EXPECT_REFUSED(nn::GRU(4, 5)(none));
  EXPECT_REFUSED(nn::LSTM(4, 5)(none));
  EXPECT_THROW(nn::LSTM(4, 5)(nn::PackedSequence()), Error);
  EXPECT_REFUSED(nn::RNNCell(4, 5)(none));
  EXPECT_REFUSED(nn::GRUCell(4, 5)(none));
  EXPECT_REFUSED(nn::LSTMCell(4, 5)(none));
  EXPECT_REFUSED(nn::MultiheadAttention(8, 2)(none, x, x));
  EXPECT_REFUSED(nn::MultiheadAttention(8, 2)(x, none, x));
  EXPECT_REFUSED(nn::MultiheadAttention(8, 2)(x, x, none));
  const nn::TransformerEncoderLayer encoder(8, 2, {.dim_feedforward = 8});
  const nn::TransformerDecoderLayer decoder(8, 2, {.dim_feedforward = 8});
  EXPECT_REFUSED(encoder(none));
  EXPECT_REFUSED(decoder(none, x));
  EXPECT_REFUSED(decoder(x, none));
  EXPECT_REFUSED(nn::TransformerEncoder(encoder, 1)(none));
  EXPECT_REFUSED(nn::TransformerDecoder(decoder, 1)(none, x));
  const nn::Transformer transformer(
    {.d_model = 8, .nhead = 2, .num_encoder_layers = 1, .num_decoder_layers = 1, .layer = {.dim_feedforward = 8}});
  EXPECT_REFUSED(transformer(none, x));
  EXPECT_REFUSED(transformer(x, none));
  EXPECT_REFUSED(nn::Sequential(nn::Linear(2, 2), nn::ReLU())(none));
  EXPECT_REFUSED(nn::LinearCrossEntropyLoss(4, 3)(none, none));
  EXPECT_REFUSED(nn::TripletMarginWithDistanceLoss()(none, x, x));
  EXPECT_REFUSED(nn::AdaptiveLogSoftmaxWithLoss(8, 12, {4})(none, none));
  EXPECT_REFUSED(nn::AdaptiveLogSoftmaxWithLoss(8, 12, {4}).log_prob(none));
  EXPECT_REFUSED(nn::AdaptiveLogSoftmaxWithLoss(8, 12, {4}).predict(none));
}

[[maybe_unused]] Tensor integers(const std::vector<int64_t>& values, const std::vector<int64_t>& shape) {
  return reshape(tensor(values), shape);
}

// Calls a generated module with an undefined tensor for each input.
template <class Make, class Call> void run(const char* name, const Make& make, const Call&) {
  const auto module = make();
  if constexpr (std::is_same_v<std::remove_cv_t<decltype(module)>, nn::Identity>) return;  // returns its input
  const auto refused = [&](const auto&... inputs) { return not_refused([&] { module(inputs...); }); };
  if constexpr (requires { module(none); }) EXPECT_EQ(refused(none), "") << name;
  else if constexpr (requires { module(none, none); }) EXPECT_EQ(refused(none, none), "") << name;
  else if constexpr (requires { module(none, none, none); }) EXPECT_EQ(refused(none, none, none), "") << name;
  else EXPECT_EQ(refused(none, none, none, none), "") << name;
}

TEST(Undefined, GeneratedModules) {
#include "tests/module_samples.inc"
}

}  // namespace
}  // namespace strata
