// Lists and dictionaries of parameters.
#include "nn/parameters.h"

#include <fmt/core.h>

#include <algorithm>

namespace strata::nn {
struct ListedParameters : ModuleState {
  std::string extra_repr() const override {
    std::string text;
    for (const Slot& slot : parameters) {
      std::string size;
      for (const int64_t n : slot.tensor->shape()) size += (size.empty() ? "" : "x") + std::to_string(n);
      text += fmt::format("{}  ({}): Parameter containing: [strata.{} of size {}]", text.empty() ? "" : "\n", slot.name,
                          name_of(slot.tensor->dtype()), size);
    }
    return text;
  }
  Slot* find(const std::string& name) {
    const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const Slot& s) { return s.name == name; });
    return found == parameters.end() ? nullptr : &*found;
  }
};

namespace {

void check_defined(const Tensor& value, const char* kind, const std::string& name) {
  STRATA_CHECK(value, Type, "{}: the value of '{}' is an undefined tensor", kind, name);
}

}  // namespace

struct ParameterList::State final : ListedParameters {
  State() { kind = "ParameterList"; }
};
ParameterList::ParameterList(const std::vector<Tensor>& values) : Module(std::make_shared<State>()) {
  for (const Tensor& v : values) push_back(v);
}
size_t ParameterList::size() const { return state().parameters.size(); }
ParameterList& ParameterList::push_back(const Tensor& value) {
  const std::string name = std::to_string(size());
  check_defined(value, "ParameterList", name);
  add_parameter(name, value);
  return *this;
}
Tensor& ParameterList::operator[](int64_t index) const {
  const auto n = static_cast<int64_t>(size()), at = index < 0 ? index + n : index;
  STRATA_CHECK(at >= 0 && at < n, Index, "ParameterList: index {} is out of range for {} parameters", index, n);
  return *state().parameters[static_cast<size_t>(at)].tensor;
}

struct ParameterDict::State final : ListedParameters {
  State() { kind = "ParameterDict"; }
};
ParameterDict::ParameterDict(const NamedTensors& values) : Module(std::make_shared<State>()) {
  for (const auto& [name, value] : values) insert(name, value);
}
ParameterDict::ParameterDict(std::initializer_list<std::pair<std::string, Tensor>> values)
    : ParameterDict(NamedTensors(values)) {}
size_t ParameterDict::size() const { return state().parameters.size(); }
bool ParameterDict::contains(const std::string& name) const { return static_cast<State&>(state()).find(name); }
ParameterDict& ParameterDict::insert(const std::string& name, const Tensor& value) {
  check_defined(value, "ParameterDict", name);
  add_parameter(name, value);
  return *this;
}
Tensor& ParameterDict::operator[](const std::string& name) const {
  ModuleState::Slot* slot = static_cast<State&>(state()).find(name);
  STRATA_CHECK(slot, Index, "ParameterDict has no parameter '{}'", name);
  return *slot->tensor;
}
std::vector<std::string> ParameterDict::keys() const {
  std::vector<std::string> names;
  for (const ModuleState::Slot& slot : state().parameters) names.push_back(slot.name);
  return names;
}

}  // namespace strata::nn
