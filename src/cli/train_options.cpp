#include "cli/train_options.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "cli/device_option.h"

namespace strata::cli {
namespace {

// Called before the data is downloaded, and before --out is created.
void check_resume(const TrainOptions& o) {
  const auto file = std::filesystem::path(o.out) / "checkpoint.safetensors";
  std::error_code ignored;
  STRATA_CHECK(!o.resume || std::filesystem::exists(file, ignored), Io,
               "--resume: there is no {} to resume from; name its folder with --out, or train without --resume",
               file.string());
}

}  // namespace

void add_train_options(CLI::App& command, TrainOptions& options) {
  command.add_option("--model", options.model, "Network: cnn (two convolutions, two linear layers)")
    ->check(CLI::IsMember({"cnn"}))
    ->capture_default_str();
  command.add_option(
    "--data", options.data,
    "Folder with the MNIST files, or mnist, or synthetic (default: MNIST if available, otherwise synthetic)");
  command
    .add_option(
      "--device", options.device,
      "Where to train: cpu, cuda, vgpu; several with commas, or all (the CPU and every GPU), one after the other")
    ->capture_default_str();
  command.add_option("--epochs", options.epochs, "Passes over the training images")
    ->check(CLI::Range(int64_t{1}, int64_t{100000}))
    ->capture_default_str();
  command.add_option("--batch-size", options.batch_size, "Images per step")
    ->check(CLI::Range(int64_t{1}, int64_t{60000}))
    ->capture_default_str();
  command.add_option("--lr", options.lr, "Learning rate of Adam, at its highest")->capture_default_str();
  command
    .add_option("--schedule", options.schedule,
                "Learning rate over the run: cosine (rises, then falls to 0) or constant")
    ->check(CLI::IsMember({"cosine", "constant"}))
    ->capture_default_str();
  command.add_option("--seed", options.seed, "Of the initial weights and the order of the images")
    ->check(CLI::NonNegativeNumber)
    ->capture_default_str();
  command.add_option("--out", options.out, "Folder for checkpoint, metrics, plot and report")->capture_default_str();
  command.add_option("--name", options.name, "Of the run, in reports (default: the name of the folder)");
  command.add_option("--limit", options.limit, "Train on the first N images only (0: all)")
    ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
    ->capture_default_str();
  command.add_option("--test-limit", options.test_limit, "Test with the first N images only (0: all)")
    ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
    ->capture_default_str();
  command.add_option("--threads", options.threads, "CPU threads (0: all)")
    ->check(CLI::Range(0, 4096))
    ->capture_default_str();
  command
    .add_option(
      "--amp", options.amp,
      "Mixed precision, off unless given: products and convolutions in bf16 (without a value), or in f16 with "
      "scaled gradients")
    ->expected(0, 1)
    ->default_str("bf16")
    ->option_text("[bf16|f16]")
    ->check(CLI::IsMember({"bf16", "f16"}));
  command.add_flag("--counters", options.counters,
                   "With --device vgpu: print what the kernels of the training steps did");
  command.add_flag("--compile", options.compile, "Compute the ops of a step in groups, with the same numbers");
  command.add_flag("--tensorboard", options.tensorboard,
                   "Also write event files for TensorBoard, into --out/tensorboard");
  command.add_flag("--resume", options.resume, "Go on from the checkpoint in --out");
  command.add_flag("--quiet", options.quiet, "Print errors only");
  command.add_flag("--json", options.json, "Print the result as JSON, and nothing else");
  command.add_flag("!--no-download", options.download, "Never fetch MNIST");
}

void check_train_options(const TrainOptions& o) {
  device_of_option(o.device);
  STRATA_CHECK(!o.counters || device_from_name(o.device).type == DeviceType::Vgpu, Value,
               "--counters: only the virtual GPU counts, and --device is {}; add --device vgpu", o.device);
  STRATA_CHECK(o.lr > 0 && std::isfinite(o.lr), Value, "--lr {}: expected a number above 0", o.lr);
  check_resume(o);
}

}  // namespace strata::cli
