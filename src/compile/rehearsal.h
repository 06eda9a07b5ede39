// STRATA_COMPILE=check: a call is replayed and put back, then the function runs, and everything that both leave is compared.
#pragma once
#include "compile/replay.h"
#include "tensor/generator.h"

namespace strata::graph {

class STRATA_API Rehearsal {
 public:
  // Replays a call that fits the recording. What it has written is put back at the end, .grad and generators too.
  Rehearsal(Recording& known, const std::vector<Tensor>& inputs, std::span<const double> numbers = {});
  // After the program has run. `program` has followed this call, with note_values(). Throws Runtime, and names the first node whose
  // result differs, with its line.
  void compare(const Recording& program) const;

 private:
  // What a call may change about a tensor, as it was.
  struct Before {
    Tensor tensor, values, base;
    Ref<History> history, history_of_base;
    bool requires_grad, base_requires_grad;
    uint32_t output, rebases, rebases_of_base;
    explicit Before(const Tensor& t);
    void put_back() const;
  };
  // What it leaves.
  struct Result {
    Tensor values;
    bool requires_grad;
  };
  struct Gradients {  // of one result, for each tensor that requires one
    std::vector<Tensor> values;
    std::string error;
  };
  static Result result_of(const Tensor& t);
  void keep_results(const std::vector<Tensor>& outputs);
  std::vector<Gradients> gradients_of(std::span<const Tensor> outputs) const;
  std::vector<Tensor> gradients_left() const;
  std::string difference(const Recording& program) const;
  std::string first_node(const Recording& program) const;

  Recording& known_;
  const std::vector<Tensor> inputs_;
  const std::vector<double> numbers_;
  std::shared_ptr<const Program> graph_;
  std::vector<Tensor> leaves_;                    // whose gradients are compared
  std::vector<Before> written_;                   // its inputs and states
  std::vector<std::pair<Tensor, Tensor>> grads_;  // tensors and their .grad before
  Generator::State drawn_, drawn_after_;
  bool done_ = false;  // the call was replayed
  std::string error_;  // that it raised
  std::vector<Result> results_, written_after_;
  std::vector<Gradients> gradients_;  // of the results
  std::vector<Tensor> grads_after_;   // left in .grad
};

// For tests (STRATA_COMPILE=everywhere): follows a part of a program that is not compiled, such as a backward pass, and runs its graph
// node by node. Throws Runtime if a node has another result. `inputs` are the tensors whose .grad it changes.
STRATA_API void follow_and_check(const std::function<void()>& program, const std::vector<Tensor>& inputs);
struct FollowedParts {
  uint64_t checked, refused;  // as graphs; that no graph can hold
};
STRATA_API FollowedParts followed_parts();

// For tests: graphs that are recorded from now on call this op with another number, or with its first two arguments exchanged. Empty:
// none do.
STRATA_API void plant_graph_fault(std::string op);
void apply_graph_fault(Graph& graph);

}  // namespace strata::graph
