// The deferred ops of one thread (dispatch/deferred.h), which are computed together.
#pragma once
#include <mutex>
#include <optional>
#include <span>

#include "cuda/pointwise/fused.h"
#include "dispatch/deferred.h"
#include "dispatch/group_check.h"
#include "record/fused.h"

namespace strata {

// Other threads may need a value, or drop a result: hence the lock.
class Group final : public Promiser {
 public:
  std::vector<FusedGroup>* report = nullptr;

  // Adds a pointwise op. A result without memory gets some; one that has memory is written to, after all steps so far.
  void add(const Call& c, const Formula& f, DType common);
  // The description of a call. What it reads is not promised by this group.
  std::optional<RowOp> describe(const Call& c, const RowRule& rule);
  // Adds an op on rows, whose results get memory; it has read the parameters of a mask. False: it would not pay, or it cannot be
  // computed in a group.
  bool add(const Call& c, RowOp op, uint32_t whole);
  // Whether a pointwise op computes one value per row from results of this group.
  bool reads_rows(const Call& c, const Formula& f, DType common);

  void check(const Call& c, DrawsOf& draws);  // one that was just added; see GroupCheck

  void keep(const char* why) override;
  void before_launch(const char* kernel) override;
  void drop(const Storage& storage) override;

 private:
  using Kind = FusedOperand::Kind;
  struct Step {
    const OpRecord* op;
    Storage* memory;   // of the result; null: dropped
    int64_t bytes;     // of the result
    std::string line;  // if somebody wants a report
  };

  static std::span<const FusedOperand> operands_of(const FusedStep& s) {
    return {s.from, static_cast<size_t>(s.inputs())};
  }
  int64_t elements() const;
  bool same_shape(const TensorImpl& t) const;
  bool repeats_for_rows(const TensorImpl& t) const;
  std::optional<size_t> step_of(const TensorImpl& t, RowExtent extent, int64_t width = 1) const;
  bool is_own(const TensorImpl& t) const;
  bool room_for(size_t steps, size_t inputs, size_t numbers) const;
  bool fits(const RowOp& op) const;
  bool saves_bytes(const RowOp& op) const;
  void begin(const TensorImpl& out, DType compute, Shape shape);
  void prepare_to_overwrite(const TensorImpl& out, const char* op);
  FusedOperand operand_of(const TensorImpl& t, RowPart part);
  void promise(const FusedStep& step, const OpRecord& op, const TensorImpl& out);
  // `reason`: why the call that needs a value, or that comes next, is no part of the group.
  void compute_all(const char* why, const char* reason);
  std::string first_objection();
  FusedProgram needed_steps() const;
  std::string names() const;
  FusedGroup described(const FusedProgram& p, const cuda::FusedRun& run, const char* why, const char* reason) const;

  std::mutex mutex_;
  FusedProgram program_;
  std::vector<Step> steps_;  // of the program, in the same order
  GroupCheck check_;
  std::vector<Tensor> whole_;                    // what ops on rows have read or will read as a whole
  int64_t align_ = 1, together_ = 1, unit_ = 0;  // of the ops on rows, on the CPU
  int64_t threads_ = 0;                          // of a row, on GPUs; 0: any number
  size_t numbers_ = 0;                           // of the program, with members of formulas
  std::optional<cuda::Stream> stream_;  // of a program on a device: the current one when its first op was called
  static thread_local constinit Group* computing;
};

// For tests: see deferred.h.
extern std::atomic<bool> fills_promised;

}  // namespace strata
