// The driver table over virtual GPUs: options, and functions that only a virtual device has.
#pragma once
#include <string>
#include <vector>

#include "cuda/driver/api.h"
#include "cuda/vgpu/device.h"

namespace strata::cuda::driver {

struct VgpuOptions {
  std::vector<std::string> profiles{"ampere"};  // one device each; names or JSON, see vgpu/profile.h
  bool delayed = false;  // work stays queued until the host waits, and runs in any allowed order: finds missing waits
  uint64_t seed = 0;     // of that order
  std::string checks = {};    // "memory,race,init,sync" or "all", see vgpu/checks.h; empty: from STRATA_VGPU_CHECK
  bool check_memory = false;  // adds "memory" to the checks
  bool model_cache = false;   // also count bytes of device memory, see vgpu/cache.h; slow
  uint64_t memory = 0;        // bytes per device instead of the profile's; 0: as in the profile
  // Limit of warp instructions per launch, which then ends with CUDA_ERROR_LAUNCH_TIMEOUT; 0: from STRATA_VGPU_LIMIT,
  // or vgpu::kDefaultLimit.
  uint64_t instruction_limit = 0;
};

// Creates new virtual devices and invalidates all handles of an earlier call. The table is the same each time.
STRATA_API const Table& open_vgpu(const VgpuOptions& options = {});
// The message of this thread's last failed call: the fault's kernel, thread and PTX line, or the parser's message.
STRATA_API const std::string& vgpu_message();
// Labels this thread's launches in messages, for example with the op. Null or "": no label.
STRATA_API void set_vgpu_label(const char* label);
// Counters of the launches since the last call, in the order they ran; at most the last 65536.
STRATA_API std::vector<vgpu::Counters> take_vgpu_counters();

}  // namespace strata::cuda::driver
