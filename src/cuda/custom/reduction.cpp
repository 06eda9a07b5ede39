#include "cuda/custom/reduction.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>

#include "cuda/common/tensors.h"
#include "cuda/custom/operands.h"
#include "cuda/custom/reduction_source.h"

namespace strata::cuda {

struct ReductionKernel::State {
  std::string name;
  ReductionFormulas formulas;
  std::vector<ElementwiseParameter> inputs, outputs;
  std::vector<std::string> options;
  std::mutex mutex;
  struct Pair {
    KernelHandle chunks, partials;
  };
  std::map<std::string, Pair> kernels;  // by device and dtypes
};

namespace {

constexpr int64_t kElementsPerThread = 8;  // if there are as many
// If there are fewer blocks, the elements of a result are divided among several, at least 16 per thread.
constexpr int64_t kEnoughBlocks = 2048;

DimMask mask_of(const std::string& name, const ReductionAxes& axes, int ndim) {
  if (!axes.axes) return all_dims(ndim);
  DimMask mask = 0;
  for (const int64_t axis : *axes.axes) {
    STRATA_CHECK(axis >= -ndim && axis < ndim, Index, "{}: axis {} is out of range for {} dimensions", name, axis,
                 ndim);
    const DimMask bit = dim_bit(static_cast<int>(axis < 0 ? axis + ndim : axis));
    STRATA_CHECK(!(mask & bit), Value, "{}: axis {} is given twice", name, axis);
    mask |= bit;
  }
  return mask;
}

Ref<TensorImpl> result_shape(const TensorImpl& shape, DimMask reduced, bool keepdims) {
  auto out = Ref<TensorImpl>::adopt(TensorImpl::make());
  out->reserve_dims(shape.ndim);
  for (int d = 0; d < shape.ndim; ++d) {
    const bool gone = reduced >> d & 1;
    if (!gone || keepdims) out->shape[out->ndim++] = gone ? 1 : shape.shape[d];
  }
  out->set_contiguous_strides();
  return out;
}

// The sizes of the kept or of the reduced dimensions, and the strides of each tensor, innermost first, with dimensions
// merged where all tensors allow it.
struct Dims {
  int count = 0;
  int64_t size[kAxesMost] = {};
  std::vector<std::array<int64_t, kAxesMost>> strides;

  explicit Dims(size_t tensors) : strides(tensors) {}
  void add(int64_t n, const std::vector<int64_t>& steps) {
    if (n == 1) return;
    bool follows = count > 0;
    for (size_t t = 0; t < steps.size() && follows; ++t)
      follows = steps[t] == strides[t][static_cast<size_t>(count) - 1] * size[count - 1];
    if (follows) {
      size[count - 1] *= n;
      return;
    }
    STRATA_CHECK(count < kAxesMost, NotImplemented,
                 "reduction: at most {} dimensions that cannot be merged are supported; make the input contiguous() "
                 "first, or merge dimensions with flatten()",
                 kAxesMost);
    for (size_t t = 0; t < steps.size(); ++t) strides[t][static_cast<size_t>(count)] = steps[t];
    size[count++] = n;
  }
};

int64_t stride_of(const TensorImpl& t, int from_end) {
  const int d = t.ndim - 1 - from_end;
  return d < 0 || t.shape[d] == 1 ? 0 : t.strides[d];
}

struct Launch {
  ReductionLayout layout{};
  std::vector<int64_t> strides;  // kept_stride of each tensor, then gone_stride
  uint32_t blocks = 0, chunks = 1;

  std::string bytes() const {
    std::string out(reinterpret_cast<const char*>(&layout), sizeof layout);
    out.append(reinterpret_cast<const char*>(strides.data()), strides.size() * sizeof(int64_t));
    return out;
  }
};

// `outs` is the number of outputs, the last of the tensors.
Launch plan(const Operands& call, DimMask reduced, bool keepdims, size_t outs) {
  const TensorImpl& shape = *call.shape;
  const size_t tensors = call.tensors.size(), inputs = tensors - outs;
  Dims kept(tensors), gone(tensors);
  Launch out;
  ReductionLayout& l = out.layout;
  l.kept = l.gone = 1;
  int kept_dims = 0;  // of a result, from its end
  bool innermost_is_gone = true, any = false;
  for (int k = 0; k < shape.ndim; ++k) {
    const int d = shape.ndim - 1 - k;
    const bool is_gone = reduced >> d & 1;
    std::vector<int64_t> steps(tensors);
    for (size_t t = 0; t < inputs; ++t) steps[t] = stride_of(*call.tensors[t], k);
    for (size_t t = inputs; t < tensors && !is_gone; ++t)
      steps[t] = stride_of(*call.tensors[t], keepdims ? k : kept_dims);
    (is_gone ? gone : kept).add(shape.shape[d], steps);
    (is_gone ? l.gone : l.kept) *= shape.shape[d];
    if (!is_gone) ++kept_dims;
    if (!any && shape.shape[d] > 1) innermost_is_gone = is_gone;
    any |= shape.shape[d] > 1;
  }
  l.elements = l.gone;
  l.kept_dims = kept.count;
  l.gone_dims = gone.count;
  std::ranges::copy(kept.size, l.kept_size);
  std::ranges::copy(gone.size, l.gone_size);
  for (const Dims* dims : {&kept, &gone})
    for (const auto& one : dims->strides) out.strides.insert(out.strides.end(), one.begin(), one.end());

  const auto up_to = [](int64_t n, int64_t most) {
    return std::min<int64_t>(most, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1)))));
  };
  l.rows = innermost_is_gone ? 1 : 0;
  const int64_t free = innermost_is_gone ? kReductionThreads : kReductionThreads / up_to(l.kept, 32);
  l.threads = up_to(innermost_is_gone ? ceil_div(l.gone, kElementsPerThread) : l.gone, free);
  const int64_t blocks = ceil_div(l.kept, kReductionThreads / l.threads);
  STRATA_CHECK(blocks <= INT32_MAX, NotImplemented, "{}: {} results are too many for one launch", call.name, l.kept);
  const int64_t wanted = std::clamp<int64_t>(kEnoughBlocks / std::max<int64_t>(blocks, 1), 1,
                                             std::max<int64_t>(l.gone / (16 * l.threads), 1));
  l.chunk = std::max<int64_t>(ceil_div(ceil_div(l.gone, wanted), l.threads) * l.threads, 1);
  out.blocks = static_cast<uint32_t>(blocks);
  out.chunks = static_cast<uint32_t>(std::max<int64_t>(ceil_div(l.gone, l.chunk), 1));
  return out;
}

