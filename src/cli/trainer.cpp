#include "cli/trainer.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "cli/output.h"
#include "cli/progress.h"
#include "cuda/driver/vgpu.h"
#include "cuda/runtime/runtime.h"

namespace strata::cli {
namespace {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kKernelsShown = 12;                   // of --counters
constexpr double kMean = 0.1307, kDeviation = 0.3081;  // of MNIST's pixels

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Ctrl-C asks the loop to stop after the current step; a second one kills, as usual.
std::atomic<bool> interrupted = false;
extern "C" void on_interrupt(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}
class CatchInterrupts {
 public:
  CatchInterrupts() : before_(std::signal(SIGINT, on_interrupt)) { interrupted = false; }
  ~CatchInterrupts() { std::signal(SIGINT, before_); }
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;

 private:
  void (*before_)(int);
};

// Pixels as normalized floats, [count, 1, 28, 28]. Computed on the device, to which a quarter of the bytes is copied.
Tensor normalized(const Tensor& pixels) {
  return div(sub(div(to(unsqueeze(pixels, 1), DType::F32), 255), kMean), kDeviation);
}

// The weights are drawn on the CPU, so that they are the same on all devices.
SmallCnn seeded_network(uint64_t seed, Device device) {
  manual_seed(seed);
  SmallCnn net;
  if (device.type == DeviceType::Cpu) net.to("channels_last");
  else net.to(device);
  return net;
}

nlohmann::json to_json(const cuda::vgpu::KernelTotals& t) {
  return {{"op", t.op},
          {"kernel", t.kernel},
          {"launches", t.launches},
          {"warp_instructions", t.warp_instructions},
          {"thread_instructions", t.thread_instructions},
          {"simt_efficiency", t.simt_efficiency()},
          {"sectors_per_request", t.sectors_per_request()},
          {"passes_per_request", t.passes_per_request()},
          {"occupancy", t.occupancy},
          {"limiter", t.limiter},
          {"estimated_seconds", t.estimated_seconds},
          {"bound", t.bound}};
}

}  // namespace

Trainer::Trainer(const TrainOptions& options)
    : options_(options),
      digits_(load_digits(options.data, options.download, options.quiet)),
      device_(require_available(device_from_name(options.device))),
      net_(seeded_network(options.seed, device_)),
      optimizer_(net_.parameters(), {.lr = options.lr}),
      scaler_({.enabled = options.amp == "f16"}) {
  if (options_.threads > 0) set_num_threads(options_.threads);
  const int64_t all = digits_.train.images.size(0);
  images_ = options_.limit > 0 ? std::min(options_.limit, all) : all;
  const int64_t tests = digits_.test.images.size(0);
  test_images_ = options_.test_limit > 0 ? std::min(options_.test_limit, tests) : tests;
  steps_ = (images_ + options_.batch_size - 1) / options_.batch_size;
  std::error_code error;
  fs::create_directories(options_.out, error);
  STRATA_CHECK(!error, Io, "--out {}: cannot make this folder: {}", options_.out, error.message());
  const std::time_t now = std::time(nullptr);
  started_ = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(now));
  if (options_.tensorboard) {
    events_.emplace(path("tensorboard"));
    events_->add_text("run", fmt::format("small CNN on {}, {}", digits_.name, options_.device), 0);
  }
  schedule_ = make_schedule();
  if (options_.resume) load_checkpoint();
  read_metrics();
}

data::DataLoader Trainer::batches(const data::ImageSet& set, Tensor order, int64_t size) const {
  const auto all = std::make_shared<const data::TensorDataset>(std::vector<Tensor>{set.images, set.labels});
  return {data::Subset(all, std::move(order)), {.batch_size = size, .prefetch_device = device_}};
}

// Warms up over the first twentieth of the run and decays along a cosine.
std::unique_ptr<Schedule> Trainer::make_schedule() {
  namespace s = optim::lr_scheduler;
  if (options_.schedule == "constant")
    return std::make_unique<s::ConstantLR>(optimizer_, s::ConstantLROptions{.factor = 1});
  const int64_t steps = steps_ * options_.epochs;
  const auto warmup = static_cast<double>(std::max<int64_t>(1, steps / 20));
  const auto rise = std::make_shared<s::LinearLR>(
    optimizer_, s::LinearLROptions{.start_factor = 1 / warmup, .total_iters = warmup - 1});
  const auto fall = std::make_shared<s::CosineAnnealingLR>(
    optimizer_, s::CosineAnnealingLROptions{.T_max = static_cast<double>(std::max<int64_t>(1, steps))});
  return std::make_unique<s::ChainedScheduler>(optimizer_, std::vector<std::shared_ptr<Schedule>>{rise, fall});
}

