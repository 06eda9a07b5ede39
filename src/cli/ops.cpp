// `strata ops`: the op records of this build.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "record/op.h"

namespace strata::cli {
namespace {

const char* kind_of(const OpRecord& op) {
  return op.composite_fn ? "composite" : op.view_fn ? "view" : op.broadcasts ? "pointwise" : "kernel";
}

int list_names() {  // for completion
  for (const OpRecord* op : all_ops())
    if (!op->internal) fmt::print("{}\n", op->name);
  return 0;
}

int list_ops(const std::string& pattern, bool json) {
  nlohmann::json all = nlohmann::json::array();
  size_t shown = 0;
  for (const OpRecord* op : all_ops()) {
    if (op->internal || op->name.find(pattern) == std::string::npos) continue;
    ++shown;
    if (!json) {
      fmt::print("{}\n    {}\n", op->schema, op->text);
      continue;
    }
    nlohmann::json kernels = nlohmann::json::array();
    for (const Kernel& k : op->kernels(Backend::Cpu)) kernels.push_back(k.name);
    all.push_back({{"name", op->name},
                   {"overload", op->overload},
                   {"schema", op->schema},
                   {"doc", op->text},
                   {"kind", kind_of(*op)},
                   {"differentiable", op->grad_fn || op->composite_fn},
                   {"kernels", kernels}});
  }
  if (json) fmt::print("{}\n", all.dump(2));
  STRATA_CHECK(shown, Value, "no op has '{}' in its name; `strata ops` lists all", pattern);
  return 0;
}
}  // namespace

void add_ops(CLI::App& app, Run& run) {
  struct Options {
    std::string pattern;
    bool json = false, names = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ops", "List the ops with their signatures");
  command->add_option("pattern", options->pattern, "Only ops with this in their name");
  command->add_flag("--json", options->json, "Machine-readable output");
  command->add_flag("--names", options->names, "Only the names of all ops");
  command->footer("Example: strata ops conv");
  command->callback([&run, options] {
    run = [options] { return options->names ? list_names() : list_ops(options->pattern, options->json); };
  });
}

}  // namespace strata::cli
