// Control flow: If, Loop, Scan. The host decides; the graphs inside run like any other.
#include "base/interrupt.h"
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

Values if_of(NodeCall& c) { return c.run(c.integer(size_t{0}) ? "then_branch" : "else_branch", {}); }

// No iteration: what is known of the shape and the type is what the file says of one; unknown sizes are 0.
Tensor nothing(const TypeInfo& type, int64_t axis) {
  Ints shape;
  for (const TypeInfo::Dim& d : type.dims) shape.push_back(std::max<int64_t>(d.value, 0));
  shape.insert(shape.begin() + axis_of(axis, static_cast<int64_t>(shape.size()) + 1), 0);
  const auto element = static_cast<ElementType>(type.element);
  return zeros(shape, TensorOptions(element == ElementType::Undefined ? DType::F32 : storage_dtype(element)));
}
// Results of all iterations along a new dimension.
Value stacked(const std::vector<Value>& parts, int64_t axis, bool reverse, const TypeInfo& type) {
  if (parts.empty()) return {nothing(type, axis)};
  std::vector<Tensor> tensors;
  for (const Value& v : parts) {
    STRATA_CHECK(v.tensor, Type, "the graph returns {} per iteration; expected a tensor", kind_of(v));
    tensors.push_back(v.tensor);
  }
  if (reverse) std::reverse(tensors.begin(), tensors.end());
  return {stack(tensors, axis), parts[0].carried};
}
bool condition_of(const Value& v) {
  STRATA_CHECK(v.tensor && v.tensor.numel() == 1, Value, "the condition is {}; expected one truth value", kind_of(v));
  return v.tensor.item().to_double() != 0;
}

Values loop(NodeCall& c) {
  const int64_t most = c.has(size_t{0}) ? c.integer(size_t{0}) : INT64_MAX,
                limit = c.network().limits().loop_iterations;
  bool more = !c.has(size_t{1}) || c.integer(size_t{1}) != 0;
  const size_t carried = c.inputs() > 2 ? c.inputs() - 2 : 0;
  Values state;
  for (size_t i = 0; i < carried; ++i) state.push_back(c.has(i + 2) ? c.value(i + 2) : Value());
  STRATA_CHECK(c.block_inputs("body") == carried + 2, Runtime, "the body has {} inputs; expected {}",
               c.block_inputs("body"), carried + 2);
  std::vector<std::vector<Value>> rows;
  for (int64_t i = 0; i < most && more; ++i) {
    STRATA_CHECK(i < limit, Runtime, "the loop ran {} times, which is the limit (Limits::loop_iterations)", limit);
    poll_interrupt();
    Values inputs{Value(host_int(i)), Value(full({}, true, TensorOptions(DType::Bool)))};
    inputs.insert(inputs.end(), state.begin(), state.end());
    Values results = c.run("body", inputs);
    STRATA_CHECK(results.size() > carried, Runtime, "the body has {} outputs; expected a condition and {} values",
                 results.size(), carried);
    more = condition_of(results[0]);
    for (size_t k = 0; k < carried; ++k) state[k] = std::move(results[k + 1]);
    rows.resize(results.size() - carried - 1);
    for (size_t k = 0; k < rows.size(); ++k) rows[k].push_back(std::move(results[carried + 1 + k]));
  }
  const std::vector<TypeInfo>& types = c.block_outputs("body");
  STRATA_CHECK(types.size() > carried, Runtime, "the body has {} outputs; expected a condition and {} values",
               types.size(), carried);
  rows.resize(types.size() - carried - 1);
  for (size_t k = 0; k < rows.size(); ++k) state.push_back(stacked(rows[k], 0, false, types[carried + 1 + k]));
  return state;
}

// Of opset 9 on: without a batch dimension.
Values scan(NodeCall& c) {
  const auto sequences = static_cast<size_t>(c.integer("num_scan_inputs"));
  STRATA_CHECK(sequences >= 1 && sequences <= c.inputs(), Value, "num_scan_inputs is {} of {} inputs", sequences,
               c.inputs());
  const size_t carried = c.inputs() - sequences;
  const Ints in_axes = c.ints("scan_input_axes"), in_directions = c.ints("scan_input_directions");
  const Ints out_axes = c.ints("scan_output_axes"), out_directions = c.ints("scan_output_directions");
  STRATA_CHECK(
    (in_axes.empty() || in_axes.size() == sequences) && (in_directions.empty() || in_directions.size() == sequences),
    Value, "{} axes and {} directions for {} sequences", in_axes.size(), in_directions.size(), sequences);
  Values state;
  for (size_t i = 0; i < carried; ++i) state.push_back(c.value(i));
  std::vector<Tensor> inputs;
  int64_t steps = -1;
  for (size_t i = 0; i < sequences; ++i) {
    const Tensor x = c.tensor(carried + i);
    const int64_t axis = in_axes.empty() ? 0 : axis_of(in_axes[i], x.dim());
    STRATA_CHECK(x.dim() > 0 && (steps < 0 || x.size(axis) == steps), Value,
                 "the sequences differ in length: {} and {}", steps, x.dim() ? x.size(axis) : 0);
    steps = x.size(axis);
    inputs.push_back(movedim(x, {axis}, {0}));
  }
  std::vector<std::vector<Value>> rows;
  for (int64_t t = 0; t < steps; ++t) {
    Values now = state;
    for (size_t i = 0; i < sequences; ++i) {
      const bool back = !in_directions.empty() && in_directions[i] == 1;
      now.emplace_back(select(inputs[i], 0, back ? steps - 1 - t : t));
    }
    Values results = c.run("body", now);
    STRATA_CHECK(results.size() >= carried, Runtime, "the body has {} outputs; expected {} or more", results.size(),
                 carried);
    for (size_t k = 0; k < carried; ++k) state[k] = std::move(results[k]);
    rows.resize(results.size() - carried);
    for (size_t k = 0; k < rows.size(); ++k) rows[k].push_back(std::move(results[carried + k]));
  }
  const std::vector<TypeInfo>& types = c.block_outputs("body");
  STRATA_CHECK(types.size() >= carried, Runtime, "the body has {} outputs; expected {} or more", types.size(), carried);
  rows.resize(types.size() - carried);
  for (size_t k = 0; k < rows.size(); ++k) {
    const int64_t axis = k < out_axes.size() ? out_axes[k] : 0;
    state.push_back(stacked(rows[k], axis, k < out_directions.size() && out_directions[k] == 1, types[carried + k]));
  }
  return state;
}
// Opset 8: each input has a batch dimension, and there may be lengths per batch.
Values scan_batched(NodeCall& c) {
  c.refuse("Scan of opset 8, with a batch dimension, is not supported; convert the model to opset 9 or newer");
}

const OpEntry kControl[] = {
  {"If", 1, 1, 1, nullptr, if_of},
  {"Loop", 1, 0, -1, nullptr, loop},
  {"Scan", 8, 1, -1, nullptr, scan_batched},
  {"Scan", 9, 1, -1, nullptr, scan},
};
}  // namespace

OpTable control_ops() { return kControl; }

}  // namespace strata::onnx
