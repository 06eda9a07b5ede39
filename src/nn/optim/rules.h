// The optimizers whose step is one fused op over all parameters of a group. Options have PyTorch's names and defaults
// and are given by name:
//
//   optim::SGD opt(params, {.lr = 0.1, .momentum = 0.9});
//   opt.add_group(head, {.lr = 0.01});  // the rest as above
//
// capturable: step counts are on the parameters' device, so that a graph can capture a step.
#pragma once
#include "nn/optim/optimizer.h"
#include "record/op.h"

namespace strata::optim {

struct SGDOptions {
  Option lr = Option::preset(1e-3), momentum = Option::preset(0), dampening = Option::preset(0),
         weight_decay = Option::preset(0), nesterov = Option::preset(0), maximize = Option::preset(0);
};
struct AdamOptions {
  Option lr = Option::preset(1e-3);
  OptionPair betas = OptionPair::preset(0.9, 0.999);
  Option eps = Option::preset(1e-8), weight_decay = Option::preset(0), amsgrad = Option::preset(0),
         maximize = Option::preset(0), decoupled_weight_decay = Option::preset(0), capturable = Option::preset(0);
};
struct AdamWOptions {
  Option lr = Option::preset(1e-3);
  OptionPair betas = OptionPair::preset(0.9, 0.999);
  Option eps = Option::preset(1e-8), weight_decay = Option::preset(1e-2), amsgrad = Option::preset(0),
         maximize = Option::preset(0), capturable = Option::preset(0);
};
struct NAdamOptions {
  Option lr = Option::preset(2e-3);
  OptionPair betas = OptionPair::preset(0.9, 0.999);
  Option eps = Option::preset(1e-8), weight_decay = Option::preset(0), momentum_decay = Option::preset(4e-3),
         decoupled_weight_decay = Option::preset(0), maximize = Option::preset(0), capturable = Option::preset(0);
};
struct RAdamOptions {
  Option lr = Option::preset(1e-3);
  OptionPair betas = OptionPair::preset(0.9, 0.999);
  Option eps = Option::preset(1e-8), weight_decay = Option::preset(0), decoupled_weight_decay = Option::preset(0),
         maximize = Option::preset(0), capturable = Option::preset(0);
};
struct AdamaxOptions {
  Option lr = Option::preset(2e-3);
  OptionPair betas = OptionPair::preset(0.9, 0.999);
  Option eps = Option::preset(1e-8), weight_decay = Option::preset(0), maximize = Option::preset(0),
         capturable = Option::preset(0);
};
struct AdagradOptions {
  Option lr = Option::preset(1e-2), lr_decay = Option::preset(0), weight_decay = Option::preset(0),
         initial_accumulator_value = Option::preset(0), eps = Option::preset(1e-10), maximize = Option::preset(0),
         capturable = Option::preset(0);
};
struct AdadeltaOptions {
  Option lr = Option::preset(1), rho = Option::preset(0.9), eps = Option::preset(1e-6),
         weight_decay = Option::preset(0), maximize = Option::preset(0), capturable = Option::preset(0);
};
struct RMSpropOptions {
  Option lr = Option::preset(1e-2), alpha = Option::preset(0.99), eps = Option::preset(1e-8),
         weight_decay = Option::preset(0), momentum = Option::preset(0), centered = Option::preset(0),
         maximize = Option::preset(0), capturable = Option::preset(0);
};
struct ASGDOptions {
  Option lr = Option::preset(1e-2), lambd = Option::preset(1e-4), alpha = Option::preset(0.75),
         t0 = Option::preset(1e6), weight_decay = Option::preset(0), maximize = Option::preset(0),
         capturable = Option::preset(0);
};
struct RpropOptions {
  Option lr = Option::preset(1e-2);
  OptionPair etas = OptionPair::preset(0.5, 1.2), step_sizes = OptionPair::preset(1e-6, 50);
  Option maximize = Option::preset(0), capturable = Option::preset(0);
};
// Muon's learning rate as a function of the shape (rows x columns) of a parameter.
enum AdjustLr : uint8_t {
  kOriginal,           // sqrt(max(1, rows / columns))
  kMatchRmsAdamW,      // 0.2 sqrt(max(rows, columns)): steps as large as AdamW's
  kSpectralUnclamped,  // sqrt(rows / columns)
};
struct MuonOptions {  // for 2-D parameters; use another optimizer for the others
  Option lr = Option::preset(1e-3), weight_decay = Option::preset(0.1), momentum = Option::preset(0.95),
         nesterov = Option::preset(1);
  OptionTriple ns_coefficients = OptionTriple::preset(3.4445, -4.775, 2.0315);
  Option eps = Option::preset(1e-7), ns_steps = Option::preset(5), adjust_lr_fn = Option::preset(kOriginal);
};

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
STRATA_API Rule describe(const SGDOptions&);
STRATA_API Rule describe(const AdamOptions&);
STRATA_API Rule describe(const AdamWOptions&);
STRATA_API Rule describe(const NAdamOptions&);
STRATA_API Rule describe(const RAdamOptions&);
STRATA_API Rule describe(const AdamaxOptions&);
STRATA_API Rule describe(const AdagradOptions&);
STRATA_API Rule describe(const AdadeltaOptions&);
STRATA_API Rule describe(const RMSpropOptions&);
STRATA_API Rule describe(const ASGDOptions&);
STRATA_API Rule describe(const RpropOptions&);
STRATA_API Rule describe(const MuonOptions&);
STRATA_API const std::vector<Rule>& all_rules();  // with their default options

// The part of these optimizers that does not depend on the type of their options.
class STRATA_API FusedOptimizer : public Optimizer {
 protected:
  explicit FusedOptimizer(Rule rule);
  void add_options(std::vector<Tensor> params, Options options) override;
  void update(Group& group) override;

 private:
  void update_some(Group& group, bool first, const std::vector<size_t>& which);
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
using SGD = Fused<SGDOptions>;
using Adam = Fused<AdamOptions>;
using AdamW = Fused<AdamWOptions>;
using NAdam = Fused<NAdamOptions>;
using RAdam = Fused<RAdamOptions>;
using Adamax = Fused<AdamaxOptions>;
using Adagrad = Fused<AdagradOptions>;
using Adadelta = Fused<AdadeltaOptions>;
using RMSprop = Fused<RMSpropOptions>;
using ASGD = Fused<ASGDOptions>;
using Rprop = Fused<RpropOptions>;
using Muon = Fused<MuonOptions>;

}  // namespace strata::optim
