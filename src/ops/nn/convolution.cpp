// Convolutions. Three ops do the work: convolution (plain and transposed, each the other's input gradient) and the
// weight gradient, which is linear in both its inputs, so gradients of any order exist.
#include <fmt/core.h>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "cpu/nn/convolution.h"
#include "cpu/staging.h"
#include "cuda/linalg/cublaslt.h"
#include "cuda/linalg/gemm_hopper.h"
#include "cuda/linalg/gemm_mma.h"
#include "cuda/nn/convolution_cudnn.h"
#include "cuda/nn/convolution_mma.h"
#include "cuda/nn/convolution_product.h"
#include "ops/layout.h"
#include "ops/nn/convolution_call.h"
#include "ops/nn/spread.h"
#include "ops/planned.h"
#include "strata/args/nn/convolution.h"
#include "strata/ops.h"

namespace strata {
namespace {

ConvShape shape_of(const char* op, const args::convolution& a) {
  const TensorImpl &x = a.input(), &w = a.weight();
  const bool transposed = a.transposed();
  ConvShape s;
  s.dims = w.ndim - 2;
  STRATA_CHECK(s.dims >= 1 && s.dims <= 3, Runtime, "{}: weight must have 3, 4 or 5 dimensions, got shape {}", op,
               to_string(w.sizes()));
  STRATA_CHECK(x.ndim == w.ndim, Runtime, "{}: expected {}D input of shape [N, C, ...], got shape {} (weight {})", op,
               int{w.ndim}, to_string(x.sizes()), to_string(w.sizes()));
  STRATA_CHECK(x.dtype == w.dtype, Runtime, "{}: input has dtype {} and weight {}; they must be the same", op,
               name_of(x.dtype), name_of(w.dtype));
  STRATA_CHECK(x.dtype != DType::Bool && !kFloat8Types.has(x.dtype), NotImplemented, "\"{}\" not implemented for '{}'",
               op, name_of(x.dtype));
  s.groups = a.groups();
  STRATA_CHECK(s.groups > 0, Runtime, "{}: groups must be greater than zero, got {}", op, s.groups);
  spread(op, "stride", a.stride(), s.dims, 1, s.stride);
  spread(op, "padding", a.padding(), s.dims, 0, s.padding);
  spread(op, "dilation", a.dilation(), s.dims, 1, s.dilation);
  int64_t extra[3];
  spread(op, "output_padding", a.output_padding(), s.dims, 0, extra);
  STRATA_CHECK(w.shape[0] % s.groups == 0, Runtime,
               "{}: weight has {} {} channels, which groups={} does not divide (shape {})", op, w.shape[0],
               transposed ? "input" : "output", s.groups, to_string(w.sizes()));
  const int64_t expected = transposed ? w.shape[0] : (Checked(w.shape[1]) * s.groups).get();
  STRATA_CHECK(x.shape[1] == expected, Runtime,
               "{}: weight has {} input channels, input has {} (shape {}); groups={} needs {}", op,
               transposed ? w.shape[0] : w.shape[1], x.shape[1], to_string(x.sizes()), s.groups,
               s.groups == 1 ? "them equal" : fmt::format("{} channels in input", expected));
  s.n = x.shape[0];
  s.o = w.shape[0];
  s.c = (Checked(w.shape[1]) * s.groups).get();
  for (int d = 0; d < s.dims; ++d) {
    s.kernel[d] = w.shape[d + 2];
    STRATA_CHECK(s.kernel[d] >= 1, Runtime, "{}: the kernel has a size of 0 (weight shape {})", op,
                 to_string(w.sizes()));
    const int64_t reach = (Checked(s.dilation[d]) * (s.kernel[d] - 1) + 1).get(), size = x.shape[d + 2];
    if (transposed) {
      STRATA_CHECK(extra[d] < std::max(s.stride[d], s.dilation[d]), Runtime,
                   "{}: output padding must be smaller than either stride or dilation, got output_padding={}, "
                   "stride={}, dilation={}",
                   op, extra[d], s.stride[d], s.dilation[d]);
      s.out[d] = size;
      s.in[d] = (Checked(size - 1) * s.stride[d] - 2 * s.padding[d] + reach + extra[d]).get();
      STRATA_CHECK(s.in[d] >= 0 && (s.in[d] > 0 || size == 0), Runtime,
                   "{}: the output would have size {} at spatial dimension {} (input {}, padding {}, kernel {})", op,
                   s.in[d], d, size, s.padding[d], s.kernel[d]);
    } else {
      s.in[d] = size;
      STRATA_CHECK(size + 2 * s.padding[d] >= reach, Runtime,
                   "{}: the padded input size {} at spatial dimension {} is smaller than the kernel's reach {} (input "
                   "{}, kernel {}, dilation {}, padding {})",
                   op, size + 2 * s.padding[d], d, reach, size, s.kernel[d], s.dilation[d], s.padding[d]);
      s.out[d] = (size + 2 * s.padding[d] - reach) / s.stride[d] + 1;
    }
  }
  if (const TensorImpl* bias = a.bias()) {
    const int64_t channels = transposed ? s.c : s.o;
    STRATA_CHECK(
      bias->ndim == 1 && bias->numel == channels, Runtime,
      "{}: given weight of size {}, expected bias to be 1-dimensional with {} elements, but got bias of size {}", op,
      to_string(w.sizes()), channels, to_string(bias->sizes()));
    STRATA_CHECK(bias->dtype == x.dtype, Runtime, "{}: input has dtype {} and bias {}; they must be the same", op,
                 name_of(x.dtype), name_of(bias->dtype));
  }
  return s;
}

// One channel fits both orders; then the stride of its dimension tells which one was requested.
bool channels_last(const TensorImpl& x) {
  if (x.ndim < 4 || x.strides[1] != 1) return false;
  if (x.shape[1] != 1) return cpu::channels_last(x);
  return x.contiguous && x.numel > x.shape[0];
}

void infer_convolution(const Call& c) {
  const args::convolution a(c);
  const TensorImpl& x = a.input();
  const ConvShape s = shape_of("convolution", args::convolution(c));
  int64_t shape[5] = {s.n, a.transposed() ? s.c : s.o};
  std::copy_n(a.transposed() ? s.in : s.out, s.dims, shape + 2);
  TensorImpl& out = *c.out();
  out.dtype = x.dtype;
  out.set_shape(Shape(shape, static_cast<size_t>(s.dims + 2)));
  if (channels_last(x) || channels_last(a.weight()))
    set_layout(out, s.dims == 2 ? "channels_last" : "channels_last_3d", nullptr, "convolution");
}

// Assigns the tensors of a call to the sides of a convolution.
struct Sides {
  ConvShape shape;
  ConvMode mode;
  Tensor big, weight, small;
  const TensorImpl* bias;
  explicit Sides(const Call& c)
      : shape(shape_of("convolution", args::convolution(c))),
        weight(args::convolution(c).share_weight()),
        bias(args::convolution(c).bias()) {
    const args::convolution a(c);
    mode = a.transposed() ? ConvMode::Data : ConvMode::Forward;
    big = a.transposed() ? c.out() : a.share_input();
    small = a.transposed() ? a.share_input() : c.out();
  }
};
const char* convolution_ready(const Call& c) {
  const Sides s(c);
  if (s.bias && s.mode == ConvMode::Data) return "oneDNN's transposed convolution is used without bias";
  return cpu::conv_onednn_ready(s.shape, s.mode, *s.big, *s.weight, *s.small, s.bias != nullptr);
}

Grads grad_convolution(const GradContext& c, const Tensor& g) {
  const grads::convolution arg(c);
  grads::convolution::Result out;
  const bool transposed = arg.transposed();
  const ConvShape s = shape_of("convolution", args::convolution(c.node().args.view()));
  const IntList stride = arg.stride(), padding = arg.padding(), dilation = arg.dilation();
  if (arg.needs_input()) {
    std::vector<int64_t> extra(static_cast<size_t>(s.dims), 0);
    for (int d = 0; d < s.dims && !transposed; ++d)
      extra[static_cast<size_t>(d)] =
        s.in[d] - ((s.out[d] - 1) * s.stride[d] - 2 * s.padding[d] + s.dilation[d] * (s.kernel[d] - 1) + 1);
    Tensor gi = convolution(g, arg.weight(), {}, stride, padding, dilation, !transposed, extra, s.groups);
    for (int d = 0; d < s.dims && transposed; ++d)  // output padding beyond the stride leaves rows without a source
      if (gi.size(d + 2) > s.out[d]) gi = narrow(gi, d + 2, 0, s.out[d]);
    out.input = gi;
  }
  if (arg.needs_weight()) {
    const Tensor x = arg.input();
    out.weight = _convolution_weight_grad(transposed ? g : x, transposed ? x : g, arg.shape_of_weight(), stride,
                                          padding, dilation, s.groups);
  }
  if (arg.has_bias() && arg.needs_bias()) {
    std::vector<int64_t> dims{0};
    for (int d = 2; d < g.dim(); ++d) dims.push_back(d);
    out.bias = sum(g, dims);
  }
  return out;
}

ConvShape weight_shape_of(const args::convolution_weight_grad& a) {
  const TensorImpl &big = a.big(), &small = a.small();
  const IntList w = a.weight_shape();
  ConvShape s;
  s.dims = static_cast<int>(w.size) - 2;
  STRATA_CHECK(s.dims >= 1 && s.dims <= 3 && big.ndim == s.dims + 2 && small.ndim == s.dims + 2, Runtime,
               "convolution_weight_grad: ranks do not fit");
  STRATA_CHECK(big.dtype == small.dtype, Runtime,
               "convolution_weight_grad: expected two tensors of one dtype, got {} and {}", name_of(big.dtype),
               name_of(small.dtype));
  s.groups = a.groups();
  spread("convolution", "stride", a.stride(), s.dims, 1, s.stride);
  spread("convolution", "padding", a.padding(), s.dims, 0, s.padding);
  spread("convolution", "dilation", a.dilation(), s.dims, 1, s.dilation);
  STRATA_CHECK(s.groups > 0, Runtime, "convolution_weight_grad: groups must be greater than zero");
  s.n = big.shape[0];
  s.o = w[0];
  s.c = w[1] * s.groups;
  bool fits = small.shape[0] == s.n && big.shape[1] == s.c && small.shape[1] == s.o;
  for (int d = 0; d < s.dims; ++d) {
    s.kernel[d] = w[static_cast<size_t>(d) + 2];
    s.in[d] = big.shape[d + 2];
    s.out[d] = small.shape[d + 2];
    fits &= (s.out[d] - 1) * s.stride[d] + s.dilation[d] * (s.kernel[d] - 1) + 1 <= s.in[d] + 2 * s.padding[d];
  }
  STRATA_CHECK(fits, Runtime, "convolution_weight_grad: shapes {} and {} do not fit a weight of shape {}",
               to_string(big.sizes()), to_string(small.sizes()), to_string(w));
  return s;
}

cuda::ConvCall device_weight_call(const Call& c) {
  const args::convolution_weight_grad a(c);
  return {weight_shape_of(a), ConvMode::Weight, a.share_big(), c.out(), a.share_small(), {}};
}
// The order is that of speed on an H200 (bench/results/convolution.md).
template <auto describe> void add_device_kernels(OpRecord& op) {
  using namespace cuda;  // NOLINT: a list of its kernels
  add_planned<describe, plan_convolution_large_product<plan_gemm_hopper_ahead>,
              run_convolution_product<run_gemm_hopper>>(op, Backend::Cuda, "product_hopper_ahead");
  add_planned<describe, plan_convolution_cudnn_channels_last, run_convolution_cudnn>(op, Backend::Cuda,
                                                                                     "cudnn_channels_last");
  op.from(Source::Cudnn);
  add_planned<describe, plan_convolution_cudnn_tf32, run_convolution_cudnn>(op, Backend::Cuda, "cudnn_tf32");
  op.from(Source::Cudnn).numerics({.tf32 = true, .error = 3});
  add_planned<describe, plan_convolution_cudnn, run_convolution_cudnn>(op, Backend::Cuda, "cudnn");
  op.from(Source::Cudnn).numerics({.error = 3});
  add_planned<describe, plan_convolution_large_product<plan_gemm_cublaslt>, run_convolution_product<run_gemm_cublaslt>>(
    op, Backend::Cuda, "product_cublaslt");
  op.from(Source::CublasLt);
  add_planned<describe, plan_convolution_product<plan_gemm_hopper>, run_convolution_product<run_gemm_hopper>>(
    op, Backend::Cuda, "product_hopper");
  add_planned<describe, plan_convolution_product<plan_gemm_mma>, run_convolution_product<run_gemm_mma>>(
    op, Backend::Cuda, "product_tensor_cores");
  add_planned<describe, plan_convolution_mma, run_convolution_mma>(op, Backend::Cuda, "tensor_cores");
  add_planned<describe, plan_convolution_floats, run_convolution>(op, Backend::Cuda, "implicit_gemm_f32");
  add_planned<describe, plan_convolution_any, run_convolution>(op, Backend::Cuda, "implicit_gemm");
}
}  // namespace

ConvShape convolution_shape(const Args& given) { return shape_of("convolution", args::convolution(given)); }

cuda::ConvCall convolution_call(const Call& c) {
  const args::convolution a(c);
  const Sides s(c);
  return {s.shape, s.mode, s.big, s.weight, s.small, a.share_bias()};
}

STRATA_OP(convolution,
          "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool "
          "transposed, int[] output_padding, int groups) -> Tensor")
  .doc("The convolution, or transposed convolution, of 1 to 3 spatial dimensions called by conv1d … conv_transpose3d.")
  .no_method()
  .dtypes(kNumericTypes)
  .infer(infer_convolution)
  .kernel(
    "winograd",
    [](const Call& c) {
      const Sides s(c);
      cpu::conv_winograd(s.shape, s.mode, *s.big, *s.weight, *s.small, s.bias);
    },
    [](const Call& c) {
      const Sides s(c);
      return s.bias && s.mode == ConvMode::Data ? "a transposed convolution with bias"
                                                : cpu::conv_winograd_ready(s.shape, s.mode, *s.big, *s.weight);
    })
  .numerics({.error = 3})
  .kernel(
    "shallow",
    [](const Call& c) {
      const Sides s(c);
      cpu::conv_shallow(s.shape, *s.big, *s.weight, *s.small, s.bias);
    },
    [](const Call& c) {
      const Sides s(c);
      return cpu::conv_shallow_ready(s.shape, s.mode, *s.big, *s.small);
    })
  .kernel(
    "onednn",
    [](const Call& c) {
      const Sides s(c);
      cpu::conv_onednn(s.shape, s.mode, *s.big, *s.weight, *s.small, s.bias);
    },
    convolution_ready)
  .from(Source::OneDnn)
  .kernel(
    "columns",
    [](const Call& c) {
      const Sides s(c);
      cpu::conv_columns(s.shape, s.mode, s.big, s.weight, s.small, s.bias);
    },
    [](const args::convolution& c) -> const char* {
      return c.transposed() && c.has_bias() ? "a transposed convolution with bias" : nullptr;
    })
  .kernel("reference",
          [](const Call& c) {
            const Sides s(c);
            if (s.bias && s.mode == ConvMode::Data)
              fail(ErrorKind::NotImplemented,
                   "convolution: a transposed convolution takes its bias through conv_transpose1d, 2d, 3d");
            cpu::conv_reference(s.shape, s.mode, s.big, s.weight, s.small, s.bias);
          })
  .with(add_device_kernels<convolution_call>)
  .saves({"input", "weight"})
  .grad(grad_convolution)
  .autocast_cuda(Autocast::Lower)
  .complex_composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                        IntList dilation, bool transposed, IntList output_padding, int64_t groups) {
    STRATA_CHECK(input.dtype() == weight.dtype() && (!bias || bias.dtype() == input.dtype()), Runtime,
                 "convolution: expected all operands to have one dtype, but got {} and {}; convert one with .to()",
                 name_of(input.dtype()), name_of(weight.dtype()));
    // (a + ib) * (c + id) = (a * c - b * d) + i (a * d + b * c), with the bias in the first and third product.
    const auto product = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
      return convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups);
    };
    const Tensor a = real(input), b = imag(input), c = real(weight), d = imag(weight);
    return complex(sub(product(a, c, bias ? real(bias) : Tensor()), product(b, d, {})),
                   add(product(a, d, bias ? imag(bias) : Tensor()), product(b, c, {})));
  })
  .samples({"f(2,4,5), f(6,2,3), f(6), [2], [1], [1], False, [0], 2",
            "f(2,4,5), f(4,3,3), None, [2], [1], [1], True, [1], 2",
            "f(1,2,5,6), f(3,2,2,3), f(3), [1,2], [0,1], [2,1], False, [0,0], 1"})
  .error("f(2,4,5), f(6,4,3), None, [0], [1], [1], False, [0], 1", ErrorKind::Runtime,
         "stride must be greater than zero")
  .error("f(2,4,5), f(6,4,3), None, [1], [-1], [1], False, [0], 1", ErrorKind::Runtime, "negative padding")
  .error("f(2,4,5), f(6,4,3), None, [1], [1], [1], False, [0], 0", ErrorKind::Runtime,
         "groups must be greater than zero")
  .error("f(2,4,5), f(6,4,3), None, [1,1], [1], [1], False, [0], 1", ErrorKind::Runtime, "stride must be a single int");

