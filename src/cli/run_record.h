// What a training run leaves for reports: run-DEVICE.json in its folder.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/chart.h"

namespace strata::cli {

struct EpochFacts {
  double step_ms = 0, images_per_second = 0, loss = 0, accuracy = 0, memory_mb = 0;  // accuracy in 0..1
};
// Of one recorded step: a layer, or an op with its kernels.
struct StepPart {
  std::string name;
  int64_t calls = 0;
  double us = 0, bytes = 0;
  std::string kernels;
  std::vector<std::string> rejected;  // with reasons
};
struct DigitSample {
  std::vector<uint8_t> pixels;  // 28 x 28
  int64_t label = 0, predicted = 0;
};

struct RunRecord {
  std::string name, device, data, command, started;
  double seconds = 0;  // of all epochs
  int64_t steps_per_epoch = 0, images = 0, parameters = 0;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<double> losses;  // of every step
  std::vector<EpochFacts> epochs;
  std::vector<double> memory_steps, memory_mb;  // held after some steps
  std::string clock;                            // of the recorded step
  std::vector<StepPart> layers, ops;
  std::vector<std::vector<int64_t>> confusion;  // by label, then prediction
  std::vector<DigitSample> digits;

  double accuracy() const { return epochs.empty() ? 0 : epochs.back().accuracy; }
};

std::string to_json(const RunRecord& run);
RunRecord read_run(const std::string& file);  // throws Io or Value with the name of the file
// All runs of these folders and files, in order. Throws if a folder has none.
std::vector<RunRecord> read_runs(const std::vector<std::string>& places);

double best_speed(const RunRecord& run);                    // images per second of the fastest epoch
bool of_several_names(const std::vector<RunRecord>& runs);  // otherwise they differ by their devices
std::string label_of(const RunRecord& run, bool several_names);
std::vector<Chart> charts_of(const std::vector<RunRecord>& runs);  // loss, accuracy, speed, memory
std::string report_page(const std::vector<RunRecord>& runs);

}  // namespace strata::cli
