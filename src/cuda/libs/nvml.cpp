#include "cuda/libs/nvml.h"

#include "cuda/libs/libraries.h"

namespace strata::cuda::nvml {
namespace {

// The value that a function returns through a pointer; -1 without the function, or if it fails.
template <class T, class F, class... A> int64_t ask(F f, Device d, A... more) {
  T value{};
  return f && f(d, more..., &value) == 0 ? static_cast<int64_t>(value) : -1;
}

}  // namespace

bool load(const Library& library, Functions& f) {
  if (!library) return false;
  const auto find = [&]<class F>(F& function, const char* symbol) { function = library.find<F>(symbol); };
  find(f.init, "nvmlInit_v2");
  find(f.count, "nvmlDeviceGetCount_v2");
  find(f.by_index, "nvmlDeviceGetHandleByIndex_v2");
  find(f.by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
  find(f.name, "nvmlDeviceGetName");
  find(f.memory, "nvmlDeviceGetMemoryInfo");
  find(f.utilization, "nvmlDeviceGetUtilizationRates");
  find(f.temperature, "nvmlDeviceGetTemperature");
  find(f.power, "nvmlDeviceGetPowerUsage");
  find(f.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  find(f.clock, "nvmlDeviceGetClockInfo");
  find(f.max_clock, "nvmlDeviceGetMaxClockInfo");
  find(f.ecc_errors, "nvmlDeviceGetTotalEccErrors");
  find(f.mig_mode, "nvmlDeviceGetMigMode");
  find(f.link_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
  find(f.link_width, "nvmlDeviceGetCurrPcieLinkWidth");
  find(f.bus_width, "nvmlDeviceGetMemoryBusWidth");
  return f.init && f.count && f.by_index;
}

const Functions* functions() {
  static Functions f;
  static const bool usable = load(vendor_library(Vendor::Nvml).library, f) && f.init() == 0;
  return usable ? &f : nullptr;
}

Device find_device(const Functions& f, const std::string& bus_id, unsigned index) {
  Device d = nullptr;
  if (!bus_id.empty() && f.by_bus_id) return f.by_bus_id(bus_id.c_str(), &d) == 0 ? d : nullptr;
  return f.by_index(index, &d) == 0 ? d : nullptr;
}

Sample sample(const Functions& f, Device d) {
  Sample s;
  char name[128] = "";
  if (f.name && f.name(d, name, sizeof name) == 0) s.name = name;
  Memory memory{};
  if (f.memory && f.memory(d, &memory) == 0) {
    s.memory_total = static_cast<int64_t>(memory.total);
    s.memory_used = static_cast<int64_t>(memory.used);
  }
  Utilization busy{};
  if (f.utilization && f.utilization(d, &busy) == 0) {
    s.gpu_percent = static_cast<int>(busy.gpu);
    s.memory_percent = static_cast<int>(busy.memory);
  }
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  const auto watts = [](int64_t milliwatts) { return milliwatts < 0 ? -1.0 : static_cast<double>(milliwatts) / 1e3; };
  s.temperature_c = number(ask<unsigned>(f.temperature, d, 0));
  s.power_w = watts(ask<unsigned>(f.power, d));
  s.power_limit_w = watts(ask<unsigned>(f.power_limit, d));
  s.sm_mhz = number(ask<unsigned>(f.clock, d, 1));
  s.memory_mhz = number(ask<unsigned>(f.clock, d, 2));
  s.max_sm_mhz = number(ask<unsigned>(f.max_clock, d, 1));
  s.max_memory_mhz = number(ask<unsigned>(f.max_clock, d, 2));
  s.link_generation = number(ask<unsigned>(f.link_generation, d));
  s.link_width = number(ask<unsigned>(f.link_width, d));
  s.memory_bus_bits = number(ask<unsigned>(f.bus_width, d));
  s.uncorrected_errors = ask<unsigned long long>(f.ecc_errors, d, 1 /* uncorrected */, 0 /* since the last start */);
  unsigned now = 0, next = 0;
  s.mig = f.mig_mode && f.mig_mode(d, &now, &next) == 0 && now == 1;
  return s;
}

}  // namespace strata::cuda::nvml
