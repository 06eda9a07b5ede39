// What an engine is built of: a model of ONNX, or a graph of a captured program. Either way it can be run as it is, one op after the
// other, for any sizes that it takes; an engine makes graphs for fixed sizes of it.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compile/graph.h"
#include "onnx/network.h"

namespace strata::engine {

// An input or output.
struct Port {
  struct Dim {
    int64_t size = -1;  // -1: may vary
    std::string name = {};
  };
  std::string name;
  onnx::TypeInfo::Kind kind = onnx::TypeInfo::Kind::Tensor;
  onnx::ElementType element = onnx::ElementType::Float;
  bool has_shape = true;
  std::vector<Dim> dims = {};
  bool optional = false;  // an input with a default
};
STRATA_API std::string to_string(const Port& port);  // "images: float[batch, 3, 224, 224]"

class STRATA_API Network {
 public:
  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  Device device() const { return device_; }
  // Calls the ops one after the other. Undefined values use the defaults of optional inputs.
  virtual onnx::Values run(std::span<const onnx::Value> inputs) const = 0;
  // Tensors that it computes with, by name: weights.
  virtual std::vector<std::pair<std::string, Tensor>> weights() const = 0;
  virtual size_t node_count() const = 0;
  // The ops that it is made of, with counts.
  virtual std::map<std::string, size_t> op_counts() const = 0;

 protected:
  explicit Network(Device device) : device_(device) {}
  Device device_;
  std::vector<Port> inputs_, outputs_;
};

// A model of ONNX. Weights are copied to the device; on the CPU they stay where the file is mapped.
class STRATA_API OnnxNetwork final : public Network {
 public:
  OnnxNetwork(onnx::Model model, Device device, const onnx::Limits& limits = {});
  explicit OnnxNetwork(std::shared_ptr<const onnx::Network> network);
  onnx::Values run(std::span<const onnx::Value> inputs) const override { return network_->run(inputs); }
  std::vector<std::pair<std::string, Tensor>> weights() const override;
  size_t node_count() const override { return network_->step_count(); }
  std::map<std::string, size_t> op_counts() const override;
  const onnx::Model& model() const { return network_->model(); }

 private:
  std::shared_ptr<const onnx::Network> network_;
};

// Empty: those of the graph.
struct PortNames {
  std::vector<std::string> inputs = {}, outputs = {};
};
// A graph, for the sizes that it was captured for, or for all sizes of its dimensions.
class STRATA_API GraphNetwork final : public Network {
 public:
  // Tensors of the graph are moved to the device; a graph that writes to them is refused.
  GraphNetwork(graph::Graph graph, Device device, const PortNames& names = {});
  onnx::Values run(std::span<const onnx::Value> inputs) const override;
  std::vector<std::pair<std::string, Tensor>> weights() const override;
  size_t node_count() const override { return program_.graph().nodes.size(); }
  std::map<std::string, size_t> op_counts() const override;
  const graph::Graph& graph() const { return program_.graph(); }

 private:
  graph::Program program_;
};

}  // namespace strata::engine
