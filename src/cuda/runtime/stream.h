// Streams: queues of a device. Kernels are launched only through Stream::launch.
#pragma once
#include <cstdint>
#include <memory>

#include "cuda/runtime/grid.h"
#include "cuda/runtime/module.h"

namespace strata::cuda {

class STRATA_API Stream {
 public:
  static Stream current(Gpu& gpu);  // of this thread: the default one unless set_current was called
  static void set_current(const Stream& s);
  static void swap_current(const Stream& s);  // the same, but does not compute what this thread has deferred
  static Stream standard(Gpu& gpu);           // the default stream
  static Stream create(Gpu& gpu, int priority = 0);

  // Launches a kernel; `arguments` are its parameters, with exactly their types. Limits are checked first.
  template <class... A>
  void launch(const Function& f, Grid grid, Grid block, uint32_t shared_bytes, const A&... arguments) const {
    void* params[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
    launch_with(f, grid, block, shared_bytes, params);
  }
  // The same, with all blocks on the device at once: they may wait for each other. Fails if they do not fit.
  template <class... A>
  void launch_together(const Function& f, Grid grid, Grid block, uint32_t shared_bytes, const A&... arguments) const {
    void* params[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
    launch_with(f, grid, block, shared_bytes, params, true);
  }
  void launch_with(const Function& f, Grid grid, Grid block, uint32_t shared_bytes, void** params,
                   bool together = false) const;
  void synchronize() const;
  bool query() const;  // whether all work is done
  driver::CUstream handle() const { return handle_; }
  Gpu& gpu() const { return *gpu_; }
  bool operator==(const Stream& o) const { return gpu_ == o.gpu_ && handle_ == o.handle_; }

 private:
  Stream(Gpu& gpu, driver::CUstream handle, std::shared_ptr<void> owner)
      : gpu_(&gpu), handle_(handle), owner_(std::move(owner)) {}
  Gpu* gpu_;
  driver::CUstream handle_;
  std::shared_ptr<void> owner_;  // destroys the stream with its last user
};

// The stream for an op's kernels: the current one of the tensor's device.
STRATA_API Stream stream_of(Device d);

}  // namespace strata::cuda
