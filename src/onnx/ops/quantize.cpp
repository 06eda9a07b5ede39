// Quantization: linear, dynamic, and the products and convolutions of quantized tensors.
#include <algorithm>
#include <cmath>

#include "onnx/ops/convert.h"
#include "onnx/ops/windows.h"

namespace strata::onnx {
namespace {

bool is_integer(ElementType t) {
  switch (t) {
    case ElementType::UInt2:
    case ElementType::Int2:
    case ElementType::UInt4:
    case ElementType::Int4:
    case ElementType::UInt8:
    case ElementType::Int8:
    case ElementType::UInt16:
    case ElementType::Int16:
    case ElementType::Int32: return true;
    default: return false;
  }
}
// The smallest and the largest value of an integer type.
std::pair<double, double> range_of(ElementType t) {
  switch (t) {
    case ElementType::UInt2: return {0, 3};
    case ElementType::Int2: return {-2, 1};
    case ElementType::UInt4: return {0, 15};
    case ElementType::Int4: return {-8, 7};
    case ElementType::UInt8: return {0, 255};
    case ElementType::Int8: return {-128, 127};
    case ElementType::UInt16: return {0, 65535};
    case ElementType::Int16: return {-32768, 32767};
    default: return {-2147483648.0, 2147483647.0};
  }
}

// A scale or zero point in the shape of x: one number, one per element of an axis, or one per block of it.
Tensor spread_over(const Tensor& t, const Tensor& x, int64_t axis, int64_t block) {
  if (t.numel() == 1 && t.dim() <= 1) return reshape(t, {});
  axis = axis_of(axis, x.dim());
  if (t.dim() == 1 && block == 0) {
    STRATA_CHECK(t.numel() == x.size(axis), Value, "{} scales for dimension {} of size {}", t.numel(), axis,
                 x.size(axis));
    Ints shape(static_cast<size_t>(x.dim()), 1);
    shape[static_cast<size_t>(axis)] = t.numel();
    return reshape(t, shape);
  }
  STRATA_CHECK(t.dim() == x.dim() && block >= 0, Value, "scales of shape {} for an input {}", to_string(t.shape()),
               to_string(x.shape()));
  if (!block) return t;
  STRATA_CHECK(t.size(axis) == (x.size(axis) + block - 1) / block, Value, "{} blocks of {} for dimension {} of size {}",
               t.size(axis), block, axis, x.size(axis));
  return narrow(repeat_interleave(t, block, axis), axis, 0, x.size(axis));
}
// The tensor of an input that may carry another type, on the device of the call.
Tensor carried(const NodeCall& c, size_t i) {
  const Value& v = c.value(i);
  STRATA_CHECK(v.tensor, Type, "input {} is {}; expected a tensor", i, kind_of(v));
  return moved(v.tensor, c.device());
}

Value quantized(const Tensor& x, const Tensor& scale, const Tensor& zero, ElementType type, bool saturate) {
  Tensor q = div(x, scale);
  if (!is_integer(type)) {
    if (zero) q = add(q, cast(zero, q.dtype()));
    return convert(Value(q), type, saturate);
  }
  const auto [low, high] = range_of(type);
  q = round(q);
  if (zero) q = add(q, cast(zero, q.dtype()));
  q = clamp(cast(q, DType::F64), low, high);
  const Tensor out = cast(q, storage_dtype(type));
  return is_carried(type) ? Value(out, type) : Value(out);
}
// One scale and one zero for bytes: there is an op for it, which engines join with the layers beside it.
bool is_plain(const NodeCall& c, ElementType bytes, const Tensor& scale, int64_t block) {
  const bool has_op = bytes == ElementType::Int8 || bytes == ElementType::UInt8;
  return has_op && scale.dtype() == DType::F32 && scale.numel() == 1 && scale.dim() <= 1 && block == 0 &&
         (!c.has(size_t{2}) || element_type(c.value(2)) == bytes);
}
int64_t zero_of(const NodeCall& c) { return c.has(size_t{2}) ? c.integer(size_t{2}) : 0; }

Values quantize_linear(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  const Tensor scale_in = carried(c, 1);
  ElementType type = c.has(size_t{2}) ? element_type(c.value(2)) : c.type("output_dtype", ElementType::UInt8);
  if (!c.has(size_t{2}) && c.integer("output_dtype", 0) == 0) type = ElementType::UInt8;
  // `precision`: the type to divide in
  const int64_t precision = c.integer("precision", 0);
  if (x.dtype() == DType::F32 && !precision && is_plain(c, type, scale_in, block))
    if (const double scale = scale_in.item().to_double(); scale > 0 && std::isfinite(scale))
      return one(_quantize(x, scale, zero_of(c), storage_dtype(type)));
  const DType wide = precision ? storage_dtype(static_cast<ElementType>(precision)) : DType::F32;
  const Tensor scale = cast(spread_over(scale_in, x, axis, block), wide);
  const Tensor zero = c.has(size_t{2}) ? spread_over(carried(c, 2), x, axis, block) : Tensor();
  return {quantized(cast(x, wide), scale, zero, type, c.flag("saturate", true))};
}
// Whether the zeros are 0, or none are given.
bool has_no_zeros(const NodeCall& c) {
  if (!c.has(size_t{2})) return true;
  const std::vector<int64_t> zeros = c.ints(size_t{2});
  return std::all_of(zeros.begin(), zeros.end(), [](int64_t z) { return z == 0; });
}
Values dequantize_linear(NodeCall& c) {
  const Tensor x = carried(c, 0), scale_in = carried(c, 1);
  const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  const DType wide = scale_in.dtype() == DType::F64 ? DType::F64 : DType::F32;
  if (!c.integer("output_dtype", 0)) {
    if (is_plain(c, element_type(c.value(0)), scale_in, block))
      if (const double scale = scale_in.item().to_double(); scale > 0 && std::isfinite(scale))
        return one(_dequantize(x, scale, zero_of(c)));
    if (x.dtype() == DType::I8 && !is_carried(element_type(c.value(0))) && scale_in.dtype() == DType::F32 &&
        scale_in.dim() == 1 && block == 0 && x.dim() > 0 && has_no_zeros(c)) {
      const int64_t dim = axis_of(axis, x.dim());
      if (scale_in.numel() == x.size(dim)) return one(_dequantize_channels(x, scale_in, dim));
    }
  }
  Tensor y = cast(x, wide);
  if (c.has(size_t{2})) y = sub(y, cast(spread_over(carried(c, 2), x, axis, block), wide));
  y = mul(y, cast(spread_over(scale_in, x, axis, block), wide));
  const int64_t given = c.integer("output_dtype", 0);
  const ElementType out = given ? static_cast<ElementType>(given) : element_type(c.value(1));
  return {convert(Value(y), out == ElementType::Float8E8M0 ? ElementType::Float : out)};
}
Values dynamic_quantize(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Tensor low = clamp_max(amin(x), 0), high = clamp_min(amax(x), 0);
  Tensor scale = div(sub(high, low), 255);
  const Tensor safe = where(eq(scale, 0), ones_like(scale), scale);
  const Tensor zero = clamp(round(div(neg(low), safe)), 0, 255);
  const Tensor y = clamp(add(round(div(x, safe)), zero), 0, 255);
  return {Value(cast(y, DType::U8)), Value(scale), Value(cast(zero, DType::U8))};
}

// Values minus their zero point, times their scale: a per-row or per-channel one has the shape given.
Tensor real_values(const NodeCall& c, size_t first, const Ints& shape) {
  const auto shaped = [&](const Tensor& t) {
    return t.numel() == 1 ? reshape(t, {}) : t.dim() > 1 ? t : reshape(t, shape);
  };
  const Tensor zero = cast(shaped(c.tensor(first + 2)), DType::F64),
               scale = cast(shaped(c.tensor(first + 1)), DType::F64);
  return mul(sub(cast(c.tensor(first), DType::F64), zero), scale);
}
Value requantized(const NodeCall& c, const Tensor& y, size_t scale) {
  return quantized(y, cast(reshape(c.tensor(scale), {}), y.dtype()), reshape(c.tensor(scale + 1), {}),
                   element_type(c.value(scale + 1)), true);
}
Values qlinear_matmul(NodeCall& c) {
  const Tensor a = real_values(c, 0, {-1, 1}), b = real_values(c, 3, {1, -1});
  return {requantized(c, matmul(a, b), 6)};
}
Values qlinear_conv(NodeCall& c) {
  const Tensor x = real_values(c, 0, {}), given = c.tensor(3);
  Ints channels(static_cast<size_t>(given.dim()), 1);
  channels[0] = -1;
  const Tensor weight = real_values(c, 3, channels);
  Windows w = windows_of(c, x, Ints(given.shape().begin() + std::min(given.dim(), 2), given.shape().end()));
  Tensor y = convolution(pad_spatial(x, w.before, w.after, 0), weight, {}, w.strides, Ints(w.dims()), w.dilations,
                         false, Ints(w.dims()), c.integer("group", 1));
  if (c.has(size_t{8})) {  // of the scale of the products
    const Tensor scale = mul(cast(reshape(c.tensor(1), {}), DType::F64), cast(reshape(c.tensor(4), {-1}), DType::F64));
    Ints shape(static_cast<size_t>(y.dim()), 1);
    shape[1] = -1;
    y = add(y, reshape(mul(cast(c.tensor(8), DType::F64), scale), shape));
  }
  return {requantized(c, y, 6)};
}

const OpEntry kQuantize[] = {
  {"QuantizeLinear", 10, 2, 3, nullptr, quantize_linear},
  {"DequantizeLinear", 10, 2, 3, nullptr, dequantize_linear},
  {"DynamicQuantizeLinear", 11, 1, 1, nullptr, dynamic_quantize},
  {"QLinearMatMul", 10, 8, 8, nullptr, qlinear_matmul},
  {"QLinearConv", 10, 8, 9, nullptr, qlinear_conv},
};
}  // namespace

OpTable quantize_ops() { return kQuantize; }

}  // namespace strata::onnx
