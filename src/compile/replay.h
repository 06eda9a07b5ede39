// Calls that are replayed: a call is followed and its graph kept; a later call that is alike runs the graph instead of the program.
// The front ends (python/replay.cpp, strata/compile.h) add what their languages can guard besides tensors.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "compile/capture.h"
#include "compile/launch.h"

namespace strata::graph {

class Recorder;

// The first difference between two captures of a program, in words: "mul at model.py:7 got other=0.5; it got 0.25 before". Nothing
// differs if `what` is empty. If `seen_by_runs`, it is the type of a result, which runs of the graph check.
struct Difference {
  std::string what;
  bool seen_by_runs = false;
};
STRATA_API Difference difference(const Graph& before, const Graph& now);

// One followed call, and what must hold for another call to be the same but for the values of tensors.
class STRATA_API Recording {
 public:
  using States = std::vector<std::pair<std::string, Tensor>>;
  using Program = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

  // Before the call. `states`: the tensors that the program finds by itself; others become constants.
  Recording(const std::vector<Tensor>& inputs, States states);
  // Calls the program, and returns its results whatever it does. Throws what it throws.
  std::vector<Tensor> follow(const Program& program, const std::vector<Tensor>& inputs);
  // Calls like this one are not replayed, because the program does this: "reads values". The first reason is kept.
  void refuse(const std::string& why);
  std::string refused() const;

  // What keeps a call from being like this one, in words; empty: nothing.
  std::string objection(std::span<const Tensor> inputs) const;
  // Counts a call that is like this one. Whether it is to be followed, as an audit: calls 2, 4, 8, ...
  bool audit_is_due();
  // `again` has followed an audited call. Throws Runtime if replayed calls may have been wrong, otherwise refuses after a
  // difference. Names of the front end's mode are in `advice`.
  void compare(const Recording& again, std::string_view advice, std::span<const double> numbers = {});
  // The results of the graph; nothing if it did not fit, and the program must be called.
  std::optional<std::vector<Tensor>> replay(const std::vector<Tensor>& inputs, std::span<const double> numbers = {});
  // `again` has followed a call that differed in these numbers, which the program only passes to ops. True: from now on each run is
  // given them; the graphs are the same otherwise, and each argument that differs is one of the numbers.
  bool generalize(const Recording& again, std::span<const double> before, std::span<const double> now);

  std::shared_ptr<const graph::Program> program() const;
  uint64_t calls() const { return calls_; }
  uint64_t replayed() const { return replayed_; }
  // On GPUs: how many of them launched their work as one CUDA graph, and why it is not launched so (empty: it is, or will be).
  uint64_t launched() const { return launched_; }
  std::string why_not_launched() const;
  std::string input_types() const;
  void release();                               // tensors and graph
  void note_values() { notes_values_ = true; }  // follow() keeps what a Rehearsal compares

 private:
  friend class Rehearsal;
  friend void follow_and_check(const std::function<void()>& program, const std::vector<Tensor>& inputs);
  // Settings that decide what ops compute or record.
  struct Switches {
    bool grad, inference, deterministic;
    DType dtype;
    Device device;
    Switches();
    bool operator==(const Switches&) const = default;
  };
  struct TensorFacts {
    ValueType type;
    bool requires_grad, inference;
    const Storage* storage;
    const std::byte* data;
    std::vector<int64_t> hooks;
    explicit TensorFacts(const TensorImpl& t);
    bool same_type(const TensorImpl& t) const;
    bool same_memory(const TensorImpl& t) const { return t.storage.get() == storage && t.data == data; }
  };
  // What the call does to the .grad of an input or a state.
  struct Gradient {
    ValueId of;
    bool was;  // there before the call
    enum class Becomes : uint8_t { Same, None, Result } becomes = Becomes::Same;
    size_t result = 0;  // of the graph
    bool operator==(const Gradient&) const = default;
    const char* note(const Tensor& t, const Tensor& before, std::vector<Tensor>& results);
  };
  void keep_used_gradients(Graph& graph, const Recorder& recorder);
  const Tensor& given(ValueId id, std::span<const Tensor> inputs) const;
  std::vector<Tensor> graph_inputs_for(const std::vector<Tensor>& inputs) const;
  bool gradients_fit(std::span<const Tensor> inputs) const;
  std::optional<std::vector<Tensor>> replay(const std::vector<Tensor>& inputs, const std::vector<Tensor>& graph_inputs,
                                            std::span<const double> numbers);
  std::string other_difference(const Recording& again) const;
  std::vector<int64_t> sharing_of(std::span<const Tensor> inputs) const;
  bool gradients_are_free(const LaunchedProgram& work, const std::vector<Tensor>& inputs) const;
  std::shared_ptr<LaunchedProgram> launchable(const std::vector<Tensor>& inputs,
                                              const std::vector<Tensor>& graph_inputs);
  std::vector<Tensor> finished(std::vector<Tensor> outputs, const std::vector<Tensor>& inputs);

  States states_;
  std::vector<TensorFacts> input_facts_, state_facts_;
  std::vector<int64_t> sharing_;  // of memory and objects, among inputs and states
  Switches switches_;
  std::vector<ValueId> same_as_;    // for each output: the input or state that is the same object; kNoValue: it is new
  std::vector<size_t> first_with_;  // for each output: the first one that is the same object
  std::vector<bool> own_versions_;  // for each output: it counts its writes apart (x.data)
  std::vector<bool> leaf_;          // for each output: it requires a gradient, and has no history
  // For each output whose tape backward() has used: its op, and the op whose saved values it has freed first.
  std::vector<std::pair<std::string, std::string>> used_up_;
  std::vector<bool> inference_;                                // for each output: it is made in inference mode
  std::vector<Gradient> gradients_;                            // those that the program has looked at or set
  std::vector<std::pair<ValueId, ValueType>> used_gradients_;  // inputs of the graph, after those of the program
  bool records_ = false;                                       // the call leaves a tape that is still to be used
  bool fuses_ = false;                                         // some ops are large enough to be deferred
  bool notes_values_ = false;
  std::vector<std::pair<ValueId, Tensor>> notes_;  // copies of all values
  std::vector<Tensor> outputs_;                    // of the program
  uint64_t calls_ = 1;
  std::atomic<uint64_t> replayed_ = 0, launched_ = 0;
  enum class Launch : uint8_t { Unknown, Possible, Impossible } launch_ = Launch::Unknown;

  std::mutex launching_;
  mutable std::mutex mutex_;  // for what follows: while one thread replays, another may find a difference
  std::string refused_, why_not_launched_;
  std::shared_ptr<const graph::Program> program_;
  std::shared_ptr<LaunchedProgram> work_;
};

// The recordings of a C++ function.
class STRATA_API Replayer {
 public:
  explicit Replayer(Recording::States states) : states_(std::move(states)) {}
  // The results of the program for these tensors. `rest` has the other arguments: calls with other ones are recorded apart.
  std::vector<Tensor> call(const std::string& rest, const std::vector<Tensor>& inputs,
                           const Recording::Program& program);
  const std::vector<std::pair<std::string, std::unique_ptr<Recording>>>& recordings() const { return recordings_; }

 private:
  Recording::States states_;
  std::vector<std::pair<std::string, std::unique_ptr<Recording>>> recordings_;
  std::unique_ptr<std::recursive_mutex> running_ = std::make_unique<std::recursive_mutex>();
};

// Modes in which no call is replayed: autocast, explain(), tune(), anomaly mode, saved-tensor hooks, and inside a capture.
STRATA_API bool program_must_run();
constexpr size_t kMostRecordings = 16;  // of one function; then it keeps running

}  // namespace strata::graph
