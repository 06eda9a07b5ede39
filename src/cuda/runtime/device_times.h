// Times of kernels on the device, while a trace is recorded: an event before and one after each launch. They are read when
// the recording stops.
#pragma once
#include <cstdint>
#include <optional>

#include "base/trace.h"
#include "cuda/runtime/runtime.h"

namespace strata::cuda {

// Covers the launch of work into a stream. Nothing happens unless the span, of the launch, is active.
class DeviceTime {
 public:
  DeviceTime(const tracing::Span& span, Gpu& gpu, driver::CUstream stream, const char* name) {
    if (span.active()) [[unlikely]]
      begin(gpu, stream, name);
  }
  ~DeviceTime() {
    if (gpu_) [[unlikely]]
      end();
  }
  DeviceTime(const DeviceTime&) = delete;
  DeviceTime& operator=(const DeviceTime&) = delete;

 private:
  void begin(Gpu& gpu, driver::CUstream stream, const char* name);
  void end();
  Gpu* gpu_ = nullptr;
  driver::CUstream stream_ = nullptr;
  const char* name_ = nullptr;
  driver::CUevent begin_ = nullptr;
};

}  // namespace strata::cuda
