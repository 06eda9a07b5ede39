#include "cli/engine_options.h"

#include "cli/device_option.h"
#include "cli/network_inputs.h"
#include "cli/progress.h"
#include "engine/builder.h"
#include "engine/plan.h"

namespace strata::cli {

void add_source(CLI::App& command, EngineOptions& o) {
  command.add_option("file", o.file, "An .onnx file or a plan");
  command.add_option("--onnx", o.model, "An .onnx file");
  command.add_option("--loadEngine,--load", o.plan, "A plan");
  command.add_option("--device", o.device, "cpu, cuda, vgpu; default: cpu, or the device that the plan was built for");
  command.add_flag("--json", o.json, "Machine-readable output");
}

void add_building(CLI::App& command, EngineOptions& o) {
  command.add_flag("--fp16", o.fp16, "Allow float16");
  command.add_flag("--bf16", o.bf16, "Allow bfloat16");
  command.add_flag("--int8", o.int8, "Allow int8");
  command.add_option("--calib", o.calibration, "The table that `strata engine quantize` wrote, for int8");
  command.add_flag("--best", o.best, "Allow all precisions");
  command.add_option("--minShapes", o.min_sizes, "Smallest sizes of inputs that vary: x:1x3x32x32,y:1");
  command.add_option("--optShapes", o.opt_sizes, "The sizes to tune for");
  command.add_option("--maxShapes", o.max_sizes, "Largest sizes");
  command.add_option("--builderOptimizationLevel,--level", o.level, "0 (kernels are not timed) to 5")
    ->capture_default_str();
  command.add_option("--time-limit", o.time_limit, "Seconds for timing kernels")->capture_default_str();
  command.add_option("--timingCacheFile,--timing-cache", o.timing_cache, "Keeps the times of kernels in this file");
  command.add_option("--memPoolSize,--workspace", o.workspace,
                     "Most MiB that a kernel may ask for: 512 or workspace:512");
  command.add_flag("--useCudaGraph", o.cuda_graph, "Runs of the same sizes are one launch (the default)");
  command.add_flag("--noCudaGraph", o.no_cuda_graph, "Each kernel is launched by itself");
  command.add_option("--saveEngine,--save-engine", o.save_plan, "Write the plan to this file");
}

void add_inputs(CLI::App& command, EngineOptions& o) {
  command.add_option("--shapes,--shape", o.sizes, "Sizes of random inputs: x:1x3x224x224");
  command.add_option("--loadInputs,--inputs", o.inputs, "A safetensors file with inputs by name");
}

namespace {

size_t workspace_of(const std::string& text) {
  if (text.empty()) return 0;
  const size_t colon = text.rfind(':');
  const std::string number = colon == std::string::npos ? text : text.substr(colon + 1);
  STRATA_CHECK(!number.empty() && number.size() < 8 && number.find_first_not_of("0123456789") == std::string::npos,
               Value, "--memPoolSize {}: expected a number of MiB", text);
  return std::stoull(number) << 20;
}

engine::BuilderConfig config_of(const EngineOptions& o) {
  engine::BuilderConfig c;
  c.fp16 = o.fp16 || o.best;
  c.bf16 = o.bf16 || o.best;
  c.int8 = o.int8 || (o.best && !o.calibration.empty());
  c.level = o.level;
  c.time_limit = o.time_limit;
  c.timing_cache = o.timing_cache;
  c.workspace_limit = workspace_of(o.workspace);
  c.cuda_graphs = !o.no_cuda_graph;
  if (!o.calibration.empty()) {
    const auto text = FileBytes::map(o.calibration);
    c.calibration = engine::table_of({reinterpret_cast<const char*>(text->bytes().data()), text->bytes().size()});
  }
  // Any of the three that is not given is that of the sizes to tune for, else the sizes of the run.
  const SizesByName sizes = sizes_by_name(o.sizes, "--shapes");
  SizesByName opt = sizes_by_name(o.opt_sizes, "--optShapes");
  const SizesByName min = sizes_by_name(o.min_sizes, "--minShapes"), max = sizes_by_name(o.max_sizes, "--maxShapes");
  for (const auto& [name, s] : sizes) opt.try_emplace(name, s);
  for (const auto& [name, s] : max) opt.try_emplace(name, s);
  for (const auto& [name, s] : min) opt.try_emplace(name, s);
  if (opt.empty()) return c;
  engine::OptimizationProfile& profile = c.profiles.emplace_back();
  for (const auto& [name, s] : opt) {
    const auto least = min.find(name), most = max.find(name);
    profile.set(name, least == min.end() ? s : least->second, s, most == max.end() ? s : most->second);
  }
  return c;
}

}  // namespace

std::shared_ptr<engine::Engine> open_engine(const EngineOptions& o) {
  const int given = int{!o.file.empty()} + int{!o.model.empty()} + int{!o.plan.empty()};
  STRATA_CHECK(given == 1, Value, "give one file: an .onnx file (--onnx) or a plan (--loadEngine)");
  return open_engine(o, !o.file.empty() ? o.file : !o.model.empty() ? o.model : o.plan);
}

std::shared_ptr<engine::Engine> open_engine(const EngineOptions& o, const std::string& path) {
  std::optional<Device> device;
  if (!o.device.empty()) device = device_of_option(o.device);
  const auto file = FileBytes::map(path);
  STRATA_CHECK(o.plan.empty() || path != o.plan || engine::is_plan(*file), Value, "'{}' is no plan", path);
  if (engine::is_plan(*file)) return engine::read_plan(file, device);
  engine::BuilderConfig config = config_of(o);
  constexpr int64_t kSteps = 100;
  Progress bar("build", kSteps, o.json);
  config.progress = [&](const std::string& what, double done) {
    bar.update(static_cast<int64_t>(done * kSteps), what);
    return true;
  };
  auto engine = engine::build(path, device.value_or(Device()), std::move(config));
  if (!o.save_plan.empty()) engine::save_plan(*engine, o.save_plan);
  return engine;
}

onnx::Values inputs_of(const engine::Engine& e, const EngineOptions& o) {
  GivenInputs given{sizes_by_name(o.sizes, "--shapes"), o.inputs};
  if (!e.config().profiles.empty())
    for (const auto& [name, range] : e.config().profiles[0].ranges) given.sizes.try_emplace(name, range.opt);
  return make_inputs(e.inputs(), e.device(), given);
}

}  // namespace strata::cli
