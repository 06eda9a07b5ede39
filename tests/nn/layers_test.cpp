// Built-in modules in C++: arguments, recurrent nets, attention, transformers, tools.
#include <gtest/gtest.h>

#include <cmath>

#include "strata/strata.h"
#include "tests/expect_error.h"

using namespace strata;  // as a user's program would

namespace {

double largest_difference(const Tensor& a, const Tensor& b) { return max(abs(sub(a, b))).item<double>(); }

}  // namespace

TEST(Arguments, OneNumberOrSeveral) {
  EXPECT_EQ(nn::Conv2d(1, 2, 3).repr(), "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))");
  EXPECT_EQ(nn::Conv2d(1, 2, {3, 5}, 2, "valid").repr(),
            "Conv2d(1, 2, kernel_size=(3, 5), stride=(2, 2), padding=valid)");
  EXPECT_EQ(nn::MaxPool2d({2, 3}, {.ceil_mode = true}).repr(),
            "MaxPool2d(kernel_size=(2, 3), stride=(2, 3), padding=0, dilation=1, ceil_mode=True)");
  EXPECT_EQ(nn::Softmax(0).repr(), "Softmax(dim=0)");
  EXPECT_EQ(nn::AdaptiveAvgPool2d({3, std::nullopt}).repr(), "AdaptiveAvgPool2d(output_size=(3, None))");
  EXPECT_EQ(to_string(nn::AdaptiveAvgPool2d({3, std::nullopt})(ones({1, 2, 7, 5})).shape()), "[1, 2, 3, 5]");
  EXPECT_EQ(nn::LayerNorm(4).repr(), "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)");
  EXPECT_EQ(nn::Upsample({.scale_factor = 2.0}).repr(), "Upsample(scale_factor=2.0, mode='nearest')");
  EXPECT_EQ(nn::Linear(2, 3, false).bias().get(), nullptr);
  EXPECT_EQ(nn::Linear(2, 3, {.dtype = DType::BF16}).weight().dtype(), DType::BF16);
  EXPECT_ERROR(Value, "expected one integer or a list of 2, got 3", nn::Conv2d(1, 2, {3, 3, 3}));
  EXPECT_ERROR(Value, "'same' with a stride of 1", nn::Conv2d(1, 2, 3, {.stride = 2, .padding = "same"}));
}

TEST(Layers, SharedWeightsAreTied) {
  nn::Sequential net(nn::Linear(3, 3), nn::Linear(3, 3));
  const auto a = net[0].get<nn::Linear>(), b = net[1].get<nn::Linear>();
  b.weight() = a.weight();
  EXPECT_EQ(net.parameters().size(), 3u);
  EXPECT_EQ(net.state_dict().size(), 4u);
}

TEST(Layers, PoolsGiveIndices) {
  const nn::MaxPool2d pool(2);
  const Tensor x = reshape(arange(16, DType::F32), {1, 1, 4, 4});
  const auto [values, indices] = pool.with_indices(x);
  EXPECT_EQ(values.data<float>()[0], 5);
  EXPECT_EQ(indices.data<int64_t>()[3], 15);
  const Tensor back = nn::MaxUnpool2d(2)(values, indices);
  EXPECT_EQ(sum(back).item<double>(), 5 + 7 + 13 + 15);
}

TEST(Layers, BatchNormCountsAndDropoutStopsInEvaluation) {
  nn::BatchNorm1d norm(3);
  norm(randn({4, 3}));
  EXPECT_EQ(norm.num_batches_tracked().item<int64_t>(), 1);
  norm.eval();
  norm(randn({4, 3}));
  EXPECT_EQ(norm.num_batches_tracked().item<int64_t>(), 1);
  nn::NamedTensors state = norm.state_dict();
  state.pop_back();  // files of old versions lack the count
  norm.load_state_dict(state);
  nn::Dropout dropout(0.5);
  const Tensor x = ones({100});
  EXPECT_GT(largest_difference(dropout(x), x), 0.5);
  dropout.eval();
  EXPECT_EQ(largest_difference(dropout(x), x), 0);
}

