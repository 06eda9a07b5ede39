// Pads of zeros before convolutions.
#include "autograd/autograd.h"
#include "engine/passes/inference.h"
#include "engine/passes/layer.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

bool fold_pad(Rewriter& r, size_t at) {
  std::optional<Layer> l = layer_at(r, at);
  if (!l || !l->convolves) return false;
  const size_t pad = r.sole_producer(l->input, op_constant_pad_nd);
  if (pad == Rewriter::kNone) return false;
  const graph::Node& n = r.node(pad);
  const auto* amounts = std::get_if<std::vector<int64_t>>(&r.arg(n, "pad"));
  if (!amounts || r.value(n, "input") == graph::kNoValue) return false;
  if (!r.is_number(r.arg(n, "value"), 0, 0)) {
    r.refused(pad, "it pads with other values than 0");
    return false;
  }
  const size_t dims = l->stride.size();
  for (size_t i = 0; i < amounts->size(); ++i) {
    const bool spatial = i / 2 < dims;
    if ((*amounts)[i] < 0 || (!spatial && (*amounts)[i] != 0)) {
      r.refused(pad, spatial ? "it cuts off elements" : "it pads the batch or the channels");
      return false;
    }
    if (!spatial) continue;
    const size_t d = dims - 1 - i / 2;  // the list starts with the last dimension
    l->padding[d + (i % 2 ? dims : 0)] += (*amounts)[i];
  }
  const graph::Node& conv = r.node(at);
  const graph::ValueId padded = l->input;
  l->input = r.value(n, "input");
  r.applied(pad, "the pad is part of the convolution after it", r.bytes(padded) + r.bytes(l->input));
  r.replace(at, node_of(r, *l, r.value(conv, "weight"), r.value(conv, "bias"), l->result), {pad});
  return true;
}
}  // namespace

size_t fold_pads(graph::Graph& g, const PassOptions& options) {
  const autograd::NoGrad off;
  Rewriter r(g, options, "fold_pads");
  for (size_t at = 0; at < r.size(); ++at)
    while (!r.dead(at) && fold_pad(r, at)) {}
  return r.finish();
}

}  // namespace strata::engine
