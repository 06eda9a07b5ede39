// Counters as text.
#include <fmt/core.h>

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
  if (c.cache_modelled)
    out += fmt::format("\n  device memory, through the cache: {} bytes read, {} written", c.dram_read, c.dram_written);
  if (c.unmet)
    out += fmt::format("\n  {} warp-wide instructions ran without all lanes they name: undefined on a card", c.unmet);
  return out + "\n";
}

std::string to_text(const std::vector<Counters>& launches) {
  size_t width = 6;
  for (const auto& c : launches) width = std::max(width, c.kernel.size());
  std::string out = fmt::format("{:<{}} {:>10} {:>14} {:>7} {:>8} {:>8} {:>9} {:>10}\n", "kernel", width, "blocks",
                                "warp instr.", "SIMT", "sectors", "passes", "barriers", "DRAM bytes");
  for (const auto& c : launches)
    out += fmt::format("{:<{}} {:>10} {:>14} {:>6.1f}% {:>8.2f} {:>8.2f} {:>9} {:>10}\n", c.kernel, width, c.blocks,
                       c.warp_instructions, 100 * c.simt_efficiency(), c.sectors_per_request(), c.passes_per_request(),
                       c.barriers, c.cache_modelled ? std::to_string(c.dram_read + c.dram_written) : "-");
  return out;
}

}  // namespace strata::cuda::vgpu