TEST(Recurrent, LstmIsItsCellStepByStep) {
  manual_seed(5);
  const nn::LSTM lstm(3, 4);
  nn::LSTMCell cell(3, 4);
  const auto w = lstm.weights();
  cell.load_state_dict({{"weight_ih", w[0]}, {"weight_hh", w[1]}, {"bias_ih", w[2]}, {"bias_hh", w[3]}});
  const Tensor x = randn({5, 2, 3});
  const auto [output, end] = lstm(x);
  nn::LSTMState state;
  for (int64_t t = 0; t < 5; ++t) {
    state = cell(select(x, 0, t), state);
    EXPECT_LT(largest_difference(select(output, 0, t), state.h), 1e-6);
  }
  EXPECT_LT(largest_difference(end.c, unsqueeze(state.c, 0)), 1e-6);
  EXPECT_EQ(lstm.repr(), "LSTM(3, 4)");
  EXPECT_EQ(to_string(nn::GRU(3, 4, {.batch_first = true})(randn({6, 3})).output.shape()), "[6, 4]");
  EXPECT_ERROR(Runtime, "Expected hidden state size [1, 2, 4]", lstm(x, {randn({1, 3, 4}), randn({1, 3, 4})}));
  EXPECT_ERROR(Value, "hidden_size must be greater than zero", nn::RNN(3, 0));
  EXPECT_ERROR(Value, "only supported for LSTM", nn::GRU(3, 4, {.proj_size = 2}));
}

TEST(Attention, OneHeadIsScaledDotProduct) {
  manual_seed(6);
  const nn::MultiheadAttention attention(4, 1, {.batch_first = true});
  const Tensor x = randn({2, 3, 4});
  const auto [output, weights] = attention(x, x, x);
  const auto w = chunk(attention.in_proj_weight(), 3);
  const auto product = [&](int i) { return matmul(x, t(w[static_cast<size_t>(i)])); };
  const Tensor expected =
    attention.out_proj()(nn::functional::scaled_dot_product_attention(product(0), product(1), product(2)));
  EXPECT_LT(largest_difference(output, expected), 1e-5);
  EXPECT_LT(std::abs(sum(weights).item<double>() - 6), 1e-5);
  EXPECT_FALSE(attention(x, x, x, {.need_weights = false}).weights);
  EXPECT_ERROR(Value, "divisible by num_heads", nn::MultiheadAttention(4, 3));
}

TEST(Transformer, LayersAreCopiesWithValuesOfTheirOwn) {
  manual_seed(7);
  const nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16});
  nn::TransformerEncoder encoder(layer, 2);
  const auto named = encoder.named_parameters();
  EXPECT_EQ(named.size(), 24u);
  EXPECT_EQ(named[0].first, "layers.0.self_attn.in_proj_weight");
  EXPECT_EQ(largest_difference(named[0].second, named[12].second), 0);
  EXPECT_NE(named[0].second.get(), named[12].second.get());
  encoder.eval();
  const Tensor y = encoder(randn({3, 2, 8}));
  EXPECT_EQ(to_string(y.shape()), "[3, 2, 8]");
  EXPECT_ERROR(Runtime, "relu/gelu", nn::TransformerEncoderLayer(8, 2, {.activation = "tanh"}));
}

TEST(Utils, ClipsGradients) {
  nn::Linear fc(2, 1, {.bias = false});
  sum(mul(fc(ones({1, 2})), 3)).backward();
  const Tensor norm = nn::utils::clip_grad_norm_(fc.parameters(), 1.0);
  EXPECT_NEAR(norm.item<double>(), std::sqrt(18.0), 1e-6);
  EXPECT_NEAR(fc.weight().grad().data<float>()[0], std::sqrt(0.5), 1e-5);
  nn::utils::clip_grad_value_(fc.parameters(), 0.1);
  EXPECT_NEAR(fc.weight().grad().data<float>()[1], 0.1, 1e-7);
  const Tensor vector = nn::utils::parameters_to_vector(fc.parameters());
  nn::utils::vector_to_parameters(mul(vector, 2), fc.parameters());
  EXPECT_EQ(largest_difference(nn::utils::parameters_to_vector(fc.parameters()), mul(vector, 2)), 0);
  EXPECT_ERROR(Value, "a vector of 2 elements", nn::utils::vector_to_parameters(ones({3}), fc.parameters()));
  EXPECT_EQ(nn::utils::clip_grad_norm_(nn::Linear(1, 1).parameters(), 1.0).item<double>(), 0);
}

