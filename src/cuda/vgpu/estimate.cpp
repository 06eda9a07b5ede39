// Estimated time of a launch on a GPU of some profile: the slowest of a few simple bounds. Not a simulation.
#include <algorithm>
#include <cmath>

#include "cuda/vgpu/device.h"

namespace strata::cuda::vgpu {

namespace {
constexpr double kSchedulers = 4;     // warp instructions issued per clock and multiprocessor
constexpr double kOverhead = 2.5e-6;  // seconds from launch to end of an empty kernel
}  // namespace

Estimate estimate(const Counters& c, const Profile& p) {
  const auto warps_of = [&](Class k) { return static_cast<double>(c.mix[static_cast<size_t>(k)]); };
  const double clock = p.clock_khz * 1e3;
  // Blocks run in waves; the last one may leave multiprocessors idle, and so does a small grid.
  const double slots = std::max(1.0, static_cast<double>(c.occupancy.blocks)) * p.multiprocessors;
  const auto blocks = static_cast<double>(std::max<uint64_t>(c.blocks, 1));
  const double at_once = std::min(blocks, slots), busy = std::min(static_cast<double>(p.multiprocessors), at_once);
  const double waves = blocks / at_once;
  const double tail = std::ceil(waves) / waves;
  const auto per_clock = [&](double work, double rate) { return work / (rate * busy * clock) * tail; };
  const uint64_t moved = c.cache_modelled ? c.dram_read + c.dram_written : 32 * c.global_sectors;
  const std::pair<const char*, double> bounds[] = {
    {"issue", per_clock(static_cast<double>(c.warp_instructions), kSchedulers)},
    {"f32", per_clock(warps_of(Class::F32), p.f32_per_sm / 32.0)},
    {"f64", per_clock(warps_of(Class::F64), p.f64_per_sm / 32.0)},
    {"special functions", per_clock(warps_of(Class::Special), p.special_per_sm / 32.0)},
    {"shared memory", per_clock(static_cast<double>(c.shared_passes), 1)},
    {"device memory", static_cast<double>(moved) / p.bandwidth},
  };
  std::pair<const char*, double> slowest{"launch", kOverhead};
  for (const auto& bound : bounds)
    if (bound.second > slowest.second) slowest = bound;
  return {std::max(slowest.second, kOverhead) + (slowest.second > kOverhead ? kOverhead : 0), slowest.first};
}

}  // namespace strata::cuda::vgpu
