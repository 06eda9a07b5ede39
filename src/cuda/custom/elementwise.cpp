#include "cuda/custom/elementwise.h"

#include <map>
#include <mutex>

#include "cuda/common/tensors.h"
#include "cuda/custom/compile.h"
#include "cuda/custom/elementwise_source.h"
#include "record/promotion.h"

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

// One call: its operands, shape and dtypes.
struct Call {
  std::string name;
  Device device{DeviceType::Cpu, -1};
  std::vector<ElementwiseSlot> inputs, outputs;
  std::vector<const TensorImpl*> tensors;  // of inputs that are not numbers, then of outputs
  std::vector<Scalar> numbers;             // one per input; used for numbers only
  Ref<TensorImpl> shape;                   // no memory: the broadcast shape
  bool strided = false;
};

Scalar scalar_of(const Value& v) {
  if (v.tag == Tag::Tensor) return Tensor(Ref<TensorImpl>::share(v.tensor)).item();
  if (v.tag == Tag::Float) return v.f;
  if (v.tag == Tag::Bool) return v.i != 0;
  return v.i;
}

void find_device(Call& call, const Args& args, std::span<const Tensor> outs) {
  const auto join = [&](const TensorImpl& t) {
    STRATA_CHECK(
      t.device.type == DeviceType::Cuda || t.device.type == DeviceType::Vgpu || t.device.type == DeviceType::Meta,
      Runtime, "{}: a tensor is on {}, but the kernel needs tensors on a cuda or vgpu device; move it with .to()",
      call.name, to_string(t.device));
    STRATA_CHECK(call.device.type == DeviceType::Cpu || call.device == t.device, Runtime,
                 "{}: tensors are on two devices, {} and {}", call.name, to_string(call.device), to_string(t.device));
    call.device = t.device;
  };
  for (uint32_t i = 0; i < args.size; ++i) {
    STRATA_CHECK(args[i].tag != Tag::None, Type, "{}: an input is undefined", call.name);
    if (!args.is_tensor(i)) continue;
    const TensorImpl& t = args.tensor(i);
    if (t.device.type != DeviceType::Cpu || t.ndim != 0) join(t);
  }
  for (const Tensor& out : outs) join(out.defined());
  STRATA_CHECK(call.device.type != DeviceType::Cpu, Type,
               "{}: none of the operands is a tensor on a cuda or vgpu device", call.name);
}

// The dtype of each placeholder.
std::map<std::string, DType> resolve(const std::string& name, const std::vector<ElementwiseParameter>& parameters,
                                     const Args& args) {
  std::map<std::string, DType> types;
  for (const ElementwiseParameter& p : parameters) {
    if (is_dtype_name(p.type)) {
      types[p.type] = dtype_from_name(p.type);
      continue;
    }
    if (types.contains(p.type)) continue;
    Args same;
    for (uint32_t i = 0; i < args.size; ++i)
      if (parameters[i].type == p.type) same[same.size++] = args[i];
    types[p.type] = result_type(same, same.size);
  }
  for (uint32_t i = 0; i < args.size; ++i)
    STRATA_CHECK(
      !is_dtype_name(parameters[i].type) || !args.is_tensor(i) || args.tensor(i).dtype == types[parameters[i].type],
      Type, "{}: input '{}' must be {}, got {}", name, parameters[i].name, parameters[i].type,
      info_of(args.tensor(i).dtype).name);
  return types;
}

// Whether t can be indexed by the element's number.
bool is_flat(const TensorImpl& t, const TensorImpl& shape) { return t.contiguous && t.same_shape(shape); }

void check_out(const Call& call, const ElementwiseParameter& p, const TensorImpl& out, DType type) {
  STRATA_CHECK(out.dtype == type, Type, "{}: output '{}' is {}, but the result is {}", call.name, p.name,
               info_of(out.dtype).name, info_of(type).name);
  STRATA_CHECK(out.same_shape(*call.shape), Runtime, "{}: output '{}' has another shape than the broadcast inputs",
               call.name, p.name);
  // Dense, or a subset of something dense: no two elements may share memory.
  for (int d = 0; d < out.ndim; ++d)
    STRATA_CHECK(out.shape[d] < 2 || out.strides[d] != 0, Runtime,
                 "{}: elements of output '{}' share memory; write to a clone", call.name, p.name);
  for (const TensorImpl* t : call.tensors) {
    const bool same_view = t->data == out.data && t->dtype == out.dtype && t->same_shape(out) &&
                           std::equal(t->strides, t->strides + t->ndim, out.strides);
    if (t->storage.get() != out.storage.get() || same_view || t->numel == 0) continue;
    const auto reach = [](const TensorImpl& x) {
      int64_t last = 1;
      for (int d = 0; d < x.ndim; ++d) last += (x.shape[d] - 1) * x.strides[d];
      return x.data + last * static_cast<int64_t>(size_of(x.dtype));
    };
    STRATA_CHECK(reach(*t) <= out.data || reach(out) <= t->data, Runtime,
                 "{}: output '{}' overlaps another operand; write to a clone", call.name, p.name);
  }
}

