// `strata engine bench`: times of runs, with copies and computation apart.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/file.h"
#include "cli/engine_options.h"
#include "cli/json.h"
#include "cuda/runtime/runtime.h"
#include "dispatch/settings.h"
#include "engine/report.h"
#include "strata/ops/movement/copy.h"
#include "system/devices/devices.h"

namespace strata::cli {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Times of one part of all runs, in milliseconds.
struct Times {
  std::vector<double> all = {};
  double mean() const { return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()); }
  double at(double percent) const {  // of sorted times
    const auto i = static_cast<size_t>(percent / 100 * static_cast<double>(all.size() - 1) + 0.5);
    return all[i];
  }
  nlohmann::ordered_json json() const {
    return {{"mean", mean()}, {"min", all.front()}, {"median", at(50)}, {"p90", at(90)},
            {"p95", at(95)},  {"p99", at(99)},      {"max", all.back()}};
  }
  std::string text(const char* name) const {
    return fmt::format("{:<12} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f}\n", name, all.front(),
                       mean(), at(50), at(90), at(95), at(99), all.back());
  }
};

// Inputs on the host, copies of them on the device, and the way back.
class Bench {
 public:
  Bench(const engine::Engine& e, const onnx::Values& inputs)
      : engine_(e), context_(e.create_context()), inputs_(inputs), host_inputs_(inputs), outputs_(e.outputs().size()) {
    for (onnx::Value& v : host_inputs_)
      if (v.tensor) v.tensor = to(v.tensor, Device());
    context_->run_into(inputs_, outputs_);
    for (const Tensor& t : outputs_) host_outputs_.push_back(to(t, Device()));
  }
  void run(bool noted) {
    const auto begin = Clock::now();
    const bool copies = engine_.device().type != DeviceType::Cpu;
    if (copies)
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (inputs_[i].tensor) copy_(inputs_[i].tensor, host_inputs_[i].tensor);
    wait();
    const auto computing = Clock::now();
    context_->run_into(inputs_, outputs_);
    wait();
    const double compute_ms = milliseconds_since(computing);
    const auto back = Clock::now();
    if (copies)
      for (size_t i = 0; i < outputs_.size(); ++i) copy_(host_outputs_[i], outputs_[i]);
    if (!noted) return;
    if (copies) {
      copies_in.all.push_back(std::chrono::duration<double, std::milli>(computing - begin).count());
      copies_out.all.push_back(milliseconds_since(back));
    }
    compute.all.push_back(compute_ms);
    latency.all.push_back(milliseconds_since(begin));
  }
  void sort() {
    for (Times* t : {&latency, &copies_in, &compute, &copies_out}) std::ranges::sort(t->all);
  }
  Times latency, copies_in, compute, copies_out;
  engine::ExecutionContext& context() { return *context_; }

 private:
  void wait() const {
    if (engine_.device().type != DeviceType::Cpu) cuda::synchronize(engine_.device());
  }
  const engine::Engine& engine_;
  std::unique_ptr<engine::ExecutionContext> context_;
  onnx::Values inputs_, host_inputs_;
  std::vector<Tensor> outputs_, host_outputs_;
};

// The measured peaks of the device, which takes about a second.
engine::Peaks measured_peaks(Device device) {
  engine::Peaks peaks;
  const std::string name = device.type == DeviceType::Cpu ? "cpu" : to_string(device);
  for (const devices::Info& info : devices::list(true)) {
    if (info.device != name) continue;
    for (const devices::Peak& p : info.peaks) {
      if (p.unit == "FLOP/s" && p.what == "float32") peaks.flops = p.measured;
      if (p.unit == "B/s") peaks.bytes = std::max(peaks.bytes, p.measured);
    }
  }
  return peaks;
}

void write_profile(const EngineOptions& o, const std::vector<engine::LayerProfile>& layers,
                   const engine::Peaks& peaks) {
  const std::string& path = o.export_profile;
  const bool page = path.ends_with(".html");
  write_file(path, page                      ? engine::profile_html(layers, peaks, "Layers")
                   : path.ends_with(".json") ? engine::profile_json(layers, peaks)
                                             : engine::profile_text(layers, peaks));
}

}  // namespace

int bench_engine(const EngineOptions& o) {
  STRATA_CHECK(o.seconds > 0 && o.warm_up >= 0 && o.runs >= 0, Value,
               "--duration {} --warmUp {} --iterations {}: expected times and counts that are not negative", o.seconds,
               o.warm_up, o.runs);
  const auto engine = open_engine(o);
  const onnx::Values inputs = inputs_of(*engine, o);
  Bench bench(*engine, inputs);
  const auto warm = Clock::now();
  do bench.run(false);
  while (milliseconds_since(warm) < o.warm_up);
  const auto begin = Clock::now();
  for (int64_t i = 0; o.runs ? i < o.runs : i == 0 || milliseconds_since(begin) < 1e3 * o.seconds; ++i) bench.run(true);
  const double seconds = milliseconds_since(begin) / 1e3;
  const double per_second = static_cast<double>(bench.latency.all.size()) / seconds;
  bench.sort();
  const std::string mode = bench.context().last_mode();
  if (o.json) {
    nlohmann::ordered_json all = {{"device", to_string(engine->device())}, {"mode", mode},
                                  {"runs", bench.latency.all.size()},      {"throughput", per_second},
                                  {"latency_ms", bench.latency.json()},    {"compute_ms", bench.compute.json()}};
    if (!bench.copies_in.all.empty()) {
      all["copy_in_ms"] = bench.copies_in.json();
      all["copy_out_ms"] = bench.copies_out.json();
    }
    fmt::print("{}\n", dumped(all));
  } else {
    fmt::print("{} runs on {} ({}): {:.2f} per second\n", bench.latency.all.size(), to_string(engine->device()), mode,
               per_second);
    fmt::print("{:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "ms", "min", "mean", "median", "90%", "95%", "99%",
               "max");
    fmt::print("{}", bench.latency.text("latency"));
    if (!bench.copies_in.all.empty()) fmt::print("{}", bench.copies_in.text("copy in"));
    fmt::print("{}", bench.compute.text("compute"));
    if (!bench.copies_out.all.empty()) fmt::print("{}", bench.copies_out.text("copy out"));
  }
  if (!o.dump_profile && o.export_profile.empty()) return 0;
  const engine::Peaks peaks = o.measured_peaks ? measured_peaks(engine->device()) : engine::Peaks();
  const std::vector<engine::LayerProfile> layers = engine::profile(bench.context(), inputs, 10);
  if (!o.export_profile.empty()) write_profile(o, layers, peaks);
  if (o.dump_profile)
    fmt::print("{}", o.json ? engine::profile_json(layers, peaks) + "\n" : engine::profile_text(layers, peaks));
  return 0;
}

}  // namespace strata::cli
