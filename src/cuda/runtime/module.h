// Kernels by name: an image is loaded into a device when one of its kernels is first launched there.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cuda/runtime/kernel_cache.h"

namespace strata::cuda {

// Device code compiled at run time: PTX, or machine code for the device that runs it.
class STRATA_API Code {
 public:
  enum class Kind : uint8_t { Ptx, Machine };
  Code(std::string name, std::string bytes, Kind kind = Kind::Ptx);
  const std::string& name() const { return name_; }  // unique
  const std::string& bytes() const { return bytes_; }
  Kind kind() const { return kind_; }

 private:
  std::string name_, bytes_;
  Kind kind_;
};

class STRATA_API Modules {
 public:
  explicit Modules(Gpu& gpu) : gpu_(gpu), cache_(KernelCache::of(gpu.runtime.type)) {}
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;
  ~Modules();
  // Throws Internal if there is no such file or kernel. `code`: instead of an embedded file.
  driver::CUfunction find(const std::string& file, const std::string& kernel, const Code* code = nullptr);
  std::string name_of(driver::CUfunction function);  // of a function returned by find(); otherwise "(unknown)"

 private:
  driver::CUmodule load(const std::string& file);
  driver::CUmodule load(const Code& code);
  struct Loaded {
    driver::CUmodule module = nullptr;
    std::map<std::string, driver::CUfunction> functions;
  };
  Gpu& gpu_;
  const KernelCache cache_;
  std::mutex mutex_;
  std::map<std::string, Loaded> loaded_;
};

// A kernel: its .cu file or code, and its name. Caches where it was loaded.
class STRATA_API Function {
 public:
  Function(std::string file, std::string kernel) : file_(std::move(file)), kernel_(std::move(kernel)) {}
  Function(std::shared_ptr<const Code> code, std::string kernel)
      : file_(code->name()), kernel_(std::move(kernel)), code_(std::move(code)) {}
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  driver::CUfunction on(Gpu& gpu) const;
  const std::string& name() const { return kernel_; }

 private:
  static constexpr int kRemembered = 8;  // devices of each kind
  std::string file_, kernel_;
  std::shared_ptr<const Code> code_;  // null: embedded in libstrata
  mutable std::atomic<driver::CUfunction> loaded_[2][kRemembered] = {};
};

}  // namespace strata::cuda
