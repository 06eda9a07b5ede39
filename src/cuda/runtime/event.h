// Events: points in a stream that can be waited for and timed.
#pragma once
#include "cuda/runtime/stream.h"

namespace strata::cuda {

class STRATA_API Event {
 public:
  explicit Event(Gpu& gpu, bool timing = false);
  void record(const Stream& s) const;
  void wait_in(const Stream& s) const;  // later work of the stream waits for the event; the host does not
  void synchronize() const;
  bool query() const;                          // whether all work before it is done; true if it was not recorded
  float elapsed_ms(const Event& later) const;  // throws if either has no timing, or has not completed
  Gpu& gpu() const { return *gpu_; }
  driver::CUevent handle() const { return static_cast<driver::CUevent>(handle_.get()); }

 private:
  Gpu* gpu_;
  bool timing_;
  std::shared_ptr<void> handle_;
};

}  // namespace strata::cuda
