// conv1d, conv2d, conv3d and their transposes: the ops of convolution.cpp with PyTorch's arguments.
#include "ops/nn/spread.h"
#include "strata/ops.h"

namespace strata {
namespace {

// conv1d…3d: an input without a batch dimension is treated as a batch of one.
Tensor convolve(const char* op, int dims, const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                IntList padding, IntList dilation, bool transposed, IntList output_padding, int64_t groups) {
  STRATA_CHECK(weight.dim() == dims + 2, Runtime, "{}: expected weight to have {} dimensions, got shape {}", op,
               dims + 2, to_string(weight.shape()));
  STRATA_CHECK(input.dim() == dims + 1 || input.dim() == dims + 2, Runtime,
               "{}: expected {}D (unbatched) or {}D (batched) input, but got input of size {}", op, dims + 1, dims + 2,
               to_string(input.shape()));
  const bool single = input.dim() == dims + 1;
  const Tensor x = single ? unsqueeze(input, 0) : input;
  Tensor y;
  if (transposed && bias) {
    STRATA_CHECK(bias.dim() == 1 && bias.numel() == weight.size(1) * groups, Runtime,
                 "{}: expected bias to be 1-dimensional with {} elements, but got bias of size {}", op,
                 weight.size(1) * groups, to_string(bias.shape()));
    std::vector<int64_t> shape(static_cast<size_t>(dims + 2), 1);
    shape[1] = bias.numel();
    y = add(convolution(x, weight, {}, stride, padding, dilation, true, output_padding, groups), reshape(bias, shape));
  } else {
    y = convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  }
  return single ? squeeze(y, 0) : y;
}

Tensor convolve_named(const char* op, int dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                      IntList stride, std::string_view padding, IntList dilation, int64_t groups) {
  STRATA_CHECK(padding == "same" || padding == "valid", Value,
               "{}: padding must be 'valid', 'same' or integers, got '{}'", op, padding);
  if (padding == "valid") return convolve(op, dims, input, weight, bias, stride, {0}, dilation, false, {0}, groups);
  STRATA_CHECK(weight.dim() == dims + 2, Runtime, "{}: expected weight to have {} dimensions, got shape {}", op,
               dims + 2, to_string(weight.shape()));
  int64_t steps[3], holes[3];
  spread(op, "stride", stride, dims, 1, steps);
  spread(op, "dilation", dilation, dims, 1, holes);
  std::vector<int64_t> left(static_cast<size_t>(dims)), pads(static_cast<size_t>(2 * dims));
  bool even = true;
  for (int d = 0; d < dims; ++d) {
    STRATA_CHECK(steps[d] == 1, Runtime, "{}: padding='same' is not supported for strided convolutions (stride {})", op,
                 to_string(stride));
    const int64_t total = holes[d] * (weight.size(d + 2) - 1);
    left[static_cast<size_t>(d)] = total / 2;
    pads[2 * static_cast<size_t>(dims - 1 - d) + 1] = total % 2;
    even &= total % 2 == 0;
  }
  return convolve(op, dims, even ? input : nn::functional::pad(input, pads), weight, bias, stride, left, dilation,
                  false, {0}, groups);
}
}  // namespace

STRATA_OP(conv1d,
          "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] dilation=1, "
          "int groups=1) -> Tensor")
  .doc("Convolution over one spatial dimension of [N, C, L] with a weight of [O, C / groups, K].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                IntList dilation, int64_t groups) {
    return convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, false, {0}, groups);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,4,6), f(3,4,3), f(3)", "f(2,4,6), f(6,2,3), f(6), stride=2, padding=1, groups=2", "f(4,6), f(3,4,3)",
            "f(2,4,9), f(3,4,3), dilation=2", "f(0,4,6), f(3,4,3)"})
  .error("f(2,4,6), f(3,3,3)", ErrorKind::Runtime, "weight has 3 input channels, input has 4")
  .error("f(2,4,6), f(3,4,3), stride=0", ErrorKind::Runtime, "stride must be greater than zero");

STRATA_OP(conv1d_padding,
          "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, str padding, int[] "
          "dilation=1, int groups=1) -> Tensor")
  .doc("conv1d with padding 'same' or 'valid'.")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, std::string_view padding,
                IntList dilation, int64_t groups) {
    return convolve_named("conv1d", 1, input, weight, bias, stride, padding, dilation, groups);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,4,6), f(3,4,3), f(3), 1, 'same'", "f(2,4,6), f(3,4,2), padding='same'",
            "f(2,4,6), f(3,4,3), padding='valid'"})
  .error("f(2,4,6), f(3,4,3), stride=2, padding='same'", ErrorKind::Runtime, "not supported for strided");

