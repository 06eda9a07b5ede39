// An engine: a network with profiles and decisions, whose weights all contexts share. A context runs it, for one thread at a time:
// others wait.
#pragma once
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/runner.h"

namespace strata::engine {

// Tactics by device (device_key) and sizes of inputs (key_of).
using TacticTable = std::map<std::string, std::map<std::string, Tactics>>;

class ExecutionContext;

class STRATA_API Engine : public std::enable_shared_from_this<Engine> {
 public:
  Engine(std::shared_ptr<const Network> network, BuilderConfig config, TacticTable tactics = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Network& network() const { return *network_; }
  const std::vector<Port>& inputs() const { return network_->inputs(); }
  const std::vector<Port>& outputs() const { return network_->outputs(); }
  Device device() const { return network_->device(); }
  const BuilderConfig& config() const { return config_; }
  const TacticTable& tactics() const { return tactics_; }
  void set_tactics(const std::string& key, Tactics tactics);
  Tactics tactics_for(const std::string& key) const;

  std::unique_ptr<ExecutionContext> create_context() const;

  // The graph for these inputs, made now if it is new. Null if the network has none: then its ops are called one by one, and
  // why_interpreted() has the reason.
  std::shared_ptr<const Specialization> specialization(std::span<const onnx::Value> inputs) const;
  // The next run with such inputs tries again: these had values that the network does not take.
  void forget_failure(const std::string& key) const;
  std::string why_interpreted(const std::string& key) const;  // empty: it is not
  // A run has shown that the graph of these sizes does not fit: the next one is made without passes; if that does not fit either,
  // the sizes are interpreted.
  void give_up(const Specialization& failed, const std::string& reason) const;
  size_t constant_bytes() const { return constants_.bytes(); }  // of all graphs
  // The sizes that there are graphs for.
  std::vector<std::string> keys() const;
  // Throws Type or Value for inputs that the network or all profiles refuse.
  void check_inputs(std::span<const onnx::Value> inputs) const;

 private:
  struct Made {
    std::shared_ptr<const Specialization> specialization;
    std::string reason;
    bool ready = false;
    uint64_t used = 0;
  };
  void check_input(const Port& port, const onnx::Value& v) const;
  void check_ranges(std::span<const onnx::Value> inputs) const;
  void forget_oldest() const;

  std::shared_ptr<const Network> network_;
  BuilderConfig config_;
  TacticTable tactics_;
  std::string device_key_;
  mutable ConstantStore constants_;
  mutable std::mutex lock_;
  mutable std::condition_variable made_;
  mutable std::map<std::string, Made> specializations_;
  mutable std::map<std::string, std::string> without_passes_;  // the reason by key
  mutable uint64_t clock_ = 0;
  mutable size_t failures_ = 0, successes_ = 0;
};

class STRATA_API ExecutionContext {
 public:
  explicit ExecutionContext(std::shared_ptr<const Engine> engine);
  ~ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;

  const Engine& engine() const { return *engine_; }
  // Inputs in the order of the engine's, on any device; undefined ones use their defaults. Outputs are new, on the engine's device.
  onnx::Values run(std::span<const onnx::Value> inputs);
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // Writes the outputs to these tensors, on any device, or makes new ones for those that are undefined. On a GPU the work is only
  // begun, in the current stream.
  void run_into(std::span<const onnx::Value> inputs, std::span<Tensor> outputs);

  // Inputs and outputs by name, for run().
  void set_input(const std::string& name, Tensor t);
  void set_output(const std::string& name, Tensor t);
  void run();
  const Tensor& output(const std::string& name) const;

  size_t bytes() const;  // of the memory that it holds
  // What ran last: "graph", "cuda graph" or "interpreter".
  const std::string& last_mode() const { return last_mode_; }
  Runner* runner_for(std::span<const onnx::Value> inputs);  // null: the network is interpreted
  // Until it is released, runs of other threads wait.
  std::unique_lock<std::recursive_mutex> hold() { return std::unique_lock(running_); }

 private:
  void interpret(std::span<const onnx::Value> inputs, std::span<Tensor> outputs, onnx::Values* values);
  size_t place_of(const std::vector<Port>& ports, const std::string& name, const char* what) const;
  void forget_oldest();

  std::recursive_mutex running_;
  std::shared_ptr<const Engine> engine_;
  std::list<std::unique_ptr<Runner>> runners_;  // the one that was used last is the first
  onnx::Values bound_inputs_;
  std::vector<Tensor> bound_outputs_, results_;
  std::string last_mode_;
};

}  // namespace strata::engine
