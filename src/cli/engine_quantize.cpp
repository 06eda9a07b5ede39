// `strata engine quantize`: a calibration from files of inputs, and a model of ONNX with the conversions to bytes.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands.h"
#include "cli/engine_options.h"
#include "cli/json.h"
#include "cli/network_inputs.h"
#include "engine/quantize/calibrate.h"
#include "engine/report.h"

namespace strata::cli {
namespace {

// Files of inputs: those given, and the safetensors files of folders.
std::vector<std::string> sample_files(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& path : given) {
    std::error_code none;
    if (!std::filesystem::is_directory(path, none)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".safetensors") inside.push_back(entry.path().string());
    STRATA_CHECK(!inside.empty(), Value, "--samples: the folder '{}' has no .safetensors files", path);
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  STRATA_CHECK(!files.empty(), Value,
               "--samples: give safetensors files with inputs by name, or a folder of them; int8 needs real inputs");
  return files;
}

std::string largest_errors(const engine::CalibrationTable& table) {
  constexpr size_t kShown = 10;
  std::vector<std::pair<double, std::string>> layers;
  for (const auto& [name, error] : table.errors) layers.emplace_back(error, name);
  std::ranges::sort(layers, std::greater<>());
  std::string text;
  for (size_t i = 0; i < std::min(kShown, layers.size()); ++i) {
    const bool in_floats = std::ranges::find(table.floats, layers[i].second) != table.floats.end();
    text += fmt::format("error      {:.4f}  {}{}\n", layers[i].first, engine::printable(layers[i].second),
                        in_floats ? " (stays in float32)" : "");
  }
  return text;
}
}  // namespace

void add_calibration(CLI::App& command, EngineOptions& o) {
  command.add_option("--samples", o.samples, "Safetensors files with inputs by name, or folders of them");
  command.add_option("--method", o.method, "entropy, min-max or percentile")->capture_default_str();
  command.add_option("--percentile", o.percentile, "Percent of the elements that are not cut off")
    ->capture_default_str();
  command.add_option(
    "--maxError,--max-error", o.max_error,
    "Largest error of an output, relative to its size: the worst layers stay in float32; 0: all are int8");
  command.add_option("--output", o.save_model, "Write a model with QuantizeLinear and DequantizeLinear");
  command.add_option("--saveTable", o.save_table, "Write the table, which --calib reads");
}

int quantize_model(const EngineOptions& given) {
  EngineOptions o = given;
  o.level = 0;
  o.fp16 = o.bf16 = o.int8 = o.best = false;
  const std::vector<std::string> files = sample_files(o.samples);
  engine::CalibrationOptions options;
  options.method = engine::calibrator_of(o.method);
  options.percentile = o.percentile;
  options.max_error = o.max_error;
  const auto network = open_engine(o);
  const auto inputs = [&](const std::string& file) {
    o.inputs = file;
    return inputs_of(*network, o);
  };
  size_t next = 0;
  const engine::CalibrationTable table = engine::calibrate(
    network->network(),
    [&]() -> std::optional<onnx::Values> {
      if (next == files.size()) return {};
      return inputs(files[next++]);
    },
    options);
  const std::string text = to_string(table);
  if (!o.save_table.empty()) write_file(o.save_table, text);
  size_t layers = 0;
  if (!o.save_model.empty()) layers = engine::save_quantized(network->network(), inputs(files[0]), table, o.save_model);
  if (o.json) {
    nlohmann::ordered_json about = {{"method", table.method},
                                    {"samples", table.samples},
                                    {"errors", table.errors},
                                    {"float32", table.floats},
                                    {"layers", layers}};
    fmt::print("{}\n", dumped(about));
    return 0;
  }
  fmt::print("samples    {}\nlayers     {}, {} of them stay in float32\n{}", table.samples, table.errors.size(),
             table.floats.size(), largest_errors(table));
  if (!o.save_model.empty()) fmt::print("model      {} ({} layers in int8)\n", o.save_model, layers);
  if (!o.save_table.empty()) fmt::print("table      {}\n", o.save_table);
  if (o.save_model.empty() && o.save_table.empty())
    fmt::print("not saved; --output writes a model, --saveTable the table\n");
  return 0;
}

}  // namespace strata::cli