// The parameter struct of strided kernels: sizes and strides with the fastest dimension first.
std::vector<int64_t> layout_of(const Call& call) {
  std::vector<int64_t> out(1 + kMaxDims * (1 + call.tensors.size()), 0);
  const TensorImpl& shape = *call.shape;
  out[0] = shape.ndim;
  for (int d = 0; d < shape.ndim; ++d) out[1 + static_cast<size_t>(d)] = shape.shape[shape.ndim - 1 - d];
  for (size_t k = 0; k < call.tensors.size(); ++k) {
    const TensorImpl& t = *call.tensors[k];
    for (int d = 0; d < t.ndim; ++d)
      out[1 + kMaxDims * (1 + k) + static_cast<size_t>(d)] =
        t.shape[t.ndim - 1 - d] == 1 ? 0 : t.strides[t.ndim - 1 - d];
  }
  return out;
}

std::string key_of(const Call& call, bool wide) {
  std::string key = fmt::format("{} {} {}", to_string(call.device), call.strided, wide);
  for (const auto* slots : {&call.inputs, &call.outputs})
    for (const ElementwiseSlot& s : *slots)
      key += fmt::format(" {}:{}", static_cast<int>(s.type), s.is_number ? -1 : static_cast<int>(s.stored));
  return key;
}
}  // namespace

Elementwise::Elementwise(const std::string& inputs, const std::string& outputs, std::string operation, std::string name,
                         std::vector<std::string> options)
    : state_(std::make_shared<State>()) {
  std::vector<std::string> taken;
  read_parameters("T " + name, "the kernel", taken);
  state_->inputs = read_parameters(inputs, "an input", taken);
  state_->outputs = read_parameters(outputs, "an output", taken);
  STRATA_CHECK(!state_->inputs.empty() && !state_->outputs.empty(), Value,
               "elementwise: {} needs at least one input and one output", name);
  STRATA_CHECK(state_->inputs.size() + state_->outputs.size() <= Args::kMax, Value,
               "elementwise: {} has {} parameters; at most {} are possible", name,
               state_->inputs.size() + state_->outputs.size(), Args::kMax);
  for (const ElementwiseParameter& out : state_->outputs) {
    bool known = is_dtype_name(out.type);
    for (const ElementwiseParameter& in : state_->inputs) known |= in.type == out.type;
    STRATA_CHECK(known, Value, "elementwise: the type '{}' of output '{}' is neither a dtype nor the type of an input",
                 out.type, out.name);
  }
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
  STRATA_CHECK(operands.size() == s.inputs.size(), Type, "{} has {} inputs, but got {}", s.name, s.inputs.size(),
               operands.size());
  STRATA_CHECK(outs.empty() || outs.size() == s.outputs.size(), Type, "{} has {} outputs, but got {} tensors for them",
               s.name, s.outputs.size(), outs.size());
  Args args;
  for (const Operand& o : operands) args[args.size++] = o.value;
  Call call;
  call.name = s.name;
  find_device(call, args, outs);
  std::map<std::string, DType> types = resolve(s.name, s.inputs, args);
  call.shape = Ref<TensorImpl>::adopt(TensorImpl::make());
  broadcast_shape(args, args.size, *call.shape, s.name.c_str());
  call.shape->set_contiguous_strides();
  for (uint32_t i = 0; i < args.size; ++i) {
    const DType type = types[s.inputs[i].type];
    const bool is_number = !args.is_tensor(i) || args.tensor(i).device.type == DeviceType::Cpu;
    call.inputs.push_back({&s.inputs[i], type, is_number ? type : args.tensor(i).dtype, is_number});
    const Scalar number = is_number ? scalar_of(args[i]) : Scalar(0);
    call.numbers.push_back(type == DType::Bool ? Scalar(number.to_double() != 0) : number);
    if (!is_number) call.tensors.push_back(&args.tensor(i));
  }
  std::vector<Tensor> results(outs.begin(), outs.end());
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    const ElementwiseParameter& p = s.outputs[i];
    const DType type = types.contains(p.type) ? types[p.type] : dtype_from_name(p.type);
    if (outs.empty()) results.push_back(make_tensor(call.shape->sizes(), type, call.device));
    else check_out(call, p, *results[i], type);
    call.outputs.push_back({&p, type, type, false});
    call.tensors.push_back(results[i].get());
  }
  if (call.device.type == DeviceType::Meta) return results;
  for (const TensorImpl* t : call.tensors) call.strided |= !is_flat(*t, *call.shape);
  const int64_t n = call.shape->numel;
  const bool wide = n > INT32_MAX;

  const auto kernel = [&] {
    const std::string key = key_of(call, wide);
    const std::lock_guard lock(s.mutex);
    if (const auto found = s.kernels.find(key); found != s.kernels.end()) return found->second;
    const std::string source = elementwise_source(s.name, call.inputs, call.outputs, s.operation, call.strided, wide);
    const Module module = compile(source, call.device, {.name = s.name, .options = s.options, .instances = {}});
    return s.kernels.emplace(key, module.function(s.name)).first->second;
  }();
  std::vector<Argument> arguments;
  for (uint32_t i = 0; i < args.size; ++i)
    arguments.push_back(call.inputs[i].is_number ? Argument::number(call.numbers[i]) : Argument(args.share(i)));
  for (const Tensor& out : results) arguments.emplace_back(out);
  const std::vector<int64_t> layout = call.strided ? layout_of(call) : std::vector<int64_t>{};
  if (call.strided) arguments.emplace_back(Argument::Kind::Bytes, layout.data(), layout.size() * sizeof(int64_t));
  arguments.emplace_back(n);
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>(ceil_div(n, kThreads), INT32_MAX / kThreads));
  if (n > 0) kernel.launch({{blocks}, {kThreads}, 0, true}, arguments);
  return results;
}

}  // namespace strata::cuda
