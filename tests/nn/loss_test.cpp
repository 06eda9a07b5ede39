// Losses that contain modules or call functions, compared with loops in double precision; lists of parameters.
#include <gtest/gtest.h>

#include <cmath>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {

namespace {

using Rows = std::vector<std::vector<double>>;
Rows rows_of(const Tensor& t) {
  const Tensor c = contiguous(to(autograd::detach(t), kFloat64));
  Rows rows;
  for (int64_t i = 0; i < c.size(0); ++i)
    rows.emplace_back(c.data<double>() + i * c.size(1), c.data<double>() + (i + 1) * c.size(1));
  return rows;
}
std::vector<double> product(const Rows& weight, const std::vector<double>& x) {
  std::vector<double> y;
  for (const auto& row : weight) {
    double s = 0;
    for (size_t k = 0; k < x.size(); ++k) s += row[k] * x[k];
    y.push_back(s);
  }
  return y;
}
std::vector<double> log_softmax_of(std::vector<double> x) {
  double total = 0;
  for (const double v : x) total += std::exp(v);
  for (double& v : x) v -= std::log(total);
  return x;
}
Tensor classes(std::vector<int64_t> list) {
  Tensor t = empty({static_cast<int64_t>(list.size())}, kInt64);
  std::copy(list.begin(), list.end(), t.data<int64_t>());
  return t;
}

}  // namespace

TEST(AdaptiveLogSoftmax, IsTheSoftmaxOfItsHeadTimesThatOfTheCluster) {
  manual_seed(1);
  const nn::AdaptiveLogSoftmaxWithLoss module(6, 9, {3, 5}, {.div_value = 2, .dtype = kFloat64});
  const Tensor x = randn({4, 6}, nullptr, kFloat64);
  const Rows head = rows_of(module.head().weight()), inputs = rows_of(x), got = rows_of(module.log_prob(x));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<double> first = log_softmax_of(product(head, inputs[i]));  // 3 classes and 2 clusters
    std::vector<double> expected(first.begin(), first.begin() + 3);
    for (int64_t k = 0; k < 2; ++k) {
      const auto cluster = module.tail()[k].get<nn::Sequential>();
      const std::vector<double> narrow = product(rows_of(cluster[0].get<nn::Linear>().weight()), inputs[i]);
      EXPECT_EQ(narrow.size(), k == 0 ? 3U : 1U);
      for (const double v : log_softmax_of(product(rows_of(cluster[1].get<nn::Linear>().weight()), narrow)))
        expected.push_back(v + first[static_cast<size_t>(3 + k)]);
    }
    ASSERT_EQ(expected.size(), 9U);
    for (size_t c = 0; c < 9; ++c) EXPECT_NEAR(got[i][c], expected[c], 1e-12);
    const auto best = std::max_element(expected.begin(), expected.end()) - expected.begin();
    EXPECT_EQ(select(module.predict(x), 0, static_cast<int64_t>(i)).item<int64_t>(), best);
  }
  const auto [output, loss] = module(x, classes({0, 4, 8, 2}));
  EXPECT_NEAR(output.data<double>()[2], got[2][8], 1e-12);
  EXPECT_NEAR(loss.item<double>(), -(got[0][0] + got[1][4] + got[2][8] + got[3][2]) / 4, 1e-12);
  const auto alone = module(select(x, 0, 1), select(classes({4}), 0, 0));
  EXPECT_NEAR(alone.output.item<double>(), got[1][4], 1e-12);
  loss.backward();
  for (const Tensor& p : module.parameters()) EXPECT_TRUE(p.grad());
}

TEST(AdaptiveLogSoftmax, MistakesAreExplained) {
  using nn::AdaptiveLogSoftmaxWithLoss;
  EXPECT_ERROR(Value, "length larger than 0", AdaptiveLogSoftmaxWithLoss(6, 9, {}));
  for (const std::vector<int64_t>& bad : {std::vector<int64_t>{5, 3}, {3, 3}, {0, 3}, {3, 9}})
    EXPECT_ERROR(Value, "unique, positive integers", AdaptiveLogSoftmaxWithLoss(6, 9, bad));
  EXPECT_ERROR(Value, "div_value must be greater than 0", AdaptiveLogSoftmaxWithLoss(6, 9, {3}, {.div_value = 0}));
  const AdaptiveLogSoftmaxWithLoss module(6, 9, {3});
  EXPECT_ERROR(Runtime, "values in range [0, 9]", module(ones({2, 6}), classes({0, 9})));
  EXPECT_ERROR(Runtime, "same size in the batch dimension", module(ones({3, 6}), classes({0, 1})));
  EXPECT_ERROR(Runtime, "expected input [N, 6]", module.predict(ones({3, 5})));
}

