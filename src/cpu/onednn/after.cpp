#include "cpu/onednn/after.h"

#include <limits>

namespace strata::onednn {

using Desc = dnnl::memory::desc;

dnnl::primitive_attr Afterwards::attributes(const After& a, const Desc& result, int64_t channels, int channel) {
  using dnnl::algorithm;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!a.any()) return attributes;
  dnnl::post_ops after;
  const auto argument = [&](int index, const Desc& desc, const void* (*of)(const Extra&)) {
    arguments_.push_back({index, dnnl::memory(desc, engine(), nullptr), of});
  };
  const auto vector = [](int64_t size, Type type) { return Desc({size}, type_of(type), dnnl::memory::format_tag::a); };
  const auto add_other = [&] {
    const Type type = a.bytes ? a.other_type : Type::F32;
    // A tensor of bytes has no scale of its own here: the sum is divided by it before, and multiplied after.
    const bool scaled = a.bytes && type != Type::F32;
    if (scaled) after.append_eltwise(algorithm::eltwise_linear, 1 / a.other_scale, -a.other_zero);
    Desc desc = result;
    if (a.bytes) desc = Desc(result.get_dims(), type_of(type), result.get_strides());
    argument(DNNL_ARG_ATTR_MULTIPLE_POST_OP(after.len()) | DNNL_ARG_SRC_1, desc,
             [](const Extra& e) { return e.other; });
    after.append_binary(algorithm::binary_add, desc);
    if (scaled) after.append_eltwise(algorithm::eltwise_linear, a.other_scale, 0);
  };
  if (a.other == 1) add_other();
  switch (a.activation) {
    case After::Relu:
      // oneDNN's own ReLU returns 0 for NaN. x * clamp(largest * x, 0, 1) is x, 0 or NaN. Bytes have no NaN.
      if (a.bytes && a.result_type != Type::F32) after.append_eltwise(algorithm::eltwise_relu, 0, 0);
      else after.append_eltwise(algorithm::eltwise_hardswish, std::numeric_limits<float>::max(), 0);
      break;
    case After::LeakyRelu: after.append_eltwise(algorithm::eltwise_relu, a.low, 0); break;
    case After::Clamp: after.append_eltwise(algorithm::eltwise_clip, a.low, a.high); break;
    default: break;
  }
  if (a.other == 2) add_other();
  if (after.len()) attributes.set_post_ops(after);
  if (!a.bytes) return attributes;
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, channel);
  argument(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, vector(channels, Type::F32),
           [](const Extra& e) -> const void* { return e.scales; });
  if (a.result_type != Type::F32) {
    attributes.set_scales_mask(DNNL_ARG_DST, 0);
    argument(DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, vector(1, Type::F32),
             [](const Extra& e) -> const void* { return e.result_scale; });
  }
  if (a.input_zero) {
    attributes.set_zero_points_mask(DNNL_ARG_SRC, 0);
    argument(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, vector(1, Type::S32),
             [](const Extra& e) -> const void* { return e.input_zero; });
  }
  if (a.result_zero) {
    attributes.set_zero_points_mask(DNNL_ARG_DST, 0);
    argument(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, vector(1, Type::S32),
             [](const Extra& e) -> const void* { return e.result_zero; });
  }
  return attributes;
}

int Afterwards::arguments(dnnl_exec_arg_t* args, int count, const Extra& extra) {
  for (Argument& a : arguments_) {
    a.memory.set_data_handle(const_cast<void*>(a.of(extra)));
    args[count++] = {a.index, a.memory.get()};
  }
  return count;
}

}  // namespace strata::onednn
