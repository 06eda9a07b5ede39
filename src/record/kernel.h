// Kernel entries: each is one way to compute an op on one back end. A record holds an ordered list per back end, fastest first.
#pragma once
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "record/args.h"

namespace strata {

struct OpRecord;

// One call in flight, as kernels see it. Outputs are allocated (or given by the caller) before a kernel is chosen.
struct Call {
  const OpRecord& op;
  const Args& args;
  Tensor* outs;
  const TensorImpl* workspace = nullptr;  // as many bytes as the plan asked for, where the results are; null for none
  const Tensor& out() const { return outs[0]; }
};

// What a kernel decided for one call: geometry and parameters, without addresses. It can be kept and run again for arguments of
// equal shapes, strides, dtypes and alignment.
class Plan {
 public:
  static constexpr size_t kBytes = 1024;
  const char* variant;  // which of the kernel's forms; null: there is one
  size_t workspace;     // bytes of memory that the run needs besides its results

  Plan() {}  // nothing is set: most calls never look at a plan
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

// Adds up the workspace of a plan, and hands out its pieces in the same order when the plan runs.
class STRATA_API Workspace {
 public:
  explicit Workspace(Plan& plan) : plan_(&plan) {}
  explicit Workspace(const Call& c) : memory_(c.workspace) {}
  // A contiguous tensor. While a plan is made only its bytes are counted: the result is undefined.
  Tensor take(Shape shape, DType dtype);

 private:
  Plan* plan_ = nullptr;
  const TensorImpl* memory_ = nullptr;
  size_t used_ = 0;
};

enum class Backend : uint8_t { Cpu, Cuda };  // Cuda: of devices cuda and vgpu
constexpr size_t kBackends = 2;

// Whose code runs.
enum class Source : uint8_t { Own, OneDnn, Lapack, CublasLt, Cudnn, Generated };
STRATA_API const char* name_of(Source source);

// What the numbers of a kernel are like beside those of the reference, which rounds each product and sum once.
struct Numerics {
  bool deterministic = true;  // the same bits each time, for any number of threads
  bool tf32 = false;          // float32 factors are rounded to 10 bits of mantissa
  float error = 1;            // its rounding error, in multiples of the plain sum's
};

struct Kernel;
STRATA_API std::string facts_of(const Kernel& kernel);  // "oneDNN", "own, 3x the rounding error"

// A kernel either runs a call as it is, where `when` has no objection, or first makes a plan for it and then runs that.
struct Kernel {
  using When = const char* (*)(const Call&);            // null: ready; otherwise the reason why not
  using Prepare = const char* (*)(const Call&, Plan&);  // the same, and fills in the plan
  const char* name;
  When when = nullptr;  // no function: always ready
  void (*run)(const Call&) = nullptr;
  Prepare prepare = nullptr;
  void (*run_plan)(const Call&, const Plan&) = nullptr;
  Source source = Source::Own;
  Numerics numerics = {};

  // The reason why this kernel does not take the call, or null.
  const char* objection(const Call& c, Plan& plan) const {
    if (!prepare) return when ? when(c) : nullptr;
    plan.reset();
    return prepare(c, plan);
  }
};
using Kernels = std::vector<Kernel>;

}  // namespace strata
