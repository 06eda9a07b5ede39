// GPUs: what the driver tells, and the peaks that follow from it.
#include <fmt/core.h>

#include "base/error.h"
#include "cuda/libs/nvml.h"
#include "cuda/runtime/runtime.h"
#include "cuda/vgpu/profile.h"
#include "system/devices/sources.h"

namespace strata::devices {
namespace {

int attribute(const cuda::Gpu& gpu, int which) {
  int value = 0;
  return gpu.table().cuDeviceGetAttribute(&value, which, gpu.handle) == cuda::driver::kSuccess ? value : 0;
}

// Bytes per second of device memory: two transfers per clock. The virtual GPU has it in its profile.
double memory_bandwidth(const cuda::Gpu& gpu) {
  if (gpu.runtime.type == DeviceType::Vgpu) {
    const std::string& name = gpu.properties.name;
    for (const char* known : {"turing", "ampere", "hopper"})
      if (name.find(known) != name.npos) return cuda::vgpu::profile_of(known).bandwidth;
    return 0;
  }
  return 2e3 * attribute(gpu, 36 /* memory clock in kHz */) * attribute(gpu, 37 /* width of its bus in bits */) / 8;
}

void add_peaks(Info& info, const cuda::Properties& p, double bandwidth) {
  const Rates* r = rates_of(10 * p.major + p.minor);
  const auto add = [&](const char* what, int rate, const char* unit = "FLOP/s") {
    if (rate) info.peaks.push_back({what, unit, 2e3 * rate * p.multiprocessors * p.clock_khz, 0});
  };
  if (r) {
    add("float64", r->f64);
    add("float32", r->f32);
    add("float16", r->f16);
    add("float64 (tensor cores)", r->tensor_f64);
    add("tf32 (tensor cores)", r->tensor_tf32);
    add("float16 (tensor cores)", r->tensor_f16);
    if (p.major >= 8) add("bfloat16 (tensor cores)", r->tensor_f16);
    add("float8 (tensor cores)", r->tensor_f8);
    add("int8 (tensor cores)", r->tensor_i8, "OP/s");
  }
  info.peaks.push_back({"copy", "B/s", bandwidth, 0});  // bytes read and written
}

Info info_of(cuda::Gpu& gpu) {
  const cuda::Properties& p = gpu.properties;
  const Rates* r = rates_of(10 * p.major + p.minor);
  Info info;
  info.device = to_string(gpu.device());
  info.name = p.name;
  const auto add = [&](const char* name, const std::string& text, std::optional<double> number = {}) {
    info.properties.push_back({name, text, number});
  };
  const auto count = [&](const char* name, int n) {
    if (n) add(name, std::to_string(n), n);
  };
  add("compute_capability", fmt::format("{}.{}", p.major, p.minor));
  if (r) add("generation", r->generation);
  count("multiprocessors", p.multiprocessors);
  if (r) count("cores", r->f32 * p.multiprocessors);
  if (r) count("tensor_cores", r->tensor_cores * p.multiprocessors);
  if (p.clock_khz) add("clock_mhz", fmt::format("{} MHz", p.clock_khz / 1000), p.clock_khz / 1000.0);
  add("memory_gib", gib(p.total_memory), static_cast<double>(p.total_memory) / (1 << 30));
  count("memory_bus_bits", attribute(gpu, 37));
  int version = 0;
  if (gpu.runtime.type == DeviceType::Cuda && gpu.table().cuDriverGetVersion(&version) == cuda::driver::kSuccess)
    add("driver_cuda", fmt::format("{}.{}", version / 1000, version % 1000 / 10));
  count("warp_size", p.warp_size);
  count("threads_per_multiprocessor", p.max_threads_per_multiprocessor);
  count("threads_per_block", p.max_threads_per_block);
  if (r) add("peaks_from", r->source);
  const double clock = 1e3 * p.clock_khz;
  const auto level = [&](const char* name, int64_t bytes, int n, double bandwidth) {
    if (bytes > 0) info.memory.push_back({name, static_cast<uint64_t>(bytes), n, bandwidth, 0});
  };
  level("registers", int64_t{4} * p.registers_per_multiprocessor, p.multiprocessors, 0);
  level("shared memory", p.shared_per_multiprocessor, p.multiprocessors, 128 * clock * p.multiprocessors);
  level("L2 cache", p.l2_bytes, 1, 0);
  const double bandwidth = memory_bandwidth(gpu);
  level("device memory", static_cast<int64_t>(p.total_memory), 1, bandwidth);
  add_peaks(info, p, bandwidth);
  return info;
}

}  // namespace

std::vector<Info> gpu_infos() {
  std::vector<Info> all;
  for (const DeviceType type : {DeviceType::Cuda, DeviceType::Vgpu}) {
    if (const std::string why = cuda::Runtime::why_not(type); !why.empty()) {
      Info info;
      info.device = to_string(Device{type, -1});
      info.why_not = why;
      all.push_back(info);
      continue;
    }
    cuda::Runtime& runtime = cuda::Runtime::get(type);
    for (int i = 0; i < runtime.count(); ++i) {
      try {
        all.push_back(info_of(runtime[i]));
      } catch (const Error& e) {  // one that does not open does not hide the others
        Info info;
        info.device = to_string(Device{type, static_cast<int8_t>(i)});
        info.why_not = e.what();
        all.push_back(info);
      }
    }
  }
  return all;
}

std::vector<Load> gpu_loads() {
  std::vector<Load> all;
  const cuda::nvml::Functions* f = cuda::nvml::functions();
  unsigned count = 0;
  if (!f || f->count(&count) != 0) return all;
  for (unsigned i = 0; i < count; ++i) {
    const cuda::nvml::Device d = cuda::nvml::find_device(*f, "", i);
    if (!d) continue;
    const cuda::nvml::Sample s = cuda::nvml::sample(*f, d);
    Load l;
    l.device = fmt::format("gpu {}", i);  // by NVML's numbers, which CUDA_VISIBLE_DEVICES does not change
    l.percent = s.gpu_percent;
    l.memory_percent = s.memory_percent;
    l.memory_used = static_cast<double>(s.memory_used);
    l.memory_total = static_cast<double>(s.memory_total);
    l.watts = s.power_w;
    l.celsius = s.temperature_c;
    l.mhz = s.sm_mhz;
    all.push_back(l);
  }
  return all;
}

}  // namespace strata::devices
