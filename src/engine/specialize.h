// A network for fixed sizes of its inputs: a graph with all integers computed, its passes run, and a plan of its memory.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/memory_plan.h"
#include "engine/network.h"
#include "engine/passes.h"

namespace strata::engine {

// How a node of the graph is run.
enum class StepKind : uint8_t {
  Kernel,  // writes its results to planned memory
  View,    // shares memory with its input: made once; a reshape may be a copy
  Call,    // an ordinary call, whose results have memory of their own
};

struct Specialization {
  std::shared_ptr<const graph::Program> program;
  std::vector<StepKind> kinds;  // of each node
  std::vector<std::vector<uint32_t>>
    out_blocks;  // of each node, by result; kNoBlock: an output of the graph, or not used
  std::vector<Block> blocks;
  size_t arena_bytes = 0;
  std::vector<size_t> given;               // the inputs of the network that are inputs of the graph
  std::vector<onnx::ElementType> carried;  // of the outputs, see onnx::Value
  std::vector<Decision> decisions;         // of the passes
  size_t nodes_captured = 0;
  std::string key;

  static constexpr uint32_t kNoBlock = UINT32_MAX;
  const graph::Graph& graph() const { return program->graph(); }
  // Those of the graph among the inputs of the network.
  std::vector<Tensor> inputs_of(std::span<const onnx::Value> inputs) const {
    std::vector<Tensor> tensors;
    for (const size_t i : given) tensors.push_back(inputs[i].tensor);
    return tensors;
  }
};

// The constants of all graphs of a network: what passes compute of weights (a norm folded into a convolution, transposed ones) is
// the same for all sizes, and is kept once.
class STRATA_API ConstantStore {
 public:
  // Replaces constants of the graph by equal ones of earlier graphs, and keeps the others for later ones.
  void share(graph::Graph& graph);
  size_t bytes() const;

 private:
  Tensor find(const Tensor& t) const;
  mutable std::mutex lock_;
  std::multimap<int64_t, Tensor> kept_;  // by the number of bytes
};

// A text for the sizes of inputs: "1x3x224x224,0;7".
STRATA_API std::string key_of(std::span<const onnx::Value> inputs);

// Runs the network once with these inputs, to follow it. If it cannot be a graph for all values of such inputs, because what it
// computes decides about sizes or about what to run, returns nothing, and `reason` says why.
STRATA_API std::shared_ptr<const Specialization> specialize(const Network& network, std::span<const onnx::Value> inputs,
                                                            const PassOptions& options, std::string& reason,
                                                            ConstantStore* constants = nullptr);

// Plans kinds and memory of a graph; for specialize() and tests.
STRATA_API void plan_memory(Specialization& s);
// Why the shapes of a node's results depend on more than its arguments' shapes; empty: they do not.
STRATA_API std::string objection_to_shapes(const graph::Graph& graph, const graph::Node& node);

}  // namespace strata::engine
