// Modules that hold others: Sequential, ModuleList, ModuleDict.
#pragma once
#include <any>

#include "nn/module.h"

namespace strata::nn {

// Any module, callable when it maps one tensor to one.
class STRATA_API AnyModule : public Module {
 public:
  template <class M>
  requires(std::derived_from<M, Module> && !std::same_as<M, AnyModule>) AnyModule(M module)
      : Module(module), kind_(&typeid(module)), module_(std::move(module)) {
    if constexpr (std::is_invocable_r_v<Tensor, M&, const Tensor&>)
      call_ = [](std::any& m, const Tensor& input) -> Tensor { return std::any_cast<M&>(m)(input); };
  }
  Tensor operator()(const Tensor& input) {
    if (!call_) fail_call();
    return call_(module_, input);
  }
  Tensor forward(const Tensor& input) override { return (*this)(input); }
  template <class M> M get() const {  // as its original type
    const M* found = std::any_cast<M>(&module_);
    STRATA_CHECK(found, Type, "get: the module is a {}", name());
    return *found;
  }
  const std::type_info& kind() const { return *kind_; }

 private:
  [[noreturn]] void fail_call() const;
  const std::type_info* kind_;
  std::any module_;
  Tensor (*call_)(std::any&, const Tensor&) = nullptr;
};

// Applies each module to the result of the previous one.
class STRATA_API Sequential : public Module {
 public:
  template <class... M>
  requires(std::derived_from<M, Module>&&...) explicit Sequential(M... modules)
      : Sequential(std::vector<AnyModule>{AnyModule(std::move(modules))...}) {}
  explicit Sequential(std::vector<AnyModule> modules);  // named 0, 1, ...
  Sequential(std::initializer_list<std::pair<std::string, AnyModule>> modules);
  Sequential(const Sequential&) = default;
  Sequential(Sequential&&) noexcept = default;
  Sequential& operator=(const Sequential&) = default;
  Sequential& operator=(Sequential&&) noexcept = default;
  ~Sequential() override = default;
  Sequential(None) : Module(none) {}

  Sequential& push_back(AnyModule module);
  size_t size() const { return list().size(); }
  AnyModule& operator[](int64_t index) const;  // negative ones count from the end
  Tensor forward(const Tensor& input) const;
  Tensor forward(const Tensor& input) override { return std::as_const(*this).forward(input); }
  Tensor operator()(const Tensor& input) const;
  std::vector<AnyModule>::iterator begin() const { return list().begin(); }
  std::vector<AnyModule>::iterator end() const { return list().end(); }

 private:
  struct State;
  std::vector<AnyModule>& list() const;
};

// Modules by number, called by the module that holds the list.
class STRATA_API ModuleList : public Module {
 public:
  template <class... M>
  requires(std::derived_from<M, Module>&&...) explicit ModuleList(M... modules)
      : ModuleList(std::vector<AnyModule>{AnyModule(std::move(modules))...}) {}
  explicit ModuleList(std::vector<AnyModule> modules);
  ModuleList(const ModuleList&) = default;
  ModuleList(ModuleList&&) noexcept = default;
  ModuleList& operator=(const ModuleList&) = default;
  ModuleList& operator=(ModuleList&&) noexcept = default;
  ~ModuleList() override = default;
  ModuleList(None) : Module(none) {}

  ModuleList& push_back(AnyModule module);
  size_t size() const { return list().size(); }
  AnyModule& operator[](int64_t index) const;
  std::vector<AnyModule>::iterator begin() const { return list().begin(); }
  std::vector<AnyModule>::iterator end() const { return list().end(); }

 private:
  struct State;
  std::vector<AnyModule>& list() const;
};

// Modules by name.
class STRATA_API ModuleDict : public Module {
 public:
  ModuleDict(std::initializer_list<std::pair<std::string, AnyModule>> modules);
  explicit ModuleDict(std::vector<std::pair<std::string, AnyModule>> modules = {});
  ModuleDict(None) : Module(none) {}

  ModuleDict& insert(const std::string& name, AnyModule module);
  bool contains(const std::string& name) const;
  size_t size() const { return list().size(); }
  AnyModule& operator[](const std::string& name) const;
  std::vector<std::pair<std::string, AnyModule>>::iterator begin() const { return list().begin(); }
  std::vector<std::pair<std::string, AnyModule>>::iterator end() const { return list().end(); }

 private:
  struct State;
  std::vector<std::pair<std::string, AnyModule>>& list() const;
};

}  // namespace strata::nn
