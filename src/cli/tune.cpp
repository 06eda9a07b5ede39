// `strata tune`: times all kernels of a call, and remembers the fastest for later processes.
#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/sample_call.h"
#include "dispatch/tuning.h"
#include "dispatch/tuning_store.h"

namespace strata::cli {
namespace {

struct Options : SampleOptions {
  bool list = false, forget = false, no_save = false, json = false;
};

std::string file_of(const Options& o) {
  const std::string path = tuning_file(device_of_option(o.device));
  STRATA_CHECK(!path.empty(), Value,
               "no times are kept for device {}: those of cuda are, unless STRATA_CUDA_CACHE is 0 or there is no home "
               "folder; name one with STRATA_CACHE_DIR",
               o.device);
  return path;
}

int forget(const Options& o) {
  const std::string path = file_of(o);
  std::error_code error;
  const bool was_there = std::filesystem::remove(path, error);
  STRATA_CHECK(!error, Io, "cannot delete {}: {}", path, error.message());
  fmt::print("{} {}\n", was_there ? "deleted" : "there is no file", path);
  return 0;
}

int list(const Options& o) {
  const std::string path = file_of(o);
  const TuningTable table = read_tuning(device_of_option(o.device));
  if (o.json) {
    fmt::print("{}\n", nlohmann::json{{"file", path}, {"microseconds", table}}.dump(2));
    return 0;
  }
  fmt::print("{}\n{} calls\n", path, table.size());
  for (const auto& [call, times] : table) {
    fmt::print("{}\n", call);
    for (const auto& [kernel, time] : times) fmt::print("  {:<24} {:>10.2f} us\n", kernel, time);
  }
  return 0;
}

// The lines of the calls that were measured, in the order of their lists.
Explanation measure(const SampleCall& call) {
  {
    const Scoped on(thread_state.tuning, true);
    call.run();
  }
  Explanation seen;
  const Scoped<Explanation*> look(thread_state.explain, &seen);
  call.run();
  return seen;
}

int tune(const Options& o) {
  if (o.forget) return forget(o);
  if (o.list) return list(o);
  STRATA_CHECK(!o.op.empty(), Value, "which op? For example: strata tune mm 'f(512,512), f(512,512)' --device cuda");
  const SampleCall call(o);
  const Explanation seen = measure(call);
  const std::string path = o.no_save ? "" : tuning_file(device_of_option(o.device));
  if (!path.empty()) save_tuning();
  if (o.json) {
    nlohmann::json kernels = nlohmann::json::array();
    for (const auto& line : seen.lines)
      kernels.push_back({{"op", line.op->name},
                         {"kernel", line.kernel->name},
                         {"microseconds", line.time_us > 0 ? nlohmann::json(line.time_us) : nlohmann::json()},
                         {"reason", verdict(line)}});
    fmt::print("{}\n", nlohmann::json{{"file", path}, {"kernels", kernels}}.dump(2));
    return 0;
  }
  for (const auto& line : seen.lines)
    fmt::print("  {:<20} {:<24} {:<30} {}\n", line.op->name, line.kernel->name, facts_of(*line.kernel), verdict(line));
  if (!path.empty()) fmt::print("kept in {}\n", path);
  else fmt::print("not kept: {}\n", o.no_save ? "--no-save" : "files are for device cuda");
  return 0;
}
}  // namespace

void add_tune(CLI::App& app, Run& run) {
  auto options = std::make_shared<Options>();
  options->device = "cuda";
  CLI::App* command = app.add_subcommand("tune", "Time all kernels of a call, and use the fastest from now on");
  add_sample_options(*command, *options, false);
  command->add_flag("--list", options->list, "Show the calls that were measured on the device");
  command->add_flag("--forget", options->forget, "Delete the times of the device");
  command->add_flag("--no-save", options->no_save, "Only show the times");
  command->add_flag("--json", options->json, "Machine-readable output");
  command->footer("Example: strata tune mm 'f(4096,4096), f(4096,4096)' --dtype bfloat16 --device cuda");
  command->callback([&run, options] { run = [options] { return tune(*options); }; });
}

}  // namespace strata::cli
