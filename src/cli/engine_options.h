// What the commands of `strata engine` have in common: an engine from a model or a plan, and its inputs.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace strata::cli {

struct EngineOptions {
  // A file, or trtexec's names for the two kinds of files.
  std::string file, model, plan;
  std::string device;  // empty: cpu for a model, that of the plan
  std::vector<std::string> min_sizes, opt_sizes, max_sizes, sizes;
  std::string inputs, save_outputs;
  std::string save_plan, timing_cache, export_profile, export_times;
  bool fp16 = false, bf16 = false, int8 = false, best = false;
  int level = 3;
  double time_limit = 60;
  std::string workspace;  // MiB
  bool cuda_graph = true, no_cuda_graph = false;
  bool dump_profile = false, dump_output = false, measured_peaks = false;
  int64_t runs = 0;
  double warm_up = 200, seconds = 3;  // of a benchmark; milliseconds, seconds
  std::string other;                  // to compare with
  double tolerance = 1e-3;
  // Calibration for int8.
  std::string calibration;  // a table
  std::vector<std::string> samples;
  std::string method = "entropy", save_table, save_model;
  double percentile = 99.99, max_error = 0;
  bool json = false;
};

// Options with the names of trtexec beside ours.
void add_source(CLI::App& command, EngineOptions& o);
void add_building(CLI::App& command, EngineOptions& o);
void add_inputs(CLI::App& command, EngineOptions& o);

// Reads a plan, or builds an engine of a model, with a progress bar.
std::shared_ptr<engine::Engine> open_engine(const EngineOptions& o);
std::shared_ptr<engine::Engine> open_engine(const EngineOptions& o, const std::string& file);
onnx::Values inputs_of(const engine::Engine& e, const EngineOptions& o);

int bench_engine(const EngineOptions& o);
// `quantize`: its own options, and what it does.
void add_calibration(CLI::App& command, EngineOptions& o);
int quantize_model(const EngineOptions& o);

}  // namespace strata::cli
