// The virtual GPU: loads PTX and runs its kernels on the CPU, with counters per launch.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "cuda/vgpu/memory.h"
#include "cuda/vgpu/profile.h"
#include "cuda/vgpu/warp.h"

namespace strata::cuda::vgpu {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

// Estimated time of a launch on a GPU of the profile: the slowest of a few simple bounds. Not a measurement: latency,
// L1 caches and tensor cores are not modelled.
struct Estimate {
  double seconds = 0;
  const char* bound = "";  // "issue", "f32", "f64", "special functions", "shared memory", "device memory" or "launch"
};

// Counters of a launch. A warp instruction is one instruction for up to 32 threads.
//   mix                 warp instructions by Class (name_of)
//   divergent_branches  branches that some lanes of a warp take and others do not
//   global_sectors      32-byte sectors of device memory touched by warps' requests; the minimum is 4 for 32 floats
//   shared_passes       passes over the 32 banks; more than one per request (of up to 4 bytes a lane) is a bank
// conflict
//   atomic_conflicts    lanes of a warp that access the same address as another
//   dram_read, _written bytes between the L2 cache and device memory, if Launch::model_cache is set
struct Counters {
  std::string kernel, op;  // op: Launch::label
  uint64_t blocks = 0, warps = 0;
  uint64_t warp_instructions = 0, thread_instructions = 0;
  std::array<uint64_t, kClasses> mix{};  // warp instructions by Class
  uint64_t branches = 0, divergent_branches = 0, barriers = 0, atomics = 0, atomic_conflicts = 0;
  uint64_t unmet = 0;  // warp-wide instructions without all of their named lanes: undefined on a GPU
  uint64_t global_requests = 0, global_sectors = 0, shared_requests = 0, shared_passes = 0;
  bool cache_modelled = false;
  uint64_t dram_read = 0, dram_written = 0;
  Occupancy occupancy;
  Estimate estimated;               // for the profile it ran with
  double simt_efficiency() const {  // active threads per warp instruction, out of 32
    return warp_instructions
             ? static_cast<double>(thread_instructions) / (32.0 * static_cast<double>(warp_instructions))
             : 1;
  }
  double sectors_per_request() const {
    return global_requests ? static_cast<double>(global_sectors) / static_cast<double>(global_requests) : 0;
  }
  double passes_per_request() const {
    return shared_requests ? static_cast<double>(shared_passes) / static_cast<double>(shared_requests) : 0;
  }
};
STRATA_API const char* name_of(Class c);
STRATA_API std::string report(const Counters& counters);                // a few lines of text
STRATA_API std::string to_text(const std::vector<Counters>& launches);  // a table, a line for each launch
STRATA_API Estimate estimate(const Counters& counters, const Profile& profile);

// Some minutes of work on one core: ends kernels with infinite loops.
inline constexpr uint64_t kDefaultLimit = uint64_t{1} << 34;

struct Launch {
  Dim3 grid, block;
  uint32_t dynamic_shared = 0;
  Dim3 cluster = {0, 0, 0};        // blocks that run together; 0: as the kernel says
  bool cooperative = false;        // all blocks are resident at the same time
  uint32_t checks = 0;             // of checks.h
  bool model_cache = false;        // count bytes of device memory with a cache model; blocks then run in order
  bool unordered_atomics = false;  // run blocks concurrently even if float atomics then sum in another order
  // Limit of warp instructions per launch, which then ends with a Fault of code kLaunchTimeout; 0: none.
  uint64_t instruction_limit = kDefaultLimit;
  std::string label = {};  // the launching op, for messages
};

namespace ptx {
struct Module;
}

class STRATA_API Module {
 public:
  Module(std::string_view text, Memory& memory);  // throws Error for invalid PTX
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  const Program* kernel(const std::string& name);  // decoded on first use; null: there is none
  std::vector<std::string> kernels() const;
  struct Variable {
    uint64_t address, bytes;
  };
  const Variable* variable(const std::string& name) const;

 private:
  Memory& memory_;
  std::shared_ptr<const ptx::Module> parsed_;
  std::map<std::string, std::unique_ptr<Program>> programs_;
  std::map<std::string, Variable> variables_;
};

// Runs all blocks. `params` has a pointer to each argument. Throws Fault if the kernel faults, Error(Value) for a
// launch beyond the profile's limits.
STRATA_API Counters run(const Program& program, const Profile& profile, const Memory& memory, const Launch& launch,
                        const void* const* params);

}  // namespace strata::cuda::vgpu
