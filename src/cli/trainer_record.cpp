// What a run leaves for its report: the environment, one recorded step, memory, predictions.
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cli/trainer.h"
#include "cli/training_plot.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/runtime.h"
#include "system/devices/devices.h"
#include "system/trace/trace.h"

namespace strata::cli {
namespace {
namespace fs = std::filesystem;

constexpr size_t kMostSamples = 4000;                   // of memory
constexpr size_t kRightDigits = 12, kWrongDigits = 12;  // shown

// The command as a shell takes it.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  std::string out;
  for (std::string word; std::getline(all, word, '\0');) {
    if (out.empty()) word = fs::path(word).filename().string();
    const bool plain =
      !word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:") == word.npos;
    std::string quoted;
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += (out.empty() ? "" : " ") + (plain ? word : "'" + quoted + "'");
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> environment_of(const std::string& device) {
  std::vector<std::pair<std::string, std::string>> all{{"strata", STRATA_VERSION},
                                                       {"compiler", fmt::format("g++ {}", __VERSION__)}};
  utsname system{};
  if (uname(&system) == 0)
    all.emplace_back("system", fmt::format("{} {} {}", system.sysname, system.release, system.machine));
  for (const devices::Info& info : devices::list())
    if (info.why_not.empty()) all.emplace_back(info.device, info.name);
  all.emplace_back("device of this run", device);
  all.emplace_back("threads", fmt::format("{}", num_threads()));
  return all;
}

// Sums of a recorded step by a name, the longest first.
template <class Name> std::vector<StepPart> summed(const std::vector<tracing::Work>& work, Name name_of) {
  std::map<std::string, StepPart> parts;
  std::map<std::string, std::set<std::string>> kernels, rejected;
  for (const tracing::Work& w : work) {
    const std::string name = name_of(w);
    StepPart& p = parts[name];
    p.name = name;
    ++p.calls;
    p.us += static_cast<double>(w.device_ns ? w.device_ns : w.host_ns) / 1e3;
    p.bytes += static_cast<double>(w.bytes);
    if (kernels[name].insert(w.kernel).second) p.kernels += (p.kernels.empty() ? "" : ", ") + std::string(w.kernel);
    for (const std::string& reason : w.rejected)
      if (rejected[name].insert(reason).second) p.rejected.push_back(reason);
  }
  std::vector<StepPart> all;
  all.reserve(parts.size());
  for (auto& [name, part] : parts) all.push_back(std::move(part));
  std::stable_sort(all.begin(), all.end(), [](const StepPart& a, const StepPart& b) { return a.us > b.us; });
  return all;
}

}  // namespace

Tensor Trainer::take_recorded_step(const data::Example& batch) {
  step_recorded_ = true;
  tracing::Session session;
  Tensor loss = take_step(batch);
  const std::vector<tracing::Work> work = session.stop().work();
  const bool on_device = std::any_of(work.begin(), work.end(), [](const tracing::Work& w) { return w.device_ns > 0; });
  record_.clock = on_device ? "on the device" : "on the CPU";
  record_.layers =
    summed(work, [](const tracing::Work& w) { return w.module.empty() ? std::string("others") : w.module; });
  record_.ops = summed(work, [](const tracing::Work& w) { return std::string(w.op); });
  return loss;
}

void Trainer::note_memory() {
  const int64_t every = std::max<int64_t>(1, steps_ * options_.epochs / static_cast<int64_t>(kMostSamples));
  const int64_t step = epoch_ * steps_ + step_;
  if (step % every) return;
  double bytes = 0;
  if (device_.type == DeviceType::Cpu) bytes = static_cast<double>(memory_stats().allocated_bytes);
  else bytes = static_cast<double>(cuda::Runtime::gpu(device_).allocator->stats().allocated);
  record_.memory_steps.push_back(static_cast<double>(step));
  record_.memory_mb.push_back(bytes / (1 << 20));
}

void Trainer::note_predictions(const data::Example& batch, const Tensor& classes) {
  const Tensor read = to(classes, Device{}), labels = to(to(batch[1], Device{}), DType::I64),
               pixels = to(batch[0], Device{}).contiguous();
  size_t right = 0, wrong = 0;
  for (const DigitSample& d : record_.digits) ++(d.label == d.predicted ? right : wrong);
  for (int64_t i = 0; i < read.numel(); ++i) {
    const int64_t label = labels.data<int64_t>()[i], predicted = read.data<int64_t>()[i];
    if (label < 0 || label > 9 || predicted < 0 || predicted > 9) continue;
    ++record_.confusion[static_cast<size_t>(label)][static_cast<size_t>(predicted)];
    size_t& shown = label == predicted ? right : wrong;
    if (shown >= (label == predicted ? kRightDigits : kWrongDigits)) continue;
    ++shown;
    const uint8_t* from = pixels.data<uint8_t>() + i * 784;
    record_.digits.push_back({{from, from + 784}, label, predicted});
  }
}

RunRecord Trainer::record() const {
  RunRecord r = record_;
  r.name = options_.name.empty() ? fs::absolute(options_.out).lexically_normal().filename().string() : options_.name;
  r.device = options_.device;
  r.data = fmt::format("small CNN on {}", digits_.name);
  r.command = command_line();
  r.started = started_;
  r.steps_per_epoch = steps_;
  r.images = images_;
  for (const Tensor& p : net_.parameters()) r.parameters += p.numel();
  r.environment = environment_of(options_.device);
  r.losses.assign(losses_.begin(), losses_.end());
  for (const Row& row : rows_) {
    r.epochs.push_back(row);
    r.seconds += row.step_ms * static_cast<double>(steps_) / 1e3;
  }
  std::stable_sort(r.digits.begin(), r.digits.end(), [](const DigitSample& a, const DigitSample& b) {
    return (a.label != a.predicted) > (b.label != b.predicted);
  });
  return r;
}

void Trainer::write_reports() const {
  const RunRecord own = record();
  std::string device = options_.device;
  std::replace(device.begin(), device.end(), ':', '-');
  write_file(path(("run-" + device + ".json").c_str()), to_json(own));
  std::vector<Chart> charts = charts_of({own});
  charts.resize(3);
  write_file(path("plot.svg"), plot_svg(fmt::format("{}, {}: {:.2f}% after {} epoch{}", own.data, own.device,
                                                    100 * own.accuracy(), epoch_, epoch_ == 1 ? "" : "s"),
                                        charts));
  std::vector<RunRecord> all;  // of other devices too
  try {
    all = read_runs({options_.out});
    for (RunRecord& r : all) r.name = own.name;
  } catch (const Error&) { all = {own}; }  // a record of another version must not end the training
  write_file(path("report.html"), report_page(all));
}

}  // namespace strata::cli
