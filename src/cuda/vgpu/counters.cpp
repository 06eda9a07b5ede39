// Counters as text.
#include <algorithm>

#include "base/error.h"
#include "cuda/vgpu/device.h"

namespace strata::cuda::vgpu {

const char* name_of(Class c) {
  static constexpr const char* kNames[] = {"int",   "f32",    "f64",      "f16",     "special", "mov",
                                           "cvt",   "pred",   "control",  "global",  "shared",  "local",
                                           "param", "atomic", "exchange", "barrier", "mma"};
  static_assert(std::size(kNames) == kClasses);
  return kNames[static_cast<size_t>(c)];
}

std::string report(const Counters& c) {
  std::string out = fmt::format(
    "{}: {} blocks, {} warps, {} warp instructions, {} thread instructions, SIMT efficiency {:.1f}%\n"
    "  branches {} ({} divergent), barriers {}, atomics {} ({} on the same address)\n"
    "  device memory {} requests of {:.2f} sectors, shared memory {} requests of {:.2f} passes\n"
    "  occupancy {} blocks per multiprocessor, limited by {}\n  mix:",
    c.kernel, c.blocks, c.warps, c.warp_instructions, c.thread_instructions, 100 * c.simt_efficiency(), c.branches,
    c.divergent_branches, c.barriers, c.atomics, c.atomic_conflicts, c.global_requests, c.sectors_per_request(),
    c.shared_requests, c.passes_per_request(), c.occupancy.blocks, c.occupancy.limiter);
  for (size_t k = 0; k < kClasses; ++k)
    if (c.mix[k])
      out += fmt::format(" {} {:.1f}%", name_of(static_cast<Class>(k)),
                         100.0 * static_cast<double>(c.mix[k]) / static_cast<double>(c.warp_instructions));
  if (c.unmet)
    out += fmt::format("\n  {} warp-wide instructions ran without all lanes they name: undefined on a card", c.unmet);
  return out + "\n";
}

}  // namespace strata::cuda::vgpu
