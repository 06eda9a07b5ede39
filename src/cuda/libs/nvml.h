// The part of NVML, NVIDIA's library for watching GPUs, that Strata uses. Comes with the driver; opened at run time.
#pragma once
#include <cstdint>
#include <string>

#include "base/library.h"

namespace strata::cuda::nvml {

using Device = void*;
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;  // percent of the last sampling period
};
static_assert(sizeof(Memory) == 24 && sizeof(Utilization) == 8);

// init, count and the handles must be there; the rest depends on the driver and the GPU.
struct Functions {
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  int (*by_bus_id)(const char*, Device*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;        // in mW
  int (*power_limit)(Device, unsigned*) = nullptr;  // in mW
  int (*clock)(Device, int, unsigned*) = nullptr;   // in MHz; 0: graphics, 1: SM, 2: memory
  int (*max_clock)(Device, int, unsigned*) = nullptr;
  int (*ecc_errors)(Device, int, int, unsigned long long*) = nullptr;
  int (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;
  int (*link_generation)(Device, unsigned*) = nullptr;
  int (*link_width)(Device, unsigned*) = nullptr;
  int (*bus_width)(Device, unsigned*) = nullptr;  // of the memory, in bits
};

// Whether the library has what is needed.
STRATA_API bool load(const Library& library, Functions& f);
// Of this machine, initialized at the first call; null if it is not available.
STRATA_API const Functions* functions();

// What a GPU does now; -1: the driver does not tell.
struct Sample {
  std::string name;
  int64_t memory_total = -1, memory_used = -1;  // bytes
  int gpu_percent = -1, memory_percent = -1, temperature_c = -1;
  double power_w = -1, power_limit_w = -1;
  int sm_mhz = -1, memory_mhz = -1, max_sm_mhz = -1, max_memory_mhz = -1;
  int link_generation = -1, link_width = -1, memory_bus_bits = -1;
  int64_t uncorrected_errors = -1;
  bool mig = false;
};
STRATA_API Sample sample(const Functions& f, Device device);
// The device of a PCI address, "0000:01:00.0", or of a number if the address is empty. Null if there is none.
STRATA_API Device find_device(const Functions& f, const std::string& bus_id, unsigned index);

}  // namespace strata::cuda::nvml
