// Runtime: the devices behind one driver table. `cuda` (libcuda) and `vgpu` (the virtual GPU) are two runtimes over the same code.
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

// One device: its primary context and what belongs to it. Lives until the process ends, so that memory may be given back at
// any time, in any order. In tests alone it is destroyed, after the last of its tensors, and gives everything back.
class STRATA_API Gpu {
 public:
  Gpu(Runtime& owner, int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Makes the context current on this thread. Throws where the device has died, or the process is a fork of the one that
  // opened it.
  void activate() const;
  // The same to destroy what belongs to the context, on a dead device, too: never throws. False in a fork, where there is
  // nothing to destroy.
  bool enter() const noexcept;
  // Throws for a code other than success: what was being done, the code's name and text. One that the device does not
  // survive is remembered, with the op that ran.
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
  const int place;  // where tables of each kind of device remember this one; one that tests made has none
  driver::CUdevice handle = 0;
  driver::CUcontext context = nullptr;
  Properties properties;
  std::unique_ptr<Allocator> allocator;
  std::unique_ptr<Modules> modules;
  std::atomic<uint64_t> peers{0};             // devices whose memory it has tried to reach, a bit each
  std::atomic<FaultReport*> faults{nullptr};  // see faults.h; null: no kernel reports yet
  uint64_t fault_address = 0;                 // of the same, for kernels

 private:
  struct Bare {};
  Gpu(Runtime& owner, int ordinal, Bare);
  mutable std::mutex mutex_;
  mutable std::string cause_;  // of its death
};

class STRATA_API Runtime {
 public:
  static Runtime& get(DeviceType type);         // opens the driver at the first call; throws where there is none
  static Runtime* opened(DeviceType type);      // null: nobody has asked yet, or it cannot be had
  static std::string why_not(DeviceType type);  // empty: it can be had
  static Gpu& gpu(Device d);                    // a device with its number, or the current one

  // In tests: what stands behind a device type from now on; returns what stood there. No tensor may outlive its runtime.
  static Runtime* replace(DeviceType type, Runtime* other);

  // `lasting`: it is never destroyed, so that kernels may remember what its devices have loaded.
  Runtime(DeviceType type, const driver::Table& table, bool lasting = false);
  int count() const { return static_cast<int>(gpus_.size()); }
  Gpu& operator[](int index);
  std::string describe(driver::CUresult code) const;  // "CUDA_ERROR_OUT_OF_MEMORY: out of memory"

  const DeviceType type;
  const driver::Table& table;
  const bool lasting;

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Gpu>> gpus_;       // opened when first used
  std::unique_ptr<std::atomic<Gpu*>[]> opened_;  // the same, to look at without the lock: every launch does
};

// Says which line of the program runs on this thread, where a binding can tell; it may wait for the binding's lock, so call it
// without locks of ours.
STRATA_API extern std::atomic<std::string (*)()> program_line;

// The device that a name without a number means, per thread and device type.
STRATA_API int current_index(DeviceType type);
STRATA_API void set_current_index(DeviceType type, int index);

}  // namespace strata::cuda
