// Chooses the kernel of a call: the first of its back end's list that accepts it, or the one that tuning found fastest.
#pragma once
#include "base/trace.h"
#include "dispatch/settings.h"
#include "record/op.h"

namespace strata {

inline Backend backend_of(Device device) { return device.type == DeviceType::Cpu ? Backend::Cpu : Backend::Cuda; }

// For tests: calls of this thread that are explained take the kernel of this name where it is ready. Null: none is preferred.
// Returns what was preferred before. The text must outlive the preference.
STRATA_API const char* prefer_kernel(const char* name);

const Kernel& choose_watched(const Kernels& kernels, const Call& c, Plan& plan);
[[noreturn]] void no_kernel(const Call& c, const Kernels& kernels);

// Whether every kernel is asked or timed.
inline bool is_watched(const Call& c) {
  return thread_state.explain || thread_state.tuning || c.op.is_tuned() ||
         tracing::enabled.load(std::memory_order_relaxed);
}
// `rejected`: how many kernels at the beginning of the list are known to reject the call.
inline const Kernel& choose(const Kernels& kernels, const Call& c, Plan& plan, size_t rejected = 0) {
  if (is_watched(c)) [[unlikely]]
    return choose_watched(kernels, c, plan);
  for (size_t i = rejected; i < kernels.size(); ++i) {
    const Kernel& k = kernels[i];
    if (!k.objection(c, plan) && (!k.plans() || plan.workspace <= workspace_limit())) return k;
  }
  no_kernel(c, kernels);
}

// Runs a kernel of a call whose results have memory, after the values that it reads are computed.
void run_kernel(const Call& c);

void run_planned(const Kernel& k, const Call& c, const Plan& plan);  // with the workspace it asked for

inline void run(const Kernel& k, const Call& c, const Plan& plan) {
  if (k.plans()) [[unlikely]]
    return run_planned(k, c, plan);
  k.run(c);
}

}  // namespace strata
