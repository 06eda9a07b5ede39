// Notes the calls of a program as the nodes of a graph; for captures and replays.
#pragma once
#include <map>
#include <set>
#include <unordered_map>

#include "compile/capture.h"
#include "compile/control.h"
#include "compile/tape.h"
#include "dispatch/observer.h"

namespace strata::graph {

// Holds the memory that functions of control flow have made, as long as somebody else does: no value outside may come from it.
class InnerMemory {
 public:
  void add(Ref<Storage> memory);
  void add(const InnerMemory& other);
  bool has(const Storage* memory) const { return held_.contains(memory); }
  void forget_unreachable();

 private:
  std::map<const Storage*, Ref<Storage>> held_;
  size_t sweep_at_ = 64;
};

bool covers_its_storage(const TensorImpl& t);  // is all of it, without gaps

// Memory is written to, values are not: a storage has a current value (its base), and every write makes a new one. A tensor that
// was a view of the old value is, when it is next used, computed from the new one.
class Recorder final : public Observer {
 public:
  // `lenient`: a program that no graph can hold runs on, and refused() says why. Otherwise the call that a graph cannot hold throws.
  explicit Recorder(const CaptureOptions& options, bool lenient = false);

  ValueId add_input(const Tensor& t, std::string name);
  void add_state(const Tensor& t, std::string name, bool named);
  Graph finish(const std::vector<Tensor>& outputs);

  // --- control flow (control_flow.cpp); no observer sees the calls meanwhile ---
  // A function of the program as a graph. Its inputs are those given, then the values of this recorder that it used besides.
  struct Part {
    Graph graph;
    std::vector<ValueId> others;
    Tensors outputs;
    std::set<const Storage*> outside;  // the memory that it did not make
    InnerMemory inside;
    std::string objection;  // lenient: why there is no graph
  };
  Part trace(const std::string& what, const Function& f, const Tensors& inputs, const std::vector<ValueId>& ids);
  Node begin(const OpRecord& op);
  void add(Node node, const Tensors& results);
  ValueId unused_input(Graph& body, ValueId outer) const;  // as an input that the body does not use
  ValueId value_of(const TensorImpl& t);
  // The same for a tensor that a call gets or the program returns: in a run it must record the same gradients.
  ValueId value_for_use(const TensorImpl& t, bool returned = false);
  bool lenient() const { return lenient_; }
  // What a call of control flow has made: a part of the tape, and memory.
  void add_control(uint64_t first_order, uint64_t end, const InnerMemory& memory);

  bool went_back() const { return went_back_; }  // the program has run a backward pass
  // Why gradients of what the program returns may differ in a run. Empty: they do not.
  const std::string& lost_gradient() const { return lost_; }
  const std::string& refused() const { return refused_; }
  void refuse(std::string why);  // keeps the first reason
  // The input or state whose memory this is, or kNoValue; what the program has allocated since belongs to no one.
  ValueId owner_of(const TensorImpl& t) const;
  bool has_written(const TensorImpl& t) const;  // the program, to its memory
  // An input or a state, and what the program has done with its gradient (if lenient).
  struct Given {
    const TensorImpl* tensor;
    ValueId id;
    bool looked_at = false;
    ValueId grad = kNoValue;  // that it had, an input too
  };
  const std::vector<Given>& given() const { return given_; }
  // From now on, keeps copies of the results of all calls.
  void note_values(std::vector<std::pair<ValueId, Tensor>>& notes) { notes_ = &notes; }

  void before(const OpRecord& op, Form form, const Args& args, const Tensor* outs) override;
  void after(const OpRecord& op, const Tensor* outs, size_t count) override;
  void failed() override;
  void copies(const TensorImpl& from, const TensorImpl& to) override;
  void reads(const Storage* memory, const char* why) override;
  void looks_at_grad(const TensorImpl& t) override;
  void sets_generator() override;

