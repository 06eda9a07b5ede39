// Optimizer: parameter groups with their own options, custom update rules, saving and resuming.
//
//   optim::AdamW opt(net.parameters(), {.lr = 3e-4, .weight_decay = 0.1});
//   opt.zero_grad();
//   loss.backward();
//   opt.step();
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace strata::optim {

// Names and tensors in a fixed order. Numbers are zero-dimensional float64 tensors, so that a safetensors file holds
// them exactly.
using StateDict = std::vector<std::pair<std::string, Tensor>>;
using Closure = std::function<Tensor()>;  // computes the loss and its gradients

// A number of an options struct. It remembers whether it was given: a group takes the others from the optimizer.
struct Option {
  double value;
  bool given = true;
  constexpr Option(double number) : value(number) {}
  static constexpr Option preset(double number) {
    Option option(number);
    option.given = false;
    return option;
  }
};
struct OptionPair {
  Option first, second;
  static constexpr OptionPair preset(double a, double b) { return {Option::preset(a), Option::preset(b)}; }
};
struct OptionTriple {
  Option first, second, third;
  static constexpr OptionTriple preset(double a, double b, double c) {
    return {Option::preset(a), Option::preset(b), Option::preset(c)};
  }
};
struct NamedOption {
  const char* name;
  Option option;
};
using Options = std::vector<NamedOption>;

struct Group {
  std::vector<Tensor> params;
  Options options;
  std::optional<double> initial_lr;  // as found by the first scheduler; saved, so that a schedule can be resumed
  // state[k][i]: the k-th kind of state of params[i]; may be undefined
  std::vector<std::vector<Tensor>> state;
};

// Derive from it for a custom rule: call add_options in the constructor and override update.
class STRATA_API Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  size_t group_count() const { return groups_.size(); }
  const std::vector<Tensor>& params(size_t group = 0) const { return at(group).params; }
  // Options by name: "lr", "weight_decay", "momentum", "beta1". Flags are 0 or 1.
  bool has_option(std::string_view name) const;
  double option(std::string_view name, size_t group = 0) const;
  void set_option(std::string_view name, double value, size_t group = 0);
  double lr(size_t group = 0) const { return option("lr", group); }
  void set_lr(double value, size_t group = 0) { set_option("lr", value, group); }
  std::optional<double> initial_lr(size_t group = 0) const { return at(group).initial_lr; }
  void set_initial_lr(double value, size_t group = 0);

  // Releases the gradients, or sets them to zero.
  void zero_grad(bool set_to_none = true);
  // One step. A closure, if given, computes the loss and its gradients first; its result is returned.
  Tensor step(const Closure& closure = {}) { return take_step(closure); }

  // "state.<parameter>.<name>" and "param_groups.<group>.<option>"; parameters are numbered through all groups. The
  // tensors are those of the optimizer, not copies.
  virtual StateDict state_dict() const;
  // Copies the result of state_dict(); whether steps are capturable and whether there are master weights does not change.
  // If something does not fit, nothing is changed.
  virtual void load_state_dict(const StateDict& saved);

 protected:
  // `state_names`: the kinds of state that the rule keeps per parameter, in the order of Group::state.
  explicit Optimizer(std::string name, std::vector<std::string> state_names = {})
      : name_(std::move(name)), state_names_(std::move(state_names)) {}
  // Options that were not given are those of the first group's call.
  virtual void add_options(std::vector<Tensor> params, Options options);
  virtual Tensor take_step(const Closure& closure);
  virtual void update(Group& group) = 0;  // called without recording
  virtual DType state_dtype(const Group& group,
                            const Tensor& param) const;  // of loaded state with the parameter's shape

  const std::string& name() const { return name_; }
  std::vector<Group>& groups() { return groups_; }
  const Group& at(size_t group) const;

 private:
  std::string name_;
  std::vector<std::string> state_names_;
  std::vector<Group> groups_;
  Options defaults_;
};

// Throws Value if an option is outside of its valid range; the message names the optimizer.
STRATA_API void check_options(std::string_view optimizer, const Options& options);

// Throws Runtime while a graph is captured on the device: creating state would become part of every replay.
STRATA_API void check_new_state(std::string_view optimizer, Device device);

}  // namespace strata::optim
