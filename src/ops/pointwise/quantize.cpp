// Floats to bytes and back, for the tensors between the layers of an int8 network.
#include <cmath>

#include "autograd/autograd.h"
#include "cpu/movement/copy.h"
#include "cpu/pointwise/quantize.h"
#include "cpu/staging.h"
#include "ops/layout.h"
#include "strata/args/pointwise/quantize.h"
#include "strata/ops.h"

namespace strata {
namespace {

std::pair<int64_t, int64_t> limits_of(DType t) {
  return t == DType::U8 ? std::pair<int64_t, int64_t>(0, 255) : std::pair<int64_t, int64_t>(-128, 127);
}
cpu::ByteFormat format_of(const char* op, double scale, int64_t zero, DType bytes) {
  STRATA_CHECK(bytes == DType::I8 || bytes == DType::U8, Value, "{}: bytes are int8 or uint8, not {}", op,
               name_of(bytes));
  STRATA_CHECK(static_cast<float>(scale) > 0 && std::isfinite(static_cast<float>(scale)), Value,
               "{}: scale must be positive and finite in float32, got {}", op, scale);
  const auto [low, high] = limits_of(bytes);
  STRATA_CHECK(zero >= low && zero <= high, Value, "{}: zero must be a value of {}, got {}", op, name_of(bytes), zero);
  return {static_cast<float>(scale), static_cast<int32_t>(zero), bytes == DType::U8};
}

// The order of x, also that of one channel, for which convolutions go by the stride.
void keep_order(TensorImpl& out, const TensorImpl& x) {
  set_layout(out, {}, &x, "_quantize");
  if (!x.is_dense()) return;
  std::copy_n(x.strides, x.ndim, out.strides);
  out.update_contiguous();
}

void quantize_by_ops(const Call& c) {
  const args::_quantize a(c);
  const autograd::NoGrad no_grad;
  const auto [low, high] = limits_of(a.dtype());
  const Tensor x = to(a.share_input(), DType::F32);
  Tensor q = add(round(div(x, static_cast<float>(a.scale()))), a.zero());  // numbers are floats here, as in the loops
  q = where(isnan(q), full_like(q, static_cast<double>(a.zero())), clamp(q, low, high));
  Tensor out = alias(*c.outs[0]);
  out->keep_version(0);
  copy_(out, q);
}
void dequantize_by_ops(const Call& c) {
  const args::_dequantize a(c);
  const autograd::NoGrad no_grad;
  Tensor out = alias(*c.outs[0]);
  out->keep_version(0);
  copy_(out, mul(to(sub(to(a.share_input(), DType::I32), a.zero()), DType::F32), static_cast<float>(a.scale())));
}
void dequantize_channels_by_ops(const Call& c) {
  const args::_dequantize_channels a(c);
  const autograd::NoGrad no_grad;
  std::vector<int64_t> shape(static_cast<size_t>(a.input().ndim), 1);
  shape[static_cast<size_t>(a.dim())] = a.scales().numel;
  Tensor out = alias(*c.outs[0]);
  out->keep_version(0);
  copy_(out, mul(to(a.share_input(), DType::F32), reshape(a.share_scales(), shape)));
}
}  // namespace

STRATA_OP(_quantize, "_quantize(Tensor input, float scale, int zero, dtype dtype) -> Tensor")
  .doc(
    "clamp(round(input / scale) + zero) as int8 or uint8, rounded to the nearest even integer; NaN gives the zero. "
    "There is no gradient.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::_quantize& c) {
    format_of("_quantize", c.scale(), c.zero(), c.dtype());
    c.out()->dtype = c.dtype();
    c.out()->set_shape(c.input().sizes());
    keep_order(*c.out(), c.input());
  })
  .kernel("simd",
          [](const args::_quantize& c) {
            const Tensor& out = c.out();
            const Tensor to = out->is_dense() ? out : make_tensor(out.shape(), out.dtype());
            const Tensor x = cpu::staged_like(c.input(), *to, DType::F32);
            cpu::quantize(format_of("_quantize", c.scale(), c.zero(), c.dtype()), x.data<float>(), to.bytes(),
                          to.numel());
            if (to.get() != out.get()) cpu::copy(*out, *to);
          })
  .kernel("reference", quantize_by_ops)
  .cuda("ops", quantize_by_ops)
  .samples({"f(3,4), 0.1, 0, int8", "f(2,3,5), 0.02, 128, uint8", "f(), 0.5, -3, int8", "f(0,3), 1.0, 0, int8"})
  .error("f(3), 0.0, 0, int8", ErrorKind::Value, "positive")
  .error("f(3), 0.1, 300, uint8", ErrorKind::Value, "must be a value of uint8")
  .error("f(3), 0.1, 0, int32", ErrorKind::Value, "int8 or uint8");

