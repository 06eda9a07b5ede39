// A network made of a model: ops found, names resolved to slots, functions expanded. Running it calls ordinary ops, one node
// after the other. It never changes, so threads may run it at once.
#pragma once
#include <functional>
#include <optional>
#include <span>

#include "onnx/model.h"
#include "onnx/value.h"

namespace strata {
struct OpRecord;
}  // namespace strata

namespace strata::onnx {

class NodeCall;

// How an op of ONNX is computed, from the version `since` of its domain on.
struct OpEntry {
  const char* name;
  int since;
  int min_inputs, max_inputs;          // max_inputs -1: any number
  const OpRecord* record = nullptr;    // a record with the same inputs and no other parameters that matter
  Values (*run)(NodeCall&) = nullptr;  // otherwise
  const char* domain = "";
};
// All ops, as the docs list them. Those of a name are in ascending order of `since`.
STRATA_API std::vector<OpEntry> all_ops();

// Adds an op of a domain, or replaces one of ONNX in networks that are made from then on.
using UserOp = std::function<Values(NodeCall&)>;
STRATA_API void register_op(const std::string& domain, const std::string& name, UserOp op);

// What a model may ask for at run time, so that a hostile one fails instead of filling the memory or running forever.
struct Limits {
  int64_t loop_iterations = int64_t{1} << 24;  // of one Loop
  int64_t value_bytes = 0;                     // of one value; 0: the memory of the machine
};

using Slot = int32_t;  // where a run keeps a value; kNoSlot: none
constexpr Slot kNoSlot = -1;

struct Step;
// A graph with its names resolved: the network's own or one in an attribute.
struct Block {
  std::vector<Slot> inputs, outputs;
  std::vector<Step> steps;
  std::vector<TypeInfo> output_types;  // of a graph in an attribute, as the file has them
};
struct StepAttribute {
  std::string_view name;
  const Attribute* attribute;
  Values tensors;  // of an attribute with tensors
};
struct Step {
  std::string_view name, op, domain;
  int64_t version = 0;
  const OpEntry* entry = nullptr;
  std::shared_ptr<const UserOp> user;
  std::vector<Slot> inputs, outputs, dead;  // dead: values that no later step reads
  std::vector<StepAttribute> attributes;
  std::vector<std::string_view> block_names;  // of the attributes with graphs
  std::vector<Block> blocks;                  // in that order
};

class STRATA_API Network {
 public:
  struct Port {
    std::string name;
    TypeInfo type;
    bool optional = false;  // an input with a default
  };

  // Throws NotImplemented with all ops that are not known. Weights are copied to the device.
  Network(Model model, Device device, const Limits& limits = {});
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Model& model() const { return model_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  Device device() const { return device_; }
  const Limits& limits() const { return limits_; }
  size_t step_count() const;
  // Inputs in the order of inputs(); undefined values use the default. Outputs in the order of outputs().
  Values run(std::span<const Value> inputs) const;

 private:
  friend class NetworkMaker;
  friend class NodeCall;
  static void check_input(const Port& port, const Value& v);
  void run_block(const Block& block, Values& slots) const;
  void run_step(const Step& step, Values& slots) const;

  Model model_;
  Device device_;
  Limits limits_;
  std::vector<Port> inputs_, outputs_;
  Block main_;
  std::vector<Slot> constant_slots_;
  Values constants_, defaults_;  // defaults_ by input
  Slot slots_ = 0;
};

// The model of a file, ready to run.
STRATA_API std::shared_ptr<const Network> load(const std::string& path, Device device = {}, const Limits& limits = {});

// What an op sees of its node.
class STRATA_API NodeCall {
 public:
  NodeCall(const Network& network, const Step& step, Values& slots) : network_(network), step_(step), slots_(slots) {}

  const Step& step() const { return step_; }
  const Network& network() const { return network_; }
  int64_t version() const { return step_.version; }
  size_t inputs() const { return step_.inputs.size(); }
  size_t outputs() const { return step_.outputs.size(); }
  bool wants(size_t output) const { return output < step_.outputs.size() && step_.outputs[output] != kNoSlot; }
  bool has(size_t i) const;
  const Value& value(size_t i) const;         // throws if it is not given
  Tensor tensor(size_t i) const;              // on device(); throws if it is no tensor of Strata's own types
  Tensor maybe(size_t i) const;               // the same, undefined if it is not given
  std::vector<int64_t> ints(size_t i) const;  // the elements of a tensor of integers
  std::vector<double> numbers(size_t i) const;
  int64_t integer(size_t i) const;  // the only element
  Scalar number(size_t i) const;
  // That of the inputs: a device, if one of them is on it, else the CPU, where shapes and indices are computed. Without
  // inputs the network's.
  Device device() const;

  bool has(std::string_view attribute) const { return find(attribute, AttributeKind::Undefined) != nullptr; }
  int64_t integer(std::string_view attribute, std::optional<int64_t> otherwise = {}) const;
  bool flag(std::string_view attribute, bool otherwise = false) const { return integer(attribute, otherwise) != 0; }
  double number(std::string_view attribute, std::optional<double> otherwise = {}) const;
  std::string_view text(std::string_view attribute, std::optional<std::string_view> otherwise = {}) const;
  std::vector<int64_t> ints(std::string_view attribute) const;  // empty if it is not given
  std::vector<double> numbers(std::string_view attribute) const;
  std::vector<std::string> texts(std::string_view attribute) const;
  const Value& tensor(std::string_view attribute) const;
  ElementType type(std::string_view attribute, ElementType otherwise) const;

  // Runs the graph of an attribute, with values for its inputs.
  Values run(std::string_view attribute, std::span<const Value> inputs);
  size_t block_inputs(std::string_view attribute) const;
  const std::vector<TypeInfo>& block_outputs(std::string_view attribute) const;

  [[noreturn]] void refuse(const std::string& what) const;  // NotImplemented

 private:
  const StepAttribute* find(std::string_view name, AttributeKind kind) const;
  const Block& block(std::string_view attribute) const;
  const Network& network_;
  const Step& step_;
  Values& slots_;
};

}  // namespace strata::onnx
