// The optimizers whose step is one fused op over all parameters of a group. Options have PyTorch's names and defaults
// and are given by name:
//
//   optim::SGD opt(params, {.lr = 0.1, .momentum = 0.9});
//   opt.add_group(head, {.lr = 0.01});  // the rest as above
//
// capturable: step counts are on the parameters' device, so that a graph can capture a step.
// master_weights: parameters of 16 bits have float32 copies, which the steps change; so has their state. The parameters
// are the copies, rounded.
#pragma once
#include "nn/optim/optimizer.h"
#include "record/op.h"

namespace strata::optim {

// The initial value of a kind of state; the rest follows from the op: `steps` are numbers, all others are like the
// parameter.
struct StateKind {
  std::string name;
  bool number = false;           // one for the whole parameter
  double start = 0;              // every element before the first step,
  const char* option = nullptr;  // or the value of this option
  const char* needs = nullptr;   // kept only if this option is not 0
};
// Everything about an optimizer: its op, its state, its options. The op's parameters are the parameters, their
// gradients, a list for each kind of state (named as the state, with an s), then options by name.
struct Rule {
  const char* name;
  const OpRecord* op;
  Options options;
  std::vector<StateKind> state;
  bool matrices_only = false;  // rejects parameters that are not 2-D
};
// Completes a rule: every list of the op from the third on is a kind of state; `special` are those with a start or condition.
Rule make_rule(const char* name, const OpRecord& op, Options options, const std::vector<StateKind>& special);
STRATA_API const std::vector<Rule>& all_rules();  // with their default options

// The part of these optimizers that does not depend on the type of their options.
class STRATA_API FusedOptimizer : public Optimizer {
 protected:
  explicit FusedOptimizer(Rule rule);
  void add_options(std::vector<Tensor> params, Options options) override;
  void update(Group& group) override;

 private:
  void update_some(Group& group, bool first, const std::vector<size_t>& which);
  DType state_dtype(const Group& group, const Tensor& param) const override;
  Rule rule_;
};

template <class O> class Fused : public FusedOptimizer {
 public:
  explicit Fused(std::vector<Tensor> params, const O& options = {}) : FusedOptimizer(describe(options)) {
    add_group(std::move(params), options);
  }
  // Parameters with their own options; those not given are the constructor's.
  void add_group(std::vector<Tensor> params, const O& options = {}) {
    add_options(std::move(params), describe(options).options);
  }
};

}  // namespace strata::optim

#include "strata/nn/optimizers.h"  // IWYU pragma: export: SGDOptions, SGD and the others, from rules.optimizers
