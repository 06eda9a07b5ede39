// `strata train`: trains a small CNN on handwritten digits.
#include <memory>

#include "cli/commands.h"
#include "cli/trainer.h"

namespace strata::cli {

void add_train(CLI::App& app, Run& run) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a small network on handwritten digits");
  add_train_options(*command, *options);
  command->footer("Example: strata train --epochs 5 --out results");
  command->callback([&run, options] {
    run = [options] {
      check_train_options(*options);
      if (options->json) options->quiet = true;
      return Trainer(*options).run();
    };
  });
}

}  // namespace strata::cli
