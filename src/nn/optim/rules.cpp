#include "nn/optim/rules.h"

#include <algorithm>

#include "strata/ops/creation/fills.h"
#include "strata/ops/optim/muon.h"
#include "strata/ops/optim/optimizers.h"

namespace strata::optim {
namespace {

constexpr size_t kStateArgs = 2;  // the op's lists of state begin after parameters and gradients

// Completes a rule: every list of the op from the third on is a kind of state.
Rule rule(const char* name, const OpRecord& op, Options options, const std::vector<StateKind>& special = {}) {
  Rule result{name, &op, std::move(options), {}};
  for (size_t i = kStateArgs; i < op.params.size() && op.params[i].type == ParamType::Tensors; ++i) {
    std::string state(op.params[i].name.substr(0, op.params[i].name.size() - 1));
    const auto known = std::ranges::find(special, state, &StateKind::name);
    result.state.push_back(known != special.end() ? *known : StateKind{.name = state, .number = state == "step"});
  }
  return result;
}

std::vector<std::string> state_names(const Rule& rule) {
  std::vector<std::string> names;
  names.reserve(rule.state.size());
  for (const StateKind& s : rule.state) names.push_back(s.name);
  return names;
}

double option_of(const Group& group, std::string_view name) {
  return std::ranges::find(group.options, name, &NamedOption::name)->option.value;
}

Tensor fresh(const Rule& rule, const StateKind& kind, const Group& group, const Tensor& param) {
  check_new_state(rule.name, param.device());
  const double start = kind.option ? option_of(group, kind.option) : kind.start;
  if (!kind.number) return full_like(param, start);
  const Device device = option_of(group, "capturable") != 0 ? param.device() : Device{};
  return full({}, start, param.dtype() == DType::F64 ? DType::F64 : DType::F32, device);
}

}  // namespace

Rule describe(const SGDOptions& o) {
  return rule("SGD", op__fused_sgd,
              {{"lr", o.lr},
               {"momentum", o.momentum},
               {"dampening", o.dampening},
               {"weight_decay", o.weight_decay},
               {"nesterov", o.nesterov},
               {"maximize", o.maximize}},
              {{.name = "momentum_buffer", .needs = "momentum"}});
}
Rule describe(const AdamOptions& o) {
  return rule("Adam", op__fused_adam,
              {{"lr", o.lr},
               {"beta1", o.betas.first},
               {"beta2", o.betas.second},
               {"eps", o.eps},
               {"weight_decay", o.weight_decay},
               {"amsgrad", o.amsgrad},
               {"maximize", o.maximize},
               {"decoupled_weight_decay", o.decoupled_weight_decay},
               {"capturable", o.capturable}},
              {{.name = "max_exp_avg_sq", .needs = "amsgrad"}});
}
Rule describe(const AdamWOptions& o) {
  Rule adam = describe(AdamOptions{o.lr, o.betas, o.eps, o.weight_decay, o.amsgrad, o.maximize, 1, o.capturable});
  adam.name = "AdamW";
  return adam;
}
Rule describe(const NAdamOptions& o) {
  return rule("NAdam", op__fused_nadam,
              {{"lr", o.lr},
               {"beta1", o.betas.first},
               {"beta2", o.betas.second},
               {"eps", o.eps},
               {"weight_decay", o.weight_decay},
               {"momentum_decay", o.momentum_decay},
               {"decoupled_weight_decay", o.decoupled_weight_decay},
               {"maximize", o.maximize},
               {"capturable", o.capturable}},
              {{.name = "mu_product", .number = true, .start = 1}});
}
Rule describe(const RAdamOptions& o) {
  return rule("RAdam", op__fused_radam,
              {{"lr", o.lr},
               {"beta1", o.betas.first},
               {"beta2", o.betas.second},
               {"eps", o.eps},
               {"weight_decay", o.weight_decay},
               {"decoupled_weight_decay", o.decoupled_weight_decay},
               {"maximize", o.maximize},
               {"capturable", o.capturable}});
}
Rule describe(const AdamaxOptions& o) {
  return rule("Adamax", op__fused_adamax,
              {{"lr", o.lr},
               {"beta1", o.betas.first},
               {"beta2", o.betas.second},
               {"eps", o.eps},
               {"weight_decay", o.weight_decay},
               {"maximize", o.maximize},
               {"capturable", o.capturable}});
}
Rule describe(const AdagradOptions& o) {
  return rule("Adagrad", op__fused_adagrad,
              {{"lr", o.lr},
               {"lr_decay", o.lr_decay},
               {"weight_decay", o.weight_decay},
               {"initial_accumulator_value", o.initial_accumulator_value},
               {"eps", o.eps},
               {"maximize", o.maximize},
               {"capturable", o.capturable}},
              {{.name = "sum", .option = "initial_accumulator_value"}});
}
Rule describe(const AdadeltaOptions& o) {
  return rule("Adadelta", op__fused_adadelta,
              {{"lr", o.lr},
               {"rho", o.rho},
               {"eps", o.eps},
               {"weight_decay", o.weight_decay},
               {"maximize", o.maximize},
               {"capturable", o.capturable}});
}
Rule describe(const RMSpropOptions& o) {
  return rule("RMSprop", op__fused_rmsprop,
              {{"lr", o.lr},
               {"alpha", o.alpha},
               {"eps", o.eps},
               {"weight_decay", o.weight_decay},
               {"momentum", o.momentum},
               {"centered", o.centered},
               {"maximize", o.maximize},
               {"capturable", o.capturable}},
              {{.name = "momentum_buffer", .needs = "momentum"}, {.name = "grad_avg", .needs = "centered"}});
}
Rule describe(const ASGDOptions& o) {
  return rule("ASGD", op__fused_asgd,
              {{"lr", o.lr},
               {"lambd", o.lambd},
               {"alpha", o.alpha},
               {"t0", o.t0},
               {"weight_decay", o.weight_decay},
               {"maximize", o.maximize},
               {"capturable", o.capturable}},
              {{.name = "eta", .number = true, .option = "lr"}, {.name = "mu", .number = true, .start = 1}});
}
Rule describe(const RpropOptions& o) {
  return rule("Rprop", op__fused_rprop,
              {{"lr", o.lr},
               {"etaminus", o.etas.first},
               {"etaplus", o.etas.second},
               {"step_min", o.step_sizes.first},
               {"step_max", o.step_sizes.second},
               {"maximize", o.maximize},
               {"capturable", o.capturable}},
              {{.name = "step_size", .option = "lr"}});
}
Rule describe(const MuonOptions& o) {
  Rule muon = rule("Muon", op__fused_muon,
                   {{"lr", o.lr},
                    {"weight_decay", o.weight_decay},
                    {"momentum", o.momentum},
                    {"nesterov", o.nesterov},
                    {"ns_a", o.ns_coefficients.first},
                    {"ns_b", o.ns_coefficients.second},
                    {"ns_c", o.ns_coefficients.third},
                    {"eps", o.eps},
                    {"ns_steps", o.ns_steps},
                    {"adjust_lr_fn", o.adjust_lr_fn}});
  muon.matrices_only = true;
  return muon;
}

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = {
    describe(SGDOptions()),     describe(AdamOptions()),   describe(AdamWOptions()),   describe(NAdamOptions()),
    describe(RAdamOptions()),   describe(AdamaxOptions()), describe(AdagradOptions()), describe(AdadeltaOptions()),
    describe(RMSpropOptions()), describe(ASGDOptions()),   describe(RpropOptions()),   describe(MuonOptions()),
  };
  return rules;
}