STRATA_OP(_dequantize, "_dequantize(Tensor input, float scale, int zero) -> Tensor")
  .doc("(input - zero) * scale in float32, for an input of int8 or uint8. There is no gradient.")
  .helper()
  .no_out()
  .dtypes({DType::I8, DType::U8})
  .infer([](const args::_dequantize& c) {
    format_of("_dequantize", c.scale(), c.zero(), c.input().dtype);
    c.out()->dtype = DType::F32;
    c.out()->set_shape(c.input().sizes());
    keep_order(*c.out(), c.input());
  })
  .kernel("simd",
          [](const args::_dequantize& c) {
            const Tensor& out = c.out();
            const Tensor to = out->is_dense() ? out : make_tensor(out.shape(), out.dtype());
            const Tensor x = cpu::staged_like(c.input(), *to, c.input().dtype);
            cpu::dequantize(format_of("_dequantize", c.scale(), c.zero(), x.dtype()), x.bytes(), to.data<float>(),
                            to.numel());
            if (to.get() != out.get()) cpu::copy(*out, *to);
          })
  .kernel("reference", dequantize_by_ops)
  .cuda("ops", dequantize_by_ops)
  .samples({"f(3,4), 0.1, 0", "f(2,3,5), 0.02, 7", "f(0,3), 1.0, 0"})
  .error("q8(3), -1.0, 0", ErrorKind::Value, "positive");

STRATA_OP(_dequantize_channels, "_dequantize_channels(Tensor input, Tensor scales, int dim) -> Tensor")
  .doc("input in float32, times a scale for each index of a dimension, for int8 weights. There is no gradient.")
  .helper()
  .no_out()
  .dtypes({DType::I8})
  .infer([](const args::_dequantize_channels& c) {
    const TensorImpl &x = c.input(), &scales = c.scales();
    STRATA_CHECK(x.dtype == DType::I8 && scales.dtype == DType::F32, Runtime,
                 "_dequantize_channels: expected int8 values and float32 scales, got {} and {}", name_of(x.dtype),
                 name_of(scales.dtype));
    STRATA_CHECK(c.dim() >= 0 && c.dim() < x.ndim && scales.ndim == 1 && scales.numel == x.shape[c.dim()], Runtime,
                 "_dequantize_channels: scales of shape {} do not fit dimension {} of an input of shape {}",
                 to_string(scales.sizes()), c.dim(), to_string(x.sizes()));
    c.out()->dtype = DType::F32;
    c.out()->set_shape(x.sizes());
    set_layout(*c.out(), {}, &x, "_dequantize_channels");
  })
  .kernel("reference", dequantize_channels_by_ops)
  .cuda("ops", dequantize_channels_by_ops)
  .samples({"q8(3,4), w(3), 0", "q8(2,3,5), w(5), 2", "q8(0,3), w(0), 0"})
  .error("q8(3,4), w(4), 0", ErrorKind::Runtime, "do not fit dimension 0");

}  // namespace strata
