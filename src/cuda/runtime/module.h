// Kernels by name: images are loaded into a device when a kernel of theirs is first launched there.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "cuda/runtime/kernel_cache.h"

namespace strata::cuda {

class STRATA_API Modules {
 public:
  explicit Modules(Gpu& gpu) : gpu_(gpu), cache_(KernelCache::of(gpu.runtime.type)) {}
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;
  ~Modules();
  // Throws Internal where there is no such file or kernel.
  driver::CUfunction find(const std::string& file, const std::string& kernel);
  std::string name_of(driver::CUfunction function);  // of one that find() gave; else "(unknown)"

 private:
  driver::CUmodule load(const std::string& file);
  struct Loaded {
    driver::CUmodule module = nullptr;
    std::map<std::string, driver::CUfunction> functions;
  };
  Gpu& gpu_;
  const KernelCache cache_;
  std::mutex mutex_;
  std::map<std::string, Loaded> loaded_;
};

// A kernel: the file of cuda/kernels it stands in, and its name. Remembers where it was loaded.
class STRATA_API Function {
 public:
  Function(std::string file, std::string kernel) : file_(std::move(file)), kernel_(std::move(kernel)) {}
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  driver::CUfunction on(Gpu& gpu) const;
  const std::string& name() const { return kernel_; }

 private:
  static constexpr int kRemembered = 8;  // devices of each kind
  std::string file_, kernel_;
  mutable std::atomic<driver::CUfunction> loaded_[2][kRemembered] = {};
};

}  // namespace strata::cuda
