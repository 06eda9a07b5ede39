// The curves of training runs: for the plot of one run, and for pages.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/run_record.h"

namespace strata::cli {
namespace {

constexpr size_t kMostPoints = 1200;

// The mean over about the last 25 steps, fewer of a short run.
std::vector<double> smooth(const std::vector<double>& losses) {
  const double fresh = 1 / std::clamp(static_cast<double>(losses.size()) / 12, 2.0, 25.0);
  std::vector<double> out;
  double mean = 0, weight = 0;
  for (const double v : losses) {
    if (std::isfinite(v)) {
      mean = mean * (1 - fresh) + v * fresh;
      weight = weight * (1 - fresh) + fresh;
    }
    out.push_back(weight > 0 ? mean / weight : NAN);
  }
  return out;
}

std::vector<double> counted(size_t n) {
  std::vector<double> x(n);
  std::iota(x.begin(), x.end(), 1.0);
  return x;
}

}  // namespace

double best_speed(const RunRecord& r) {
  double best = 0;
  for (const EpochFacts& e : r.epochs) best = std::max(best, e.images_per_second);
  return best;
}

bool of_several_names(const std::vector<RunRecord>& runs) {
  return std::any_of(runs.begin(), runs.end(), [&](const RunRecord& r) { return r.name != runs[0].name; });
}

std::string label_of(const RunRecord& r, bool several) {
  return several ? fmt::format("{} ({})", r.name, r.device) : r.device;
}

std::vector<Chart> charts_of(const std::vector<RunRecord>& runs) {
  const bool several = of_several_names(runs);
  const size_t most = std::max<size_t>(60, kMostPoints / std::max<size_t>(runs.size(), 1));
  Chart loss{"Training loss", "step", true, false, false, {}},
    accuracy{"Test accuracy, %", "epoch", false, false, true, {}},
    speed{"Training speed, images per second", "epoch", false, true, false, {}},
    memory{"Memory held, MB", "step", false, true, false, {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& r = runs[i];
    const std::string name = label_of(r, several);
    const auto color = static_cast<int>(i);
    const std::vector<double> steps = counted(r.losses.size()), epochs = counted(r.epochs.size());
    if (runs.size() == 1) loss.series.push_back(thinned({"each step", steps, r.losses, true, false, color}, most));
    loss.series.push_back(
      thinned({runs.size() == 1 ? "running mean" : name, steps, smooth(r.losses), false, false, color}, most));
    std::vector<double> percents, speeds;
    for (const EpochFacts& e : r.epochs) {
      percents.push_back(100 * e.accuracy);
      speeds.push_back(e.images_per_second);
    }
    accuracy.series.push_back({name, epochs, percents, false, r.epochs.size() <= 40, color});
    speed.series.push_back({name, epochs, speeds, false, r.epochs.size() <= 40, color});
    if (!r.memory_mb.empty())
      memory.series.push_back(thinned({name, r.memory_steps, r.memory_mb, false, false, color}, most));
  }
  return {loss, accuracy, speed, memory};
}

}  // namespace strata::cli