// The epoch's order depends only on the seed and its number, so that a resumed run sees the same.
Tensor Trainer::order_of(int64_t epoch) const {
  Generator generator(options_.seed + 0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(epoch + 1));
  return randperm(images_, &generator);
}

// No scope, and so no casts, without --amp.
static void enter(std::optional<autocast::Scope>& scope, const std::string& amp, Device device) {
  if (!amp.empty()) scope.emplace(device.type, amp == "f16" ? DType::F16 : DType::BF16);
}

Tensor Trainer::loss_of(const data::Example& batch) {
  std::optional<autocast::Scope> scope;
  enter(scope, options_.amp, device_);
  return nn::functional::cross_entropy(net_(normalized(batch[0])), batch[1]);
}

Tensor Trainer::take_step(const data::Example& batch) {
  optimizer_.zero_grad();
  Tensor loss = loss_of(batch);
  scaler_.scale(loss).backward();
  scaler_.step(optimizer_);
  scaler_.update();
  return loss;
}

bool Trainer::train_epoch() {
  Progress progress(fmt::format("epoch {}/{}", epoch_ + 1, options_.epochs), steps_, options_.quiet);
  const int64_t first = step_, done = first * options_.batch_size;
  const Clock::time_point start = Clock::now();
  const double before = epoch_seconds_;
  if (step_ == steps_) return true;
  if (options_.counters) cuda::driver::take_vgpu_counters();  // discard those of the test
  data::DataLoader loader =
    batches(digits_.train, narrow(order_of(epoch_), 0, done, images_ - done), options_.batch_size);
  auto in_groups = compile([this](const data::Example& batch) { return take_step(batch); });
  for (const data::Example& batch : loader) {
    if (interrupted) return false;
    const bool recorded = !step_recorded_ && (step_ == 3 || step_ + 1 == steps_) && !tracing::enabled.load();
    const Tensor loss = recorded ? take_recorded_step(batch) : options_.compile ? in_groups(batch) : take_step(batch);
    schedule_->step();
    const auto value = loss.item<float>();
    STRATA_CHECK(std::isfinite(value), Runtime,
                 "the loss is {} at step {} of epoch {}: training has diverged; try a smaller --lr than {}", value,
                 step_ + 1, epoch_ + 1, options_.lr);
    losses_.push_back(value);
    ++step_;
    if (events_) events_->add_scalar("train/loss", value, epoch_ * steps_ + step_);
    if (options_.counters)
      for (const auto& launch : cuda::driver::take_vgpu_counters()) counters_.add(launch);
    note_memory();
    epoch_seconds_ = before + seconds_since(start);
    const double speed = static_cast<double>((step_ - first) * options_.batch_size) / (epoch_seconds_ - before);
    progress.update(step_, fmt::format("loss {:.4f}  {:.0f} images/s", value, speed));
  }
  return true;
}

double Trainer::test() {
  const autograd::NoGrad no_grad;
  std::optional<autocast::Scope> scope;
  enter(scope, options_.amp, device_);
  constexpr int64_t kBatch = 250;
  const int64_t n = test_images_;
  net_.eval();
  int64_t right = 0;
  record_.confusion.assign(10, std::vector<int64_t>(10));
  record_.digits.clear();
  data::DataLoader loader = batches(digits_.test, arange(n, DType::I64), kBatch);
  for (const data::Example& batch : loader) {
    const Tensor classes = argmax(net_(normalized(batch[0])), 1);
    right += sum(eq(classes, batch[1])).item<int64_t>();
    note_predictions(batch, classes);
  }
  net_.train();
  return static_cast<double>(right) / static_cast<double>(std::max<int64_t>(n, 1));
}

