// Convolutions with what follows them in an inference graph: of floats with a residual and an activation, and of bytes with the
// conversions besides.
#include "strata/args/nn/fused_convolution.h"
#include "autograd/autograd.h"
#include "cpu/movement/copy.h"
#include "cpu/nn/convolution.h"
#include "cpu/onednn_after.h"
#include "ops/nn/epilogue.h"
#include "ops/nn/inner_convolution.h"
#include "strata/ops.h"

namespace strata {
namespace {

constexpr const char *kFloats = "_fused_convolution", *kBytes = "_int8_convolution";

// --- floats ------------------------------------------------------------------------------------------------------------
struct FusedConvolution {
  const args::fused_convolution a;
  Epilogue epilogue;
  InnerConvolution inner;

  explicit FusedConvolution(const Call& c)
      : a(c),
        epilogue(epilogue_of(kFloats, a.activation(), a.numbers(), a.add_last())),
        inner(kFloats, a.input(), a.weight(), a.bias(), a.stride(), a.padding(), a.dilation(), a.groups()) {}

  // What a kernel does itself that can do `fits`; rest() does what is left.
  cpu::ConvTail tail(bool fits) const {
    if (fits) return {epilogue, a.other()};
    return {{}, epilogue.add_last ? nullptr : a.other()};
  }
  void rest(const Call& c, bool fits) const {
    if (fits) return;
    const autograd::NoGrad no_grad;
    Tensor out = alias(*c.outs[0]);
    out->keep_version(0);
    after_sum_(out, epilogue.add_last ? a.share_other() : Tensor(), epilogue);
  }
};

bool is_relu(const Epilogue& e) { return e.activation == Activation::None || e.activation == Activation::Relu; }

void infer_fused(const Call& c) {
  const FusedConvolution f(c);
  const TensorImpl &x = f.a.input(), &w = f.a.weight(), *bias = f.a.bias();
  STRATA_CHECK(x.dtype == w.dtype && (!bias || bias->dtype == x.dtype), Runtime,
               "{}: input has dtype {} and weight {}; these and the bias must be the same", kFloats, name_of(x.dtype),
               name_of(w.dtype));
  f.inner.infer(c.outs);
  c.outs[0]->dtype = x.dtype;
  check_other(kFloats, f.a.other(), *c.out(), false);
}

void run_fused_in_turn(const Call& c) {
  const FusedConvolution f(c);
  const autograd::NoGrad no_grad;
  Tensor out = alias(*c.outs[0]);
  out->keep_version(0);
  f.inner.into(f.a.share_input(), f.a.share_weight(), f.a.share_bias(), out);
  after_sum_(out, f.a.share_other(), f.epilogue);
}
void run_fused_reference(const Call& c) {
  const FusedConvolution f(c);
  const autograd::NoGrad no_grad;
  const auto wide = [](const TensorImpl* t) { return t ? to(alias(*t), DType::F64) : Tensor(); };
  const Tensor sum = f.inner.of(wide(&f.a.input()), wide(&f.a.weight()), wide(f.a.bias()));
  cpu::copy_reference(*c.outs[0], *after_sum(sum, wide(f.a.other()), f.epilogue));
}

// --- bytes -------------------------------------------------------------------------------------------------------------
struct ByteConvolution {
  const args::int8_convolution a;
  Epilogue epilogue;
  ByteScales scales;
  DType result;
  InnerConvolution inner;

