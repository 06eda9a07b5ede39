// One node of a specialisation, with its arguments and its kernel bound.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/profile.h"
#include "engine/specialize.h"
#include "engine/timing_cache.h"
#include "record/op.h"

namespace strata::engine {

// A node that is an ordinary call: what it writes to is copied, and the types of its results are checked.
class NodeProgram {
 public:
  NodeProgram(const graph::Graph& graph, const graph::Node& node);
  // Reads the values that the node uses, and sets those that it computes.
  void run(std::vector<Tensor>& values) const;

 private:
  std::vector<graph::ValueId> uses_, results_;
  std::optional<graph::Program> program_;
};

struct Step {
  uint32_t node = 0;
  const OpRecord* op = nullptr;
  StepKind kind = StepKind::Kernel;
  Device device;
  std::vector<graph::ValueId> dead = {};  // values of calls that nothing needs afterwards
  std::optional<NodeProgram> call = {};

  // Of a kernel's call:
  std::vector<Tensor> outs = {};
  Args args = {};
  bool direct = false;  // `kernel` is run; otherwise dispatch chooses one in each run
  const Kernel* kernel = nullptr;
  Plan plan = {};

  // Binds the arguments to these values. Those that are undefined now are set by refresh().
  void bind(const graph::Graph& graph, const graph::Node& n, const std::vector<Tensor>& values);
  void bind_copy(const Tensor& to, const Tensor& from);  // of the values, for the op `copy`
  void refresh(const std::vector<Tensor>& values);
  // The kernel with this name if it accepts the call, else the first that does.
  void choose(const std::string* name);
  void run(const TensorImpl* workspace) const;
  // Takes the fastest kernel by the times in the cache, which are measured if they are not there, unless `only_cached`. Returns
  // whether there was a choice.
  bool tune(TimingCache& cache, bool only_cached);
  LayerProfile describe(const graph::Graph& graph) const;

 private:
  Call bound() const { return {*op, args, const_cast<Tensor*>(outs.data())}; }
  const Kernels& kernels() const { return op->kernels(device.type == DeviceType::Cpu ? Backend::Cpu : Backend::Cuda); }
  bool can_be_direct() const;
  bool accepts(const Kernel& k, Plan& p, std::string* reason = nullptr) const;
  double time_of(const Kernel& k) const;

  struct Late {  // an argument, or an item of a list, that calls make
    uint32_t arg;
    size_t item;  // kWhole: the argument itself
    graph::ValueId id;
  };
  static constexpr size_t kWhole = SIZE_MAX;
  std::vector<Late> late_ = {};
  // What arguments refer to; the lists of lists must not move.
  std::vector<std::vector<Tensor>> lists_ = {};
  std::vector<size_t> list_of_arg_ = {};
  std::vector<Tensor> held_ = {};
};

}  // namespace strata::engine
