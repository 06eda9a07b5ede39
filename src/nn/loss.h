// Losses that cannot be records: they contain other modules or call a given function.
#pragma once
#include "nn/containers.h"
#include "nn/functional.h"
#include "strata/nn/linear.h"

namespace strata::nn {

struct LinearCrossEntropyLossOptions {
  std::vector<int64_t> out_features = {};  // sizes after the classes: logits are [..., num_classes, *out_features]
  bool bias = false;
  std::string reduction = "mean";
  Tensor weight = {};  // of the classes
  std::optional<int64_t> ignore_index = {};
  double label_smoothing = 0;
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

// A linear layer and the cross entropy of its result, in one module.
class STRATA_API LinearCrossEntropyLoss : public Module {
 public:
  using Options = LinearCrossEntropyLossOptions;
  LinearCrossEntropyLoss(int64_t in_features, int64_t num_classes, const LinearCrossEntropyLossOptions& options = {});
  LinearCrossEntropyLoss(None) : Module(none) {}
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Tensor operator()(const Tensor& input, const Tensor& target) const;
  Linear linear() const;
  const Options& options() const;

 private:
  struct State;
  State& own() const;
};

// max(0, d(anchor, positive) - d(anchor, negative) + margin) for a distance function d.
class STRATA_API TripletMarginWithDistanceLoss : public Module {
 public:
  using Options = TripletMarginWithDistanceLossOptions;
  explicit TripletMarginWithDistanceLoss(const TripletMarginWithDistanceLossOptions& options = {});
  TripletMarginWithDistanceLoss(None) : Module(none) {}
  using Module::forward;
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const;
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const;
  const Options& options() const;

 private:
  struct State;
  State& own() const;
};

struct AdaptiveLogSoftmaxWithLossOptions {
  double div_value = 4;  // ratio of the widths of consecutive clusters
  bool head_bias = false;
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

// Softmax over many classes: frequent ones directly, rare ones in clusters of smaller width. The classes are numbered by
// frequency; cutoffs are the first classes of the clusters.
class STRATA_API AdaptiveLogSoftmaxWithLoss : public Module {
 public:
  using Options = AdaptiveLogSoftmaxWithLossOptions;
  AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes, std::vector<int64_t> cutoffs,
                             const AdaptiveLogSoftmaxWithLossOptions& options = {});
  AdaptiveLogSoftmaxWithLoss(None) : Module(none) {}
  void reset_parameters() const;

  struct Result {
    Tensor output, loss;  // the log probability of each target; minus their mean
  };
  using Module::forward;
  Result forward(const Tensor& input, const Tensor& target) const;
  Result operator()(const Tensor& input, const Tensor& target) const;
  Tensor log_prob(const Tensor& input) const;  // of all classes: [N, n_classes]
  Tensor predict(const Tensor& input) const;   // the most probable class of each row
  const Options& options() const;
  const std::vector<int64_t>& cutoffs() const;  // including n_classes at the end
  Linear head() const;
  ModuleList tail() const;

 private:
  struct State;
  State& own() const;
};

}  // namespace strata::nn
