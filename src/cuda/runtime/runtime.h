// Runtime: the devices of one driver table. `cuda` (libcuda) and `vgpu` (the virtual GPU) are two runtimes with the
// same code.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/driver/api.h"
#include "tensor/device.h"

namespace strata::cuda {

class Allocator;
class Modules;
class Runtime;
struct FaultReport;

struct Properties {
  std::string name;
  size_t total_memory = 0;
  int major = 0, minor = 0, multiprocessors = 0, warp_size = 32;
  int max_threads_per_block = 0, max_threads_per_multiprocessor = 0, registers_per_multiprocessor = 0;
  int shared_per_block = 0, shared_per_block_optin = 0, shared_per_multiprocessor = 0;
  int l2_bytes = 0, clock_khz = 0;
  int max_grid[3] = {}, max_block[3] = {};
};

// One device: its primary context and everything that belongs to it. Lives until the process ends, so that memory may
// be freed at any time, in any order. Only tests destroy it, after the last of its tensors; it then frees everything.
class STRATA_API Gpu {
 public:
  Gpu(Runtime& owner, int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Makes the context current on this thread. Throws if the device is dead, or the process was forked from the one that
  // opened it.
  void activate() const;
  // The same for destructors, also on a dead device: never throws. False in a forked process, where there is nothing to
  // destroy.
  bool enter() const noexcept;
  // Throws for a code other than success: what was attempted, the code's name and text. A fatal code is remembered,
  // with the op that ran.
  void check(driver::CUresult code, const char* what) const {
    if (code != driver::kSuccess) [[unlikely]]
      refuse(code, what);
  }
  [[noreturn]] void refuse(driver::CUresult code, const char* what) const;
  bool dead() const;
  Device device() const;
  const driver::Table& table() const;

  Runtime& runtime;
  const int index;
  const int place;  // index of this device in per-kernel tables; devices created by tests have none
  driver::CUdevice handle = 0;
  driver::CUcontext context = nullptr;
  Properties properties;
  std::unique_ptr<Allocator> allocator;
  std::unique_ptr<Modules> modules;
  std::atomic<uint64_t> peers{0};             // bit mask of devices whose memory it has tried to access
  std::atomic<FaultReport*> faults{nullptr};  // see faults.h; null: no kernel reports yet
  uint64_t fault_address = 0;                 // device address of the same

 private:
  struct Bare {};
  Gpu(Runtime& owner, int ordinal, Bare);
  mutable std::mutex mutex_;
  mutable std::string cause_;  // of the failure
};

class STRATA_API Runtime {
 public:
  static Runtime& get(DeviceType type);         // opens the driver at the first call; throws if it is not available
  static Runtime* opened(DeviceType type);      // null: not opened yet, or not available
  static std::string why_not(DeviceType type);  // empty: available
  static Gpu& gpu(Device d);                    // a device with its number, or the current one

  // For tests: replaces the runtime of a device type; returns the old one. No tensor may outlive its runtime.
  static Runtime* replace(DeviceType type, Runtime* other);

  // `lasting`: it is never destroyed, so that kernels may cache what its devices have loaded.
  Runtime(DeviceType type, const driver::Table& table, bool lasting = false);
  int count() const { return static_cast<int>(gpus_.size()); }
  Gpu& operator[](int index);
  std::string describe(driver::CUresult code) const;  // "CUDA_ERROR_OUT_OF_MEMORY: out of memory"

  const DeviceType type;
  const driver::Table& table;
  const bool lasting;

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Gpu>> gpus_;       // opened on first use
  std::unique_ptr<std::atomic<Gpu*>[]> opened_;  // the same, for lock-free access: every launch uses it
};

// Returns the program line that runs on this thread, if a binding provides it. It may wait for the binding's lock, so
// call it without holding our locks.
STRATA_API extern std::atomic<std::string (*)()> program_line;

// The device of a name without a number, per thread and device type.
STRATA_API int current_index(DeviceType type);
STRATA_API void set_current_index(DeviceType type, int index);

}  // namespace strata::cuda