STRATA_OP(conv2d,
          "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] dilation=1, "
          "int groups=1) -> Tensor")
  .doc("Convolution over two spatial dimensions of [N, C, H, W] with a weight of [O, C / groups, KH, KW].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                IntList dilation, int64_t groups) {
    return convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, false, {0}, groups);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,4,6,5), f(3,4,3,2), f(3)", "f(2,4,6,5), f(6,2,3,3), f(6), stride=2, padding=1, groups=2",
            "f(4,6,5), f(3,4,3,3)", "f(1,2,9,7), f(3,2,3,3), dilation=[2,1], padding=[0,2]",
            "f(2,4,6,5), f(4,1,3,3), groups=4", "f(0,4,6,5), f(3,4,3,3)",
            "f(2,16,8,8), f(16,16,3,3), f(16), padding=1"})
  .error("f(8,4,32,32), f(8,3,3,3)", ErrorKind::Runtime,
         "weight has 3 input channels, input has 4 (shape [8, 4, 32, 32]); groups=1 needs them equal")
  .error("f(2,4,2,2), f(3,4,3,3)", ErrorKind::Runtime, "smaller than the kernel")
  .error("f(2,4,6,5), f(3,4,3,3), f(4)", ErrorKind::Runtime, "expected bias to be 1-dimensional with 3 elements")
  .error("f(2,4,6,5), f(3,4,3,3), groups=0", ErrorKind::Runtime, "groups must be greater than zero");

STRATA_OP(conv2d_padding,
          "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, str padding, int[] "
          "dilation=1, int groups=1) -> Tensor")
  .doc("conv2d with padding 'same' or 'valid'.")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, std::string_view padding,
                IntList dilation, int64_t groups) {
    return convolve_named("conv2d", 2, input, weight, bias, stride, padding, dilation, groups);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,4,6,5), f(3,4,3,2), f(3), 1, 'same'", "f(2,4,6,5), f(3,4,3,3), padding='valid', stride=2"})
  .error("f(2,4,6,5), f(3,4,3,3), padding='full'", ErrorKind::Value, "padding must be");

STRATA_OP(conv3d,
          "conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] dilation=1, "
          "int groups=1) -> Tensor")
  .doc("Convolution over three spatial dimensions of [N, C, D, H, W] with a weight of [O, C / groups, KD, KH, KW].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                IntList dilation, int64_t groups) {
    return convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, false, {0}, groups);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,2,3,4,5), f(3,2,2,3,2), f(3)", "f(1,4,4,4,4), f(4,2,3,3,3), stride=2, padding=1, groups=2",
            "f(2,3,4,5), f(3,2,2,3,2)"})
  .error("f(2,2,3,4), f(3,2,2,3)", ErrorKind::Runtime, "expected weight to have 5 dimensions");

STRATA_OP(conv3d_padding,
          "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, str padding, int[] "
          "dilation=1, int groups=1) -> Tensor")
  .doc("conv3d with padding 'same' or 'valid'.")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, std::string_view padding,
                IntList dilation, int64_t groups) {
    return convolve_named("conv3d", 3, input, weight, bias, stride, padding, dilation, groups);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,2,3,4,5), f(3,2,2,3,2), padding='same'"})
  .error("f(2,2,3,4,5), f(3,2,2,3,2), padding='x'", ErrorKind::Value, "padding must be");

STRATA_OP(conv_transpose1d,
          "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] "
          "output_padding=0, int groups=1, int[] dilation=1) -> Tensor")
  .doc("Transposed convolution over one spatial dimension; weight [C, O / groups, K].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                IntList output_padding, int64_t groups, IntList dilation) {
    return convolve("conv_transpose1d", 1, input, weight, bias, stride, padding, dilation, true, output_padding,
                    groups);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,4,5), f(4,3,3), f(3)", "f(2,4,5), f(4,3,3), f(6), stride=2, padding=1, output_padding=1, groups=2",
            "f(4,5), f(4,3,3), dilation=2"})
  .error("f(2,4,5), f(4,3,3), output_padding=1", ErrorKind::Runtime, "output padding must be smaller");

STRATA_OP(conv_transpose2d,
          "conv_transpose2d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] "
          "output_padding=0, int groups=1, int[] dilation=1) -> Tensor")
  .doc("Transposed convolution over two spatial dimensions; weight [C, O / groups, KH, KW].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                IntList output_padding, int64_t groups, IntList dilation) {
    return convolve("conv_transpose2d", 2, input, weight, bias, stride, padding, dilation, true, output_padding,
                    groups);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,4,5,3), f(4,3,3,2), f(3)",
            "f(2,4,3,4), f(4,3,3,3), f(6), stride=2, padding=1, output_padding=[1,0], groups=2"})
  .error("f(2,3,5,3), f(4,3,3,2)", ErrorKind::Runtime, "weight has 4 input channels, input has 3");

STRATA_OP(conv_transpose3d,
          "conv_transpose3d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] "
          "output_padding=0, int groups=1, int[] dilation=1) -> Tensor")
  .doc("Transposed convolution over three spatial dimensions; weight [C, O / groups, KD, KH, KW].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                IntList output_padding, int64_t groups, IntList dilation) {
    return convolve("conv_transpose3d", 3, input, weight, bias, stride, padding, dilation, true, output_padding,
                    groups);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(1,2,3,2,2), f(2,3,2,2,3), f(3)", "f(2,2,2,2,2), f(2,2,2,2,2), stride=2"})
  .error("f(1,2,3,2,2), f(2,3,2,2,3), f(2)", ErrorKind::Runtime, "expected bias to be 1-dimensional");

}  // namespace strata