// The same results from `chunks` partial ones, which are `kept` elements apart.
Launch plan_partials(const Launch& first) {
  Launch out = first;
  ReductionLayout& l = out.layout;
  l.gone = l.chunk = first.chunks;
  l.rows = 0;
  l.threads = 8;
  out.blocks = blocks_for(l.kept, kReductionThreads / l.threads);
  out.chunks = 1;
  return out;
}

Argument bytes_argument(const std::string& bytes) { return {Argument::Kind::Bytes, bytes.data(), bytes.size()}; }

// The dtype of a tensor of partial results: the type of the variables a and b.
DType stored_value(DType type) { return type == DType::F16 || type == DType::BF16 ? DType::F32 : type; }
}  // namespace

ReductionKernel::ReductionKernel(const std::string& inputs, const std::string& outputs, ReductionFormulas formulas,
                                 std::string name, std::vector<std::string> options)
    : state_(std::make_shared<State>()) {
  State& s = *state_;
  std::vector<std::string> taken;
  read_parameters("T " + name, "the kernel", taken);
  taken.insert(taken.end(), {"a", "b"});
  s.inputs = read_parameters(inputs, "an input", taken);
  s.outputs = read_parameters(outputs, "an output", taken);
  check_output_types(name, s.inputs, s.outputs);
  if (formulas.type.empty()) formulas.type = s.outputs[0].type;
  check_output_types(name, s.inputs, {{formulas.type, "a"}});
  for (const auto& [text, what] : {std::pair(&formulas.map, "map_expr"), std::pair(&formulas.reduce, "reduce_expr"),
                                   std::pair(&formulas.post, "post_map_expr")})
    STRATA_CHECK(text->find_first_not_of(" \t\r\n;") != text->npos, Value, "{}: {} is empty", name, what);
  s.formulas = std::move(formulas);
  s.name = std::move(name);
  s.options = std::move(options);
}

const std::string& ReductionKernel::name() const { return state_->name; }
const std::vector<ElementwiseParameter>& ReductionKernel::inputs() const { return state_->inputs; }
const std::vector<ElementwiseParameter>& ReductionKernel::outputs() const { return state_->outputs; }

std::vector<Tensor> ReductionKernel::operator()(std::span<const Operand> operands, const ReductionAxes& axes,
                                                std::span<const Tensor> outs) const {
  State& s = *state_;
  Operands call(s.name, s.inputs, operands, outs);
  const DimMask reduced = mask_of(s.name, axes, call.shape->ndim);
  std::vector<Tensor> results = call.results(s.outputs, outs, *result_shape(*call.shape, reduced, axes.keepdims));
  const Launch first = plan(call, reduced, axes.keepdims, results.size());
  STRATA_CHECK(first.layout.gone > 0 || first.layout.kept == 0 || s.formulas.identity, Value,
               "{}: the input of shape {} has no elements to reduce, and the kernel has no identity", s.name,
               to_string(call.shape->sizes()));
  if (call.device.type == DeviceType::Meta || first.layout.kept == 0) return results;

  const bool wide = call.shape->numel > INT32_MAX;
  const DType type = call.type_of(s.formulas.type);
  const State::Pair& kernels = [&]() -> const State::Pair& {
    const std::string key = fmt::format("{} {}", call.key(), wide);
    const std::lock_guard lock(s.mutex);
    if (const auto found = s.kernels.find(key); found != s.kernels.end()) return found->second;
    const std::string source = reduction_source(s.name, call.inputs, call.outputs, s.formulas, type, wide);
    const Module module = compile(source, call.device, {.name = s.name, .options = s.options, .instances = {}});
    return s.kernels.emplace(key, State::Pair{module.function(s.name), module.function(s.name + "_partials")})
      .first->second;
  }();
  const int64_t partial_count = first.chunks > 1 ? first.chunks * first.layout.kept : 0;
  const Tensor partials = make_tensor(Shape(&partial_count, 1), stored_value(type), call.device);
  std::vector<Argument> arguments = call.arguments(), to_results;
  for (const Tensor& out : results) to_results.emplace_back(out);
  to_results.emplace_back(partials);
  arguments.insert(arguments.end(), to_results.begin(), to_results.end());
  arguments.push_back(bytes_argument(first.bytes()));
  constexpr uint32_t threads = kReductionThreads;
  kernels.chunks.launch({{first.blocks, first.chunks}, {threads}, 0, true}, arguments);
  if (first.chunks == 1) return results;
  const Launch second = plan_partials(first);
  to_results.push_back(bytes_argument(second.bytes()));
  kernels.partials.launch({{second.blocks}, {threads}, 0, true}, to_results);
  return results;
}

}  // namespace strata::cuda
