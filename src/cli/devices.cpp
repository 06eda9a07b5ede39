// `strata devices` and `strata libraries`: what this machine provides.
#include <fmt/core.h>
#include <hwy/targets.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cuda/libs/libraries.h"
#include "cuda/runtime/runtime.h"

namespace strata::cli {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

const char* simd_level() {
  const int64_t targets = hwy::SupportedTargets();
  return targets & HWY_AVX3 ? "AVX-512" : targets & HWY_AVX2 ? "AVX2" : "baseline";
}

double gib(size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

int list_devices(bool json) {
  const size_t memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  nlohmann::json all = nlohmann::json::array();
  all.push_back({{"device", "cpu"},
                 {"name", cpu_name()},
                 {"threads", hardware_threads()},
                 {"simd", simd_level()},
                 {"memory_gib", gib(memory)}});
  std::string text =
    fmt::format("cpu     {}, {} threads, {}, {:.1f} GiB\n", cpu_name(), hardware_threads(), simd_level(), gib(memory));
  for (const DeviceType type : {DeviceType::Cuda, DeviceType::Vgpu}) {
    if (const std::string why = cuda::Runtime::why_not(type); !why.empty()) {
      all.push_back({{"device", to_string(Device{type, -1})}, {"available", false}, {"why_not", why}});
      text += fmt::format("{:<7} not available: {}\n", to_string(Device{type, -1}), why);
      continue;
    }
    cuda::Runtime& runtime = cuda::Runtime::get(type);
    for (int i = 0; i < runtime.count(); ++i) {
      const cuda::Properties& p = runtime[i].properties;
      all.push_back({{"device", to_string(runtime[i].device())},
                     {"name", p.name},
                     {"compute_capability", fmt::format("{}.{}", p.major, p.minor)},
                     {"multiprocessors", p.multiprocessors},
                     {"memory_gib", gib(p.total_memory)}});
      text +=
        fmt::format("{:<7} {}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB\n",
                    to_string(runtime[i].device()), p.name, p.major, p.minor, p.multiprocessors, gib(p.total_memory));
    }
  }
  fmt::print("{}", json ? all.dump(2) + "\n" : text);
  return 0;
}

int list_libraries(bool json) {
  nlohmann::json all = nlohmann::json::array();
  std::string text;
  for (size_t i = 0; i < cuda::kVendors; ++i) {
    const cuda::VendorLibrary& v = cuda::vendor_library(static_cast<cuda::Vendor>(i));
    const std::vector<std::string> copies = v.library.shadowed();
    all.push_back({{"library", v.library.name()},
                   {"version", v.version},
                   {"path", v.library.path()},
                   {"other_copies", copies},
                   {"why_not", v.library.why()}});
    text += v.library ? fmt::format("{:<9} {:<10} {}\n", v.library.name(), v.version, v.library.path())
                      : fmt::format("{:<9} not available: {}\n", v.library.name(), v.library.why());
    for (const std::string& path : copies) text += fmt::format("{:<20} another copy: {}\n", "", path);
  }
  fmt::print("{}", json ? all.dump(2) + "\n" : text);
  return 0;
}

// A command that prints a table, or the same as JSON.
void add_listing(CLI::App& app, Run& run, const std::string& name, const char* what, int (*list)(bool json)) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(name, what);
  command->add_flag("--json", *json, "Machine-readable output");
  command->footer("Example: strata " + name + " --json");
  command->callback([&run, json, list] { run = [json, list] { return list(*json); }; });
}
}  // namespace

void add_devices(CLI::App& app, Run& run) {
  add_listing(app, run, "devices", "List the devices of this machine", list_devices);
}
void add_libraries(CLI::App& app, Run& run) {
  add_listing(app, run, "libraries", "List NVIDIA's libraries that this machine has; none is needed", list_libraries);
}

void add_missing(CLI::App& app, Run& run) {
  for (const char* name : {"bench", "engine", "trace"}) {
    CLI::App* command = app.add_subcommand(name, "Not in this version");
    command->allow_extras();
    command->callback([&run, name] {
      run = [name] {
        say("strata: '{}' is not in version {}; `strata --help` lists what is\n", name, STRATA_VERSION);
        return 3;
      };
    });
  }
}

}  // namespace strata::cli
