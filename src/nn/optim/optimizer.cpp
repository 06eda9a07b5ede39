#include "nn/optim/optimizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_set>

#include "autograd/sparse_grad.h"
#include "cuda/runtime/graph.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/creation/ranges.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/views.h"

namespace strata::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kCounts = 9e15;  // a double counts exactly up to here

// The valid range of an option, for all optimizers.
struct Limit {
  const char *name, *what, *range;
  double low, high;
  bool low_open = false, high_open = false;
  bool holds(double v) const {
    return (low_open ? v > low : v >= low) && (high_open ? v < high : v <= high);  // false for NaN
  }
};
constexpr const char *kNotNegative = "at least 0", *kUnit = "from 0 to below 1";
constexpr Limit kLimits[] = {
  {"lr", "learning rate", kNotNegative, 0, kInfinity},
  {"momentum", "momentum value", kNotNegative, 0, kInfinity},
  {"weight_decay", "weight_decay value", kNotNegative, 0, kInfinity},
  {"eps", "epsilon value", kNotNegative, 0, kInfinity},
  {"beta1", "beta parameter at index 0", kUnit, 0, 1, false, true},
  {"beta2", "beta parameter at index 1", kUnit, 0, 1, false, true},
  {"momentum_decay", "momentum_decay value", kNotNegative, 0, kInfinity},
  {"lr_decay", "lr_decay value", kNotNegative, 0, kInfinity},
  {"initial_accumulator_value", "initial_accumulator_value value", kNotNegative, 0, kInfinity},
  {"rho", "rho value", "from 0 to 1", 0, 1},
  {"lambd", "lambd value", kNotNegative, 0, kInfinity},
  {"alpha", "alpha value", kNotNegative, 0, kInfinity},
  {"etaminus", "eta value at index 0", "between 0 and 1", 0, 1, true, true},
  {"etaplus", "eta value at index 1", "above 1", 1, kInfinity, true},
  {"max_iter", "max_iter", kNotNegative, 0, kCounts},
  {"max_eval", "max_eval", "a number of evaluations", -1, kCounts},
  {"history_size", "history_size", kNotNegative, 0, kCounts},
  {"ns_steps", "number of Newton-Schulz steps", "from 0 to 99", 0, 99},
};

const NamedOption* find(const Options& options, std::string_view name) {
  const auto at = std::ranges::find(options, name, &NamedOption::name);
  return at == options.end() ? nullptr : &*at;
}
double value_of(const Options& options, std::string_view name) {
  const NamedOption* found = find(options, name);
  return found ? found->option.value : 0;
}

Tensor number_tensor(double value) { return full({}, value, DType::F64); }

// "12.exp_avg" -> 12 and "exp_avg".
bool split_number(std::string_view text, size_t& number, std::string_view& rest) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != '.') return false;
  rest = {end + 1, static_cast<size_t>(text.data() + text.size() - end - 1)};
  return true;
}

// A copy of a loaded tensor in the optimizer's form for `param`: one number, in host memory unless steps are captured
// in a graph, or in the parameter's dtype and layout.
Tensor taken(const Tensor& saved, const Tensor& param, DType dtype, bool capturable, const std::string& key) {
  if (autograd::sparse_parts(saved.checked())) return autograd::copy_sparse(saved);
  const bool like_param = saved.dim() > 0 || (param.dim() == 0 && saved.dtype() == dtype && !key.ends_with(".step"));
  if (!like_param) return to(saved, std::optional(capturable ? param.device() : Device{}), std::nullopt, false, true);
  STRATA_CHECK(saved->same_shape(*param), Value, "load_state_dict: {} has shape {}, its parameter {}", key,
               to_string(saved.shape()), to_string(param.shape()));
  Tensor t = empty_like(param, dtype);
  copy_(t, saved);
  return t;
}

}  // namespace

