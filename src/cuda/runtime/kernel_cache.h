// Machine code that the driver made from PTX, kept in files: the next process need not wait for it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "cuda/runtime/runtime.h"

namespace strata::cuda {

class STRATA_API KernelCache {
 public:
  // STRATA_CACHE_DIR, else strata under XDG_CACHE_HOME or ~/.cache. STRATA_CUDA_CACHE=0 keeps nothing; the virtual GPU, which
  // runs PTX itself, keeps something only with STRATA_CUDA_CACHE=1.
  static KernelCache of(DeviceType type);
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}  // "": keeps nothing

  bool keeps() const { return !folder_.empty(); }
  // Under this name code is kept: of the PTX, the architecture and the driver, since each decides about it.
  static std::string key(std::string_view ptx, int major, int minor, int driver_version);
  std::optional<std::string> find(
    const std::string& key) const;  // nothing: no such file, or not one that store() wrote whole
  void store(const std::string& key,
             std::string_view code) const noexcept;  // a folder that cannot be written keeps nothing

 private:
  std::string path(const std::string& key) const { return folder_ + "/" + key + ".kernel"; }
  std::string folder_;
};

// The module of PTX that the driver compiles for the device, or that the cache has. `name` is of the file, for messages: an
// error has the compiler's log, the architectures that were built and the device's.
STRATA_API driver::CUmodule load_ptx(Gpu& gpu, const KernelCache& cache, const std::string& name, std::string_view ptx);

}  // namespace strata::cuda