  explicit ByteConvolution(const Call& c)
      : a(c),
        epilogue(epilogue_of(kBytes, a.activation(), a.numbers(), a.add_last())),
        scales(byte_scales_of(kBytes, a.scales())),
        result(a.out_dtype().value_or(DType::F32)),
        inner(kBytes, a.input(), a.weight(), a.bias(), a.stride(), a.padding(), a.dilation(), a.groups()) {}
  cpu::ConvTail tail() const { return {epilogue, a.other(), &scales, &a.weight_scales()}; }
};

void infer_bytes(const Call& c) {
  const ByteConvolution f(c);
  check_byte_tensors(kBytes, f.a.input(), f.a.weight(), f.a.weight_scales(), f.a.bias(), f.result);
  f.inner.infer(c.outs);
  c.outs[0]->dtype = f.result;
  check_other(kBytes, f.a.other(), *c.out(), true);
}

// The sums by integer products: on devices of the windows as a matrix.
Tensor sums_of_bytes(const ByteConvolution& f) {
  const Tensor x = f.a.share_input(), w = f.a.share_weight();
  const bool on_cpu = x.device().type == DeviceType::Cpu, shifted = f.scales.input_zero != 0;
  if (on_cpu || shifted || f.a.groups() != 1 || x.dtype() != DType::I8 || x.numel() == 0 || w.numel() == 0) {
    Tensor wide = to(x, DType::I32);
    if (shifted) wide = sub(wide, f.scales.input_zero);
    return f.inner.of(wide, to(w, DType::I32), {});
  }
  // [n, out..., kernel..., c] of the padded input with the channels last, without a copy.
  const ConvShape s = f.inner.shape();
  const auto dims = static_cast<size_t>(s.dims);
  std::vector<int64_t> last{0}, back{0, static_cast<int64_t>(dims) + 1};
  for (size_t d = 0; d < dims; ++d) {
    last.push_back(static_cast<int64_t>(d) + 2);
    back.push_back(static_cast<int64_t>(d) + 1);
  }
  last.push_back(1);
  const Tensor image = contiguous(permute(f.inner.padded(x, true), last));
  std::vector<int64_t> shape{s.n}, strides{image.strides()[0]}, result{s.n};
  for (size_t d = 0; d < dims; ++d) {
    shape.push_back(s.out[d]);
    strides.push_back(image.strides()[d + 1] * s.stride[d]);
    result.push_back(s.out[d]);
  }
  for (size_t d = 0; d < dims; ++d) {
    shape.push_back(s.kernel[d]);
    strides.push_back(image.strides()[d + 1] * s.dilation[d]);
  }
  shape.push_back(s.c);
  strides.push_back(1);
  result.push_back(s.o);
  const Tensor windows = reshape(as_strided(image, shape, strides), {-1, cpu::product(s.kernel, s.dims) * s.c});
  const Tensor rows = reshape(permute(w, last), {s.o, -1});
  return permute(reshape(_int_mm(windows, transpose(rows, 0, 1)), result), back);
}

void run_bytes_in_turn(const Call& c) {
  const ByteConvolution f(c);
  const autograd::NoGrad no_grad;
  finish_bytes(sums_of_bytes(f), f.a.share_weight_scales(), f.a.share_bias(), f.a.share_other(), 1, f.epilogue,
               f.scales, alias(*c.outs[0]));
}
void run_bytes_reference(const Call& c) {
  const ByteConvolution f(c);
  const autograd::NoGrad no_grad;
  const Tensor x = sub(to(f.a.share_input(), DType::F64), f.scales.input_zero);
  finish_bytes(f.inner.of(x, to(f.a.share_weight(), DType::F64), {}), f.a.share_weight_scales(), f.a.share_bias(),
               f.a.share_other(), 1, f.epilogue, f.scales, alias(*c.outs[0]));
}
}  // namespace

STRATA_OP(fused_convolution,
          "_fused_convolution(Tensor input, Tensor weight, Tensor? bias, Tensor? other, int[] stride, int[] padding, "
          "int[] dilation, int groups, str activation, float[] numbers, bool add_last) -> Tensor")
  .doc(
    "activation(convolution(input, weight, bias) + other), or activation(...) + other, over 1 to 3 spatial dimensions, "
    "whose padding may differ on both sides. For inference: there is no gradient.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer(infer_fused)
  .kernel(
    "winograd",
    [](const Call& c) {
      const FusedConvolution f(c);
      const bool fits = is_relu(f.epilogue);
      cpu::conv_winograd(f.inner.shape(), ConvMode::Forward, f.a.input(), f.a.weight(), *c.out(), f.a.bias(),
                         f.tail(fits));
      f.rest(c, fits);
    },
    [](const Call& c) {
      const FusedConvolution f(c);
      return f.inner.even() ? cpu::conv_winograd_ready(f.inner.shape(), ConvMode::Forward, f.a.input(), f.a.weight())
                            : "an uneven padding";
    })
  .numerics({.error = 3})
  .kernel(
    "shallow",
    [](const Call& c) {
      const FusedConvolution f(c);
      const bool fits = is_relu(f.epilogue);
      cpu::conv_shallow(f.inner.shape(), f.a.input(), f.a.weight(), *c.out(), f.a.bias(),
                        fits && f.epilogue.activation == Activation::Relu);
      f.rest(c, fits);
    },
    [](const Call& c) {
      const FusedConvolution f(c);
      if (f.a.has_other()) return "a residual";
      return cpu::conv_shallow_ready(f.inner.shape(), ConvMode::Forward, f.a.input(), *c.out());
    })
  .kernel(
    "onednn",
    [](const Call& c) {
      const FusedConvolution f(c);
      const bool fits = !cpu::onednn_after_fits(f.epilogue);
      cpu::conv_onednn(f.inner.shape(), ConvMode::Forward, f.a.input(), f.a.weight(), *c.out(), f.a.bias(),
                       f.tail(fits));
      f.rest(c, fits);
    },
    [](const Call& c) {
      const FusedConvolution f(c);
      return cpu::conv_onednn_ready(f.inner.shape(), ConvMode::Forward, f.a.input(), f.a.weight(), *c.out(),
                                    f.a.has_bias(), f.tail(!cpu::onednn_after_fits(f.epilogue)));
    })
  .from(Source::OneDnn)
  .kernel("in_turn", run_fused_in_turn)
  .kernel("reference", run_fused_reference)
  .cuda("in_turn", run_fused_in_turn)
  .samples({"f(2,4,5), f(6,4,3), f(6), None, [1], [1], [1], 1, 'relu', [], False",
            "f(1,4,5,6), f(6,2,3,3), None, f(1,6,5,5), [1], [1,0,1,1], [1], 2, 'none', [], False",
            "f(2,4,5,5), f(6,4,1,1), f(6), f(2,6,3,3), [2], [0], [1], 1, 'leaky_relu', [0.1], True"})
  .error("f(2,4,5), f(6,4,3), None, None, [1], [1], [1], 1, 'x', [], False", ErrorKind::Value, "expected one of");

STRATA_OP(int8_convolution,
          "_int8_convolution(Tensor input, Tensor weight, Tensor weight_scales, Tensor? bias, Tensor? other, int[] "
          "stride, int[] padding, int[] dilation, int groups, str activation, float[] numbers, bool add_last, float[] "
          "scales, dtype? out_dtype) -> Tensor")
  .doc(
    "The same for an input of bytes and an int8 weight with a scale per channel: the sums are exact in int32. scales: "
    "the scale and the zero of input, other and result. The result is float32, int8 or uint8.")
  .helper()
  .no_out()
  .dtypes({DType::I8, DType::U8})
  .infer(infer_bytes)
  .kernel(
    "onednn",
    [](const Call& c) {
      const ByteConvolution f(c);
      cpu::conv_onednn(f.inner.shape(), ConvMode::Forward, f.a.input(), f.a.weight(), *c.out(), f.a.bias(), f.tail());
    },
    [](const Call& c) {
      const ByteConvolution f(c);
      if (const char* why = cpu::onednn_after_fits_bytes(f.epilogue, f.result)) return why;
      return cpu::conv_onednn_ready(f.inner.shape(), ConvMode::Forward, f.a.input(), f.a.weight(), *c.out(),
                                    f.a.has_bias(), f.tail());
    })
  .from(Source::OneDnn)
  .kernel("in_turn", run_bytes_in_turn)
  .kernel("reference", run_bytes_reference)
  .cuda("in_turn", run_bytes_in_turn)
  .samples(
    {"f(2,4,5), q8(6,4,3), w(6), w(6), None, [1], [1], [1], 1, 'relu', [], False, [0.1, 0, 1, 0, 1, 0], float32",
     "f(1,4,5,6), q8(6,2,3,3), w(1), None, q8(1,6,5,5), [1], [1,0,1,1], [1], 2, 'none', [], False, [0.1, 3, 0.5, "
     "0, 2, 0], int8"})
  .error("q8(2,4,5), q8(6,4,3), w(5), None, None, [1], [1], [1], 1, 'relu', [], False, [0.1, 0, 1, 0, 1, 0], None",
         ErrorKind::Runtime, "one per channel of the result (6)")
  .error("q8(2,4,5), q8(6,4,3), w(6), None, None, [1], [1], [1], 1, 'relu', [], False, [0.1, 0], None",
         ErrorKind::Value, "expected 6 numbers");

}  // namespace strata
