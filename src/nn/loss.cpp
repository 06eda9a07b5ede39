// Losses that cannot be records.
#include "nn/loss.h"

#include <fmt/core.h>

#include <cmath>

#include "nn/arguments.h"
#include "strata/nn/image.h"
#include "strata/ops.h"

namespace strata::nn {
namespace {

void check_reduction(const char* module, const std::string& reduction) {
  STRATA_CHECK(reduction == "mean" || reduction == "sum" || reduction == "none", Value,
               "{}: {} is not a valid value for reduction; use 'none', 'mean' or 'sum'", module, reduction);
}

}  // namespace

struct LinearCrossEntropyLoss::State final : ModuleState {
  int64_t num_classes = 0;
  Options options;
  Linear linear = none;

  std::string extra_repr() const override {
    using detail::show;
    return fmt::format(
      "in_features={}, num_classes={}, out_features={}, bias={}, reduction={}, ignore_index={}, "
      "label_smoothing={}, options=None",
      linear.in_features(), num_classes, show(IntList(options.out_features)), show(options.bias), options.reduction,
      show(options.ignore_index), show(options.label_smoothing));
  }
};
LinearCrossEntropyLoss::State& LinearCrossEntropyLoss::own() const { return static_cast<State&>(state()); }
Linear LinearCrossEntropyLoss::linear() const { return own().linear; }
const LinearCrossEntropyLoss::Options& LinearCrossEntropyLoss::options() const { return own().options; }

LinearCrossEntropyLoss::LinearCrossEntropyLoss(int64_t in_features, int64_t num_classes, const Options& o)
    : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = "LinearCrossEntropyLoss";
  s.num_classes = num_classes;
  s.options = o;
  STRATA_CHECK(!o.weight || (o.weight.dim() == 1 && o.weight.size(0) == num_classes), Runtime,
               "{}: expected weight shape to be [{}], got {}", s.kind, num_classes, to_string(o.weight.shape()));
  STRATA_CHECK(o.label_smoothing >= 0 && o.label_smoothing <= 1, Runtime,
               "{}: expected label_smoothing to be in range [0, 1], got {}", s.kind, o.label_smoothing);
  check_reduction("LinearCrossEntropyLoss", o.reduction);
  s.buffers.push_back({"weight", &s.options.weight});
  int64_t rows = num_classes;
  for (const int64_t n : o.out_features) rows *= n;
  s.linear = add("linear", Linear(in_features, rows, {.bias = o.bias, .dtype = o.dtype, .device = o.device}));
}
Tensor LinearCrossEntropyLoss::forward(const Tensor& input, const Tensor& target) const {
  const State& s = own();
  std::vector<int64_t> shape{s.num_classes};
  shape.insert(shape.end(), s.options.out_features.begin(), s.options.out_features.end());
  const Tensor bias = s.linear.bias() ? reshape(s.linear.bias(), shape) : Tensor();
  shape.push_back(s.linear.in_features());
  return functional::linear_cross_entropy(input, reshape(s.linear.weight(), shape), target, bias, s.options.weight,
                                          s.options.reduction, s.options.ignore_index, s.options.label_smoothing);
}
Tensor LinearCrossEntropyLoss::operator()(const Tensor& input, const Tensor& target) const {
  if (!has_hooks()) [[likely]]
    return forward(input, target);
  return with_hooks({input, target},
                    [this](const std::vector<Tensor>& in) { return std::vector{forward(in[0], in[1])}; })[0];
}

struct TripletMarginWithDistanceLoss::State final : ModuleState {
  Options options;
};
TripletMarginWithDistanceLoss::State& TripletMarginWithDistanceLoss::own() const {
  return static_cast<State&>(state());
}
const TripletMarginWithDistanceLoss::Options& TripletMarginWithDistanceLoss::options() const { return own().options; }

TripletMarginWithDistanceLoss::TripletMarginWithDistanceLoss(const Options& o) : Module(std::make_shared<State>()) {
  own().kind = "TripletMarginWithDistanceLoss";
  own().options = o;
  STRATA_CHECK(o.margin > 0, Value, "{}: expected margin to be greater than 0, got {} instead", own().kind, o.margin);
  check_reduction("TripletMarginWithDistanceLoss", o.reduction);
  if (o.distance_function) return;
  const PairwiseDistance distance = add("distance_function", PairwiseDistance());
  own().options.distance_function = [distance](const Tensor& a, const Tensor& b) { return distance(a, b); };
}
Tensor TripletMarginWithDistanceLoss::forward(const Tensor& anchor, const Tensor& positive,
                                              const Tensor& negative) const {
  return functional::triplet_margin_with_distance_loss(anchor, positive, negative, own().options);
}
Tensor TripletMarginWithDistanceLoss::operator()(const Tensor& anchor, const Tensor& positive,
                                                 const Tensor& negative) const {
  if (!has_hooks()) [[likely]]
    return forward(anchor, positive, negative);
  return with_hooks({anchor, positive, negative},
                    [this](const std::vector<Tensor>& in) { return std::vector{forward(in[0], in[1], in[2])}; })[0];
}

