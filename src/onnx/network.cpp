#include "onnx/network.h"

#include <fmt/core.h>

#include "autograd/autograd.h"
#include "base/host_memory.h"
#include "base/interrupt.h"
#include "compile/capture.h"
#include "record/op.h"
#include "strata/ops/movement/copy.h"

namespace strata::onnx {

Network::~Network() = default;

size_t Network::step_count() const { return main_.steps.size(); }

namespace {

void check_size(const Value& v, const Limits& limits) {
  if (!v.tensor) return;
  const int64_t most = limits.value_bytes ? limits.value_bytes : static_cast<int64_t>(host_memory());
  STRATA_CHECK(v.tensor.numel() <= most / static_cast<int64_t>(size_of(v.tensor.dtype())), OutOfMemory,
               "a result of shape {} {} is larger than the limit of {} bytes (Limits::value_bytes)",
               to_string(v.tensor.shape()), name_of(v.tensor.dtype()), most);
}

Values call_record(const OpRecord& record, const NodeCall& c) {
  Tensor held[4];
  Args args;
  args.size = static_cast<uint32_t>(c.inputs());
  STRATA_ASSERT(args.size <= std::size(held));
  for (uint32_t i = 0; i < args.size; ++i) {
    held[i] = c.tensor(i);
    args.v[i] = strata::Value(held[i]);
  }
  return {onnx::Value(call(record, args))};
}

std::string title_of(const Step& step) {
  return step.name.empty() ? fmt::format("{} node", step.op) : fmt::format("{} node '{}'", step.op, step.name);
}
}  // namespace

void Network::run_step(const Step& step, Values& slots) const {
  NodeCall c(*this, step, slots);
  Values results = step.user            ? (*step.user)(c)
                   : step.entry->record ? call_record(*step.entry->record, c)
                                        : step.entry->run(c);
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] == kNoSlot) continue;
    STRATA_CHECK(i < results.size(), NotImplemented, "output {} is not computed by this version", i);
    check_size(results[i], limits_);
    slots[static_cast<size_t>(step.outputs[i])] = std::move(results[i]);
  }
  for (const Slot s : step.dead) slots[static_cast<size_t>(s)] = {};
}

void Network::run_block(const Block& block, Values& slots) const {
  for (const Step& step : block.steps) {
    poll_interrupt();
    try {
      if (thread_state.observed) graph::capture_scope() = title_of(step);  // the name of the nodes of a graph
      run_step(step, slots);
    } catch (const Error& e) {
      // with the innermost node only: the rest is the way to it
      const std::string what = e.what();
      fail(e.kind(), what.starts_with("onnx: ") ? what : "onnx: " + title_of(step) + ": " + what);
    }
  }
}

Values Network::run(std::span<const Value> inputs) const {
  STRATA_CHECK(inputs.size() <= inputs_.size(), Value, "onnx: {} inputs were given, the network has {}", inputs.size(),
               inputs_.size());
  Values slots(static_cast<size_t>(slots_));
  for (size_t i = 0; i < constants_.size(); ++i) slots[static_cast<size_t>(constant_slots_[i])] = constants_[i];
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const bool given = i < inputs.size() && inputs[i].defined();
    const bool nothing = inputs_[i].type.kind == TypeInfo::Kind::Optional;
    STRATA_CHECK(given || inputs_[i].optional || nothing, Value, "onnx: the input '{}' is missing", inputs_[i].name);
    const onnx::Value& v = given ? inputs[i] : defaults_[i];
    slots[static_cast<size_t>(main_.inputs[i])] = v;
    check_input(inputs_[i], v);
  }
  run_block(main_, slots);
  Values outputs;
  for (const Slot s : main_.outputs) {
    onnx::Value v = slots[static_cast<size_t>(s)];
    if (v.tensor && v.tensor.device() != device_) v.tensor = to(v.tensor, device_);
    outputs.push_back(std::move(v));
  }
  return outputs;
}

void Network::check_input(const Port& port, const Value& v) {
  if (port.type.kind != TypeInfo::Kind::Tensor || !v.defined()) return;
  const auto wanted = static_cast<ElementType>(port.type.element);
  STRATA_CHECK(!v.sequence && element_type(v) == wanted, Type, "onnx: the input '{}' is {}; expected a tensor of {}",
               port.name, kind_of(v), name_of(wanted));
  if (!port.type.has_shape) return;
  const Shape shape = v.strings ? Shape(v.strings->shape) : v.tensor.shape();
  bool fits = shape.size() == port.type.dims.size();
  for (size_t d = 0; fits && d < shape.size(); ++d)
    fits = port.type.dims[d].value < 0 || port.type.dims[d].value == shape[d];
  if (fits) return;
  std::string expected;
  for (const TypeInfo::Dim& d : port.type.dims)
    expected += (expected.empty() ? "" : ", ") + (d.value >= 0     ? std::to_string(d.value)
                                                  : d.name.empty() ? "any"
                                                                   : std::string(d.name));
  fail(ErrorKind::Value,
       fmt::format("onnx: the input '{}' has the shape {}; the model has [{}]", port.name, to_string(shape), expected));
}

}  // namespace strata::onnx
