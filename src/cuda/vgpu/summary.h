// Counters of many launches, aggregated by op and kernel: where a training step spends its work.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cuda/vgpu/device.h"

namespace strata::cuda::vgpu {

struct STRATA_API KernelTotals {
  std::string op, kernel;
  uint64_t launches = 0;
  uint64_t warps = 0, warp_instructions = 0, thread_instructions = 0;
  uint64_t global_requests = 0, global_sectors = 0, shared_requests = 0, shared_passes = 0;
  double occupancy = 0;          // of a multiprocessor's threads, averaged over the warps
  std::string limiter;           // of the occupancy, for most of the warps
  double estimated_seconds = 0;  // see Estimate
  std::string bound;             // of that, for most of the time

  double simt_efficiency() const;
  double sectors_per_request() const;
  double passes_per_request() const;
};

class STRATA_API Summary {
 public:
  void add(const Counters& launch);
  bool empty() const { return kernels_.empty(); }
  std::vector<KernelTotals> kernels() const;  // slowest first, by the estimate
  KernelTotals total() const;                 // of all kernels
  // A table: the `most` slowest kernels, the others in one line, the total, and an explanation of the columns.
  std::string to_text(size_t most) const;

 private:
  struct Sums {
    KernelTotals totals;  // occupancy: the sum over the warps
    std::map<std::string, double> limiters, bounds;
    void add(const Sums& o);
    KernelTotals result() const;
  };
  Sums sum(const std::vector<KernelTotals>& some) const;
  std::map<std::pair<std::string, std::string>, Sums> kernels_;  // by op and kernel
};

}  // namespace strata::cuda::vgpu
