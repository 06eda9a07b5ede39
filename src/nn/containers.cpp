// Modules that hold others.
#include "nn/containers.h"

#include <fmt/core.h>

namespace strata::nn {
namespace {

template <class T> std::shared_ptr<T> named(const char* kind) {
  auto state = std::make_shared<T>();
  state->kind = kind;
  return state;
}

AnyModule& item(std::vector<AnyModule>& list, int64_t index) {
  const int64_t n = static_cast<int64_t>(list.size()), at = index < 0 ? index + n : index;
  STRATA_CHECK(at >= 0 && at < n, Index, "index {} is out of range", index);
  return list[static_cast<size_t>(at)];
}

}  // namespace

void AnyModule::fail_call() const {
  fail(ErrorKind::Type,
       fmt::format("{} does not map one tensor to one; get<M>() it and call it with its arguments", name()));
}

struct Sequential::State : ModuleState {
  std::vector<AnyModule> list;
};
std::vector<AnyModule>& Sequential::list() const { return static_cast<State&>(state()).list; }

Sequential::Sequential(std::vector<AnyModule> modules) : Module(named<State>("Sequential")) {
  for (AnyModule& m : modules) push_back(std::move(m));
}
Sequential::Sequential(std::initializer_list<std::pair<std::string, AnyModule>> modules)
    : Module(named<State>("Sequential")) {
  for (const auto& [name, m] : modules) {
    add_child(name, m, m.kind());
    list().push_back(m);
  }
}
Sequential& Sequential::push_back(AnyModule module) {
  add_child(std::to_string(size()), module, module.kind());
  list().push_back(std::move(module));
  return *this;
}
AnyModule& Sequential::operator[](int64_t index) const { return item(list(), index); }
Tensor Sequential::forward(const Tensor& input) const {
  Tensor x = input;
  for (AnyModule& m : list()) x = m(x);
  return x;
}
Tensor Sequential::operator()(const Tensor& input) const {
  if (!has_hooks()) [[likely]]
    return forward(input);
  return with_hooks({input}, [this](const std::vector<Tensor>& in) { return std::vector{forward(in[0])}; })[0];
}

struct ModuleList::State : ModuleState {
  std::vector<AnyModule> list;
};
std::vector<AnyModule>& ModuleList::list() const { return static_cast<State&>(state()).list; }

ModuleList::ModuleList(std::vector<AnyModule> modules) : Module(named<State>("ModuleList")) {
  for (AnyModule& m : modules) push_back(std::move(m));
}
ModuleList& ModuleList::push_back(AnyModule module) {
  add_child(std::to_string(size()), module, module.kind());
  list().push_back(std::move(module));
  return *this;
}
AnyModule& ModuleList::operator[](int64_t index) const { return item(list(), index); }

struct ModuleDict::State : ModuleState {
  std::vector<std::pair<std::string, AnyModule>> list;
};
std::vector<std::pair<std::string, AnyModule>>& ModuleDict::list() const { return static_cast<State&>(state()).list; }

ModuleDict::ModuleDict(std::vector<std::pair<std::string, AnyModule>> modules) : Module(named<State>("ModuleDict")) {
  for (auto& [name, m] : modules) insert(name, std::move(m));
}
ModuleDict::ModuleDict(std::initializer_list<std::pair<std::string, AnyModule>> modules)
    : ModuleDict(std::vector(modules)) {}
ModuleDict& ModuleDict::insert(const std::string& name, AnyModule module) {
  add_child(name, module, module.kind());
  list().emplace_back(name, std::move(module));
  return *this;
}
bool ModuleDict::contains(const std::string& name) const {
  for (const auto& [known, m] : list())
    if (known == name) return true;
  return false;
}
AnyModule& ModuleDict::operator[](const std::string& name) const {
  for (auto& [known, m] : list())
    if (known == name) return m;
  fail(ErrorKind::Index, fmt::format("ModuleDict has no module '{}'", name));
}

}  // namespace strata::nn
