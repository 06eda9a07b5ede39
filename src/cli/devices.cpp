// `strata devices` and `strata libraries`: what this machine provides.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/commands.h"
#include "cli/output.h"
#include "cuda/libs/libraries.h"
#include "system/devices/devices.h"

namespace strata::cli {
namespace {

struct Asked {
  bool json = false, measure = false, dtypes = false, details = false;
  double watch = 0;
  int64_t count = 0;
};

// A line per device and period, until it is interrupted.
int watch(const Asked& asked) {
  for (int64_t i = 0; asked.count == 0 || i < asked.count; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::duration<double>(asked.watch));
    const std::vector<devices::Load> now = devices::load();
    if (asked.json) {
      fmt::print("{}", devices::to_json(now));
    } else {
      for (const devices::Load& l : now) fmt::print("{}", devices::to_text(l));
      if (now.size() > 1) fmt::print("\n");
    }
    if (std::fflush(stdout) != 0) return 2;  // the reader is gone
  }
  return 0;
}

int show_devices(const Asked& asked) {
  if (asked.watch > 0) return watch(asked);
  if (asked.dtypes) {
    const auto all = devices::dtypes();
    fmt::print("{}", asked.json ? devices::to_json(all) : devices::to_text(all));
    return 0;
  }
  const auto all = devices::list(asked.measure);
  fmt::print("{}", asked.json ? devices::to_json(all) : devices::to_text(all, asked.details || asked.measure));
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

}  // namespace

void add_devices(CLI::App& app, Run& run) {
  auto asked = std::make_shared<Asked>();
  CLI::App* command = app.add_subcommand("devices", "List the devices of this machine, and what they can do");
  command->add_flag("--details", asked->details, "Show clocks, caches, memories and the peaks of each dtype");
  command->add_flag("--measure", asked->measure, "Also measure copies and products, about a second per device");
  command->add_flag("--dtypes", asked->dtypes, "Show the element types with their ranges and precisions instead");
  command->add_option("--watch", asked->watch, "Print what the devices do every so many seconds, until Ctrl-C")
    ->expected(0, 1)
    ->default_str("1")
    ->check(CLI::Range(0.01, 86400.0));
  command->add_option("--count", asked->count, "With --watch: stop after so many lines")->check(CLI::PositiveNumber);
  command->add_flag("--json", asked->json, "Machine-readable output");
  command->footer("Example: strata devices --measure");
  command->callback([&run, asked] { run = [asked] { return show_devices(*asked); }; });
}

void add_libraries(CLI::App& app, Run& run) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("libraries", "List NVIDIA's libraries that this machine has; none is needed");
  command->add_flag("--json", *json, "Machine-readable output");
  command->footer("Example: strata libraries --json");
  command->callback([&run, json] { run = [json] { return list_libraries(*json); }; });
}

}  // namespace strata::cli
