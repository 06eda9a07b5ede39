// `strata trace -- COMMAND`: runs a program that uses Strata, and writes what it did.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/process.h"
#include "cli/commands.h"

namespace strata::cli {
namespace {

struct TraceOptions {
  std::string out = "trace.html";
  std::vector<std::string> command;
};

int trace(const TraceOptions& o) {
  bool known = false;
  for (const char* end : {".json", ".html", ".svg", ".txt"}) known |= o.out.ends_with(end);
  STRATA_CHECK(known, Value,
               "trace: cannot tell the format of '{}'; use a name that ends in .json, .html, .svg or .txt", o.out);
  const std::string program = find_program(o.command[0]);
  STRATA_CHECK(!program.empty(), Value, "trace: there is no program '{}'", o.command[0]);
  ::setenv("STRATA_TRACE", o.out.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : o.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());  // the program takes this process's place: its status is the status
  fail_io(errno, program);
}
}  // namespace

void add_trace(CLI::App& app, Run& run) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* command =
    app.add_subcommand("trace", "Run a program that uses Strata, and write what it did on all layers");
  command
    ->add_option("--out", options->out, "The file, by its end: .html, .json (for Perfetto), .svg (flame graph), .txt")
    ->capture_default_str();
  command->add_option("command", options->command, "The program and its arguments, after --")->required();
  command->prefix_command(false);
  command->footer(
    "The same as STRATA_TRACE=FILE in the environment of the program.\n"
    "Example: strata trace --out trace.json -- python train.py --epochs 1");
  command->callback([&run, options] { run = [options] { return trace(*options); }; });
}

}  // namespace strata::cli
