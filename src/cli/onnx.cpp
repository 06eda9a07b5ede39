// `strata onnx`: what a model is, whether it can run, and a run with given or random inputs.
#include <fmt/core.h>

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/output.h"
#include "nn/files/checkpoint.h"
#include "onnx/network.h"
#include "onnx/tensor_data.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata::cli {
namespace {

struct OnnxOptions {
  std::string file, device = "cpu", inputs, save;
  std::vector<std::string> shapes;
  int64_t runs = 1;
  bool json = false;
};

// A text of the file on the terminal: without what a terminal would take as commands.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out;
}
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
// Valid UTF-8, which JSON needs: other bytes become a replacement character.
std::string dump(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
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
    fmt::print("{}\n", dump(all));
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
    fmt::print("{}\n", dump({{"ok", true}, {"nodes", network.step_count()}, {"device", to_string(network.device())}}));
  else
    fmt::print("{}: all ops are known; {} nodes run on {}\n", o.file, network.step_count(),
               to_string(network.device()));
  return 0;
}

// "name=1x3x224x224"
std::map<std::string, std::vector<int64_t>> shapes_of(const std::vector<std::string>& given) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const std::string& text : given) {
    const size_t equals = text.rfind('=');
    STRATA_CHECK(equals != std::string::npos, Value, "--shape {}: expected NAME=1x3x224x224", text);
    std::vector<int64_t>& dims = shapes[text.substr(0, equals)];
    for (size_t at = equals + 1; at < text.size();) {
      const size_t end = std::min(text.find('x', at), text.size());
      const std::string number = text.substr(at, end - at);
      STRATA_CHECK(!number.empty() && number.size() < 12 && number.find_first_not_of("0123456789") == std::string::npos,
                   Value, "--shape {}: '{}' is not a size", text, number);
      dims.push_back(std::stoll(number));
      at = end + 1;
    }
  }
  return shapes;
}
onnx::Values inputs_of(const onnx::Network& network, const OnnxOptions& o) {
  const auto shapes = shapes_of(o.shapes);
  std::map<std::string, Tensor> given;
  if (!o.inputs.empty())
    for (auto& [name, t] : load_safetensors(o.inputs).tensors) given.emplace(name, t);
  onnx::Values values;
  Generator generator(0);
  for (const onnx::Network::Port& p : network.inputs()) {
    if (const auto found = given.find(p.name); found != given.end()) {
      values.emplace_back(to(found->second, network.device()));
      given.erase(found);
      continue;
    }
    if (p.optional) {
      values.emplace_back();
      continue;
    }
    STRATA_CHECK(p.type.kind == onnx::TypeInfo::Kind::Tensor, NotImplemented,
                 "the input '{}' is {}; give values with --inputs", p.name, type_text(p.type));
    std::vector<int64_t> shape;
    for (const auto& d : p.type.dims) shape.push_back(d.value >= 0 ? d.value : 1);
    if (const auto found = shapes.find(p.name); found != shapes.end()) shape = found->second;
    const DType dtype = onnx::storage_dtype(static_cast<onnx::ElementType>(p.type.element));
    const Tensor x = is_floating(dtype) ? to(randn(shape, &generator, TensorOptions(DType::F32)), dtype)
                                        : zeros(shape, TensorOptions(dtype));
    values.emplace_back(to(x, network.device()));
  }
  STRATA_CHECK(given.empty(), Value, "the model has no input '{}'", given.begin()->first);
  return values;
}

int run_model(const OnnxOptions& o) {
  STRATA_CHECK(o.runs >= 1, Value, "--runs {}: expected 1 or more", o.runs);
  const onnx::Network network(onnx::read_model(o.file), device_of_option(o.device));
  const onnx::Values inputs = inputs_of(network, o);
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
    fmt::print("{}\n", dump({{"outputs", list}, {"milliseconds", best}, {"device", to_string(network.device())}}));
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
