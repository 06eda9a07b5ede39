// The driver table over virtual GPUs: options, and what only a virtual device can tell.
#pragma once
#include <string>
#include <vector>

#include "cuda/driver/api.h"
#include "cuda/vgpu/device.h"

namespace strata::cuda::driver {

struct VgpuOptions {
  std::vector<std::string> profiles{"ampere"};  // one device each; names or JSON, see vgpu/profile.h
  bool delayed = false;     // work stays queued until somebody waits, and what may be reordered is: finds missing waits
  uint64_t seed = 0;        // of that order
  std::string checks = {};  // "memory,race,init,sync" or "all", see vgpu/checks.h; empty: as STRATA_VGPU_CHECK says
  bool check_memory = false;  // the same as "memory" among them
  bool model_cache = false;   // counters have the bytes of device memory, see vgpu/cache.h; slow
  uint64_t memory = 0;        // bytes per device instead of the profile's; 0: as the profile says
  // Warp instructions of one launch, then it ends with CUDA_ERROR_LAUNCH_TIMEOUT; 0: as STRATA_VGPU_LIMIT says, or
  // vgpu::kDefaultLimit.
  uint64_t instruction_limit = 0;
};

// Makes fresh virtual devices: all handles of an earlier call are void. The table is the same each time.
STRATA_API const Table& open_vgpu(const VgpuOptions& options = {});
// What the last call of this thread that failed had to say: the fault's kernel, thread and PTX line, the parser's message.
STRATA_API const std::string& vgpu_message();
// What launches of this thread are called in messages from now on: the op, say. Null or "": nothing.
STRATA_API void set_vgpu_label(const char* label);
// Counters of the launches that have run since the last call, in the order they ran; of the last 65536, if there were more.
STRATA_API std::vector<vgpu::Counters> take_vgpu_counters();

}  // namespace strata::cuda::driver
