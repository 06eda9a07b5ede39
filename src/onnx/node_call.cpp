#include <fmt/core.h>

#include "onnx/network.h"
#include "strata/ops/movement/copy.h"

namespace strata::onnx {
namespace {

const char* title_of(AttributeKind kind) {
  constexpr const char* kNames[] = {"nothing", "a float",         "an integer",     "a text", "a tensor",
                                    "a graph", "floats",          "integers",       "texts",  "tensors",
                                    "graphs",  "a sparse tensor", "sparse tensors", "a type", "types"};
  const auto i = static_cast<size_t>(kind);
  return i < std::size(kNames) ? kNames[i] : "of an unknown kind";
}

// A tensor on the CPU with the elements in order.
Tensor host_copy(const Tensor& t) { return contiguous(t.is_cpu() ? t : to(t, Device())); }
}  // namespace

bool NodeCall::has(size_t i) const {
  return i < step_.inputs.size() && step_.inputs[i] != kNoSlot &&
         slots_[static_cast<size_t>(step_.inputs[i])].defined();
}

const Value& NodeCall::value(size_t i) const {
  STRATA_CHECK(i < step_.inputs.size() && step_.inputs[i] != kNoSlot, Runtime, "input {} is missing", i);
  return slots_[static_cast<size_t>(step_.inputs[i])];
}

Device NodeCall::device() const {
  if (network_.device().type == DeviceType::Cpu || step_.inputs.empty()) return network_.device();
  for (const Slot s : step_.inputs)
    if (s != kNoSlot && slots_[static_cast<size_t>(s)].tensor && !slots_[static_cast<size_t>(s)].tensor.is_cpu())
      return network_.device();
  return {};
}

Tensor NodeCall::tensor(size_t i) const {
  const Value& v = value(i);
  STRATA_CHECK(v.tensor, Type, "input {} is {}; expected a tensor of numbers", i, kind_of(v));
  STRATA_CHECK(v.carried == ElementType::Undefined, NotImplemented, "input {} is {}, which the op does not take", i,
               kind_of(v));
  const Device want = device();
  return v.tensor.device() == want ? v.tensor : to(v.tensor, want);
}
Tensor NodeCall::maybe(size_t i) const { return has(i) ? tensor(i) : Tensor(); }

std::vector<int64_t> NodeCall::ints(size_t i) const {
  const Value& v = value(i);
  STRATA_CHECK(v.tensor && !is_floating(v.tensor.dtype()) && !is_complex(v.tensor.dtype()), Type,
               "input {} is {}; expected a tensor of integers", i, kind_of(v));
  const Tensor t = to(host_copy(v.tensor), DType::I64);
  const int64_t* data = t.data<int64_t>();
  return {data, data + t.numel()};
}
std::vector<double> NodeCall::numbers(size_t i) const {
  const Value& v = value(i);
  STRATA_CHECK(v.tensor && !is_complex(v.tensor.dtype()), Type, "input {} is {}; expected a tensor of numbers", i,
               kind_of(v));
  const Tensor t = to(host_copy(v.tensor), DType::F64);
  const double* data = t.data<double>();
  return {data, data + t.numel()};
}
int64_t NodeCall::integer(size_t i) const {
  const std::vector<int64_t> all = ints(i);
  STRATA_CHECK(all.size() == 1, Value, "input {} has {} elements; expected one", i, all.size());
  return all[0];
}
Scalar NodeCall::number(size_t i) const {
  const Value& v = value(i);
  STRATA_CHECK(v.tensor && v.tensor.numel() == 1, Value, "input {} is {}; expected one number", i, kind_of(v));
  return v.tensor.item();
}

const StepAttribute* NodeCall::find(std::string_view name, AttributeKind kind) const {
  for (const StepAttribute& a : step_.attributes) {
    if (a.name != name) continue;
    STRATA_CHECK(kind == AttributeKind::Undefined || a.attribute->kind == kind, Type,
                 "attribute '{}' is {}; expected {}", name, title_of(a.attribute->kind), title_of(kind));
    return &a;
  }
  return nullptr;
}
namespace {
[[noreturn]] void refuse_missing(std::string_view name) {
  fail(ErrorKind::Runtime, fmt::format("attribute '{}' is missing", name));
}
}  // namespace

int64_t NodeCall::integer(std::string_view attribute, std::optional<int64_t> otherwise) const {
  if (const StepAttribute* a = find(attribute, AttributeKind::Int)) return a->attribute->i;
  if (!otherwise) refuse_missing(attribute);
  return *otherwise;
}
double NodeCall::number(std::string_view attribute, std::optional<double> otherwise) const {
  if (const StepAttribute* a = find(attribute, AttributeKind::Float)) return static_cast<double>(a->attribute->f);
  if (!otherwise) refuse_missing(attribute);
  return *otherwise;
}
std::string_view NodeCall::text(std::string_view attribute, std::optional<std::string_view> otherwise) const {
  if (const StepAttribute* a = find(attribute, AttributeKind::String)) return a->attribute->s;
  if (!otherwise) refuse_missing(attribute);
  return *otherwise;
}
std::vector<int64_t> NodeCall::ints(std::string_view attribute) const {
  const StepAttribute* a = find(attribute, AttributeKind::Ints);
  return a ? a->attribute->ints : std::vector<int64_t>();
}
std::vector<double> NodeCall::numbers(std::string_view attribute) const {
  const StepAttribute* a = find(attribute, AttributeKind::Floats);
  return a ? std::vector<double>(a->attribute->floats.begin(), a->attribute->floats.end()) : std::vector<double>();
}
std::vector<std::string> NodeCall::texts(std::string_view attribute) const {
  const StepAttribute* a = find(attribute, AttributeKind::Strings);
  return a ? std::vector<std::string>(a->attribute->strings.begin(), a->attribute->strings.end())
           : std::vector<std::string>();
}
const Value& NodeCall::tensor(std::string_view attribute) const {
  const StepAttribute* a = find(attribute, AttributeKind::Tensor);
  if (!a) refuse_missing(attribute);
  return a->tensors.at(0);
}
ElementType NodeCall::type(std::string_view attribute, ElementType otherwise) const {
  const auto type = static_cast<ElementType>(integer(attribute, static_cast<int64_t>(otherwise)));
  if (type != ElementType::String) (void)storage_dtype(type);  // refuses unknown types
  return type;
}

const Block& NodeCall::block(std::string_view attribute) const {
  for (size_t i = 0; i < step_.blocks.size(); ++i)
    if (step_.block_names[i] == attribute) return step_.blocks[i];
  refuse_missing(attribute);
}
const std::vector<TypeInfo>& NodeCall::block_outputs(std::string_view attribute) const {
  return block(attribute).output_types;
}
size_t NodeCall::block_inputs(std::string_view attribute) const { return block(attribute).inputs.size(); }

Values NodeCall::run(std::string_view attribute, std::span<const Value> inputs) {
  const Block& b = block(attribute);
  STRATA_CHECK(inputs.size() == b.inputs.size(), Runtime, "the graph '{}' has {} inputs and gets {}", attribute,
               b.inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) slots_[static_cast<size_t>(b.inputs[i])] = inputs[i];
  network_.run_block(b, slots_);
  Values outputs;
  for (const Slot s : b.outputs) outputs.push_back(slots_[static_cast<size_t>(s)]);
  return outputs;
}

void NodeCall::refuse(const std::string& what) const { fail(ErrorKind::NotImplemented, what); }

}  // namespace strata::onnx
