// Lists and dictionaries of parameters.
#pragma once
#include <initializer_list>

#include "nn/module.h"

namespace strata::nn {

// Parameters by number, named 0, 1, ...
class STRATA_API ParameterList : public Module {
 public:
  explicit ParameterList(const std::vector<Tensor>& values = {});
  ParameterList(None) : Module(none) {}

  ParameterList& push_back(const Tensor& value);
  size_t size() const;
  Tensor& operator[](int64_t index) const;  // negative ones count from the end

 private:
  struct State;
};

// Parameters by name.
class STRATA_API ParameterDict : public Module {
 public:
  ParameterDict(std::initializer_list<std::pair<std::string, Tensor>> values);
  explicit ParameterDict(const NamedTensors& values = {});
  ParameterDict(None) : Module(none) {}

  ParameterDict& insert(const std::string& name, const Tensor& value);
  bool contains(const std::string& name) const;
  size_t size() const;
  Tensor& operator[](const std::string& name) const;
  std::vector<std::string> keys() const;

 private:
  struct State;
};

}  // namespace strata::nn
