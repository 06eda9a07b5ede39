#include "dispatch/settings.h"

#include <algorithm>
#include <cstring>

#include "cuda/runtime/runtime.h"
#include "record/promotion.h"
#include "tensor/device_hooks.h"

namespace strata {

void set_default_device(Device device) { thread_state.default_device = require_available(device); }

void set_printoptions(const PrintOptions& options) {
  STRATA_CHECK(options.precision >= 0 && options.precision <= 40 && options.edge_items >= 0 && options.line_width > 0,
               Value, "set_printoptions: precision is 0 to 40, edgeitems at least 0, linewidth at least 1");
  print_options = options;
}

Tensor get_state(const Generator& generator) {
  const Generator::State state = generator.state();
  Tensor t = make_tensor(Shape(std::initializer_list<int64_t>{sizeof state}), DType::U8);
  std::memcpy(t.bytes(), &state, sizeof state);
  return t;
}

void set_state(Generator& generator, const Tensor& state) {
  STRATA_CHECK(state, Type, "set_state: the tensor is undefined");
  require_host(*state, "set_state");
  Generator::State s;
  STRATA_CHECK(state.dtype() == DType::U8 && state.numel() == sizeof s && state.is_contiguous(), Value,
               "set_state: expected a uint8 tensor of 16 elements from get_state(), got {} {}", name_of(state.dtype()),
               to_string(state.shape()));
  std::memcpy(&s, state.bytes(), sizeof s);
  generator.set_state(s);
}

DType result_type(const Operand& a, const Operand& b) {
  const Args args(a, b);
  for (uint32_t i = 0; i < args.size; ++i)
    STRATA_CHECK(args[i].tag != Tag::None, Type, "result_type: argument {} is an undefined tensor", i + 1);
  return result_type(args, args.size);
}

bool can_cast(DType from, DType to) {
  const auto rank = [](DType t) { return is_complex(t) ? 3 : is_floating(t) ? 2 : t == DType::Bool ? 0 : 1; };
  return rank(from) <= rank(to);
}

std::vector<int64_t> broadcast_shapes(const std::vector<std::vector<int64_t>>& shapes) {
  size_t dims = 0;
  for (const auto& shape : shapes) dims = std::max(dims, shape.size());
  std::vector<int64_t> result(dims, 1);
  for (const auto& shape : shapes)
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& size = result[dims - shape.size() + i];
      STRATA_CHECK(shape[i] >= 0, Runtime, "broadcast_shapes: sizes must not be negative, found {}", shape[i]);
      STRATA_CHECK(size == shape[i] || size == 1 || shape[i] == 1, Runtime,
                   "broadcast_shapes: the sizes {} and {} do not broadcast to one shape", size, shape[i]);
      if (size == 1) size = shape[i];
    }
  return result;
}

namespace cuda {

int device_count(DeviceType type) {
  if (type != DeviceType::Cuda && type != DeviceType::Vgpu) return 0;
  return Runtime::why_not(type).empty() ? Runtime::get(type).count() : 0;
}

void synchronize(Device device) {
  if (device.type == DeviceType::Cpu || device.type == DeviceType::Meta) return;  // they have no queue
  device_hooks.synchronize(require_available(device));
}

}  // namespace cuda
}  // namespace strata
