// The names that a pickle may use, and their implementation.
#include <fmt/core.h>

#include <algorithm>

#include "nn/files/pickle_machine.h"

namespace strata::files {
namespace {

enum class Action : uint8_t {
  RebuildTensor,
  RebuildTypedTensor,
  RebuildParameter,
  OrderedDict,
  Size,
  Device,
  TypedStorage,
  UntypedStorage
};
struct Global {
  std::string_view name;
  Action action;
  DType dtype = DType::U8;
};
constexpr Global kGlobals[] = {
  {"torch._utils._rebuild_tensor_v2", Action::RebuildTensor},
  {"torch._utils._rebuild_tensor_v3", Action::RebuildTypedTensor},
  {"torch._utils._rebuild_parameter", Action::RebuildParameter},
  {"collections.OrderedDict", Action::OrderedDict},
  {"torch.Size", Action::Size},
  {"torch.device", Action::Device},
  {"torch.storage.UntypedStorage", Action::UntypedStorage},
  {"torch.UntypedStorage", Action::UntypedStorage},
  {"torch.BoolStorage", Action::TypedStorage, DType::Bool},
  {"torch.ByteStorage", Action::TypedStorage, DType::U8},
  {"torch.CharStorage", Action::TypedStorage, DType::I8},
  {"torch.ShortStorage", Action::TypedStorage, DType::I16},
  {"torch.IntStorage", Action::TypedStorage, DType::I32},
  {"torch.LongStorage", Action::TypedStorage, DType::I64},
  {"torch.HalfStorage", Action::TypedStorage, DType::F16},
  {"torch.BFloat16Storage", Action::TypedStorage, DType::BF16},
  {"torch.FloatStorage", Action::TypedStorage, DType::F32},
  {"torch.DoubleStorage", Action::TypedStorage, DType::F64},
  {"torch.ComplexFloatStorage", Action::TypedStorage, DType::C64},
  {"torch.ComplexDoubleStorage", Action::TypedStorage, DType::C128},
};
}  // namespace

void PickleMachine::push_global(const std::string& name) {
  for (size_t i = 0; i < std::size(kGlobals); ++i)
    if (name == kGlobals[i].name) return push_int(static_cast<int64_t>(i), Kind::Global);
  if (name.starts_with("torch.")) {
    for (int i = 0; i < kDTypeCount; ++i)
      if (name.substr(6) == name_of(static_cast<DType>(i))) return push_int(i, Kind::DType);
  }
  refuse(name.substr(0, 200));
}
// ("storage", type, key, where it was, number of elements)
void PickleMachine::push_storage(Value id) {
  if (id.kind != Kind::Tuple || box(id).size() != 5 || text_of(box(id)[0]) != "storage")
    bad("a persistent id is not a storage");
  const std::vector<Value> parts = box(id);
  if (parts[1].kind != Kind::Global) bad("a persistent id is not a storage");
  const Global& type = kGlobals[static_cast<size_t>(parts[1].i)];
  if (type.action != Action::TypedStorage && type.action != Action::UntypedStorage)
    bad("a persistent id is not a storage");
  const int64_t numel = int_of(parts[4]);
  uint64_t bytes = 0;
  if (numel < 0 || __builtin_mul_overflow(static_cast<uint64_t>(numel), size_of(type.dtype), &bytes))
    bad("the size of a storage is out of range");
  push_new(
    Kind::Storage, storages_,
    StorageView{source_.storage(text_of(parts[2]), bytes), type.dtype, type.action == Action::TypedStorage, bytes});
}
void PickleMachine::reduce() {
  const Value arguments = pop();
  const Value callee = pop();
  if (callee.kind != Kind::Global) bad("it calls something that is not a function");
  const Global& function = kGlobals[static_cast<size_t>(callee.i)];
  if (arguments.kind != Kind::Tuple) bad("it calls a function without a tuple of arguments");
  const std::vector<Value> args = box(arguments);
  const auto need = [&](size_t low, size_t high) {
    if (args.size() < low || args.size() > high) bad(fmt::format("{} gets {} arguments", function.name, args.size()));
  };
  switch (function.action) {
    case Action::RebuildTensor: need(6, 7); return rebuild(args, std::nullopt);
    case Action::RebuildTypedTensor:
      need(7, 8);
      if (args[6].kind != Kind::DType) bad("the dtype of a tensor is none");
      return rebuild(args, static_cast<DType>(args[6].i));
    case Action::RebuildParameter: {
      need(3, 3);
      if (args[0].kind != Kind::Tensor || args[1].kind != Kind::Bool) bad("the data of a parameter is not a tensor");
      Tensor& t = tensors_[static_cast<size_t>(args[0].i)];
      t.set_requires_grad(args[1].i && is_differentiable(t.dtype()));
      parameters_.push_back(args[0].i);
      return push(args[0]);
    }
    case Action::OrderedDict: need(0, 1); return call_ordered_dict(args);
    case Action::Size:
      need(1, 1);
      (void)ints_of(args[0]);
      sizes_.push_back(args[0].i);
      return push(args[0]);
    case Action::Device:
      need(1, 2);
      (void)text_of(args[0]);
      return push(args[0]);
    case Action::TypedStorage:
    case Action::UntypedStorage: bad("a storage is not called");
  }
}
void PickleMachine::call_ordered_dict(const std::vector<Value>& args) {
  push_box(Kind::Dict, {});
  ordered_.push_back(top().i);
  if (args.empty()) return;
  if (args[0].kind != Kind::List) bad("OrderedDict gets no list");
  for (Value pair : std::vector<Value>(box(args[0]))) {
    if ((pair.kind != Kind::List && pair.kind != Kind::Tuple) || box(pair).size() != 2)
      bad("OrderedDict gets no pairs");
    extend(Kind::Dict, {box(pair)[0], box(pair)[1]});
  }
}

// (storage, offset, size, stride, requires_grad, hooks)
void PickleMachine::rebuild(const std::vector<Value>& args, std::optional<DType> dtype) {
  if (args[0].kind != Kind::Storage || args[4].kind != Kind::Bool) bad("a tensor has no storage");
  const StorageView& from = storages_[static_cast<size_t>(args[0].i)];
  const int64_t offset = int_of(args[1]);
  const std::vector<int64_t> shape = ints_of(args[2]), strides = ints_of(args[3]);
  if (!dtype && !from.typed) bad("a tensor has no dtype");
  if (shape.size() != strides.size() || shape.size() > kMaxDims)
    bad(
      fmt::format("a tensor has {} sizes and {} strides; at most {} are read", shape.size(), strides.size(), kMaxDims));
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] < 0 || strides[d] < 0) bad("a tensor has a negative size or stride");

  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = dtype.value_or(from.dtype);
  t->set_shape(shape);
  t->set_contiguous_strides();  // checks the number of elements
  t->storage = from.storage;
  t->data = from.storage->data;
  if (t->numel > 0) {
    int64_t last = offset, step = 0;
    bool fits = offset >= 0;
    for (size_t d = 0; d < shape.size(); ++d)
      fits =
        fits && !__builtin_mul_overflow(shape[d] - 1, strides[d], &step) && !__builtin_add_overflow(last, step, &last);
    const auto item = static_cast<int64_t>(size_of(t->dtype));
    if (!fits || last >= static_cast<int64_t>(from.bytes) / item)
      bad(fmt::format("a tensor of shape {} and strides {} from {} on is outside its storage of {} bytes",
                      to_string(shape), to_string(strides), offset, from.bytes));
    std::copy(strides.begin(), strides.end(), t->strides);
    t->update_contiguous();
    t->data += offset * item;
    if (t->dtype == DType::Bool) {
      const auto* p = reinterpret_cast<const uint8_t*>(from.storage->data);
      if (std::any_of(p, p + from.bytes, [](uint8_t v) { return v > 1; }))
        bad("a storage of bools has bytes other than 0 and 1");
    }
  }
  if (args[4].i && is_differentiable(t->dtype)) t.set_requires_grad();
  spend(sizeof(TensorImpl));
  push_new(Kind::Tensor, tensors_, std::move(t));
}

}  // namespace strata::files