STRATA_OP(convolution_weight_grad,
          "_convolution_weight_grad(Tensor big, Tensor small, int[] weight_shape, int[] stride, int[] padding, int[] "
          "dilation, int groups) -> Tensor")
  .doc("The gradient of a convolution's weight; `big` is the side its window moves over.")
  .helper()
  .dtypes(kNumericTypes)
  .infer([](const args::convolution_weight_grad& c) {
    weight_shape_of(c);
    const TensorImpl& big = c.big();
    c.out()->dtype = big.dtype;
    c.out()->set_shape(c.weight_shape());
    if (channels_last(big))
      set_layout(*c.out(), big.ndim == 4 ? "channels_last" : "channels_last_3d", nullptr, "convolution");
  })
  .kernel(
    "winograd",
    [](const args::convolution_weight_grad& c) {
      cpu::conv_winograd(weight_shape_of(c), ConvMode::Weight, c.big(), *c.out(), c.small(), nullptr);
    },
    [](const args::convolution_weight_grad& c) {
      return cpu::conv_winograd_ready(weight_shape_of(c), ConvMode::Weight, c.big(), *c.out());
    })
  .numerics({.error = 3})
  .kernel(
    "onednn",
    [](const args::convolution_weight_grad& c) {
      cpu::conv_onednn(weight_shape_of(c), ConvMode::Weight, c.big(), *c.out(), c.small(), nullptr);
    },
    [](const args::convolution_weight_grad& c) {
      return cpu::conv_onednn_ready(weight_shape_of(c), ConvMode::Weight, c.big(), *c.out(), c.small(), false);
    })
  .from(Source::OneDnn)
  .kernel("columns",
          [](const args::convolution_weight_grad& c) {
            cpu::conv_columns(weight_shape_of(c), ConvMode::Weight, c.share_big(), c.out(), c.share_small(), nullptr);
          })
  .kernel("reference",
          [](const args::convolution_weight_grad& c) {
            cpu::conv_reference(weight_shape_of(c), ConvMode::Weight, c.share_big(), c.out(), c.share_small(), nullptr);
          })
  .with(add_device_kernels<device_weight_call>)
  .saves({"big", "small"})
  .grad([](const grads::convolution_weight_grad& c, const Tensor& g) -> Grads {
    grads::convolution_weight_grad::Result out;
    const ConvShape s = weight_shape_of(args::convolution_weight_grad(c.node().args.view()));
    const IntList stride = c.stride(), padding = c.padding(), dilation = c.dilation();
    if (c.needs_big()) {
      std::vector<int64_t> extra(static_cast<size_t>(s.dims));
      for (int d = 0; d < s.dims; ++d)
        extra[static_cast<size_t>(d)] =
          s.in[d] - ((s.out[d] - 1) * s.stride[d] - 2 * s.padding[d] + s.dilation[d] * (s.kernel[d] - 1) + 1);
      out.big = convolution(c.small(), g, {}, stride, padding, dilation, true, extra, s.groups);
    }
    if (c.needs_small()) {
      Tensor gs = convolution(c.big(), g, {}, stride, padding, dilation, false, {0}, s.groups);
      for (int d = 0; d < s.dims; ++d)
        if (gs.size(d + 2) > s.out[d]) gs = narrow(gs, d + 2, 0, s.out[d]);
      out.small = gs;
    }
    return out;
  })
  .samples({"f(2,4,5), f(2,6,3), [6,2,3], [2], [1], [1], 2"});

}  // namespace strata