TEST(LinearCrossEntropy, IsCrossEntropyOfALinearLayer) {
  manual_seed(2);
  const Tensor weight = add(rand({4}, nullptr, kFloat64), 0.5);
  nn::LinearCrossEntropyLoss loss(3, 4, {.bias = true, .weight = weight, .dtype = kFloat64});
  const Tensor x = randn({5, 3}, nullptr, kFloat64);
  const std::vector<int64_t> target = {0, 1, 2, 3, 0};
  const Rows w = rows_of(loss.linear().weight()), inputs = rows_of(x);
  const double* b = loss.linear().bias().data<double>();
  double total = 0, weights = 0;
  for (size_t i = 0; i < 5; ++i) {
    std::vector<double> logits = product(w, inputs[i]);
    for (size_t c = 0; c < 4; ++c) logits[c] += b[c];
    const auto c = static_cast<size_t>(target[i]);
    total -= weight.data<double>()[c] * log_softmax_of(logits)[c];
    weights += weight.data<double>()[c];
  }
  EXPECT_NEAR(loss(x, classes(target)).item<double>(), total / weights, 1e-12);
  EXPECT_EQ(loss.state_dict()[0].first, "weight");
  EXPECT_ERROR(Runtime, "expected weight shape to be [4]", nn::LinearCrossEntropyLoss(3, 4, {.weight = ones({3})}));
  EXPECT_ERROR(Runtime, "in range [0, 1]", nn::LinearCrossEntropyLoss(3, 4, {.label_smoothing = 2}));
  EXPECT_ERROR(Value, "not a valid value for reduction", nn::LinearCrossEntropyLoss(3, 4, {.reduction = "max"}));
}

TEST(TripletMargin, TakesAnyDistance) {
  manual_seed(3);
  const Tensor a = randn({6, 3}, nullptr, kFloat64), p = randn({6, 3}, nullptr, kFloat64),
               n = randn({6, 3}, nullptr, kFloat64);
  const auto squared = [](const Tensor& x, const Tensor& y) { return sum(square(sub(x, y)), 1); };
  const Rows ra = rows_of(a), rp = rows_of(p), rn = rows_of(n);
  const auto d = [](const std::vector<double>& x, const std::vector<double>& y) {
    double s = 0;
    for (size_t k = 0; k < x.size(); ++k) s += (x[k] - y[k]) * (x[k] - y[k]);
    return s;
  };
  for (const bool swap : {false, true}) {
    const nn::TripletMarginWithDistanceLoss loss(
      {.distance_function = squared, .margin = 0.5, .swap = swap, .reduction = "none"});
    const Tensor got = loss(a, p, n);
    for (size_t i = 0; i < 6; ++i) {
      const double far = swap ? std::min(d(ra[i], rn[i]), d(rp[i], rn[i])) : d(ra[i], rn[i]);
      EXPECT_NEAR(got.data<double>()[i], std::max(0.0, d(ra[i], rp[i]) - far + 0.5), 1e-12);
    }
  }
  const Tensor usual = nn::functional::triplet_margin_loss(a, p, n);
  EXPECT_NEAR(nn::TripletMarginWithDistanceLoss()(a, p, n).item<double>(), usual.item<double>(), 1e-12);
  EXPECT_ERROR(Value, "margin to be greater than 0", nn::TripletMarginWithDistanceLoss({.margin = 0}));
  EXPECT_ERROR(Value, "not a valid value for reduction", nn::TripletMarginWithDistanceLoss({.reduction = "max"}));
  const auto nothing = [](const Tensor&, const Tensor&) { return Tensor(); };
  EXPECT_ERROR(Value, "undefined tensor", nn::TripletMarginWithDistanceLoss({.distance_function = nothing})(a, p, n));
}

TEST(GumbelSoftmax, DrawsClassesByTheirProbability) {
  manual_seed(4);
  const Tensor logits = log(mul(ones({4000, 2}), div(add(arange(2.0), 1), 4)));  // probabilities 1/3 and 2/3
  const Tensor drawn = nn::functional::gumbel_softmax(logits, 1.0, true);
  EXPECT_EQ(max(abs(sub(sum(drawn, 1), 1))).item<double>(), 0);
  EXPECT_NEAR(mean(select(drawn, 1, 1)).item<double>(), 2.0 / 3, 0.03);  // 4 deviations
}

TEST(Parameters, ListsAndDictionaries) {
  nn::ParameterList list({ones({2}), zeros({3})});
  list.push_back(ones({1, 4}));
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list.named_parameters()[2].first, "2");
  EXPECT_TRUE(list[-1].requires_grad());
  EXPECT_ERROR(Index, "index 3 is out of range", list[3]);
  EXPECT_ERROR(Type, "an undefined tensor", list.push_back({}));
  nn::ParameterDict dict({{"scale", ones({2})}});
  dict.insert("shift", zeros({2}));
  EXPECT_EQ(dict.keys(), (std::vector<std::string>{"scale", "shift"}));
  EXPECT_TRUE(dict.contains("shift") && !dict.contains("other"));
  EXPECT_EQ(dict["scale"].numel(), 2);
  EXPECT_ERROR(Index, "no parameter 'other'", dict["other"]);
  EXPECT_ERROR(Value, "something of that name", dict.insert("scale", ones({1})));
}

}  // namespace strata
