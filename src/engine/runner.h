// Runs a specialisation in memory of its own: tensors, arguments and kernels are bound once, so that a run is a list of kernel calls.
// For one thread at a time.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/runtime/graph.h"
#include "engine/profile.h"
#include "engine/specialize.h"
#include "engine/timing_cache.h"
#include "record/precision.h"

namespace strata::engine {

// The kernels to use, by the number of the node: names in the kernel list of its record. Others are chosen by the list's order.
using Tactics = std::vector<std::pair<uint32_t, std::string>>;

struct Step;

class STRATA_API Runner {
 public:
  Runner(std::shared_ptr<const Specialization> what, const Tactics& tactics = {});
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Inputs have the types of the graph's inputs, on any device and with any strides. Outputs that are defined are written to; they
  // must have the right types. Others become new tensors.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  // The same as a CUDA graph: recorded at the second such run. False, and nothing has run, if it cannot be one; see graph_objection().
  bool run_as_graph(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  const std::string& graph_objection() const { return graph_objection_; }
  bool has_graph() const { return recorded_.has_value(); }

  size_t bytes() const;  // of the memory that it holds
  const Specialization& what() const { return *what_; }
  // Runs `times` times and returns the best time of each node.
  std::vector<LayerProfile> profile(std::span<const Tensor> inputs, int times);
  // Measures the kernels that accept each node's call, and uses the fastest from now on.
  struct Tuned {
    Tactics tactics;
    size_t measured = 0;  // nodes with several kernels
  };
  Tuned tune(std::span<const Tensor> inputs, double seconds, TimingCache& cache);
  // Shows each result of each node.
  void inspect(std::span<const Tensor> inputs, const graph::Program::Inspect& look) const;

 private:
  struct Root;  // memory that is given for a run: of an input or an output

  void bind();
  Tensor memory_of(size_t node, size_t result);
  void bind_step(uint32_t node);
  bool bind_view(uint32_t node);
  bool bind_copy(uint32_t node);
  void find_dead();
  static void attach(Root& root, const Tensor& t);
  void release_given();
  void run_steps();
  void run_step(Step& step);
  Tensor staged_input(size_t i, const Tensor& given, bool at_fixed_place);
  void check_output(size_t i, const Tensor& t) const;
  void prepare(std::span<const Tensor> inputs, std::span<Tensor> outputs, bool fixed);
  void finish(std::span<Tensor> outputs);
  void record(const cuda::Stream& stream);

  std::shared_ptr<const Specialization> what_;
  Tactics tactics_;
  Device device_;
  Tensor arena_, workspace_;
  std::vector<Tensor> values_;  // by id; results of calls only while a run needs them
  std::vector<graph::ValueId> returned_by_calls_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::unique_ptr<Root>> roots_;
  std::vector<Root*> root_of_input_, root_of_output_;  // null: a copy at the end
  std::vector<Tensor> spare_inputs_, spare_outputs_;   // memory for what cannot be used where it is
  std::vector<Tensor> given_outputs_;                  // by the caller of this run
  std::vector<Tensor> targets_;                        // of this run: where each output is written or copied
  struct Settings {
    bool tf32_products, tf32_convolutions, deterministic;
    bool operator==(const Settings&) const = default;
    static Settings now() { return {allow_tf32_products(), allow_tf32_convolutions(), is_deterministic()}; }
  };
  Settings settings_ = Settings::now();
  std::optional<cuda::Graph> recorded_;
  int runs_as_graph_ = 0;
  std::string graph_objection_;
};

}  // namespace strata::engine
