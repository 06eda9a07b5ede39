// Measured peaks: copies and products with the kernels that programs get.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "strata/ops.h"
#include "system/devices/sources.h"
#include "tensor/device_hooks.h"

namespace strata::devices {
namespace {

using Clock = std::chrono::steady_clock;

// Seconds of the fastest of several runs, within about `budget` seconds.
double fastest(const std::function<void()>& run, double budget) {
  run();
  double best = 1e30, spent = 0;
  for (int i = 0; i < 100 && (i < 3 || spent < budget); ++i) {
    const auto begin = Clock::now();
    run();
    const double s = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, s);
    spent += s;
  }
  return best;
}

struct Sizes {
  int64_t copy, product;  // elements; rows and columns
  int repeats;            // launches between two waits
};
Sizes sizes_of(Device d) {
  if (d.type == DeviceType::Cuda) return {int64_t{1} << 28, 8192, 8};
  if (d.type == DeviceType::Vgpu) return {int64_t{1} << 16, 128, 1};
  return {int64_t{1} << 24, 1024, 1};
}

double time_of(Device d, int repeats, const std::function<void()>& run) {
  const auto all = [&] {
    for (int i = 0; i < repeats; ++i) run();
    if (d.type != DeviceType::Cpu) device_hooks.synchronize(d);
  };
  return fastest(all, d.type == DeviceType::Cpu ? 0.15 : 0.1) / repeats;
}

double copy_speed(Device d, int64_t elements, int repeats) {
  const Tensor from = zeros({elements}, DType::F32, d), to = zeros({elements}, DType::F32, d);
  return 8.0 * static_cast<double>(elements) / time_of(d, repeats, [&] { copy_(to, from); });
}

double product_speed(Device d, DType dtype) {
  const Sizes s = sizes_of(d);
  const Tensor a = full({s.product, s.product}, 1, dtype, d), b = full({s.product, s.product}, 1, dtype, d);
  const double n = static_cast<double>(s.product);
  return 2 * n * n * n / time_of(d, s.repeats, [&] { matmul(a, b); });
}

// The peak that a product of this dtype is compared with: that of tensor cores, if there are any and they compute it.
std::string peak_of(const Info& info, DType t) {
  const std::string name = info_of(t).name;
  const std::string tensor = name + " (tensor cores)";
  for (const Peak& p : info.peaks)
    if (p.what == tensor) return tensor;
  return name;
}

// One core copies within each cache.
void measure_caches(Info& info) {
  for (MemoryLevel& level : info.memory) {
    const size_t half = std::min<size_t>(level.bytes / 4, size_t{64} << 20);
    if (half < 1024) continue;
    std::vector<char> a(half, 1), b(half, 2);
    const int repeats = static_cast<int>(std::max<size_t>(1, (size_t{16} << 20) / half));
    volatile char keep = 0;
    const double s = fastest(
      [&] {
        for (int i = 0; i < repeats; ++i) {
          std::memcpy(b.data(), a.data(), half);
          keep = b[static_cast<size_t>(i) % half];
        }
      },
      0.02);
    (void)keep;
    level.measured = 2.0 * static_cast<double>(half) * repeats / s;
  }
}

}  // namespace

double copy_rate(Device d, int64_t bytes) {
  const int64_t elements = std::clamp<int64_t>(bytes / 8, 1, sizes_of(d).copy);
  const int repeats =
    d.type == DeviceType::Vgpu ? 1 : static_cast<int>(std::clamp<int64_t>((1 << 22) / elements, 1, 64));
  return copy_speed(d, elements, repeats);
}
double product_rate(Device d, DType t) { return product_speed(d, t); }

void measure_into(Info& info) {
  const Device d = device_from_name(info.device);
  const auto set = [&](const std::string& what, double speed) {
    for (Peak& p : info.peaks)
      if (p.what == what) {
        p.measured = speed;
        return;
      }
    info.peaks.push_back({what, what == "copy" ? "B/s" : "FLOP/s", 0, speed});
  };
  for (const DType t : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    try {
      set(peak_of(info, t), product_speed(d, t));
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::NotImplemented && e.kind() != ErrorKind::OutOfMemory) throw;
    }
  }
  set("copy", copy_speed(d, sizes_of(d).copy, sizes_of(d).repeats));
  if (d.type == DeviceType::Cpu) measure_caches(info);
}

}  // namespace strata::devices
