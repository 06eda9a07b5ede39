#include "engine/plan.h"

#include <fmt/core.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "files/safetensors.h"
#include "onnx/strip.h"

namespace strata::engine {
namespace {

using Json = nlohmann::ordered_json;

Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }
std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// --- writing ----------------------------------------------------------------------------------------------------------
Json json_of(const BuilderConfig& c) {
  Json profiles = Json::array();
  for (const OptimizationProfile& p : c.profiles) {
    Json ranges = Json::object();
    for (const auto& [name, r] : p.ranges) ranges[name] = {r.min, r.opt, r.max};
    profiles.push_back(ranges);
  }
  return {{"fp16", c.fp16},
          {"bf16", c.bf16},
          {"int8", c.int8},
          {"level", c.level},
          {"workspace_limit", c.workspace_limit},
          {"most_specializations", c.most_specializations},
          {"most_bytes", c.most_bytes},
          {"cuda_graphs", c.cuda_graphs},
          {"calibration", to_string(c.calibration)},
          {"profiles", profiles}};
}
Json json_of(const TacticTable& tactics) {
  Json all = Json::object();
  for (const auto& [device, keys] : tactics)
    for (const auto& [key, list] : keys) {
      Json rows = Json::array();
      for (const auto& [node, kernel] : list) rows.push_back({node, kernel});
      all[device][key] = rows;
    }
  return all;
}
Tensor tensor_of(std::string_view text) {
  Tensor t = make_tensor(Shape({static_cast<int64_t>(text.size())}), DType::U8);
  if (!text.empty()) std::memcpy(t->data, text.data(), text.size());
  return t;
}

}  // namespace

std::string plan_bytes(const Engine& engine) {
  Metadata metadata;
  TensorDict tensors;
  std::vector<std::pair<std::string, Tensor>> weights;
  Json inputs = Json::array(), outputs = Json::array();
  for (const Port& p : engine.inputs()) inputs.push_back(p.name);
  for (const Port& p : engine.outputs()) outputs.push_back(p.name);
  if (const auto* onnx = dynamic_cast<const OnnxNetwork*>(&engine.network())) {
    tensors.emplace_back(kNetworkTensor, tensor_of(onnx::without_weights(onnx->model(), weights)));
    metadata["kind"] = "onnx";
    metadata["source_sha256"] = strata::sha256(onnx->model().file->bytes());
  } else {
    const auto& graph = dynamic_cast<const GraphNetwork&>(engine.network()).graph();
    const std::string text = graph::to_json(graph);
    tensors.emplace_back(kNetworkTensor, tensor_of(text));
    weights = engine.network().weights();
    metadata["kind"] = "graph";
    metadata["source_sha256"] = strata::sha256(bytes_of(text));
  }
  for (auto& [name, t] : weights) tensors.emplace_back(kWeightPrefix + name, std::move(t));
  metadata["format"] = kPlanFormat;
  metadata["version"] = std::to_string(kPlanVersion);
  metadata["device"] = strata::to_string(engine.device());
  metadata["sha256"] = std::string(kSumDigits, '0');
  metadata["engine"] = Json({{"inputs", inputs},
                             {"outputs", outputs},
                             {"config", json_of(engine.config())},
                             {"tactics", json_of(engine.tactics())}})
                         .dump(-1, ' ', false, Json::error_handler_t::replace);
  const files::SafeTensorsWriter writer(tensors, metadata);
  std::string bytes;
  bytes.reserve(writer.size());
  writer.write([&](Bytes piece) { bytes.append(text_of(piece)); });
  const size_t place = place_of_sum(std::string_view(bytes).substr(0, bytes.size()));
  STRATA_ASSERT(place != std::string::npos);
  bytes.replace(place, kSumDigits, strata::sha256(bytes_of(bytes)));
  return bytes;
}

void save_plan(const Engine& engine, const std::string& path) { write_file(path, plan_bytes(engine)); }

std::shared_ptr<Engine> read_plan(const std::shared_ptr<FileBytes>& file, std::optional<Device> device) {
  check_plan_bytes(*file);
  PlanContents plan = parse_plan(file);
  try {
    const Device where = device ? *device : Device(plan.device);
    std::shared_ptr<const Network> network;
    if (plan.is_graph) {
      network = std::make_shared<GraphNetwork>(graph::from_json(plan.network, plan.weights), where, plan.names);
    } else {
      onnx::Model model = onnx::read_model(FileBytes::copy(bytes_of(plan.network), file->name()), std::string());
      for (auto& [name, t] : plan.weights) model.attached.emplace(name, std::move(t));
      network = std::make_shared<OnnxNetwork>(std::move(model), where);
    }
    return std::make_shared<Engine>(std::move(network), std::move(plan.config), std::move(plan.tactics));
  } catch (const Error& e) {
    const std::string what = e.what();
    if (what.find(file->name()) != std::string::npos) throw;
    fail(e.kind(), fmt::format("'{}': {}", file->name(), what));
  }
}

std::shared_ptr<Engine> load_plan(const std::string& path, std::optional<Device> device) {
  return read_plan(FileBytes::map(path), device);
}

}  // namespace strata::engine
