// `strata train`: trains a small CNN on handwritten digits, on one device or on several in turn.
#include <fmt/core.h>

#include <memory>

#include "cli/commands.h"
#include "cli/trainer.h"
#include "strata/functions.h"

namespace strata::cli {
namespace {

// "all": the CPU and every GPU; otherwise names with commas between them.
std::vector<std::string> devices_of(const std::string& text) {
  std::vector<std::string> all;
  if (text == "all") {
    all.emplace_back("cpu");
    for (int i = 0; i < cuda::device_count(kCUDA); ++i) all.push_back(fmt::format("cuda:{}", i));
    return all;
  }
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    all.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return all;
}

// One device after the other, in folders of their own; --out has the report that compares them.
int train_on(const std::vector<std::string>& devices, const TrainOptions& options) {
  std::vector<RunRecord> runs;
  std::string results;
  for (const std::string& device : devices) {
    TrainOptions own = options;
    own.device = device;
    own.out = options.out + "/" + device;
    std::replace(own.out.begin() + static_cast<ptrdiff_t>(options.out.size()), own.out.end(), ':', '-');
    if (own.name.empty()) own.name = options.out;
    Trainer trainer(own);
    if (const int status = trainer.run()) return status;
    runs.push_back(trainer.record());
    results += (results.empty() ? "" : ",\n") + trainer.result();
  }
  const std::string page = options.out + "/report.html";
  write_file(page, report_page(runs));
  if (options.json) {
    fmt::print("[{}]\n", results);
    return 0;
  }
  if (options.quiet) return 0;
  fmt::print("\n{:<10} {:>9} {:>9} {:>12} {:>10}\n", "device", "accuracy", "loss", "images/s", "speed-up");
  double slowest = best_speed(runs[0]);
  for (const RunRecord& r : runs) slowest = std::min(slowest, best_speed(r));
  for (const RunRecord& r : runs)
    fmt::print("{:<10} {:>8.2f}% {:>9.4f} {:>12.0f} {:>9.2f}x\n", r.device, 100 * r.accuracy(), r.epochs.back().loss,
               best_speed(r), best_speed(r) / slowest);
  fmt::print("side by side: {}\n", page);
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Run& run) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a small network on handwritten digits");
  add_train_options(*command, *options);
  command->footer("Example: strata train --epochs 5 --out results");
  command->callback([&run, options] {
    run = [options] {
      const std::vector<std::string> devices = devices_of(options->device);
      for (const std::string& device : devices) {
        TrainOptions one = *options;
        one.device = device;
        if (devices.size() > 1) one.resume = false;  // checked for each folder
        check_train_options(one);
      }
      if (options->json) options->quiet = true;
      if (devices.size() > 1 || options->device == "all") return train_on(devices, *options);
      Trainer trainer(*options);
      const int status = trainer.run();
      if (options->json && status == 0) fmt::print("{}\n", trainer.result());
      return status;
    };
  });
}

}  // namespace strata::cli
