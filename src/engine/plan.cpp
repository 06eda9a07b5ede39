#include "engine/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "files/safetensors_header.h"
#include "onnx/strip.h"

namespace strata::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kFormat = "strata plan", *kNetworkTensor = "network", *kWeightPrefix = "weight.";
constexpr size_t kDigits = 64;
const std::string kZeros(kDigits, '0');

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

// The place of the digits of the sum in a file, behind the key that only they have.
size_t place_of_sum(std::string_view header) {
  static constexpr std::string_view kKey = "\"sha256\":\"";
  const size_t at = header.find(kKey);
  if (at == std::string_view::npos || at + kKey.size() + kDigits >= header.size()) return std::string_view::npos;
  return header[at + kKey.size() + kDigits] == '"' ? at + kKey.size() : std::string_view::npos;
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
  metadata["format"] = kFormat;
  metadata["version"] = std::to_string(kPlanVersion);
  metadata["device"] = strata::to_string(engine.device());
  metadata["sha256"] = kZeros;
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
  bytes.replace(place, kDigits, strata::sha256(bytes_of(bytes)));
  return bytes;
}

void save_plan(const Engine& engine, const std::string& path) { write_file(path, plan_bytes(engine)); }

// --- reading ----------------------------------------------------------------------------------------------------------
namespace {

template <class F> auto reading(const std::string& file, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::Runtime, fmt::format("'{}' is no plan that this version reads: {}", file, e.what()));
  }
}

const std::string& entry(const Metadata& metadata, const char* key, const std::string& file) {
  const auto found = metadata.find(key);
  STRATA_CHECK(found != metadata.end(), Runtime, "'{}' is no plan: its metadata has no '{}'", file, key);
  return found->second;
}

void check_format(const Metadata& metadata, const std::string& file) {
  STRATA_CHECK(entry(metadata, "format", file) == kFormat, Runtime, "'{}' is a safetensors file, but no plan", file);
  const std::string& version = entry(metadata, "version", file);
  STRATA_CHECK(version == std::to_string(kPlanVersion), Runtime,
               "'{}' is a plan of version {}; this version of Strata reads {}. Build it again from the model", file,
               version.substr(0, 20), kPlanVersion);
}

BuilderConfig config_of(const Json& json, const std::string& file) {
  BuilderConfig c;
  json.at("fp16").get_to(c.fp16);
  json.at("bf16").get_to(c.bf16);
  json.at("int8").get_to(c.int8);
  json.at("level").get_to(c.level);
  json.at("workspace_limit").get_to(c.workspace_limit);
  json.at("most_specializations").get_to(c.most_specializations);
  json.at("most_bytes").get_to(c.most_bytes);
  json.at("cuda_graphs").get_to(c.cuda_graphs);
  for (const Json& profile : json.at("profiles")) {
    OptimizationProfile& p = c.profiles.emplace_back();
    for (const auto& [name, r] : profile.items()) {
      STRATA_CHECK(r.is_array() && r.size() == 3, Runtime, "'{}': the profile of '{}' has no min, opt and max", file,
                   name);
      const auto sizes = [&r](size_t k) { return r.at(k).get<std::vector<int64_t>>(); };
      p.set(name, sizes(0), sizes(1), sizes(2));
    }
  }
  return c;
}

TacticTable tactics_of(const Json& json) {
  TacticTable tactics;
  for (const auto& [device, keys] : json.items())
    for (const auto& [key, rows] : keys.items()) {
      Tactics& list = tactics[device][key];
      for (const Json& row : rows) list.emplace_back(row.at(0).get<uint32_t>(), row.at(1).get<std::string>());
    }
  return tactics;
}

}  // namespace

bool is_plan(const FileBytes& file) {
  constexpr size_t kLook = 4096;
  const std::string_view start = text_of(file.bytes().first(std::min(file.size(), kLook)));
  return start.size() > 8 && start[8] == '{' && start.find(kFormat) != std::string_view::npos;
}

void check_plan_bytes(const FileBytes& file) {
  const Bytes all = file.bytes();
  const uint64_t length = files::header_length(all.first(std::min<size_t>(all.size(), 8)), file.name());
  STRATA_CHECK(length <= all.size() - 8, Runtime, "'{}' is truncated: its header has {} bytes, {} follow", file.name(),
               length, all.size() - 8);
  const size_t place = place_of_sum(text_of(all.first(8 + length)));
  STRATA_CHECK(place != std::string_view::npos, Runtime, "'{}' is no plan, or damaged: it has no SHA-256", file.name());
  Sha256 sum;
  sum.add(all.first(place));
  sum.add(bytes_of(kZeros));
  sum.add(all.subspan(place + kDigits));
  STRATA_CHECK(
    sum.digits() == text_of(all.subspan(place, kDigits)), Runtime,
    "'{}' is damaged: its SHA-256 is not the one that was written. Copy it again, or build it again from the "
    "model",
    file.name());
}

PlanContents parse_plan(const std::shared_ptr<FileBytes>& file) {
  const std::string& name = file->name();
  SafeTensors contents = files::read_safetensors(file);
  check_format(contents.metadata, name);
  PlanContents plan;
  const std::string& kind = entry(contents.metadata, "kind", name);
  STRATA_CHECK(kind == "onnx" || kind == "graph", Runtime, "'{}' holds a network of the unknown kind '{}'", name,
               kind.substr(0, 60));
  plan.is_graph = kind == "graph";
  plan.device = entry(contents.metadata, "device", name);
  plan.source_sha256 = entry(contents.metadata, "source_sha256", name);
  reading(name, [&] {
    const Json engine = Json::parse(entry(contents.metadata, "engine", name));
    engine.at("inputs").get_to(plan.names.inputs);
    engine.at("outputs").get_to(plan.names.outputs);
    plan.config = config_of(engine.at("config"), name);
    plan.tactics = tactics_of(engine.at("tactics"));
  });
  bool has_network = false;
  const size_t prefix = std::strlen(kWeightPrefix);
  for (auto& [key, t] : contents.tensors) {
    if (key == kNetworkTensor) {
      STRATA_CHECK(t.dtype() == DType::U8 && t.dim() == 1, Runtime, "'{}': the tensor 'network' is {} {}", name,
                   strata::name_of(t.dtype()), strata::to_string(t.shape()));
      plan.network = text_of({t.bytes(), static_cast<size_t>(t.numel())});
      has_network = true;
    } else {
      STRATA_CHECK(key.starts_with(kWeightPrefix), Runtime, "'{}' has the tensor '{}', which no plan has", name,
                   key.substr(0, 60));
      plan.weights.emplace_back(key.substr(prefix), std::move(t));
    }
  }
  STRATA_CHECK(has_network, Runtime, "'{}' has no tensor 'network'", name);
  return plan;
}

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
