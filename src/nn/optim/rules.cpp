#include "nn/optim/rules.h"

#include <algorithm>

#include "autograd/sparse_grad.h"
#include "nn/optim/sparse_steps.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/copy.h"

namespace strata::optim {
namespace {

constexpr size_t kStateArgs = 2;  // the op's lists of state begin after parameters and gradients

// The state of a rule, then the float32 copy of the parameter.
std::vector<std::string> state_names(const Rule& rule) {
  std::vector<std::string> names;
  names.reserve(rule.state.size() + 1);
  for (const StateKind& s : rule.state) names.push_back(s.name);
  names.emplace_back("master_param");
  return names;
}

double option_of(const Group& group, std::string_view name) {
  return std::ranges::find(group.options, name, &NamedOption::name)->option.value;
}

// Whether a step changes a float32 copy of this parameter.
bool has_master(const Group& group, const Tensor& param) {
  const bool is_half = param.dtype() == DType::F16 || param.dtype() == DType::BF16;
  return is_half && option_of(group, "master_weights") != 0;
}

Tensor fresh(const Rule& rule, const StateKind& kind, const Group& group, const Tensor& param) {
  check_new_state(rule.name, param.device());
  const double start = kind.option ? option_of(group, kind.option) : kind.start;
  if (!kind.number) return full_like(param, start);  // of a parameter with a copy: like the copy
  const Device device = option_of(group, "capturable") != 0 ? param.device() : Device{};
  return full({}, start, param.dtype() == DType::F64 ? DType::F64 : DType::F32, device);
}

}  // namespace

Rule make_rule(const char* name, const OpRecord& op, Options options, const std::vector<StateKind>& special) {
  Rule result{name, &op, std::move(options), {}};
  for (size_t i = kStateArgs; i < op.params.size() && op.params[i].type == ParamType::Tensors; ++i) {
    std::string state(op.params[i].name.substr(0, op.params[i].name.size() - 1));
    const auto known = std::ranges::find(special, state, &StateKind::name);
    result.state.push_back(known != special.end() ? *known : StateKind{.name = state, .number = state == "step"});
  }
  return result;
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

DType FusedOptimizer::state_dtype(const Group& group, const Tensor& param) const {
  return has_master(group, param) ? DType::F32 : param.dtype();
}

void FusedOptimizer::update(Group& group) {
  // A rule with a parameter `first` processes parameters with new state in a separate pass.
  const bool split = rule_.op->params.back().name == "first";
  std::vector<size_t> fresh, old;
  for (size_t i = 0; i < group.params.size(); ++i) {
    const Tensor gradient = group.params[i].grad();
    if (!gradient) continue;
    if (autograd::sparse_parts(*gradient)) sparse_step(rule_, group, i);
    else (split && !group.state[0][i] ? fresh : old).push_back(i);
  }
  update_some(group, true, fresh);
  update_some(group, false, old);
}

void FusedOptimizer::update_some(Group& group, bool first, const std::vector<size_t>& which) {
  if (which.empty()) return;
  std::vector<std::vector<Tensor>> lists(kStateArgs + rule_.state.size());
  std::vector<Tensor>& masters = group.state[rule_.state.size()];
  for (size_t i : which) {
    const Tensor& param = group.params[i];
    if (!has_master(group, param)) {
      lists[0].push_back(param);
    } else if (masters[i]) {
      lists[0].push_back(masters[i]);
    } else {
      check_new_state(rule_.name, param.device());
      lists[0].push_back(to(autograd::detach(param), DType::F32));
    }
    lists[1].push_back(param.grad());
  }
  for (size_t k = 0; k < rule_.state.size(); ++k) {
    const StateKind& kind = rule_.state[k];
    if (kind.needs && option_of(group, kind.needs) == 0) continue;
    for (size_t j = 0; j < which.size(); ++j) {
      const Tensor& known = group.state[k][which[j]];
      lists[kStateArgs + k].push_back(known ? known : optim::fresh(rule_, kind, group, lists[0][j]));
    }
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
  for (size_t j = 0; j < which.size(); ++j) {
    const Tensor& param = group.params[which[j]];
    if (!has_master(group, param)) continue;
    copy_(param, lists[0][j]);
    masters[which[j]] = lists[0][j];
  }
  // New state is kept only if the step succeeded.
  for (size_t k = 0; k < rule_.state.size(); ++k)
    for (size_t j = 0; j < lists[kStateArgs + k].size(); ++j) group.state[k][which[j]] = lists[kStateArgs + k][j];
}

}  // namespace strata::optim
