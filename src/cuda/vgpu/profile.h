// Device profiles: the limits of a GPU, and how many blocks of a kernel fit on one multiprocessor.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/api.h"

namespace strata::cuda::vgpu {

struct Profile {
  std::string name;
  int major = 8, minor = 0;  // compute capability
  int multiprocessors = 0, threads_per_sm = 0, blocks_per_sm = 0;
  int registers_per_sm = 65536;
  int shared_per_sm = 0, shared_per_block = 48 << 10, shared_optin = 0;  // bytes
  int f32_per_sm = 64, f64_per_sm = 32, special_per_sm = 16;             // operations per clock, for estimates
  int l2_bytes = 0, clock_khz = 0;
  uint64_t memory = 0;   // bytes of device memory; taken from the host on use
  double bandwidth = 0;  // bytes per second, for estimates
};

// "turing", "ampere", "hopper", or a JSON object with the fields above by name over one of them as "base".
STRATA_API Profile profile_of(std::string_view name_or_json);

struct Occupancy {
  int blocks = 0;            // per multiprocessor
  const char* limiter = "";  // "threads", "blocks", "registers" or "shared memory"
  double fraction = 0;       // of the maximum threads of a multiprocessor
};
STRATA_API Occupancy occupancy(const Profile& profile, uint32_t threads, uint32_t registers, uint32_t shared_bytes);

}  // namespace strata::cuda::vgpu