void check_options(std::string_view optimizer, const Options& options) {
  for (const Limit& limit : kLimits)
    if (const NamedOption* found = find(options, limit.name))
      STRATA_CHECK(limit.holds(found->option.value), Value, "{}: invalid {}: {}; expected {}", optimizer, limit.what,
                   found->option.value, limit.range);
  // A Nesterov step from a plain buffer requires zero dampening.
  STRATA_CHECK(!find(options, "dampening") || value_of(options, "nesterov") == 0 ||
                 (value_of(options, "momentum") > 0 && value_of(options, "dampening") == 0),
               Value, "{}: Nesterov momentum requires a momentum and zero dampening, found momentum={}, dampening={}",
               optimizer, value_of(options, "momentum"), value_of(options, "dampening"));
}

DType Optimizer::state_dtype(const Group&, const Tensor& param) const { return param.dtype(); }

void check_new_state(std::string_view optimizer, Device device) {
  STRATA_CHECK(device.type == DeviceType::Cpu || !cuda::is_capturing(device), Runtime,
               "{}: its state cannot be made while a graph is captured, since every replay would make it anew; take a "
               "step before the capture",
               optimizer);
}

const Group& Optimizer::at(size_t group) const {
  STRATA_CHECK(group < groups_.size(), Index, "{}: there is no parameter group {}; the optimizer has {}", name_, group,
               groups_.size());
  return groups_[group];
}

bool Optimizer::has_option(std::string_view name) const { return find(defaults_, name) != nullptr; }

double Optimizer::option(std::string_view name, size_t group) const {
  const NamedOption* found = find(at(group).options, name);
  STRATA_CHECK(found, Value, "{} has no option '{}'", name_, name);
  return found->option.value;
}

void Optimizer::set_option(std::string_view name, double value, size_t group) {
  option(name, group);  // checks both
  std::ranges::find(groups_[group].options, name, &NamedOption::name)->option = value;
}

void Optimizer::set_initial_lr(double value, size_t group) {
  at(group);  // checks it
  groups_[group].initial_lr = value;
}

void Optimizer::add_options(std::vector<Tensor> params, Options options) {
  STRATA_CHECK(!params.empty() || !groups_.empty(), Value, "{}: the optimizer got an empty parameter list", name_);
  for (NamedOption& o : options)
    if (const NamedOption* preset = find(defaults_, o.name); preset && !o.option.given) o.option = preset->option.value;
  check_options(name_, options);
  std::unordered_set<const TensorImpl*> known;
  for (const Group& g : groups_)
    for (const Tensor& p : g.params) known.insert(p.get());
  for (size_t i = 0; i < params.size(); ++i) {
    STRATA_CHECK(params[i], Value, "{}: parameter {} is undefined", name_, i);
    STRATA_CHECK(autograd::is_leaf(params[i]) || autograd::retains_grad(params[i]), Value,
                 "{}: can't optimize a non-leaf tensor (parameter {}); pass the parameters themselves", name_, i);
    STRATA_CHECK(known.insert(params[i].get()).second, Value, "{}: parameter {} was given twice", name_, i);
  }
  if (groups_.empty()) defaults_ = options;
  std::vector<std::vector<Tensor>> state(state_names_.size(), std::vector<Tensor>(params.size()));
  groups_.push_back({std::move(params), std::move(options), std::nullopt, std::move(state)});
}

void Optimizer::zero_grad(bool set_to_none) {
  for (Group& g : groups_)
    for (Tensor& p : g.params) {
      const Tensor grad = p.grad();
      if (!grad) continue;
      if (set_to_none) p.set_grad({});
      else if (autograd::SparseParts* parts = autograd::sparse_parts(*grad)) {
        *parts = {narrow(parts->indices, 1, 0, 0), narrow(autograd::detach(parts->values), 0, 0, 0), true};
      } else {
        const Tensor zeroed = autograd::detach(grad);
        zero_(zeroed);
        p.set_grad(zeroed);
      }
    }
}

Tensor Optimizer::take_step(const Closure& closure) {
  Tensor loss;
  if (closure) {
    const autograd::EnableGrad enable;
    loss = closure();
  }
  const autograd::NoGrad no_grad;
  for (Group& g : groups_) update(g);
  return loss;
}

