#include "cuda/custom/operands.h"

#include <fmt/core.h>

#include "cuda/common/tensors.h"
#include "record/promotion.h"

namespace strata::cuda {
namespace {

Scalar scalar_of(const Value& v) {
  if (v.tag == Tag::Tensor) return Tensor(Ref<TensorImpl>::share(v.tensor)).item();
  if (v.tag == Tag::Float) return v.f;
  if (v.tag == Tag::Bool) return v.i != 0;
  return v.i;
}
}  // namespace

void Operands::find_device(std::span<const Tensor> outs) {
  const auto join = [&](const TensorImpl& t) {
    STRATA_CHECK(
      t.device.type == DeviceType::Cuda || t.device.type == DeviceType::Vgpu || t.device.type == DeviceType::Meta,
      Runtime, "{}: a tensor is on {}, but the kernel needs tensors on a cuda or vgpu device; move it with .to()", name,
      to_string(t.device));
    STRATA_CHECK(device.type == DeviceType::Cpu || device == t.device, Runtime,
                 "{}: tensors are on two devices, {} and {}", name, to_string(device), to_string(t.device));
    device = t.device;
  };
  for (uint32_t i = 0; i < args.size; ++i) {
    STRATA_CHECK(args[i].tag != Tag::None, Type, "{}: an input is undefined", name);
    if (!args.is_tensor(i)) continue;
    const TensorImpl& t = args.tensor(i);
    if (t.device.type != DeviceType::Cpu || t.ndim != 0) join(t);
  }
  for (const Tensor& out : outs) join(out.checked());
  STRATA_CHECK(device.type != DeviceType::Cpu, Type, "{}: none of the operands is a tensor on a cuda or vgpu device",
               name);
}

// The dtype of each placeholder.
void Operands::resolve(const std::vector<ElementwiseParameter>& parameters) {
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
}

void check_output_memory(const std::string& kernel, const std::string& output, const TensorImpl& out,
                         std::span<const TensorImpl* const> tensors, bool allow_same_view) {
  // Dense, or a subset of something dense: no two elements may share memory.
  for (int d = 0; d < out.ndim; ++d)
    STRATA_CHECK(out.shape[d] < 2 || out.strides[d] != 0, Runtime,
                 "{}: elements of output '{}' share memory; write to a clone", kernel, output);
  for (const TensorImpl* t : tensors) {
    const bool same_view = allow_same_view && t->data == out.data && t->dtype == out.dtype && t->same_shape(out) &&
                           std::equal(t->strides, t->strides + t->ndim, out.strides);
    if (t->storage.get() != out.storage.get() || same_view || t->numel == 0) continue;
    const auto reach = [](const TensorImpl& x) {
      int64_t last = 1;
      for (int d = 0; d < x.ndim; ++d) last += (x.shape[d] - 1) * x.strides[d];
      return x.data + last * static_cast<int64_t>(size_of(x.dtype));
    };
    STRATA_CHECK(reach(*t) <= out.data || reach(out) <= t->data, Runtime,
                 "{}: output '{}' overlaps another operand; write to a clone", kernel, output);
  }
}

void Operands::check_out(const ElementwiseParameter& p, const TensorImpl& out, DType type,
                         const TensorImpl& result_shape) const {
  STRATA_CHECK(out.dtype == type, Type, "{}: output '{}' is {}, but the result is {}", name, p.name,
               info_of(out.dtype).name, info_of(type).name);
  STRATA_CHECK(out.same_shape(result_shape), Runtime, "{}: output '{}' has shape {}, but the result has {}", name,
               p.name, to_string(out.sizes()), to_string(result_shape.sizes()));
  check_output_memory(name, p.name, out, tensors);
}

Operands::Operands(const std::string& kernel, const std::vector<ElementwiseParameter>& parameters,
                   std::span<const Operand> operands, std::span<const Tensor> outs)
    : name(kernel) {
  STRATA_CHECK(operands.size() == parameters.size(), Type, "{} has {} inputs, but got {}", name, parameters.size(),
               operands.size());
  for (const Operand& o : operands) args[args.size++] = o.value;
  find_device(outs);
  resolve(parameters);
  shape = Ref<TensorImpl>::adopt(TensorImpl::make());
  broadcast_shape(args, args.size, *shape, name.c_str());
  shape->set_contiguous_strides();
  for (uint32_t i = 0; i < args.size; ++i) {
    const DType type = types[parameters[i].type];
    const bool is_number = !args.is_tensor(i) || args.tensor(i).device.type == DeviceType::Cpu;
    inputs.push_back({&parameters[i], type, is_number ? type : args.tensor(i).dtype, is_number});
    const Scalar number = is_number ? scalar_of(args[i]) : Scalar(0);
    numbers.push_back(type == DType::Bool ? Scalar(number.to_double() != 0) : number);
    if (!is_number) tensors.push_back(&args.tensor(i));
  }
}

std::vector<Tensor> Operands::results(const std::vector<ElementwiseParameter>& parameters,
                                      std::span<const Tensor> given, const TensorImpl& result_shape) {
  STRATA_CHECK(given.empty() || given.size() == parameters.size(), Type,
               "{} has {} outputs, but got {} tensors for them", name, parameters.size(), given.size());
  std::vector<Tensor> out(given.begin(), given.end());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const DType type = type_of(parameters[i].type);
    if (given.empty()) out.push_back(make_tensor(result_shape.sizes(), type, device));
    else check_out(parameters[i], *out[i], type, result_shape);
    outputs.push_back({&parameters[i], type, type, false});
    tensors.push_back(out[i].get());
  }
  return out;
}

std::vector<Argument> Operands::arguments() const {
  std::vector<Argument> out;
  for (uint32_t i = 0; i < args.size; ++i)
    out.push_back(inputs[i].is_number ? Argument::number(numbers[i]) : Argument(args.share(i)));
  return out;
}

std::string Operands::key() const {
  std::string text = to_string(device);
  for (const auto* slots : {&inputs, &outputs})
    for (const ElementwiseSlot& s : *slots)
      text += fmt::format(" {}:{}", static_cast<int>(s.type), s.is_number ? -1 : static_cast<int>(s.stored));
  return text;
}

void check_output_types(const std::string& name, const std::vector<ElementwiseParameter>& inputs,
                        const std::vector<ElementwiseParameter>& outputs) {
  STRATA_CHECK(!inputs.empty() && !outputs.empty(), Value, "{} needs at least one input and one output", name);
  STRATA_CHECK(inputs.size() + outputs.size() <= Args::kMax, Value, "{} has {} parameters; at most {} are possible",
               name, inputs.size() + outputs.size(), Args::kMax);
  for (const ElementwiseParameter& out : outputs) {
    bool known = is_dtype_name(out.type);
    for (const ElementwiseParameter& in : inputs) known |= in.type == out.type;
    STRATA_CHECK(known, Value, "{}: the type '{}' of output '{}' is neither a dtype nor the type of an input", name,
                 out.type, out.name);
  }
}

}  // namespace strata::cuda
