// Normalizations and dropout.
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

// A vector of channels as [1, C, 1, ...] of so many dimensions.
Tensor per_channel(const Tensor& t, int64_t dims) {
  Ints shape(static_cast<size_t>(std::max<int64_t>(dims, 2)), 1);
  shape[1] = t.numel();
  return reshape(t, shape);
}
Values batch_normalization(NodeCall& c) {
  const Tensor x = c.tensor(0), scale = c.tensor(1), bias = c.tensor(2), mean_in = c.tensor(3), var_in = c.tensor(4);
  const double eps = c.number("epsilon", 1e-5), momentum = c.number("momentum", 0.9);
  const bool training = c.version() >= 14 && c.flag("training_mode");
  if (c.version() < 7 && !c.flag("is_test")) c.refuse("training of opset 6 is not supported");
  if (c.version() < 9 && !c.flag("spatial", true)) c.refuse("spatial=0 is not supported");
  if (!training) {
    if (x.dtype() == scale.dtype() && scale.dtype() == mean_in.dtype())
      return one(F::batch_norm(x, mean_in, var_in, scale, bias, false, 0, eps));
    const DType wide = wide_type(x.dtype());
    const Tensor factor = div(cast(scale, wide), sqrt(add(cast(var_in, wide), eps)));
    const Tensor offset = sub(cast(bias, wide), mul(cast(mean_in, wide), factor));
    return one(cast(add(mul(x, per_channel(factor, x.dim())), per_channel(offset, x.dim())), x.dtype()));
  }
  Ints others;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != 1) others.push_back(d);
  const Tensor m = mean(x, others), v = var(x, others, false, false);
  const Tensor centred = sub(x, per_channel(m, x.dim()));
  const Tensor y = add(mul(centred, per_channel(div(scale, sqrt(add(v, eps))), x.dim())), per_channel(bias, x.dim()));
  const auto blend = [&](const Tensor& old, const Tensor& fresh) {
    return cast(add(mul(old, momentum), mul(fresh, 1 - momentum)), old.dtype());
  };
  return {Value(cast(y, x.dtype())), Value(blend(mean_in, m)), Value(blend(var_in, v))};
}
Values instance_normalization(NodeCall& c) {
  const Tensor x = c.tensor(0);
  return one(F::instance_norm(x, {}, {}, c.tensor(1), c.tensor(2), true, 0, c.number("epsilon", 1e-5)));
}
// The dimensions from the axis on, and those of the statistics.
Ints tail_of(const Tensor& x, int64_t axis) { return {x.shape().begin() + axis, x.shape().end()}; }

