// Fuzz target: the arguments of `strata train`, one per line, up to the point where training would begin.
#include <sstream>

#include "cli/train_options.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  std::istringstream text(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> arguments;
  for (std::string line; std::getline(text, line);)
    arguments.insert(arguments.begin(), line);  // CLI11 reads from the end
  CLI::App app{"", "strata"};
  cli::TrainOptions options;
  options.out = "no such folder";
  cli::add_train_options(*app.add_subcommand("train"), options);
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    if (app.exit(e, out, err) != 0 && err.str().empty()) __builtin_trap();  // an error has a message
    return 0;
  }
  // Accepted options must be valid for the trainer.
  if (options.epochs < 1 || options.batch_size < 1 || options.limit < 0 || options.threads < 0) __builtin_trap();
  fuzz::expect_typed_errors([&] {
    cli::check_train_options(options);
    if (!(options.lr > 0)) __builtin_trap();
  });
  return 0;
}
