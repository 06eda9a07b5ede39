// Host cost of calls without waiting for the device, from C++: an op, a launch through the runtime, a bare
// cuLaunchKernel through the driver table, and a tensor from the allocator. Prints medians as JSON rows, which
// bench/gpu.py adds to its own.
//
// enqueue_bench [--device cuda|vgpu] [--small]    --small: few calls, to show that the cases run
//
// On vgpu a launch runs its kernel before it returns, so the numbers there are not enqueue times.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "cuda/pointwise/pointwise_params.h"
#include "cuda/runtime/stream.h"
#include "strata/ops.h"

namespace strata {
namespace {

struct Bench {
  Device device;
  bool small;
  nlohmann::json rows = nlohmann::json::array();

  // Empties the queue between batches: a full one would make the host wait, which is not measured here.
  template <class F> void measure(const char* name, double floor, F f) {
    const int batch = small ? 5 : 64, batches = small ? 3 : 401;
    std::vector<double> times;
    f();
    for (int b = 0; b < batches; ++b) {
      cuda::stream_of(device).synchronize();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < batch; ++i) f();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / batch);
    }
    cuda::stream_of(device).synchronize();
    std::nth_element(times.begin(), times.begin() + batches / 2, times.end());
    const double seconds = times[static_cast<size_t>(batches / 2)];
    nlohmann::json row{
      {"case", name}, {"unit", "us"}, {"seconds", seconds}, {"strata", 1e6 * seconds}, {"floor", nullptr}};
    if (floor > 0) {
      row["floor"] = floor;
      row["holds"] = 1e6 * seconds <= floor;
    }
    rows.push_back(row);
  }
};

int run(const std::string& name, bool small) {
  const Device device = require_available(device_from_name(name));
  STRATA_CHECK(device.type == DeviceType::Cuda || device.type == DeviceType::Vgpu, Value,
               "--device {}: expected cuda or vgpu", name);
  Bench bench{device, small};
  const Tensor a = to(full({16}, 1.0), std::optional(device)), b = to(full({16}, 2.0), std::optional(device));
  const Device resolved = a.device();
  bench.measure("C++ enqueue of an add of 16 elements", 2.0, [&] { add(a, b); });

  const cuda::Function kernel("arithmetic", "Add_f32");  // the same kernel, without work
  const cuda::PointwiseParams nothing{};
  const cuda::Stream stream = cuda::stream_of(resolved);
  bench.measure("C++ launch through the runtime", 0, [&] { stream.launch(kernel, {1}, {256}, 0, nothing); });

  cuda::Gpu& gpu = stream.gpu();
  const cuda::driver::CUfunction function = kernel.on(gpu);
  void* params[] = {const_cast<cuda::PointwiseParams*>(&nothing), nullptr};
  bench.measure("C++ bare cuLaunchKernel", 0, [&] {
    gpu.check(gpu.table().cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, stream.handle(), params, nullptr), "launch");
  });
  bench.measure("C++ empty({1000})", 0.6, [&] { empty({1000}, std::nullopt, resolved); });
  std::cout << bench.rows.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  std::string device = "cuda";
  bool small = false;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--small") small = true;
    else if (word == "--device" && k + 1 < argc) device = argv[++k];
    else {
      std::cerr << "usage: enqueue_bench [--device cuda|vgpu] [--small]\n";
      return 1;
    }
  }
  try {
    return strata::run(device, small);
  } catch (const strata::Error& e) {
    std::cerr << "enqueue_bench: " << e.what() << "\n";
    return 3;
  }
}
