#include "cuda/custom/elementwise.h"

#include <fmt/core.h>

#include <mutex>

#include "cuda/common/tensors.h"
#include "cuda/custom/operands.h"

namespace strata::cuda {

struct Elementwise::State {
  std::string name, operation;
  std::vector<ElementwiseParameter> inputs, outputs;
  std::vector<std::string> options;
  std::mutex mutex;
  std::map<std::string, KernelHandle> kernels;  // by device, dtypes and layout
};

namespace {

constexpr uint32_t kThreads = 256;

// Whether t can be indexed by the element's number.
bool is_flat(const TensorImpl& t, const TensorImpl& shape) { return t.contiguous && t.same_shape(shape); }

// The parameter struct of strided kernels: sizes and strides with the fastest dimension first.
std::vector<int64_t> layout_of(const Operands& call) {
  std::vector<int64_t> out(1 + kAxesMost * (1 + call.tensors.size()), 0);
  const TensorImpl& shape = *call.shape;
  STRATA_CHECK(
    shape.ndim <= kAxesMost, NotImplemented,
    "elementwise: at most {} dimensions are supported unless all tensors are contiguous and of one shape, got "
    "{}; merge dimensions with flatten()",
    kAxesMost, shape.ndim);
  out[0] = shape.ndim;
  for (int d = 0; d < shape.ndim; ++d) out[1 + static_cast<size_t>(d)] = shape.shape[shape.ndim - 1 - d];
  for (size_t k = 0; k < call.tensors.size(); ++k) {
    const TensorImpl& t = *call.tensors[k];
    for (int d = 0; d < t.ndim; ++d)
      out[1 + kAxesMost * (1 + k) + static_cast<size_t>(d)] =
        t.shape[t.ndim - 1 - d] == 1 ? 0 : t.strides[t.ndim - 1 - d];
  }
  return out;
}
}  // namespace

Elementwise::Elementwise(const std::string& inputs, const std::string& outputs, std::string operation, std::string name,
                         std::vector<std::string> options)
    : state_(std::make_shared<State>()) {
  std::vector<std::string> taken;
  read_parameters("T " + name, "the kernel", taken);
  state_->inputs = read_parameters(inputs, "an input", taken);
  state_->outputs = read_parameters(outputs, "an output", taken);
  check_output_types(name, state_->inputs, state_->outputs);
  STRATA_CHECK(operation.find_first_not_of(" \t\r\n;") != operation.npos, Value,
               "elementwise: the operation of {} is empty", name);
  state_->operation = std::move(operation);
  state_->name = std::move(name);
  state_->options = std::move(options);
}

Elementwise Elementwise::of(const std::string& formula, std::string name, std::vector<std::string> options) {
  const Formula read = read_formula(formula);
  return {read.inputs, read.outputs, formula, std::move(name), std::move(options)};
}

const std::string& Elementwise::name() const { return state_->name; }
const std::vector<ElementwiseParameter>& Elementwise::inputs() const { return state_->inputs; }
const std::vector<ElementwiseParameter>& Elementwise::outputs() const { return state_->outputs; }

std::vector<Tensor> Elementwise::operator()(std::span<const Operand> operands, std::span<const Tensor> outs) const {
  State& s = *state_;
  Operands call(s.name, s.inputs, operands, outs);
  std::vector<Tensor> results = call.results(s.outputs, outs, *call.shape);
  if (call.device.type == DeviceType::Meta) return results;
  bool strided = false;
  for (const TensorImpl* t : call.tensors) strided |= !is_flat(*t, *call.shape);
  const int64_t n = call.shape->numel;
  const bool wide = n > INT32_MAX;

  const auto kernel = [&] {
    const std::string key = fmt::format("{} {} {}", call.key(), strided, wide);
    const std::lock_guard lock(s.mutex);
    if (const auto found = s.kernels.find(key); found != s.kernels.end()) return found->second;
    const std::string source = elementwise_source(s.name, call.inputs, call.outputs, s.operation, strided, wide);
    const Module module = compile(source, call.device, {.name = s.name, .options = s.options, .instances = {}});
    return s.kernels.emplace(key, module.function(s.name)).first->second;
  }();
  std::vector<Argument> arguments = call.arguments();
  for (const Tensor& out : results) arguments.emplace_back(out);
  const std::vector<int64_t> layout = strided ? layout_of(call) : std::vector<int64_t>{};
  if (strided) arguments.emplace_back(Argument::Kind::Bytes, layout.data(), layout.size() * sizeof(int64_t));
  arguments.emplace_back(n);
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>(ceil_div(n, kThreads), INT32_MAX / kThreads));
  if (n > 0) kernel.launch({{blocks}, {kThreads}, 0, true}, arguments);
  return results;
}

}  // namespace strata::cuda
