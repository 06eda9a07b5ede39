// Registration, traversal, modes and conversions of modules.
#include "nn/module.h"

#include <fmt/core.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

#include "autograd/autograd.h"
#include "nn/module_hooks.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/copy.h"

namespace strata::nn {
namespace {

using State = std::shared_ptr<ModuleState>;

std::string class_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  std::string name = text ? text.get() : type.name();
  const size_t end = name.find('<'), colon = name.rfind("::", end);  // without namespaces
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

template <class F>
void visit(const State& state, const std::string& prefix, std::unordered_set<ModuleState*>& seen, const F& fn) {
  if (!seen.insert(state.get()).second) return;
  fn(prefix, state);
  for (const auto& [name, child] : state->children) visit(child, join(prefix, name), seen, fn);
}
// Every module in the tree of `state`, each once, with its path.
template <class F> void visit(const State& state, const std::string& prefix, const F& fn) {
  std::unordered_set<ModuleState*> seen;
  visit(state, prefix, seen, fn);
}

NamedTensors collect(const State& root, bool recurse, std::vector<ModuleState::Slot> ModuleState::*slots) {
  NamedTensors found;
  std::unordered_set<TensorImpl*> seen;
  const auto take = [&](const std::string& prefix, const State& s) {
    for (const ModuleState::Slot& slot : (*s).*slots)
      if (*slot.tensor && seen.insert(slot.tensor->get()).second)
        found.emplace_back(join(prefix, slot.name), *slot.tensor);
  };
  if (recurse) visit(root, "", take);
  else take("", root);
  return found;
}

std::vector<Tensor> without_names(NamedTensors named) {
  std::vector<Tensor> tensors;
  tensors.reserve(named.size());
  for (auto& [name, tensor] : named) tensors.push_back(std::move(tensor));
  return tensors;
}

void check_name(const ModuleState& state, const std::string& name, const char* what) {
  STRATA_CHECK(!name.empty(), Value, "{}: a {} needs a name", state.kind, what);
  STRATA_CHECK(name.find('.') == std::string::npos, Value, "{} name can't contain \".\", got \"{}\"", what, name);
  const auto taken = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const ModuleState::Slot& s) { return s.name == name; });
  };
  const bool child =
    std::any_of(state.children.begin(), state.children.end(), [&](const auto& c) { return c.first == name; });
  STRATA_CHECK(!taken(state.parameters) && !taken(state.buffers) && !child, Value,
               "cannot register {} '{}': the module has something of that name", what, name);
}

}  // namespace

ModuleState::ModuleState() = default;
ModuleState::~ModuleState() = default;

void Module::fail_empty() {
  fail(ErrorKind::Runtime, "this module is empty: assign a constructed one before using it");
}

Tensor Module::forward(const Tensor&) {
  fail(ErrorKind::NotImplemented, fmt::format("{}: forward(const Tensor&) is not overridden; declare it as `Tensor "
                                              "forward(const Tensor& x) override`, or call your own forward by name",
                                              name()));
}

Tensor Module::operator()(const Tensor& input) {
  if (!has_hooks()) [[likely]]
    return forward(input);
  return with_hooks({input}, [this](const std::vector<Tensor>& in) { return std::vector{forward(in[0])}; })[0];
}

void Module::add_child(std::string name, const Module& child, const std::type_info& type) {
  check_name(state(), name, "module");
  STRATA_CHECK(child, Type, "add: '{}' is an empty module", name);
  visit(child.state_, "", [&](const std::string&, const State& s) {
    STRATA_CHECK(s != state_, Value, "add: a module cannot contain itself ('{}')", name);
  });
  if (child.state_->kind.empty()) child.state_->kind = class_name(type);
  state().children.emplace_back(std::move(name), child.state_);
}

Tensor Module::add_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_name(state(), name, "parameter");
  if (tensor) {
    STRATA_CHECK(autograd::is_leaf(tensor), Value,
                 "cannot register parameter '{}': it is computed from other tensors; detach it first", name);
    tensor.set_requires_grad(requires_grad);
  }
  Tensor* slot = state().owned.emplace_back(std::make_unique<Tensor>(tensor)).get();
  state().parameters.push_back({std::move(name), slot});
  return tensor;
}

Tensor Module::add_buffer(std::string name, Tensor tensor, bool persistent) {
  check_name(state(), name, "buffer");
  Tensor* slot = state().owned.emplace_back(std::make_unique<Tensor>(tensor)).get();
  state().buffers.push_back({std::move(name), slot, persistent});
  return tensor;
}

NamedTensors Module::named_parameters(bool recurse) const {
  return collect((state(), state_), recurse, &ModuleState::parameters);
}
NamedTensors Module::named_buffers(bool recurse) const {
  return collect((state(), state_), recurse, &ModuleState::buffers);
}
std::vector<Tensor> Module::parameters(bool recurse) const { return without_names(named_parameters(recurse)); }
std::vector<Tensor> Module::buffers(bool recurse) const { return without_names(named_buffers(recurse)); }

