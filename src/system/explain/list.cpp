// Every op with its kernels per back end.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "record/op.h"
#include "system/explain/journey.h"

namespace strata::journey {
namespace {

nlohmann::json kernels_of(const OpRecord& op, Backend b) {
  nlohmann::json all = nlohmann::json::array();
  for (const Kernel& k : op.kernels(b)) all.push_back({{"kernel", k.name}, {"facts", facts_of(k)}});
  return all;
}
std::string kernel_names(const OpRecord& op, Backend b) {
  std::string text;
  for (const Kernel& k : op.kernels(b)) text += (text.empty() ? "" : ", ") + std::string(k.name);
  return text.empty() ? "none" : text;
}

}  // namespace

std::string list_kernels(bool json) {
  nlohmann::json all = nlohmann::json::array();
  std::string text = fmt::format("{:<44} kernels, fastest first\n", "op");
  for (const OpRecord* op : all_ops()) {
    const std::string name = op->overload.empty() ? op->name : op->name + "." + op->overload;
    const char* other = op->composite_fn ? "composite" : op->view_fn ? "view" : "";
    if (json)
      all.push_back({{"op", name},
                     {"kind", *other         ? other
                              : op->formulas ? "pointwise"
                                             : "kernels"},
                     {"cpu", kernels_of(*op, Backend::Cpu)},
                     {"cuda", kernels_of(*op, Backend::Cuda)}});
    else if (*other) text += fmt::format("{:<44} {}\n", name, other);
    else
      text += fmt::format("{:<44} cpu: {}; cuda: {}\n", name, kernel_names(*op, Backend::Cpu),
                          kernel_names(*op, Backend::Cuda));
  }
  return json ? all.dump(2) + "\n" : text;
}

}  // namespace strata::journey