TEST(Utils, FusedLayersDoTheNormAlong) {
  manual_seed(8);
  const Tensor x = randn({2, 4, 5, 6});
  const auto trained = [](auto norm, const Tensor& like) {
    for (int i = 0; i < 3; ++i) norm(add(mul(randn(like.shape()), 2), 1));
    nn::init::uniform_(norm.weight(), 0.5, 2);
    nn::init::uniform_(norm.bias(), -1, 1);
    norm.eval();
    return norm;
  };
  nn::Conv2d conv(4, 6, 3, {.stride = 2, .padding = "valid", .groups = 2, .bias = false});
  nn::ConvTranspose2d back(4, 6, 3, {.stride = 2, .output_padding = 1});
  nn::Linear fc(6, 3);
  conv.eval();
  back.eval();
  fc.eval();
  const auto norm = trained(nn::BatchNorm2d(6), conv(x));
  const uint64_t position = default_generator().state().position;
  const nn::Conv2d fused = nn::utils::fuse_conv_bn_eval(conv, norm);
  EXPECT_EQ(default_generator().state().position, position);
  EXPECT_LT(largest_difference(fused(x), norm(conv(x))), 1e-5);
  EXPECT_LT(largest_difference(nn::utils::fuse_conv_bn_eval(back, norm, true)(x), norm(back(x))), 1e-5);
  const Tensor rows = randn({7, 6});
  const auto flat = trained(nn::BatchNorm1d(3), fc(rows));
  EXPECT_LT(largest_difference(nn::utils::fuse_linear_bn_eval(fc, flat)(rows), flat(fc(rows))), 1e-5);
  EXPECT_TRUE(fused.weight().requires_grad() && !fused.is_training());
  EXPECT_ERROR(Value, "evaluation mode only", nn::utils::fuse_conv_bn_eval(nn::Conv2d(4, 6, 3), norm));
  nn::BatchNorm2d plain(6, {.track_running_stats = false});
  plain.eval();
  EXPECT_ERROR(Value, "no running statistics", nn::utils::fuse_conv_bn_eval(conv, plain));
}

TEST(Functional, AttentionAsAFunctionIsThatOfTheModule) {
  manual_seed(9);
  nn::MultiheadAttention attention(4, 2);
  attention.eval();
  const Tensor x = randn({3, 2, 4});
  const auto [output, weights] = attention(x, x, x);
  const nn::Linear out = attention.out_proj();
  const auto forward = [&](int64_t width, const nn::MultiHeadAttentionForwardOptions& options) {
    return nn::functional::multi_head_attention_forward(x, x, x, width, 2, attention.in_proj_weight(),
                                                        attention.in_proj_bias(), {}, {}, false, 0.5, out.weight(),
                                                        out.bias(), options);
  };
  const auto same = forward(4, {.training = false});
  EXPECT_EQ(largest_difference(same.first, output), 0);
  EXPECT_EQ(largest_difference(same.second, weights), 0);
  EXPECT_FALSE(forward(4, {.training = false, .need_weights = false}).second);
  EXPECT_ERROR(Runtime, "was expecting embedding dimension of 5", forward(5, {}));
  EXPECT_ERROR(Runtime, "need attn_mask", forward(4, {.is_causal = true}));
  EXPECT_EQ(to_string(nn::functional::adaptive_max_pool2d(randn({1, 2, 7, 5}), {3, std::nullopt}).shape()),
            "[1, 2, 3, 5]");
}

TEST(Utils, ClipsWithANormComputedBefore) {
  nn::Linear fc(2, 1, {.bias = false});
  sum(mul(fc(ones({1, 2})), 3)).backward();
  nn::utils::clip_grads_with_norm_(fc.parameters(), 1.0, full({}, 6.0));
  EXPECT_NEAR(fc.weight().grad().data<float>()[0], 0.5, 1e-5);
}