Values layer_normalization(NodeCall& c) {
  const Tensor x = c.tensor(0), scale = c.tensor(1), bias = c.maybe(2);
  const int64_t axis = axis_of(c.integer("axis", -1), x.dim());
  const double eps = c.number("epsilon", 1e-5);
  const Ints tail = tail_of(x, axis);
  const bool plain = sizes_of(scale) == tail && (!bias || sizes_of(bias) == tail);
  if (plain && c.outputs() == 1 && x.dtype() == scale.dtype()) return one(layer_norm(x, tail, scale, bias, eps));
  Ints axes;
  for (int64_t d = axis; d < x.dim(); ++d) axes.push_back(d);
  const DType wide = c.integer("stash_type", 1) == 1 ? wide_type(x.dtype()) : x.dtype();
  const Tensor w = cast(x, wide), m = mean(w, axes, true), centred = sub(w, m);
  const Tensor inverse = rsqrt(add(mean(mul(centred, centred), axes, true), eps));
  Tensor y = mul(cast(mul(centred, inverse), x.dtype()), scale);
  if (bias) y = add(y, bias);
  return {Value(cast(y, x.dtype())), Value(m), Value(inverse)};
}
Values rms_normalization(NodeCall& c) {
  const Tensor x = c.tensor(0), scale = c.tensor(1);
  const int64_t axis = axis_of(c.integer("axis", -1), x.dim());
  Ints axes;
  for (int64_t d = axis; d < x.dim(); ++d) axes.push_back(d);
  const DType wide = c.integer("stash_type", 1) == 1 ? wide_type(x.dtype()) : x.dtype();
  const Tensor w = cast(x, wide);
  const Tensor inverse = rsqrt(add(mean(mul(w, w), axes, true), c.number("epsilon", 1e-5)));
  return one(cast(mul(cast(mul(w, inverse), x.dtype()), scale), scale.dtype()));
}
Values group_normalization(NodeCall& c) {
  const Tensor x = c.tensor(0);
  Tensor scale = c.tensor(1), bias = c.tensor(2);
  const int64_t groups = c.integer("num_groups"), channels = x.size(1);
  STRATA_CHECK(groups > 0 && channels % groups == 0, Value, "{} channels in {} groups", channels, groups);
  if (c.version() < 21) {  // one number per group
    scale = repeat_interleave(scale, channels / groups, 0);
    bias = repeat_interleave(bias, channels / groups, 0);
  }
  return one(group_norm(x, groups, scale, bias, c.number("epsilon", 1e-5)));
}
Values lrn(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t size = c.integer("size");
  const double alpha = c.number("alpha", 1e-4), beta = c.number("beta", 0.75), bias = c.number("bias", 1);
  STRATA_CHECK(size > 0 && x.dim() >= 2, Value, "size {} for an input {}", size, to_string(x.shape()));
  // the squares of neighbouring channels: more of them after than before if the size is even
  Ints pads(2 * static_cast<size_t>(x.dim() - 1));
  pads[pads.size() - 2] = (size - 1) / 2;
  pads[pads.size() - 1] = size - 1 - (size - 1) / 2;
  const Tensor squares = constant_pad_nd(mul(x, x), pads);
  const Tensor sums = sum(unfold(squares, int64_t{1}, size, int64_t{1}), {-1});
  return one(div(x, pow(add(mul(sums, alpha / static_cast<double>(size)), bias), beta)));
}
Values lp_normalization(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t axis = axis_of(c.integer("axis", -1), x.dim()), p = c.integer("p", 2);
  STRATA_CHECK(p == 1 || p == 2, Value, "p is {}; expected 1 or 2", p);
  const Tensor norm = p == 1 ? sum(abs(x), {axis}, true) : sqrt(sum(mul(x, x), {axis}, true));
  return one(where(eq(norm, 0), zeros_like(x), div(x, norm)));
}
Values mean_variance(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Ints axes = axes_of(c.has("axes") ? c.ints("axes") : Ints{0, 2, 3}, x.dim());
  const Tensor centred = sub(x, mean(x, axes, true));
  return one(div(centred, add(sqrt(mean(mul(centred, centred), axes, true)), 1e-9)));
}
Values dropout_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const bool training = c.version() >= 12 && c.has(size_t{2}) && c.integer(size_t{2}) != 0;
  const double ratio = c.version() < 12   ? c.number("ratio", 0.5)
                       : c.has(size_t{1}) ? c.number(size_t{1}).to_double()
                                          : 0.5;
  if (!training || ratio == 0) return {Value(x), Value(ones_like(x, TensorOptions(DType::Bool).device(x.device())))};
  auto [y, mask] = native_dropout(x, ratio, true);
  return {Value(y), Value(mask)};
}

const OpEntry kNorm[] = {
  {"BatchNormalization", 6, 5, 5, nullptr, batch_normalization},
  {"InstanceNormalization", 6, 3, 3, nullptr, instance_normalization},
  {"LayerNormalization", 17, 2, 3, nullptr, layer_normalization},
  {"RMSNormalization", 23, 2, 2, nullptr, rms_normalization},
  {"GroupNormalization", 18, 3, 3, nullptr, group_normalization},
  {"LRN", 1, 1, 1, nullptr, lrn},
  {"LpNormalization", 1, 1, 1, nullptr, lp_normalization},
  {"MeanVarianceNormalization", 9, 1, 1, nullptr, mean_variance},
  {"Dropout", 6, 1, 3, nullptr, dropout_of},
};
}  // namespace

OpTable norm_ops() { return kNorm; }

}  // namespace strata::onnx