FusedOptimizer::FusedOptimizer(Rule rule) : Optimizer(rule.name, state_names(rule)), rule_(std::move(rule)) {}

void FusedOptimizer::add_options(std::vector<Tensor> params, Options options) {
  for (size_t i = 0; rule_.matrices_only && i < params.size(); ++i)
    STRATA_CHECK(
      !params[i] || params[i].dim() == 2, Value,
      "{} only supports 2D parameters, parameter {} has shape {}; give the others to another optimizer, such as "
      "AdamW",
      rule_.name, i, to_string(params[i].shape()));
  Optimizer::add_options(std::move(params), std::move(options));
}

void FusedOptimizer::update(Group& group) {
  // A rule with a parameter `first` processes parameters with new state in a separate pass.
  const bool split = rule_.op->params.back().name == "first";
  std::vector<size_t> fresh, old;
  for (size_t i = 0; i < group.params.size(); ++i)
    if (group.params[i].grad()) (split && !group.state[0][i] ? fresh : old).push_back(i);
  update_some(group, true, fresh);
  update_some(group, false, old);
}

void FusedOptimizer::update_some(Group& group, bool first, const std::vector<size_t>& which) {
  if (which.empty()) return;
  std::vector<std::vector<Tensor>> lists(kStateArgs + rule_.state.size());
  for (size_t i : which) {
    lists[0].push_back(group.params[i]);
    lists[1].push_back(group.params[i].grad());
  }
  for (size_t k = 0; k < rule_.state.size(); ++k) {
    const StateKind& kind = rule_.state[k];
    if (kind.needs && option_of(group, kind.needs) == 0) continue;
    for (size_t i : which)
      lists[kStateArgs + k].push_back(group.state[k][i] ? group.state[k][i]
                                                        : optim::fresh(rule_, kind, group, group.params[i]));
  }
  Args args = rule_.op->defaults;
  for (uint32_t i = 0; i < rule_.op->params.size(); ++i) {
    const Param& param = rule_.op->params[i];
    if (i < lists.size()) args[i] = Value(TensorList(lists[i]));
    else if (param.name == "first") args[i] = Value(first);
    else if (param.type == ParamType::Bool) args[i] = Value(option_of(group, param.name) != 0);
    else if (param.type == ParamType::Int) args[i] = Value(static_cast<int64_t>(option_of(group, param.name)));
    else args[i] = Value(option_of(group, param.name));
  }
  call_into(*rule_.op, args, nullptr);
  // New state is kept only if the step succeeded.
  for (size_t k = 0; k < rule_.state.size(); ++k)
    for (size_t j = 0; j < lists[kStateArgs + k].size(); ++j) group.state[k][which[j]] = lists[kStateArgs + k][j];
}

}  // namespace strata::optim
