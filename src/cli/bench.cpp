// `strata bench`: times of ops, networks, products and copies, with PyTorch beside them. Python measures, since that is where both are.
#include <memory>

#include "cli/commands.h"
#include "cli/python.h"
#include "cli/sample_call.h"

namespace strata::cli {

void add_bench(CLI::App& app, Run& run) {
  struct Options : SampleOptions {
    std::string what;
    std::vector<std::string> inputs;
    std::string sizes;
    bool backward = false, json = false, alone = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
    "bench", "Measure ops, networks, products and copies, with PyTorch beside them if it is installed");
  command->add_option("what", options->what, "op, model, gemm or copy")
    ->required()
    ->check(CLI::IsMember({"op", "model", "gemm", "copy"}));
  add_sample_options(*command, *options, false);
  command->add_option("--input", options->inputs, "Of a model: an argument, e.g. 'f(8,3,32,32)'; once for each")
    ->allow_extra_args(false);
  command->add_option("--sizes", options->sizes, "Of gemm: rows and columns, e.g. 256,1024; of copy: bytes");
  command->add_flag("--backward", options->backward, "Also the gradient");
  command->add_flag("--alone", options->alone, "Without PyTorch");
  command->add_flag("--json", options->json, "Machine-readable output");
  command->footer(
    "Example: strata bench op softmax 'f(64,1000), dim=1'\n         strata bench model model.py:Net --input "
    "'f(8,1,28,28)'");
  command->callback([&run, options] {
    run = [options]() -> int {
      std::vector<std::string> words = {options->what, "--device", options->device, "--dtype", options->dtype};
      if (!options->op.empty()) words.push_back("--name=" + options->op);
      if (!options->args.empty()) words.push_back("--arguments=" + options->args);
      if (!options->sizes.empty()) words.push_back("--sizes=" + options->sizes);
      for (const std::string& input : options->inputs) words.push_back("--input=" + input);
      if (options->backward) words.emplace_back("--backward");
      if (options->alone) words.emplace_back("--alone");
      if (options->json) words.emplace_back("--json");
      run_in_python("bench", "strata._bench_command", words);
    };
  });
}

}  // namespace strata::cli