std::vector<std::pair<std::string, Module>> Module::named_children() const {
  std::vector<std::pair<std::string, Module>> found;
  std::unordered_set<ModuleState*> seen;
  for (const auto& [name, child] : state().children)
    if (seen.insert(child.get()).second) found.emplace_back(name, Module(child));
  return found;
}
std::vector<Module> Module::children() const {
  std::vector<Module> found;
  for (auto& [name, child] : named_children()) found.push_back(std::move(child));
  return found;
}
std::vector<std::pair<std::string, Module>> Module::named_modules(const std::string& prefix) const {
  std::vector<std::pair<std::string, Module>> found;
  visit((state(), state_), prefix,
        [&](const std::string& path, const State& s) { found.emplace_back(path, Module(s)); });
  return found;
}
std::vector<Module> Module::modules() const {
  std::vector<Module> found;
  for (auto& [name, module] : named_modules()) found.push_back(std::move(module));
  return found;
}

Module& Module::train(bool mode) {
  visit((state(), state_), "", [&](const std::string&, const State& s) { s->training = mode; });
  return *this;
}

void Module::convert(const std::function<Tensor(const Tensor&)>& fn) {
  const autograd::NoGrad off;
  const auto apply_to = [&](const Tensor& t) {
    const Tensor other = fn(t);
    if (other.get() == t.get() || other->storage.get() == t->storage.get()) return;
    set_data(t, other);
  };
  std::unordered_set<TensorImpl*> seen;
  for (const auto list : {&ModuleState::parameters, &ModuleState::buffers})
    visit((state(), state_), "", [&](const std::string&, const State& s) {
      for (const ModuleState::Slot& slot : (*s).*list) {
        const Tensor& t = *slot.tensor;
        if (!t || !seen.insert(t.get()).second) continue;
        apply_to(t);
        if (const Tensor g = t.grad()) apply_to(g);
      }
    });
}

Module& Module::to(DType dtype) {
  STRATA_CHECK(is_floating(dtype), Type, "to: modules can be converted to floating-point dtypes only, got {}",
               name_of(dtype));
  convert([&](const Tensor& t) { return is_floating(t.dtype()) ? strata::to(t, dtype) : t; });
  return *this;
}
Module& Module::to(Device device) {
  convert([&](const Tensor& t) { return strata::to(t, std::optional<Device>(device)); });
  return *this;
}
Module& Module::to_empty(Device device) {
  convert([&](const Tensor& t) { return empty_like(t, std::nullopt, device); });
  return *this;
}
Module& Module::to(const char* text) {
  const std::string_view memory_format = text;
  const int dims = memory_format == "channels_last" ? 4 : memory_format == "channels_last_3d" ? 5 : 0;
  if (!dims && memory_format != "contiguous_format") return to(Device(memory_format));
  convert([&](const Tensor& t) { return !dims || t.dim() == dims ? contiguous(t, memory_format) : t; });
  return *this;
}

Module& Module::zero_grad(bool set_to_none) {
  for (const Tensor& p : parameters()) {
    const Tensor g = p.grad();
    if (!g) continue;
    if (set_to_none) Tensor(p).set_grad({});
    else zero_(autograd::detach(g));
  }
  return *this;
}

Module& Module::requires_grad_(bool on) {
  for (Tensor& p : parameters()) p.set_requires_grad(on);
  return *this;
}

Module& Module::apply(const std::function<void(Module&)>& fn) {
  for (Module& child : children()) child.apply(fn);
  fn(*this);
  return *this;
}

std::string Module::name() const {
  if (!state().kind.empty()) return state().kind;
  return class_name(typeid(*this));
}

int64_t Module::register_forward_pre_hook(ForwardPreHook hook) {
  auto& hooks = state().hooks;
  if (!hooks) hooks = std::make_unique<ModuleState::Hooks>();
  hooks->pre.emplace_back(hooks->next, std::move(hook));
  return hooks->next++;
}
int64_t Module::register_forward_hook(ForwardHook hook) {
  auto& hooks = state().hooks;
  if (!hooks) hooks = std::make_unique<ModuleState::Hooks>();
  hooks->post.emplace_back(hooks->next, std::move(hook));
  return hooks->next++;
}
void Module::remove_hook(int64_t id) {
  if (!has_hooks()) return;
  const auto same = [&](const auto& entry) { return entry.first == id; };
  std::erase_if(state().hooks->pre, same);
  std::erase_if(state().hooks->post, same);
}

std::vector<Tensor> Module::with_hooks(std::vector<Tensor> inputs, const Run& run) const {
  // Copies: a hook may register or remove hooks.
  const auto pre = state().hooks->pre;
  for (const auto& [id, hook] : pre)
    if (auto changed = hook(*this, inputs); !changed.empty()) {
      STRATA_CHECK(changed.size() == inputs.size(), Runtime, "{}: a forward pre-hook returned {} tensors, expected {}",
                   name(), changed.size(), inputs.size());
      inputs = std::move(changed);
    }
  std::vector<Tensor> outputs = run(inputs);
  const auto post = state().hooks->post;
  for (const auto& [id, hook] : post)
    if (auto changed = hook(*this, inputs, outputs); !changed.empty()) {
      STRATA_CHECK(changed.size() == outputs.size(), Runtime, "{}: a forward hook returned {} tensors, expected {}",
                   name(), changed.size(), outputs.size());
      outputs = std::move(changed);
    }
  return outputs;
}

}  // namespace strata::nn
