// Events: marks in a stream that can be waited for and timed.
#pragma once
#include "cuda/runtime/stream.h"

namespace strata::cuda {

class STRATA_API Event {
 public:
  explicit Event(Gpu& gpu, bool timing = false);
  void record(const Stream& s) const;
  void wait_in(const Stream& s) const;  // what the stream does next waits for the event; the host does not
  void synchronize() const;
  bool query() const;                          // whether all work before it is done; true before it was recorded
  float elapsed_ms(const Event& later) const;  // throws where either was made without timing, or has not come
  Gpu& gpu() const { return *gpu_; }
  driver::CUevent handle() const { return static_cast<driver::CUevent>(handle_.get()); }

 private:
  Gpu* gpu_;
  bool timing_;
  std::shared_ptr<void> handle_;
};

}  // namespace strata::cuda
