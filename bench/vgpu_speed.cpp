// Speed of the virtual GPU: thread instructions per second, counters on, with one CPU thread and with two.
//
// vgpu_speed PTX_FOLDER [--json FILE] [--md FILE] [--seconds S] [--only KERNEL]
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "cuda/vgpu/device.h"

namespace strata::cuda::vgpu {
namespace {

// Small enough that a launch takes a few milliseconds: the best of many is then not disturbed by other processes.
constexpr size_t kMany = 1 << 18;  // elements of the vectors
constexpr int kSide = 256;         // of the matrices

struct Arguments {
  std::vector<std::vector<uint8_t>> values;
  template <class T> Arguments& operator<<(const T& v) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&v);
    values.emplace_back(bytes, bytes + sizeof v);
    return *this;
  }
};

struct Case {
  const char *module, *kernel, *kind;  // kind: its bottleneck on a GPU
  Launch launch;
  std::function<void(Memory&, Arguments&)> prepare;
};

uint64_t floats(Memory& memory, size_t n) {
  const uint64_t at = memory.allocate(n * 4);
  for (size_t k = 0; k < n; ++k)
    reinterpret_cast<float*>(at)[k] = static_cast<float>(static_cast<int>(k * 7919 % 2000) - 1000) / 700.0f;
  return at;
}
uint64_t halves(Memory& memory, size_t n) {
  const uint64_t at = memory.allocate(n * 2);
  for (size_t k = 0; k < n; ++k) reinterpret_cast<uint16_t*>(at)[k] = static_cast<uint16_t>(0x3000 + k * 37 % 0x800);
  return at;
}
struct Shape {
  int dims;
  int64_t size[8], stride[8];
};

