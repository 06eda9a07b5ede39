// First layers on GPUs in 16 bits: an image of 3 channels gets 5 of zeros. Tensor cores multiply vectors of 8; with 3 the products of
// a first layer took a sixth of the time of a ResNet-50.
#include "autograd/autograd.h"
#include "engine/passes/inference.h"
#include "engine/passes/layer.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

constexpr int64_t kVector = 8, kFewest = 3;  // fewer are layers of other kernels

bool pad(Rewriter& r, size_t at) {
  const graph::ValueId weight = weight_value(r, at);
  const Tensor w = weight == graph::kNoValue ? Tensor() : r.constant(weight);
  const std::optional<Layer> l = w ? layer_with_tail(r, at, w) : std::nullopt;
  if (!l || !l->convolves) return false;
  const graph::Node& n = r.node(at);
  const graph::ValueType x = r.type(l->input);
  const bool low = x.dtype == DType::F16 || x.dtype == DType::BF16;
  if (!low || x.device.type == DeviceType::Cpu || x.shape.size() != 4 || x.shape[1] < kFewest ||
      x.shape[1] >= kVector || w.dim() != 4 || w.size(1) != x.shape[1])
    return false;
  const std::vector<int64_t> amounts{0, 0, 0, 0, 0, kVector - x.shape[1]};
  graph::ValueType wide = x;
  wide.shape[1] = kVector;
  int64_t step = 1;
  for (size_t d = 4; d-- > 0; step *= wide.shape[d]) wide.strides[d] = step;
  const graph::ValueId image = r.add_value(wide, r.graph().values[l->input].name + ".padded");
  const graph::ValueId factors =
    r.add_constant(constant_pad_nd(w, amounts, 0), r.graph().values[weight].name + ".padded");
  r.insert_before(at, Rewriter::make(op_constant_pad_nd, {graph::ValueRef{l->input}, amounts, int64_t{0}}, {image}, n));
  r.set_argument(at, 0, graph::ValueRef{image});
  r.set_argument(at, 1, graph::ValueRef{factors});
  r.applied(at, "the channels of its input are padded to 8, for tensor cores", -2 * r.bytes(image));
  return true;
}
}  // namespace

size_t pad_channels(graph::Graph& g, const PassOptions& options) {
  const autograd::NoGrad off;
  Rewriter r(g, options, "pad_channels");
  for (size_t at = 0; at < r.size(); ++at)
    if (!r.dead(at)) pad(r, at);
  return r.finish();
}

}  // namespace strata::engine
