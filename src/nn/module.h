// Module: named parameters, buffers and children; the base of every network.
//
//   struct Net : nn::Module {
//     nn::Conv2d conv = add("conv", nn::Conv2d(1, 8, 3, {.padding = 1}));
//     nn::Linear fc = add("fc", nn::Linear(8 * 28 * 28, 10));
//     Tensor forward(const Tensor& x) override { return fc(flatten(relu(conv(x)), 1)); }
//   };
//   Net net;
//   Tensor y = net(x);
//
// A module is a handle to shared state, like a Tensor: copies share parameters, hooks and mode.
#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace strata::nn {

class Module;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;  // in order of registration

// Called before forward with its tensors; a returned list replaces them, {} keeps them.
using ForwardPreHook = std::function<std::vector<Tensor>(const Module&, const std::vector<Tensor>& inputs)>;
// Called after forward; a returned list replaces the outputs, {} keeps them.
using ForwardHook = std::function<std::vector<Tensor>(const Module&, const std::vector<Tensor>& inputs,
                                                      const std::vector<Tensor>& outputs)>;

// The result of load_state_dict; both lists are empty if everything matched.
struct LoadResult {
  std::vector<std::string> missing_keys, unexpected_keys;
};

// The state shared by all handles of one module. Built-in modules derive theirs from it.
struct STRATA_API ModuleState {
  ModuleState();
  virtual ~ModuleState();
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;
  virtual std::string extra_repr() const { return {}; }

  struct Hooks;
  struct Slot {
    std::string name;
    Tensor* tensor;                            // undefined if the module was built without it, e.g. bias=false
    bool persistent = true, optional = false;  // optional: a state_dict may lack it
  };
  std::string kind;           // the class name, for printing
  const void* tag = nullptr;  // of built-in modules: identifies the class
  bool training = true;
  std::vector<Slot> parameters, buffers;
  std::vector<std::pair<std::string, std::shared_ptr<ModuleState>>> children;
  std::vector<std::unique_ptr<Tensor>> owned;  // storage for tensors of user modules
  std::unique_ptr<Hooks> hooks;
};

// For members that are set later: nn::Linear fc = nn::none.
struct None {};
inline constexpr None none;

class STRATA_API Module {
 public:
  Module() : state_(std::make_shared<ModuleState>()) {}
  Module(None) {}
  explicit Module(std::shared_ptr<ModuleState> state) : state_(std::move(state)) {}
  virtual ~Module() = default;
  Module(const Module&) = default;
  Module(Module&&) noexcept = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) noexcept = default;

  // The computation of the module. Override this one, or declare forward with other parameters and call it by name.
  virtual Tensor forward(const Tensor& input);
  Tensor operator()(const Tensor& input);  // forward with its hooks

  // Registration. Each returns its argument, so that a member can be initialized with it.
  template <class M>
  requires std::derived_from<M, Module> M add(std::string name, M module) {
    add_child(std::move(name), module, typeid(module));
    return module;
  }
  Tensor add_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor add_buffer(std::string name, Tensor tensor, bool persistent = true);

  // Each tensor once, even if modules share it; names are paths: "layers.0.weight".
  std::vector<Tensor> parameters(bool recurse = true) const;
  NamedTensors named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  NamedTensors named_buffers(bool recurse = true) const;
  std::vector<Module> children() const;
  std::vector<std::pair<std::string, Module>> named_children() const;
  std::vector<Module> modules() const;  // this one first
  std::vector<std::pair<std::string, Module>> named_modules(const std::string& prefix = "") const;

  // Parameters and persistent buffers by path. The tensors share memory with the module's.
  NamedTensors state_dict(const std::string& prefix = "") const;
  // Copies values in. With strict, missing and unexpected names are errors; wrong shapes always are. An error names
  // everything that does not fit, and nothing is copied.
  LoadResult load_state_dict(const NamedTensors& state, bool strict = true);

  Module& train(bool mode = true);
  Module& eval() { return train(false); }
  bool is_training() const { return state().training; }
  // Converts every parameter, its gradient and every buffer; the Tensor objects stay the same. Dtypes apply to
  // floating-point tensors; memory formats ("channels_last") to those of 4 dimensions (5 for "channels_last_3d").
  Module& to(DType dtype);
  Module& to(Device device);
  Module& to_empty(Device device);  // without the values, which the caller must set: from device meta to a real one
  Module& to(const char* text);     // a memory format or a device: "channels_last", "cuda:0"
  Module& zero_grad(bool set_to_none = true);
  Module& requires_grad_(bool on = true);
  Module& apply(const std::function<void(Module&)>& fn);  // children first

  int64_t register_forward_pre_hook(ForwardPreHook hook);
  int64_t register_forward_hook(ForwardHook hook);
  void remove_hook(int64_t id);

  // The same module with its own type, or an empty handle if it is not an M: if (auto fc = m.as<nn::Linear>()) ...
  template <class M> M as() const {
    M found(none);
    if (state_ && state_->tag == &M::kTag) static_cast<Module&>(found).state_ = state_;
    return found;
  }
  std::string name() const;  // of the class
  std::string repr() const;  // as PyTorch prints it
  bool is_same(const Module& other) const { return state_ == other.state_; }
  explicit operator bool() const { return state_ != nullptr; }

 protected:
  ModuleState& state() const {
    if (!state_) [[unlikely]]
      fail_empty();
    return *state_;
  }
  void add_child(std::string name, const Module& child, const std::type_info& type);
  // Called by operator(): calls `run` with the tensors, between the hooks.
  bool has_hooks() const { return state().hooks != nullptr; }
  using Run = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  std::vector<Tensor> with_hooks(std::vector<Tensor> inputs, const Run& run) const;

 private:
  [[noreturn]] static void fail_empty();
  void convert(const std::function<Tensor(const Tensor&)>& fn);
  std::shared_ptr<ModuleState> state_;
};

}  // namespace strata::nn
