// What the layers of a step say, from its spans; for journey.cpp.
#pragma once
#include <map>

#include "cuda/vgpu/device.h"
#include "record/op.h"
#include "system/explain/journey.h"
#include "system/trace/trace.h"

namespace strata::journey {

struct LaunchSeen {
  uint32_t span;
  int32_t device;  // the span of the kernel on the device; -1: not timed
  const cuda::vgpu::Counters* counters;
};

// The spans of one op, without those of the ops inside; numbers of events.
struct Seen {
  uint32_t span = 0;
  int32_t python = -1, backward = -1;  // the call from Python, and the backward step around it; -1: none
  int depth = 0;
  const OpRecord* record = nullptr;
  std::vector<uint32_t> choices, kernels, allocations, loops, driver;
  std::vector<LaunchSeen> launches;
};

class Describer {
 public:
  Describer(const tracing::Trace& trace, std::string device);
  Step describe(const Seen& s);
  std::map<uint32_t, std::vector<Explanation::Line>> asked;  // all kernels of a choice, by its event

 private:
  Layer call(const Seen& s) const;
  Layer binding(const Seen& s) const;
  Layer record(const Seen& s) const;
  Layer autograd(const Seen& s) const;
  Layer kernels(const Seen& s) const;
  Layer memory(const Seen& s) const;
  Layer launch(const Seen& s) const;
  Layer loops(const Seen& s) const;  // the launch layer of the CPU
  Layer driver(const Seen& s) const;
  Layer code(const Seen& s);
  Layer cost(const Seen& s);
  bool on_device(const Seen& s) const { return !s.launches.empty() || !s.driver.empty(); }
  double us(uint32_t event) const;
  const std::string& code_of(const std::string& kernel);
  double copy_us(double bytes);

  const tracing::Trace& trace_;
  const tracing::Recording& recording_;
  std::string device_;
  std::map<int64_t, double> copies_;
  double product_rate_ = -1;
};

}  // namespace strata::journey
