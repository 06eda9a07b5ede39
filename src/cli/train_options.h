// The options of `strata train`.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace strata::cli {

struct TrainOptions {
  std::string model = "cnn", data, device = "cpu", out = "results", schedule = "cosine", name;
  std::string amp;  // "bf16" or "f16": mixed precision; empty: float32
  int64_t epochs = 1, batch_size = 128;
  double lr = 2e-3;
  uint64_t seed = 0;
  int64_t limit = 0, test_limit = 0;  // images to train on, to test with; 0: all
  int threads = 0;                    // 0: all
  bool resume = false, quiet = false, json = false, download = true;
  bool compile = false;      // compute the ops of a step in groups
  bool counters = false;     // of the virtual GPU
  bool tensorboard = false;  // also write event files
};

void add_train_options(CLI::App& command, TrainOptions& options);
// Checks that involve several options. Throws before data is downloaded and before --out is created.
void check_train_options(const TrainOptions& options);

}  // namespace strata::cli
