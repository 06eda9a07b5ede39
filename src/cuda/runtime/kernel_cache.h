// Caches machine code that the driver compiled from PTX in files, so that the next process need not wait for it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "cuda/runtime/runtime.h"

namespace strata::cuda {

// The folder of all caches: STRATA_CACHE_DIR, otherwise strata under XDG_CACHE_HOME or ~/.cache. "" if there is none or
// STRATA_CUDA_CACHE is 0.
STRATA_API std::string cache_folder();

class STRATA_API KernelCache {
 public:
  // In cache_folder(). For the virtual GPU, which runs PTX directly, it is enabled only with STRATA_CUDA_CACHE=1.
  static KernelCache of(DeviceType type);
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}  // "": disabled

  bool keeps() const { return !folder_.empty(); }
  // The cache key: depends on the PTX, the architecture and the driver.
  static std::string key(std::string_view ptx, int major, int minor, int driver_version);
  std::optional<std::string> find(const std::string& key) const;  // empty: no such file, or an incomplete one
  void store(const std::string& key,
             std::string_view code) const noexcept;  // does nothing if the folder is not writable

 private:
  std::string path(const std::string& key) const { return folder_ + "/" + key + ".kernel"; }
  std::string folder_;
};

// Loads a module from PTX, compiled by the driver or from the cache. `name` is the file, for messages: an error has the
// compiler's log, the built architectures and that of the device.
STRATA_API driver::CUmodule load_ptx(Gpu& gpu, const KernelCache& cache, const std::string& name, std::string_view ptx);

}  // namespace strata::cuda
