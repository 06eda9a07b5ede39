// Autocast: inside a scope, ops run in the dtype that their policy (OpRecord::autocast_policy) chooses. The state
// belongs to the thread. Functions have the names of at::autocast.
#pragma once
#include <optional>

#include "record/op.h"

namespace strata::autocast {

STRATA_API bool is_available(DeviceType type);  // cpu, cuda and vgpu
STRATA_API bool is_autocast_enabled(DeviceType type);
STRATA_API void set_autocast_enabled(DeviceType type, bool enabled);
// The dtype of ops with policy Lower: bfloat16 on the CPU, float16 on devices, unless set.
STRATA_API DType get_autocast_dtype(DeviceType type);
STRATA_API void set_autocast_dtype(DeviceType type, DType dtype);

// Cast parameters are kept until the outermost scope ends, so that a weight that is used several times is cast once.
// Kept are casts of float32 leaves that require a gradient; a write to the leaf, except through
// .data, makes the next use cast again.
STRATA_API bool is_autocast_cache_enabled();
STRATA_API void set_autocast_cache_enabled(bool enabled);
STRATA_API void clear_cache();
// The number of open scopes. The scope that decrements it to 0 clears the cache.
STRATA_API int increment_nesting();
STRATA_API int decrement_nesting();

// Autocast for one device type until the end of the block.
class STRATA_API Scope {
 public:
  explicit Scope(DeviceType type, std::optional<DType> dtype = {}, bool enabled = true,
                 std::optional<bool> cache_enabled = {});
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  DeviceType type_;
  bool enabled_before_, cache_before_;
  DType dtype_before_;
};

// Switches autocast off for all device types: inside ops whose arguments have been cast, and in backward passes, which
// use the dtypes of the forward pass.
struct Off {
  Off() : scope(thread_state.autocast, uint8_t{0}) {}
  Scoped<uint8_t> scope;
};

// Used by the pipeline when autocast is on: runs the call with the arguments that the policy of the op asks for, and
// without autocast inside. False, and nothing was done, for a composite without a policy: the ops inside have theirs.
bool call_with_casts(const OpRecord& op, const Args& args, Tensor* outs);

}  // namespace strata::autocast
