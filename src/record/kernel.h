// Kernel entries: an implementation of an op for one back end. A record has an ordered list per back end, fastest
// first.
#pragma once
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "record/args.h"

namespace strata {

struct OpRecord;

// One call, as kernels see it. Outputs are allocated (or given by the caller) before a kernel is chosen.
struct Call {
  const OpRecord& op;
  const Args& args;
  Tensor* outs;
  // as many bytes as the plan asked for, on the device of the results; null for none
  const TensorImpl* workspace = nullptr;
  const Tensor& out() const { return outs[0]; }
};

// The decisions of a kernel for one call: geometry and parameters, without addresses. It can be kept and run again for
// arguments of equal shapes, strides, dtypes and alignment.
class Plan {
 public:
  static constexpr size_t kBytes = 1024;
  const char* variant;  // name of the kernel's variant; null if there is only one
  size_t workspace;     // bytes of memory needed besides the results

  Plan() {}  // leaves members unset: most calls never use a plan
  void reset() {
    variant = nullptr;
    workspace = 0;
  }
  template <class T> void keep(const T& params) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kBytes && alignof(T) <= 16);
    std::memcpy(params_, &params, sizeof params);
  }
  template <class T> T get() const {
    T params;
    std::memcpy(&params, params_, sizeof params);
    return params;
  }

 private:
  alignas(16) std::byte params_[kBytes];
};

// Sums up the workspace of a plan, and hands out its pieces in the same order when the plan runs.
class STRATA_API Workspace {
 public:
  explicit Workspace(Plan& plan) : plan_(&plan) {}
  explicit Workspace(const Call& c) : memory_(c.workspace) {}
  bool planning() const { return plan_; }  // only bytes are counted
  // A contiguous tensor; while planning, it has no memory.
  Tensor take(Shape shape, DType dtype);
  Tensor take(int64_t n, DType dtype) { return take(Shape(&n, 1), dtype); }

 private:
  Plan* plan_ = nullptr;
  const TensorImpl* memory_ = nullptr;
  size_t used_ = 0;
};

enum class Backend : uint8_t { Cpu, Cuda };  // Cuda: for devices cuda and vgpu
constexpr size_t kBackends = 2;

// The origin of a kernel's code.
enum class Source : uint8_t { Own, OneDnn, Lapack, CublasLt, Cudnn, Generated };
STRATA_API const char* name_of(Source source);

// Numeric properties of a kernel, compared with the reference, which rounds each product and sum once.
struct Numerics {
  bool deterministic = true;  // the same bits each time, for any number of threads
  bool tf32 = false;          // float32 factors are rounded to 10 bits of mantissa
  float error = 1;            // rounding error relative to direct summation
};

struct Kernel;
STRATA_API std::string facts_of(const Kernel& kernel);  // "oneDNN", "own, 3x the rounding error"

// A kernel either runs a call directly if `when` accepts it, or first makes a plan and then runs that. If the plan is only
// memory, one function does both: `run_in` is called with a workspace that is planning, takes what it needs and returns
// before it computes anything; then it is called with the memory.
struct Kernel {
  using When = const char* (*)(const Call&);            // null: accepts the call; otherwise the reason for rejecting it
  using Prepare = const char* (*)(const Call&, Plan&);  // the same, and fills the plan
  const char* name;
  When when = nullptr;  // no function: always accepts
  void (*run)(const Call&) = nullptr;
  void (*run_in)(const Call&, Workspace&) = nullptr;
  Prepare prepare = nullptr;
  void (*run_plan)(const Call&, const Plan&) = nullptr;
  Source source = Source::Own;
  Numerics numerics = {};

  bool plans() const { return prepare || run_in; }
  // The reason why this kernel rejects the call, or null.
  const char* objection(const Call& c, Plan& plan) const {
    if (!plans()) return when ? when(c) : nullptr;
    plan.reset();
    if (prepare) return prepare(c, plan);
    if (const char* reason = when ? when(c) : nullptr) return reason;
    Workspace counted(plan);
    run_in(c, counted);
    return nullptr;
  }
};
using Kernels = std::vector<Kernel>;

}  // namespace strata