int Trainer::run() {
  if (!options_.quiet)
    fmt::print(
      "{} ({}): {} images to train on, {} to test with; {} parameters; device {}{}, {} threads\n", digits_.name,
      digits_.source, images_, test_images_,
      [&] {
        int64_t n = 0;
        for (const Tensor& p : net_.parameters()) n += p.numel();
        return n;
      }(),
      options_.device, options_.amp.empty() ? "" : ", mixed precision in " + options_.amp, num_threads());
  if (options_.resume && !options_.quiet)
    fmt::print("resumed after epoch {}{}\n", epoch_, step_ ? fmt::format(" and {} steps", step_) : "");
  std::fflush(stdout);  // before the progress on stderr
  const CatchInterrupts catcher;
  const Clock::time_point start = Clock::now();
  while (epoch_ < options_.epochs) {
    reset_peak_memory_stats();
    const int64_t before = step_;
    if (!train_epoch()) {
      save_checkpoint();
      say(
        "\ninterrupted in epoch {} after {} of {} steps; saved {}. Go on with: strata train --resume --out {} "
        "(and the same options)\n",
        epoch_ + 1, step_, steps_, path("checkpoint.safetensors"), options_.out);
      return 130;
    }
    const double accuracy = test();
    const auto mean = std::accumulate(losses_.end() - steps_, losses_.end(), 0.0) / static_cast<double>(steps_);
    const double memory = static_cast<double>(memory_stats().peak_allocated_bytes) / (1 << 20);
    const auto done = static_cast<double>(steps_);
    rows_.push_back(
      {{1000 * epoch_seconds_ / done, static_cast<double>(images_) / epoch_seconds_, mean, accuracy, memory},
       options_.device,
       epoch_ + 1});
    ++epoch_;
    if (events_) {
      events_->add_scalar("test/accuracy", accuracy, epoch_);
      events_->add_scalar("train/images_per_second", rows_.back().images_per_second, epoch_);
      events_->flush();
    }
    step_ = 0;
    epoch_seconds_ = 0;
    save_checkpoint();
    write_metrics();
    write_reports();
    if (!options_.quiet) {
      const Row& r = rows_.back();
      fmt::print("epoch {}/{}  loss {:.4f}  test accuracy {:.2f}%  {:.0f} images/s  {:.2f} ms a step{}\n", epoch_,
                 options_.epochs, r.loss, 100 * r.accuracy, r.images_per_second, r.step_ms,
                 before ? "  (resumed)" : "");
      std::fflush(stdout);
    }
  }
  report(seconds_since(start));
  return 0;
}

void Trainer::report(double seconds) {
  if (rows_.empty()) return;
  const Row& r = rows_.back();
  nlohmann::json out{{"data", digits_.name}, {"device", r.device},       {"epochs", epoch_},
                     {"loss", r.loss},       {"accuracy", r.accuracy},   {"images_per_second", r.images_per_second},
                     {"step_ms", r.step_ms}, {"memory_mb", r.memory_mb}, {"seconds", seconds},
                     {"out", options_.out}};
  if (options_.counters) {
    nlohmann::json kernels = nlohmann::json::array();
    for (const auto& kernel : counters_.kernels()) kernels.push_back(to_json(kernel));
    out["counters"] = {{"kernels", kernels}, {"total", to_json(counters_.total())}};
  }
  result_ = out.dump(2);
  if (options_.quiet) return;
  fmt::print("\n{:.2f}% of the test images are recognised after {} epoch{}; {} in all, peak memory {:.0f} MB\n",
             100 * r.accuracy, epoch_, epoch_ == 1 ? "" : "s", duration(seconds), r.memory_mb);
  fmt::print(
    "  {:<34} weights and optimizer, for --resume and strata.load()\n  {:<34} one row per epoch\n  {:<34} loss, "
    "accuracy, speed\n  {:<34} curves, time by layer and op, digits; open it in a browser\n",
    path("checkpoint.safetensors"), path("metrics.csv"), path("plot.svg"), path("report.html"));
  if (!counters_.empty())
    fmt::print("\nThe training steps on {} ({}), by op and kernel, slowest first:\n{}", options_.device,
               cuda::Runtime::gpu(device_).properties.name, counters_.to_text(kKernelsShown));
}

}  // namespace strata::cli