 private:
  // A tensor that shows a part of a storage, and its value as of so many writes.
  struct View {
    Tensor tensor;  // held, so that its address stays taken
    Tensor shape;   // as it was: the tensor may get another one
    ValueId id;
    uint32_t writes;
  };
  struct Memory {
    Ref<Storage> held;
    ValueId base = kNoValue;      // of the whole
    Tensor shape;                 // of base
    bool whole = false;           // base is all of the storage, without gaps
    ValueId first_id = kNoValue;  // the input or state that it was at first
    uint32_t writes = 0;
    const TensorImpl* writer = nullptr;  // of the last recorded write: that tensor, or what it is a view of; not held
    std::vector<View> views;             // the latest last
  };
  // What a call writes to, and its geometry before.
  struct Target {
    Tensor tensor, before;
  };

  // For a part of the program of another recorder.
  Recorder(Recorder& outer, std::string what);
  [[noreturn]] void object(ErrorKind kind, std::string why);
  bool knows(const Storage* memory) const { return memories_.contains(memory) || (outer_ && outer_->knows(memory)); }
  bool is_from_outside(const TensorImpl& t) const;
  static void watch(const TapeNode& n);
  // The references to a tensor from here, also those of views that nobody else has.
  static int32_t count_references(const TensorImpl& t);
  int32_t references_to(const TensorImpl& t) const;
  void goes_back(const TapeNode& n);
  ValueId from_outside(const TensorImpl& t);

  static View view_of(const TensorImpl& t, ValueId id, uint32_t writes);
  bool is_constant(ValueId id) const;
  bool depends_on_inputs(const Storage* memory);
  ValueId new_value(ValueType type, bool recorded, std::string name = {});
  void define_memory(const TensorImpl& t, ValueId id);
  void show(const TensorImpl& t, ValueId id);
  ValueId value_of_object(const TensorImpl& t) const;
  ValueId add_constant(const TensorImpl& t);
  ValueId part_of_memory(Memory& m, const TensorImpl& t);
  void add_node(const OpRecord& op, std::vector<Argument> args, const TensorImpl& t, ValueId result);
  void write(const TensorImpl& t, ValueId value);
  void lose_gradient(const TensorImpl& t, bool returned);
  bool has_gradient_of_memory(const TensorImpl& t) const;
  Argument argument_of(const OpRecord& op, uint32_t i, const Value& v);
  void note_call(const OpRecord& op, Form form, const Args& args, const Tensor* outs);
  void note_results(const Tensor* outs, size_t count);
  void note_value(ValueId id, const TensorImpl& t);
  void forget_unreachable();

  const CaptureOptions& options_;
  const bool lenient_;
  Recorder* const outer_ = nullptr;
  const std::string part_;       // the function that it follows
  std::vector<ValueId> others_;  // the outer values of the inputs that were not given
  uint64_t first_order_ = next_order();
  std::vector<std::pair<uint64_t, uint64_t>> control_orders_;
  InnerMemory inner_;
  const bool careful_;  // lenient, or a part of such a program: what only runs of the program can do is refused
  const RareModes modes_ = thread_state;
  const bool grad_mode_ = thread_state.grad_mode;
  std::string refused_, lost_;
  bool went_back_ = false;
  Graph graph_;
  std::map<const Storage*, Memory> memories_;
  size_t sweep_at_ = 64;  // as many memories
  std::vector<View> without_memory_;
  std::vector<Given> given_;
  std::unordered_map<const TensorImpl*, size_t> place_of_given_;
  std::vector<bool> recorded_;  // by value: whether a run gives it with requires_grad
  std::vector<bool> varies_;    // by value: whether it depends on inputs, as far as nodes were examined
  size_t examined_ = 0;
  std::vector<std::pair<ValueId, Tensor>>* notes_ = nullptr;
  Node pending_;
  std::vector<Target> targets_;  // of the pending call
  std::set<std::string> names_;  // of values
  int constants_ = 0;
};

}  // namespace strata::graph