StateDict Optimizer::state_dict() const {
  StateDict result;
  int64_t number = 0;
  for (const Group& g : groups_)
    for (size_t i = 0; i < g.params.size(); ++i, ++number)
      for (size_t k = 0; k < state_names_.size(); ++k)
        if (g.state[k][i]) result.emplace_back(fmt::format("state.{}.{}", number, state_names_[k]), g.state[k][i]);
  number = 0;
  for (size_t index = 0; index < groups_.size(); ++index) {
    const Group& g = groups_[index];
    for (const NamedOption& o : g.options)
      result.emplace_back(fmt::format("param_groups.{}.{}", index, o.name), number_tensor(o.option.value));
    if (g.initial_lr)
      result.emplace_back(fmt::format("param_groups.{}.initial_lr", index), number_tensor(*g.initial_lr));
    const int64_t end = number + static_cast<int64_t>(g.params.size());
    result.emplace_back(fmt::format("param_groups.{}.params", index), arange(number, end, 1, DType::I64));
    number = end;
  }
  return result;
}

void Optimizer::load_state_dict(const StateDict& saved) {
  const autograd::NoGrad no_grad;
  std::vector<Group> loaded;
  loaded.reserve(groups_.size());
  std::vector<std::pair<size_t, size_t>> places;  // group and index of each parameter
  for (const Group& g : groups_) {
    for (size_t i = 0; i < g.params.size(); ++i) places.emplace_back(loaded.size(), i);
    loaded.push_back({g.params, g.options, g.initial_lr, {state_names_.size(), std::vector<Tensor>(g.params.size())}});
  }
  std::vector<bool> seen(groups_.size());
  for (const auto& [key, tensor] : saved) {
    const std::string_view text = key;
    size_t number = 0;
    std::string_view rest;
    if (text.starts_with("state.") && split_number(text.substr(6), number, rest)) {
      STRATA_CHECK(number < places.size(), Value,
                   "load_state_dict: {} is of a parameter that {} does not have: it has {}", key, name_, places.size());
      const auto name = std::ranges::find(state_names_, rest);
      STRATA_CHECK(name != state_names_.end(), Value, "load_state_dict: {} keeps no state '{}' ({})", name_, rest, key);
      const auto [group, index] = places[number];
      Group& g = loaded[group];
      g.state[static_cast<size_t>(name - state_names_.begin())][index] =
        taken(tensor, g.params[index], state_dtype(g, g.params[index]), value_of(g.options, "capturable") != 0, key);
    } else if (text.starts_with("param_groups.") && split_number(text.substr(13), number, rest)) {
      STRATA_CHECK(number < loaded.size(), Value,
                   "load_state_dict: {} is of a parameter group that {} does not have: it has {}", key, name_,
                   loaded.size());
      Group& g = loaded[number];
      if (rest == "params") {
        seen[number] = true;
        STRATA_CHECK(tensor.numel() == static_cast<int64_t>(g.params.size()), Value,
                     "load_state_dict: the saved parameter group {} has {} parameters, this optimizer's {}", number,
                     tensor.numel(), g.params.size());
        continue;
      }
      const auto option = std::ranges::find(g.options, rest, &NamedOption::name);
      STRATA_CHECK(option != g.options.end() || rest == "initial_lr", Value,
                   "load_state_dict: {} has no option '{}' ({})", name_, rest, key);
      STRATA_CHECK(tensor.numel() == 1, Value, "load_state_dict: {} must be one number, found shape {}", key,
                   to_string(tensor.shape()));
      if (option == g.options.end()) g.initial_lr = tensor.item<double>();
      else if (rest != "capturable" && rest != "master_weights") option->option = tensor.item<double>();
    } else {
      fail(ErrorKind::Value, fmt::format("load_state_dict: '{}' is neither state.<parameter>.<name> nor "
                                         "param_groups.<group>.<option>",
                                         key));
    }
  }
  for (size_t i = 0; i < seen.size(); ++i)
    STRATA_CHECK(seen[i], Value, "load_state_dict: param_groups.{}.params is missing", i);
  groups_ = std::move(loaded);
}

}  // namespace strata::optim
