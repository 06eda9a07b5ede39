#include "compile/capture.h"

#include <fmt/core.h>

#include <algorithm>

#include "compile/recorder.h"

namespace strata::graph {
namespace {

// A tensor that owns all of its memory: as_strided nodes would need the rest of it.
Tensor with_own_memory(const Tensor& t) {
  if (!t->storage || covers_its_storage(*t)) return t;
  static const OpRecord& clone = find_op("clone");
  return call(clone, Args(t, Value()));
}

}  // namespace

std::string& capture_scope() {
  static thread_local std::string scope;
  return scope;
}

Graph capture(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
              const std::vector<Tensor>& inputs, const CaptureOptions& options) {
  Recorder recorder(options);
  std::vector<Tensor> own;
  for (size_t i = 0; i < inputs.size(); ++i) {
    STRATA_CHECK(inputs[i], Type, "capture: input {} is an undefined tensor", i);
    own.push_back(with_own_memory(inputs[i]));
  }
  for (size_t i = 0; i < own.size(); ++i)
    recorder.add_input(own[i], i < options.input_names.size() ? options.input_names[i] : fmt::format("input_{}", i));
  for (const auto& [name, tensor] : options.states) {
    STRATA_CHECK(tensor, Type, "capture: state '{}' is an undefined tensor", name);
    recorder.add_state(tensor, name, true);
  }
  std::vector<Tensor> outputs;
  {
    const Observing observing(recorder);
    outputs = f(own);
  }
  Graph graph = recorder.finish(outputs);
  const bool records =
    thread_state.grad_mode && std::ranges::any_of(outputs, [](const Tensor& t) { return t.requires_grad(); });
  STRATA_CHECK(!records || recorder.lost_gradient().empty(), NotImplemented, "capture: the program {}",
               recorder.lost_gradient());
  return graph;
}

}  // namespace strata::graph
