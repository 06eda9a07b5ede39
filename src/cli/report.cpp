// `strata report`: one page that compares training runs.
#include <fmt/core.h>

#include <memory>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/run_record.h"

namespace strata::cli {

void add_report(CLI::App& app, Run& run) {
  struct Options {
    std::vector<std::string> runs{"results"};
    std::string out = "report.html";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "Write one page that compares training runs");
  command->add_option("runs", options->runs, "Folders of runs (--out of strata train), or their run-*.json")
    ->capture_default_str();
  command->add_option("--out", options->out, "The page")->capture_default_str();
  command->footer("Example: strata report results-1 results-2 --out compared.html");
  command->callback([&run, options] {
    run = [options] {
      const std::vector<RunRecord> runs = read_runs(options->runs);
      write_file(options->out, report_page(runs));
      fmt::print("written: {}, with {} run{}\n", options->out, runs.size(), runs.size() == 1 ? "" : "s");
      return 0;
    };
  });
}

}  // namespace strata::cli
