// `strata engine`: builds engines of models, runs, measures and compares them.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/commands.h"
#include "cli/engine_options.h"
#include "cli/json.h"
#include "engine/builder.h"
#include "engine/plan.h"
#include "engine/report.h"
#include "nn/files/checkpoint.h"
#include "strata/ops.h"

namespace strata::cli {
namespace {

using engine::printable;
using Json = nlohmann::ordered_json;

int build(const EngineOptions& o) {
  STRATA_CHECK(o.plan.empty(), Value, "--loadEngine: a plan is built already; give an .onnx file");
  const auto engine = open_engine(o);
  const Json about = Json::parse(engine::describe(*engine));
  if (o.json) {
    fmt::print("{}\n", dumped(about));
    return 0;
  }
  for (const engine::Port& p : engine->inputs()) fmt::print("input      {}\n", printable(to_string(p)));
  for (const engine::Port& p : engine->outputs()) fmt::print("output     {}\n", printable(to_string(p)));
  fmt::print("nodes      {}\nweights    {} ({} bytes)\ngraphs     {}\n", engine->network().node_count(),
             about.at("weights").get<size_t>(), about.at("weight_bytes").get<int64_t>(), engine->keys().size());
  if (o.save_plan.empty()) fmt::print("not saved; --saveEngine FILE writes the plan\n");
  else fmt::print("plan       {}\n", o.save_plan);
  return 0;
}

int run_engine(const EngineOptions& o) {
  const auto engine = open_engine(o);
  const auto context = engine->create_context();
  const onnx::Values outputs = context->run(inputs_of(*engine, o));
  TensorDict results;
  Json list = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = engine->outputs()[i].name;
    const std::string kind = onnx::kind_of(outputs[i]);
    Json row = {{"name", name}, {"value", kind}};
    if (o.dump_output && outputs[i].tensor) row["values"] = to(outputs[i].tensor, Device()).to_string();
    if (!o.json) {
      fmt::print("output     {}: {}\n", printable(name), kind);
      if (row.contains("values")) fmt::print("{}\n", row["values"].get<std::string>());
    }
    list.push_back(row);
    if (outputs[i].tensor) results.emplace_back(name, to(outputs[i].tensor, Device()));
  }
  if (o.json)
    fmt::print("{}\n", dumped(Json{{"outputs", list},
                                   {"mode", context->last_mode()},
                                   {"memory", context->bytes()},
                                   {"device", to_string(engine->device())}}));
  else fmt::print("ran as     {} on {}\n", context->last_mode(), to_string(engine->device()));
  if (!o.save_outputs.empty()) save(o.save_outputs, results, {});
  return 0;
}

int inspect(const EngineOptions& o) {
  const auto engine = open_engine(o);
  Json about = Json::parse(engine::describe(*engine));
  const engine::OptimizationProfile profile =
    engine->config().profiles.empty() ? engine::OptimizationProfile() : engine->config().profiles[0];
  const bool sized = !o.sizes.empty() || !o.inputs.empty() || engine::has_all_sizes(engine->network(), profile);
  if (sized) about["graph"] = Json::parse(engine::describe(*engine, inputs_of(*engine, o)));
  if (o.json) {
    fmt::print("{}\n", dumped(about));
    return 0;
  }
  for (const engine::Port& p : engine->inputs()) fmt::print("input      {}\n", printable(to_string(p)));
  for (const engine::Port& p : engine->outputs()) fmt::print("output     {}\n", printable(to_string(p)));
  for (const engine::OptimizationProfile& p : engine->config().profiles)
    fmt::print("profile    {}\n", printable(to_string(p)));
  fmt::print("nodes      {}\n", about.at("nodes").get<size_t>());
  for (const auto& [op, count] : about.at("ops").items())
    fmt::print("{:>8} x {}\n", count.get<size_t>(), printable(op));
  if (!sized) {
    fmt::print("sizes vary: --shapes x:1x3x224x224 shows the graph for them\n");
    return 0;
  }
  const Json& graph = about.at("graph");
  if (graph.contains("interpreted")) {
    fmt::print("no graph   {}\n", printable(graph.at("interpreted").get<std::string>()));
    return 0;
  }
  fmt::print("graph      {} nodes ({} kernels, {} views, {} calls), {} bytes of memory\n",
             graph.at("nodes").get<size_t>(), graph.at("kernels").get<size_t>(), graph.at("views").get<size_t>(),
             graph.at("calls").get<size_t>(), graph.at("arena_bytes").get<size_t>());
  for (const Json& d : graph.at("decisions"))
    fmt::print("{} {}: {} ({})\n", d.at("applied").get<bool>() ? "pass      " : "refused   ",
               d.at("pass").get<std::string>(), printable(d.at("what").get<std::string>()),
               printable(d.at("where").get<std::string>()));
  return 0;
}

int show_accuracy(const EngineOptions& o) {
  const auto engine = open_engine(o);
  const std::vector<engine::LayerError> layers = engine::accuracy(*engine, inputs_of(*engine, o));
  fmt::print("{}", o.json ? engine::accuracy_json(layers) + "\n" : engine::accuracy_text(layers));
  return 0;
}

// The largest difference of two tensors, relative to the largest value; infinite if one has NaN or infinity where the other has not.
double difference(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !std::ranges::equal(a.shape(), b.shape())) return INFINITY;
  if (a.numel() == 0) return 0;
  const Tensor x = to(to(a, Device()), DType::F64), y = to(to(b, Device()), DType::F64);
  const Tensor d = where(eq(x, y), 0.0, abs(sub(x, y)));
  if (!any(isnan(ne(isfinite(x), isfinite(y)))).item<bool>() && any(ne(isfinite(x), isfinite(y))).item<bool>())
    return INFINITY;
  const Tensor finite = where(isfinite(d), d, 0.0), size = where(isfinite(y), abs(y), 0.0);
  return max(finite).item<double>() / std::max(1.0, max(size).item<double>());
}

