#include "engine/plan_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "files/safetensors_header.h"

namespace strata::engine {
namespace {

using Json = nlohmann::ordered_json;

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

size_t place_of_sum(std::string_view header) {
  static constexpr std::string_view kKey = "\"sha256\":\"";
  const size_t at = header.find(kKey);
  if (at == std::string_view::npos || at + kKey.size() + kSumDigits >= header.size()) return std::string_view::npos;
  return header[at + kKey.size() + kSumDigits] == '"' ? at + kKey.size() : std::string_view::npos;
}

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
  STRATA_CHECK(entry(metadata, "format", file) == kPlanFormat, Runtime, "'{}' is a safetensors file, but no plan",
               file);
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
  if (json.contains("calibration")) c.calibration = table_of(json.at("calibration").get<std::string>());
  for (const Json& profile : json.at("profiles")) {
    OptimizationProfile& p = c.profiles.emplace_back();
    for (const auto& range : profile.items()) {
      const Json& r = range.value();
      const std::string& name = range.key();
      STRATA_CHECK(r.is_array() && r.size() == 3, Runtime, "'{}': the profile of '{}' has no min, opt and max", file,
                   name);
      const auto sizes = [&](size_t k) { return r.at(k).get<std::vector<int64_t>>(); };
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
  return start.size() > 8 && start[8] == '{' && start.find(kPlanFormat) != std::string_view::npos;
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
  const std::string zeros(kSumDigits, '0');
  sum.add({reinterpret_cast<const std::byte*>(zeros.data()), zeros.size()});
  sum.add(all.subspan(place + kSumDigits));
  STRATA_CHECK(
    sum.digits() == text_of(all.subspan(place, kSumDigits)), Runtime,
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

}  // namespace strata::engine
