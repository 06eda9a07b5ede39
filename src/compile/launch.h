// The work of a graph on a GPU as a CUDA graph: recorded once, then launched with one call.
#pragma once
#include <memory>
#include <mutex>
#include <optional>

#include "compile/graph.h"
#include "cuda/runtime/graph.h"

namespace strata::graph {

class LaunchedProgram {
 public:
  // Why the work of a graph is not launched as one; null: it may be.
  static const char* objection(const Graph& graph);
  // What becomes of an output: it is not asked for, given to the caller in new memory, or lent to it where the work writes it.
  enum class Use : uint8_t { None, Given, Lent };
  // Records the work, without running it. The program must have run before, so that its kernels are compiled. `defers`: pointwise
  // ops are computed in groups. Throws if something cannot be recorded.
  LaunchedProgram(std::shared_ptr<const Program> program, const std::vector<Tensor>& inputs, std::vector<Use> uses,
                  bool defers);

  // Whether a run would do the recorded work: it is called in the same stream, which records nothing, with the same settings.
  bool fits() const;
  // Whether only `owner`, which gets the next one, holds what this output was lent as. A run overwrites it.
  bool is_free(size_t output, const TensorImpl* owner) const {
    const auto& [t, own] = lent_[output];
    return t->refs.load() == 1 + (t.get() == owner) && t->storage->refs.load() == own;
  }
  // The outputs; unused ones are undefined. Calls of several threads wait for each other.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const;

 private:
  // Settings that kernels are chosen by.
  struct Precision {
    bool tf32_products, tf32_convolutions, deterministic;
    static Precision now();
    bool operator==(const Precision&) const = default;
  };
  std::shared_ptr<const Program> program_;
  cuda::Stream stream_;  // of the caller
  Precision precision_ = Precision::now();
  std::vector<Tensor> inputs_, outputs_;  // at the addresses that the recorded work reads and writes
  std::vector<Use> uses_;                 // of the outputs
  struct Lent {
    Tensor tensor;
    int32_t own = 0;  // references to its memory from here
  };
  std::vector<Lent> lent_;
  std::optional<cuda::Graph> work_;
  mutable std::mutex running_;
  mutable bool counted_ = true;  // recording has counted the writes of the first run
};

}  // namespace strata::graph
