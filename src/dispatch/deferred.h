// Deferred ops: inside a Deferral, pointwise ops are not computed when they are called. Their results get promised memory
// (tensor/promise.h), and a group of them is computed in one pass when a value is needed, or when the Deferral ends: on the CPU by
// the loops of the single ops over tiles, on GPUs by one kernel. Results that nobody holds by then are never stored. Everything else (shapes, errors, gradients, random numbers) happens as
// usual when the op is called.
#pragma once
#include <string>
#include <vector>

#include "record/op.h"
#include "tensor/promise.h"

namespace strata {

// One computed group, for explain().
struct FusedGroup {
  std::vector<std::string> ops;    // in the order of the calls
  std::vector<std::string> lines;  // "model.py:12" of each op, or empty
  std::vector<int64_t> shape;      // of all results
  size_t stored = 0;               // results that somebody held
  size_t dropped = 0;              // ops that were not computed, because nobody needed their results
  int64_t bytes = 0;               // read and written
  int64_t bytes_one_by_one = 0;    // the same, had each op run alone
  std::string ended_by;            // the op or method that needed a value
  std::string reason;              // why that is no part of the group
  std::string device;              // "cpu", "cuda:0"
  std::string how;                 // "tiles"; on GPUs "one kernel", or "op by op: " and the reason
  std::string source;              // of the kernel, if one was compiled
};

// While it exists, ops that this thread calls are deferred. May be nested; the outermost one computes what is left when it is
// destroyed.
class STRATA_API Deferral {
 public:
  // A list in `report` gets the groups that are computed meanwhile.
  explicit Deferral(std::vector<FusedGroup>* report = nullptr);
  ~Deferral();
  void finish();  // computes everything; unlike the destructor, it throws if there is no memory for it
  Deferral(const Deferral&) = delete;
  Deferral& operator=(const Deferral&) = delete;

 private:
  std::vector<FusedGroup>* report_before_;
};
// For tests: the least number of elements of an op that is deferred on the CPU. Small results are computed at once, which costs
// less. On GPUs, where a launch costs more than any of them, all are deferred.
STRATA_API int64_t set_least_deferred(int64_t elements);  // returns the previous number
STRATA_API int64_t least_deferred();
// For tests: promised memory is filled with NaNs, so that a read before the values are computed shows.
STRATA_API void fill_promised(bool on);

// What STRATA_COMPILE in the environment asks for: 0, 1 (or nothing), check or everywhere. Throws Value if it is something else.
enum class CompileMode : uint8_t { Off, On, Check, Everywhere };
STRATA_API CompileMode compile_mode();

// STRATA_COMPILE=check: each op of a group is also computed by its own kernel when it is called. A result of the group with other bits
// throws Runtime, which names the first op whose result differs and its line. Returns whether it was on.
STRATA_API bool check_compiled(bool on);
STRATA_API bool checks_compiled();
// For tests of these checks: the results that groups compute for an op of this name are wrong in one element. Empty: none are.
STRATA_API void plant_group_fault(std::string op);

// begin internal
// While it exists, this thread calls ops for a check: at once, without modes, gradients, and observers.
class Unseen {
 public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  const ThreadState state_;
  ReadObserver* const reader_;
};

// For dispatch, which calls these only while promises exist.

// Defers a call whose result has a dtype and a shape. A result without memory gets some; one that has memory is overwritten. False:
// the call must run now.
bool defer(const Call& c);
void need_arguments(const Call& c);  // computes the arguments that are promised
// Computes what a kernel is about to read, and keeps the ops inside it from being deferred. Calls that write to memory that they
// did not allocate compute everything first (need_values): a deferred op may read it.
class BeforeKernel {
 public:
  explicit BeforeKernel(const Call& c);
  ~BeforeKernel();
  BeforeKernel(const BeforeKernel&) = delete;
  BeforeKernel& operator=(const BeforeKernel&) = delete;
};
// end internal

}  // namespace strata
