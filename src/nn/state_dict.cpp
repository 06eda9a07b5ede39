// Modules as named tensors and back, and as text.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "autograd/autograd.h"
#include "nn/module.h"
#include "strata/ops/movement/copy.h"

namespace strata::nn {
namespace {

void gather(const ModuleState& state, const std::string& prefix,
            std::vector<std::pair<std::string, const ModuleState::Slot*>>& out) {
  for (const ModuleState::Slot& p : state.parameters)
    if (*p.tensor) out.emplace_back(prefix + p.name, &p);
  for (const ModuleState::Slot& b : state.buffers)
    if (*b.tensor && b.persistent) out.emplace_back(prefix + b.name, &b);
  for (const auto& [name, child] : state.children) gather(*child, prefix + name + ".", out);
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "\"" : ", \"") + n + "\"";
  return text;
}

// Lines after the first are indented, as in PyTorch.
std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out;
}

std::string text_of(const ModuleState& state, const std::string& name) {
  // label, text; equal consecutive modules of a ModuleList are one line
  std::vector<std::pair<std::string, std::string>> lines;
  size_t first = 0;
  for (size_t i = 0; i < state.children.size(); ++i) {
    const auto& [label, child] = state.children[i];
    std::string text = indented(text_of(*child, child->kind));
    if (state.kind == "ModuleList" && !lines.empty() && lines.back().second == text) {
      lines.back().first = fmt::format("({}-{}): {} x ", first, i, i - first + 1);
      continue;
    }
    first = i;
    lines.emplace_back("(" + label + "): ", std::move(text));
  }
  const std::string extra = state.extra_repr();
  if (lines.empty() && extra.find('\n') == std::string::npos) return name + "(" + extra + ")";
  std::string out = name + "(";
  if (!extra.empty()) out += "\n  " + indented(extra);
  for (const auto& [label, text] : lines) out += "\n  " + label + text;
  return out + "\n)";
}

}  // namespace

NamedTensors Module::state_dict(const std::string& prefix) const {
  std::vector<std::pair<std::string, const ModuleState::Slot*>> slots;
  gather(state(), prefix, slots);
  NamedTensors out;
  out.reserve(slots.size());
  for (const auto& [name, slot] : slots) out.emplace_back(name, autograd::detach(*slot->tensor));
  return out;
}

LoadResult Module::load_state_dict(const NamedTensors& given, bool strict) {
  std::vector<std::pair<std::string, const ModuleState::Slot*>> slots;
  gather(state(), "", slots);
  std::unordered_map<std::string_view, const Tensor*> by_name;
  for (const auto& [name, tensor] : given) by_name[name] = &tensor;
  LoadResult result;
  std::string problems;
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, slot] : slots) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      if (!slot->optional) result.missing_keys.push_back(name);
      continue;
    }
    const Tensor &to = *slot->tensor, &from = *found->second;
    by_name.erase(found);
    if (!from) problems += fmt::format("\n\t{}: the given tensor is undefined.", name);
    else if (!std::ranges::equal(to.shape(), from.shape()))
      problems += fmt::format(
        "\n\tsize mismatch for {}: copying a param with shape {} from checkpoint, the shape in "
        "current model is {}.",
        name, to_string(from.shape()), to_string(to.shape()));
    else copies.emplace_back(to, from);
  }
  for (const auto& [name, tensor] : given)
    if (by_name.contains(name)) result.unexpected_keys.push_back(name);
  if (strict && !result.unexpected_keys.empty())
    problems = "\n\tUnexpected key(s) in state_dict: " + quoted(result.unexpected_keys) + ". " + problems;
  if (strict && !result.missing_keys.empty())
    problems = "\n\tMissing key(s) in state_dict: " + quoted(result.missing_keys) + ". " + problems;
  STRATA_CHECK(problems.empty(), Runtime, "Error(s) in loading state_dict for {}:{}", name(), problems);
  const autograd::NoGrad off;
  for (const auto& [to, from] : copies) copy_(to, from);
  return result;
}

std::string Module::repr() const { return text_of(state(), name()); }

}  // namespace strata::nn