struct AdaptiveLogSoftmaxWithLoss::State final : ModuleState {
  Options options;
  int64_t in_features = 0;
  std::vector<int64_t> cutoffs;
  Linear head = none;
  ModuleList tail = none;
};
AdaptiveLogSoftmaxWithLoss::State& AdaptiveLogSoftmaxWithLoss::own() const { return static_cast<State&>(state()); }
const AdaptiveLogSoftmaxWithLoss::Options& AdaptiveLogSoftmaxWithLoss::options() const { return own().options; }
const std::vector<int64_t>& AdaptiveLogSoftmaxWithLoss::cutoffs() const { return own().cutoffs; }
Linear AdaptiveLogSoftmaxWithLoss::head() const { return own().head; }
ModuleList AdaptiveLogSoftmaxWithLoss::tail() const { return own().tail; }

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes,
                                                       std::vector<int64_t> cutoffs, const Options& o)
    : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = "AdaptiveLogSoftmaxWithLoss";
  s.options = o;
  s.in_features = in_features;
  STRATA_CHECK(!cutoffs.empty(), Value, "{}: cutoffs should be a sequence of length larger than 0", s.kind);
  STRATA_CHECK(std::is_sorted(cutoffs.begin(), cutoffs.end(), std::less_equal<>()) && cutoffs.front() > 0 &&
                 cutoffs.back() < n_classes,
               Value,
               "{}: cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where "
               "each value is between 1 and n_classes-1; got {} for {} classes",
               s.kind, to_string(cutoffs), n_classes);
  STRATA_CHECK(o.div_value > 0, Value, "{}: div_value must be greater than 0, got {}", s.kind, o.div_value);
  cutoffs.push_back(n_classes);
  s.cutoffs = std::move(cutoffs);
  const auto made = [&](int64_t in, int64_t out, bool bias) {
    return Linear(in, out, {.bias = bias, .dtype = o.dtype, .device = o.device});
  };
  const size_t clusters = s.cutoffs.size() - 1;
  s.head = add("head", made(in_features, s.cutoffs[0] + static_cast<int64_t>(clusters), o.head_bias));
  s.tail = add("tail", ModuleList());
  for (size_t i = 0; i < clusters; ++i) {
    const auto width = static_cast<int64_t>(
      std::floor(static_cast<double>(in_features) / std::pow(o.div_value, static_cast<double>(i + 1))));
    const Linear narrow = made(in_features, width, false);  // created before the next one: it draws first
    s.tail.push_back(Sequential(narrow, made(width, s.cutoffs[i + 1] - s.cutoffs[i], false)));
  }
}

void AdaptiveLogSoftmaxWithLoss::reset_parameters() const {
  own().head.reset_parameters();
  for (const AnyModule& cluster : own().tail)
    for (const AnyModule& layer : cluster.get<Sequential>()) layer.get<Linear>().reset_parameters();
}

Tensor AdaptiveLogSoftmaxWithLoss::log_prob(const Tensor& input) const {
  const State& s = own();
  STRATA_CHECK(input.dim() == 2 && input.size(1) == s.in_features, Runtime,
               "{}: expected input [N, {}] (in_features), got shape {}", s.kind, s.in_features,
               to_string(input.shape()));
  const Tensor head = log_softmax(s.head(input), 1);
  std::vector<Tensor> parts{narrow(head, 1, 0, s.cutoffs[0])};
  int64_t column = s.cutoffs[0];
  for (AnyModule& cluster : s.tail)
    parts.push_back(strata::add(log_softmax(cluster(input), 1), unsqueeze(select(head, 1, column++), 1)));
  return cat(parts, 1);
}
Tensor AdaptiveLogSoftmaxWithLoss::predict(const Tensor& input) const { return argmax(log_prob(input), 1); }

AdaptiveLogSoftmaxWithLoss::Result AdaptiveLogSoftmaxWithLoss::forward(const Tensor& given,
                                                                       const Tensor& classes) const {
  const State& s = own();
  const bool lone = classes.dim() == 0;
  STRATA_CHECK(classes.dim() <= 1 && given.dim() == (lone ? 1 : 2) && (lone || given.size(0) == classes.size(0)),
               Runtime, "{}: Input and target should have the same size in the batch dimension; got shapes {} and {}",
               s.kind, to_string(given.shape()), to_string(classes.shape()));
  const Tensor input = lone ? unsqueeze(given, 0) : given, target = lone ? unsqueeze(classes, 0) : classes;
  if (target.numel() && !target.is_meta()) {
    const auto low = min(target).item<int64_t>(), high = max(target).item<int64_t>();
    STRATA_CHECK(low >= 0 && high < s.cutoffs.back(), Runtime,
                 "{}: Target values should be in [0, {}], but values in range [{}, {}] were found.", s.kind,
                 s.cutoffs.back() - 1, low, high);
  }
  const Tensor output = squeeze(gather(log_prob(input), 1, unsqueeze(target, 1)), 1);
  return {lone ? squeeze(output, 0) : output, mean(neg(output))};
}
AdaptiveLogSoftmaxWithLoss::Result AdaptiveLogSoftmaxWithLoss::operator()(const Tensor& input,
                                                                          const Tensor& target) const {
  if (!has_hooks()) [[likely]]
    return forward(input, target);
  const auto out = with_hooks({input, target}, [this](const std::vector<Tensor>& in) {
    const Result r = forward(in[0], in[1]);
    return std::vector{r.output, r.loss};
  });
  return {out[0], out[1]};
}

}  // namespace strata::nn
