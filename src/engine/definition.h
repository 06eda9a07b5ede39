// Networks made of ops by name, layer by layer.
#pragma once
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/trace.h"

namespace strata::engine {

// A value of a network that is being defined.
struct Layer {
  size_t node, result;
};

class STRATA_API NetworkDefinition {
 public:
  // None, a value, a list of values, a weight, a number, a text, sizes, a dtype.
  using Argument = std::variant<std::monostate, Layer, std::vector<Layer>, Tensor, double, int64_t, bool, std::string,
                                std::vector<int64_t>, DType>;
  using Named = std::vector<std::pair<std::string, Argument>>;

  Layer add_input(Input input);
  // A call of an op ("relu", "conv2d", "conv2d.padding") with arguments by position and by name. Returns its first result. Throws Type
  // if there is no such op or parameter.
  Layer add(const std::string& op, std::vector<Argument> args, const Named& named = {});
  static Layer result(Layer layer, size_t index) { return {layer.node, index}; }
  void mark_output(Layer layer) { outputs_.push_back(layer); }

  std::shared_ptr<const Network> finish(Device device = {}) const;

 private:
  struct Call {
    const OpRecord* op;  // null: an input
    std::vector<Argument> args;
  };
  std::vector<Input> inputs_;
  std::vector<Call> calls_;
  std::vector<Layer> outputs_;
  void check(const Argument& a) const;
};

}  // namespace strata::engine
