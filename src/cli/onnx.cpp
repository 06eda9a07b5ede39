// `strata onnx`: what a model is, whether it can run, and a run with given or random inputs.
#include <fmt/core.h>

#include <chrono>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/json.h"
#include "cli/network_inputs.h"
#include "cli/output.h"
#include "engine/report.h"
#include "nn/files/checkpoint.h"
#include "onnx/network.h"
#include "onnx/tensor_data.h"
#include "strata/ops/movement/copy.h"

namespace strata::cli {
namespace {

using engine::printable;

struct OnnxOptions {
  std::string file, device = "cpu", inputs, save;
  std::vector<std::string> shapes;
  int64_t runs = 1;
  bool json = false;
};

std::string type_text(const onnx::TypeInfo& t) {
  using Kind = onnx::TypeInfo::Kind;
  if (t.kind == Kind::Sequence) return "sequence of " + (t.inner.empty() ? "values" : type_text(t.inner[0]));
  if (t.kind == Kind::Optional) return "optional " + (t.inner.empty() ? "value" : type_text(t.inner[0]));
  if (t.kind != Kind::Tensor) return "value";
  std::string dims;
  for (const auto& d : t.dims)
    dims += (dims.empty() ? "" : ", ") + (d.value >= 0     ? std::to_string(d.value)
                                          : d.name.empty() ? "?"
                                                           : printable(d.name));
  return fmt::format("{}{}", onnx::name_of(static_cast<onnx::ElementType>(t.element)),
                     t.has_shape ? "[" + dims + "]" : "");
}
size_t count_ops(const onnx::Graph& graph, std::map<std::string, size_t>& ops) {
  size_t nodes = graph.nodes.size();
  for (const onnx::Node& n : graph.nodes) {
    ++ops[n.domain.empty() ? std::string(n.op) : fmt::format("{}.{}", n.domain, n.op)];
    for (const onnx::Attribute& a : n.attributes)
      for (const onnx::Graph& inner : a.graphs) nodes += count_ops(inner, ops);
  }
  return nodes;
}
int info(const OnnxOptions& o) {
  const onnx::Model m = onnx::read_model(o.file);
  std::map<std::string, size_t> ops;
  const size_t nodes = count_ops(m.graph, ops);
  if (o.json) {
    nlohmann::json all{{"ir_version", m.ir_version},
                       {"producer", std::string(m.producer)},
                       {"graph", std::string(m.graph.name)},
                       {"opsets", m.opsets},
                       {"nodes", nodes},
                       {"functions", m.functions.size()},
                       {"ops", ops},
                       {"initializers", m.graph.initializers.size()}};
    for (const auto* ports : {&m.graph.inputs, &m.graph.outputs}) {
      nlohmann::json list = nlohmann::json::array();
      for (const onnx::ValueInfo& v : *ports)
        list.push_back({{"name", std::string(v.name)}, {"type", type_text(v.type)}});
      all[ports == &m.graph.inputs ? "inputs" : "outputs"] = list;
    }
    fmt::print("{}\n", dumped(all));
    return 0;
  }
  std::string opsets;
  for (const auto& [domain, version] : m.opsets)
    opsets +=
      fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain.empty() ? "ai.onnx" : printable(domain), version);
  fmt::print("producer   {} {}\nopsets     {}\nnodes      {} (and {} functions)\nweights    {}\n",
             printable(m.producer), printable(m.producer_version), opsets, nodes, m.functions.size(),
             m.graph.initializers.size());
  for (const onnx::ValueInfo& v : m.graph.inputs)
    fmt::print("input      {}: {}\n", printable(v.name), type_text(v.type));
  for (const onnx::ValueInfo& v : m.graph.outputs)
    fmt::print("output     {}: {}\n", printable(v.name), type_text(v.type));
  for (const auto& [op, count] : ops) fmt::print("{:>8} x {}\n", count, printable(op));
  return 0;
}

int check(const OnnxOptions& o) {
  const onnx::Network network(onnx::read_model(o.file), device_of_option(o.device));
  if (o.json)
    fmt::print("{}\n",
               dumped({{"ok", true}, {"nodes", network.step_count()}, {"device", to_string(network.device())}}));
  else
    fmt::print("{}: all ops are known; {} nodes run on {}\n", o.file, network.step_count(),
               to_string(network.device()));
  return 0;
}

int run_model(const OnnxOptions& o) {
  STRATA_CHECK(o.runs >= 1, Value, "--runs {}: expected 1 or more", o.runs);
  const engine::OnnxNetwork network(onnx::read_model(o.file), device_of_option(o.device));
  const onnx::Values inputs =
    make_inputs(network.inputs(), network.device(), {sizes_by_name(o.shapes, "--shape"), o.inputs});
  onnx::Values outputs;
  double best = 0;
  for (int64_t i = 0; i < o.runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    outputs = network.run(inputs);
    for (onnx::Value& v : outputs)
      if (v.tensor) v.tensor = to(v.tensor, Device());  // waits for the device
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    best = i == 0 ? ms : std::min(best, ms);
  }
  TensorDict results;
  nlohmann::json list = nlohmann::json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = network.outputs()[i].name;
    const std::string kind = onnx::kind_of(outputs[i]);
    list.push_back({{"name", name}, {"value", kind}});
    if (!o.json) fmt::print("output     {}: {}\n", printable(name), kind);
    if (outputs[i].tensor) results.emplace_back(name, outputs[i].tensor);
  }
  if (o.json)
    fmt::print("{}\n", dumped({{"outputs", list}, {"milliseconds", best}, {"device", to_string(network.device())}}));
  else
    fmt::print("best of {} run{}: {:.3f} ms on {}\n", o.runs, o.runs == 1 ? "" : "s", best,
               to_string(network.device()));
  if (!o.save.empty()) save(o.save, results, {});
  return 0;
}
}  // namespace

void add_onnx(CLI::App& app, Run& run) {
  auto o = std::make_shared<OnnxOptions>();
  CLI::App* command = app.add_subcommand("onnx", "Look at ONNX models and run them");
  command->require_subcommand(1);
  command->footer("Example: strata onnx run model.onnx --shape images=1x3x224x224");
  const auto add = [&](const char* name, const char* what, const char* example, int (*f)(const OnnxOptions&)) {
    CLI::App* sub = command->add_subcommand(name, what);
    sub->add_option("model", o->file, "The .onnx file")->required();
    sub->add_flag("--json", o->json, "Machine-readable output");
    sub->footer(std::string("Example: strata onnx ") + example);
    sub->callback([&run, o, f] { run = [o, f] { return f(*o); }; });
    return sub;
  };
  add("info", "Inputs, outputs, opsets and ops of a model", "info model.onnx", info);
  CLI::App* checking = add("check", "Whether all ops are known and the weights are whole", "check model.onnx", check);
  CLI::App* running =
    add("run", "Run a model with random inputs, or with those of a file", "run model.onnx --runs 10", run_model);
  for (CLI::App* sub : {checking, running})
    sub->add_option("--device", o->device, "cpu, cuda, vgpu")->capture_default_str();
  running->add_option("--shape", o->shapes, "Sizes of a random input: NAME=1x3x224x224");
  running->add_option("--inputs", o->inputs, "A safetensors file with inputs by name");
  running->add_option("--save", o->save, "Write the outputs to a safetensors file");
  running->add_option("--runs", o->runs, "How often to run; the best time is shown")->capture_default_str();
}

}  // namespace strata::cli
