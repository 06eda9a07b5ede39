// The parts of a plan file, without the engine: read and checked here, since such files are untrusted.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "engine/engine.h"

namespace strata::engine {

constexpr int kPlanVersion = 1;
constexpr const char *kPlanFormat = "strata plan", *kNetworkTensor = "network", *kWeightPrefix = "weight.";
constexpr size_t kSumDigits = 64;

// What a plan says, without the engine.
struct PlanContents {
  bool is_graph = false;  // a graph as JSON, else a model of ONNX
  std::string network;
  std::vector<std::pair<std::string, Tensor>> weights;
  PortNames names;
  std::string device, source_sha256;
  BuilderConfig config;
  TacticTable tactics;
};
// Only looks whether the bytes are those that were written.
STRATA_API void check_plan_bytes(const FileBytes& file);
// Checks everything but the bytes' sum.
STRATA_API PlanContents parse_plan(const std::shared_ptr<FileBytes>& file);
STRATA_API bool is_plan(const FileBytes& file);  // begins like one

// The place of the digits of the sum in a file, behind the key that only they have; npos if there is none.
size_t place_of_sum(std::string_view header);

}  // namespace strata::engine
