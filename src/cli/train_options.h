// What `strata train` can be told.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace strata::cli {

struct TrainOptions {
  std::string model = "cnn", data, device = "cpu", out = "results", schedule = "cosine";
  int64_t epochs = 1, batch_size = 128;
  double lr = 2e-3;
  uint64_t seed = 0;
  int64_t limit = 0, test_limit = 0;  // images to train on, to test with; 0: all
  int threads = 0;                    // 0: all
  bool resume = false, quiet = false, json = false, download = true;
  bool counters = false;  // of the virtual GPU
};

void add_train_options(CLI::App& command, TrainOptions& options);
// What no option can tell by itself. Throws before data is fetched and before --out is made.
void check_train_options(const TrainOptions& options);

}  // namespace strata::cli