const std::vector<Case>& cases() {
  static const auto gemm = [](Memory& m, Arguments& a) {
    a << floats(m, kSide * kSide) << floats(m, kSide * kSide) << floats(m, kSide * kSide) << kSide << kSide << kSide;
  };
  static const auto rows = [](Memory& m, Arguments& a) { a << floats(m, kMany) << floats(m, kMany) << 1024; };
  static const std::vector<Case> all = {
    {"gemm.75", "gemm_tiled", "arithmetic", {{4, 4, 1}, {256, 1, 1}}, gemm},
    {"gemm.75", "gemm_plain", "arithmetic", {{16, 16, 1}, {16, 16, 1}}, gemm},
    {"mma.80",
     "gemm_mma",
     "matrix",
     {{16, 16, 1}, {32, 1, 1}},
     [](Memory& m, Arguments& a) {
       a << halves(m, kSide * kSide) << halves(m, kSide * kSide) << floats(m, kSide * kSide) << kSide << kSide << kSide;
     }},
    {"block.75",
     "pointwise",
     "memory",
     {{64, 1, 1}, {256, 1, 1}},
     [](Memory& m, Arguments& a) {
       a << floats(m, kMany) << floats(m, kMany) << floats(m, kMany) << 1.5f << static_cast<int>(kMany / 4);
     }},
    {"block.75",
     "gelu",
     "memory",
     {{64, 1, 1}, {256, 1, 1}},
     [](Memory& m, Arguments& a) { a << floats(m, kMany) << floats(m, kMany) << static_cast<int>(kMany); }},
    {"block.75", "row_sum", "memory", {{256, 1, 1}, {256, 1, 1}}, rows},
    {"block.75", "softmax", "memory", {{256, 1, 1}, {256, 1, 1}}, rows},
    {"block.75",
     "transpose",
     "memory",
     {{16, 16, 1}, {32, 8, 1}},
     [](Memory& m, Arguments& a) { a << floats(m, kMany) << floats(m, kMany) << 512 << 512; }},
    {"control.75",
     "strided_copy",
     "memory",
     {{64, 1, 1}, {256, 1, 1}},
     [](Memory& m, Arguments& a) {
       const Shape shape{3, {64, 64, 64}, {1, 4096, 64}};
       a << floats(m, kMany) << floats(m, kMany) << shape << static_cast<int64_t>(kMany);
     }},
    {"block.75",
     "scan",
     "memory",
     {{256, 1, 1}, {1024, 1, 1}},
     [](Memory& m, Arguments& a) { a << floats(m, kMany) << floats(m, kMany); }},
    {"block.75",
     "philox",
     "arithmetic",
     {{256, 1, 1}, {256, 1, 1}},
     [](Memory& m, Arguments& a) { a << uint64_t{42} << floats(m, kMany) << static_cast<int>(kMany / 4); }},
  };
  return all;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Thread instructions per second: the best of the runs that fit into `seconds`.
double measure(const Case& c, const Program& p, Memory& memory, double seconds, Counters& counters) {
  static const Profile profile = profile_of("ampere");
  Arguments arguments;
  c.prepare(memory, arguments);
  std::vector<const void*> pointers;
  for (const auto& v : arguments.values) pointers.push_back(v.data());
  pointers.push_back(nullptr);
  double best = 0;
  for (const double begin = now(); now() - begin < seconds;) {
    const double start = now();
    counters = run(p, profile, memory, c.launch, pointers.data());
    best = std::max(best, static_cast<double>(counters.thread_instructions) / (now() - start));
  }
  return best;
}

int bench(int argc, char** argv) {
  std::string folder, json_file, md_file, only;
  bool wrong = false;  // an unknown option
  double seconds = 0.5;
  for (int k = 1; k < argc; ++k) {
    const std::string a = argv[k];
    if (a == "--json" && k + 1 < argc) json_file = argv[++k];
    else if (a == "--md" && k + 1 < argc) md_file = argv[++k];
    else if (a == "--only" && k + 1 < argc) only = argv[++k];
    else if (a == "--seconds" && k + 1 < argc) seconds = std::atof(argv[++k]);
    else if (a.starts_with("-")) wrong = true;
    else folder = a;
  }
  if (folder.empty() || wrong) {
    std::fprintf(stderr, "usage: vgpu_speed PTX_FOLDER [--json FILE] [--md FILE] [--seconds S] [--only KERNEL]\n");
    return 1;
  }
  nlohmann::json out = {{"unit", "1e9 thread instructions per second"}, {"kernels", nlohmann::json::array()}};
  std::string table =
    "| kernel | bound on a card | one thread (G/s) | two threads (G/s) | ratio | SIMT efficiency "
    "|\n|---|---|---|---|---|---|\n";
  double logs[2] = {0, 0};
  int count = 0;
  for (const Case& c : cases()) {
    if (!only.empty() && only != c.kernel) continue;
    std::ifstream file(folder + "/" + c.module + ".ptx");
    std::stringstream text;
    text << file.rdbuf();
    double speed[2];
    Counters counters;
    for (int threads : {1, 2}) {
      Memory memory(uint64_t{1} << 30);
      Module module(text.str(), memory);
      set_num_threads(threads);
      speed[threads - 1] = measure(c, *module.kernel(c.kernel), memory, seconds, counters);
      logs[threads - 1] += std::log(speed[threads - 1]);
    }
    ++count;
    table += fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.0f}% |\n", c.kernel, c.kind, speed[0] / 1e9,
                         speed[1] / 1e9, speed[1] / speed[0], 100 * counters.simt_efficiency());
    out["kernels"].push_back({{"kernel", c.kernel},
                              {"bound", c.kind},
                              {"one_thread", speed[0] / 1e9},
                              {"two_threads", speed[1] / 1e9},
                              {"thread_instructions", counters.thread_instructions}});
  }
  const double mean[2] = {std::exp(logs[0] / count) / 1e9, std::exp(logs[1] / count) / 1e9};
  table += fmt::format("| geometric mean | | {:.2f} | {:.2f} | {:.2f} | |\n", mean[0], mean[1], mean[1] / mean[0]);
  out["geometric_mean"] = {mean[0], mean[1]};
  std::fputs(table.c_str(), stdout);
  if (!json_file.empty()) std::ofstream(json_file) << out.dump(2) << "\n";
  if (!md_file.empty())
    std::ofstream(md_file) << "# Speed of the virtual GPU\n`vgpu_speed tests/cuda/vgpu/ptx`: billions of thread "
                              "instructions per second, all counters on, best of the runs in "
                           << seconds << " seconds.\n\n"
                           << table;
  return 0;
}

}  // namespace
}  // namespace strata::cuda::vgpu

int main(int argc, char** argv) {
  try {
    return strata::cuda::vgpu::bench(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "vgpu_speed: %s\n", e.what());
    return 2;
  }
}
