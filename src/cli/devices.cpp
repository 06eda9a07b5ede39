// `strata devices`: what this machine offers.
#include <fmt/core.h>
#include <hwy/targets.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "cli/commands.h"

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

int list_devices(bool json) {
  const double gib =
    static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE)) / (1 << 30);
  if (json) {
    fmt::print("{}\n", nlohmann::json{{{"device", "cpu"},
                                       {"name", cpu_name()},
                                       {"threads", hardware_threads()},
                                       {"simd", simd_level()},
                                       {"memory_gib", gib}}}
                         .dump(2));
    return 0;
  }
  fmt::print("cpu   {}, {} threads, {}, {:.1f} GiB\n", cpu_name(), hardware_threads(), simd_level(), gib);
  return 0;
}
}  // namespace

void add_devices(CLI::App& app, Run& run) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "List the devices of this machine");
  command->add_flag("--json", *json, "Machine-readable output");
  command->footer("Example: strata devices --json");
  command->callback([&run, json] { run = [json] { return list_devices(*json); }; });
}

void add_missing(CLI::App& app, Run& run) {
  for (const char* name : {"doctor", "bench", "engine", "trace"}) {
    CLI::App* command = app.add_subcommand(name, "Not in this version");
    command->allow_extras();
    command->callback([&run, name] {
      run = [name] {
        fmt::print(stderr, "strata: '{}' is not in version {}; `strata --help` lists what is\n", name, STRATA_VERSION);
        return 3;
      };
    });
  }
}

}  // namespace strata::cli