int compare(const EngineOptions& o) {
  const auto a = open_engine(o), b = open_engine(o, o.other);
  const onnx::Values inputs = inputs_of(*a, o);
  const auto run = [&](const engine::Engine& e) { return e.create_context()->run(inputs); };
  const onnx::Values first = run(*a), second = run(*b);
  STRATA_CHECK(first.size() == second.size(), Value, "'{}' has {} outputs, '{}' {}", o.file, first.size(), o.other,
               second.size());
  Json list = Json::array();
  bool agree = true;
  for (size_t i = 0; i < first.size(); ++i) {
    STRATA_CHECK(first[i].tensor && second[i].tensor, NotImplemented, "the output '{}' is no tensor",
                 a->outputs()[i].name);
    const double d = difference(first[i].tensor, second[i].tensor);
    agree = agree && d <= o.tolerance;
    list.push_back({{"name", a->outputs()[i].name}, {"difference", std::isfinite(d) ? Json(d) : Json("different")}});
    if (!o.json)
      fmt::print("{:<32} {}\n", printable(a->outputs()[i].name),
                 std::isfinite(d) ? fmt::format("{:.3g}", d) : "different");
  }
  if (o.json) fmt::print("{}\n", dumped(Json{{"agree", agree}, {"tolerance", o.tolerance}, {"outputs", list}}));
  else fmt::print("{} (within {} of the largest value)\n", agree ? "they agree" : "they differ", o.tolerance);
  return agree ? 0 : 1;
}

}  // namespace

void add_engine(CLI::App& app, Run& run) {
  auto o = std::make_shared<EngineOptions>();
  CLI::App* command = app.add_subcommand("engine", "Build inference engines of ONNX models, run and measure them");
  command->require_subcommand(1);
  command->footer("Example: strata engine build --onnx model.onnx --saveEngine model.plan");
  const auto add = [&](const char* name, const char* what, const char* example, int (*f)(const EngineOptions&)) {
    CLI::App* sub = command->add_subcommand(name, what);
    add_source(*sub, *o);
    add_building(*sub, *o);
    add_inputs(*sub, *o);
    sub->footer(std::string("Example: strata engine ") + example);
    sub->callback([&run, o, f] { run = [o, f] { return f(*o); }; });
    return sub;
  };
  add("build", "Build an engine of a model, and write its plan",
      "build --onnx model.onnx --minShapes x:1x80 --optShapes x:8x80 --maxShapes x:32x80 --saveEngine model.plan",
      build);
  CLI::App* running = add("run", "Run an engine with random inputs, or with those of a file",
                          "run --loadEngine model.plan --inputs images.safetensors", run_engine);
  running->add_flag("--dumpOutput", o->dump_output, "Print the outputs");
  running->add_option("--save", o->save_outputs, "Write the outputs to a safetensors file");
  CLI::App* timing = add("bench", "Measure throughput and latency, with copies and computation apart",
                         "bench model.plan --shapes x:8x80 --dumpProfile", bench_engine);
  timing->add_option("--iterations", o->runs, "How many runs; default: as many as the duration takes");
  timing->add_option("--duration", o->seconds, "Seconds to measure")->capture_default_str();
  timing->add_option("--warmUp", o->warm_up, "Milliseconds before")->capture_default_str();
  timing->add_flag("--dumpProfile", o->dump_profile, "Show what each layer takes");
  timing->add_option("--exportProfile", o->export_profile, "Write that to a file: .html, .json or text");
  timing->add_flag("--peaks", o->measured_peaks, "Measure the peaks of the device first, for shares of them");
  CLI::App* quantizing =
    add("quantize", "Measure a network for int8, and write a model with the conversions",
        "quantize model.onnx --samples images/ --output model.int8.onnx --saveTable int8.txt", quantize_model);
  add_calibration(*quantizing, *o);
  add("inspect", "Inputs, ops, graph and decisions of an engine", "inspect model.plan --shapes x:1x3x224x224", inspect);
  add("accuracy", "How far each layer is from float32 without optimisation",
      "accuracy model.onnx --fp16 --inputs images.safetensors", show_accuracy);
  CLI::App* comparing = add("compare", "Run two engines with the same inputs, and compare the outputs",
                            "compare model.onnx model.plan", compare);
  comparing->add_option("other", o->other, "Another .onnx file or plan")->required();
  comparing->add_option("--tolerance", o->tolerance, "Largest difference, relative to the largest value")
    ->capture_default_str();
}

}  // namespace strata::cli
