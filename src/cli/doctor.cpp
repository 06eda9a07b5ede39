// `strata doctor`: can the GPUs of this machine be used, and if not, why not and what to do.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/style.h"
#include "system/doctor/doctor.h"

namespace strata::cli {
namespace {

struct Wanted {
  doctor::Options options;
  bool json = false, fix_hints = false, no_probes = false, list = false;
  std::string explain;
};

int list_checks() {
  for (const doctor::CheckInfo& c : doctor::checks())
    fmt::print("{:<36} {:<7}  {}\n", c.id, c.severity == doctor::Severity::Error ? "error" : "warning", c.title);
  for (const std::string& t : doctor::topics()) fmt::print("{:<36} {:<7}\n", t, "topic");
  return 0;
}

// The report with its severities in color.
std::string colored(const std::string& text) {
  if (!styled()) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const bool error = line.starts_with("ERROR  "), warning = line.starts_with("warning ");
    out += error ? red(line) : warning ? yellow(line) : line;
    out += "\n";
    at = end + 1;
  }
  return out;
}

int run_doctor(const Wanted& asked) {
  if (asked.list) return list_checks();
  if (!asked.explain.empty()) {
    fmt::print("{}", doctor::explain(asked.explain));
    return 0;
  }
  doctor::Options options = asked.options;
  options.probes = !asked.no_probes;
  const doctor::Report report = doctor::examine(options);
  fmt::print("{}", asked.json        ? doctor::to_json(report)
                   : asked.fix_hints ? doctor::fix_hints(report)
                                     : colored(doctor::to_text(report)));
  return report.status();
}
}  // namespace

void add_doctor(CLI::App& app, Run& run) {
  auto asked = std::make_shared<Wanted>();
  CLI::App* command = app.add_subcommand("doctor", "Find out whether the GPUs can be used, and if not, why not");
  command->add_option("--section", asked->options.sections, "Only these parts: driver, gpu, libraries, … (repeatable)");
  command->add_flag("--torch", asked->options.torch, "Also examine an installed PyTorch, by running its interpreter");
  command->add_option("--device", asked->options.device,
                      "Try this device: cuda, cuda:1, vgpu (default: cuda if it is there)");
  command->add_flag("--no-probes", asked->no_probes, "Use no device");
  command->add_option("--explain", asked->explain, "Explain a check, or a topic such as legacy-macos");
  command->add_flag("--list", asked->list, "List all checks");
  command->add_flag("--fix-hints", asked->fix_hints,
                    "Print the commands that repair what was found, as a script to read");
  command->add_flag("--json", asked->json, "Machine-readable output");
  command->add_option("--timeout", asked->options.seconds, "Seconds for each library or program that is asked")
    ->capture_default_str();
  command->footer(
    "Status 0: fine, 1: warnings (or a wrong option), 2: a device cannot be used.\n"
    "Example: strata doctor --torch");
  command->callback([&run, asked] { run = [asked] { return run_doctor(*asked); }; });
}

}  // namespace strata::cli
