// Convolutions whose bias, residual and ReLU are part of the kernel.
#include "cuda/nn/convolution_relu.h"
#include "autograd/autograd.h"
#include "cpu/movement/copy.h"
#include "ops/nn/convolution_call.h"
#include "ops/planned.h"
#include "strata/args/nn/convolution_relu.h"
#include "strata/ops.h"

namespace strata {
namespace {

constexpr int64_t kZero = 0;
const IntList kNoOutputPadding(kZero);

// The convolution that is part of the call.
Args convolution_args(const Call& c) {
  const args::convolution_relu_core a(c);
  return Args(a.share_input(), a.share_weight(), a.share_bias(), a.stride(), a.padding(), a.dilation(), false,
              kNoOutputPadding, a.groups());
}

void infer_convolution_relu(const Call& c) {
  const Args convolution = convolution_args(c);
  op_convolution.record.infer_fn(Call{op_convolution, convolution, c.outs});
  const TensorImpl *other = args::convolution_relu_core(c).other(), &out = *c.outs[0];
  STRATA_CHECK(!other || (other->same_shape(out) && other->dtype == out.dtype), Runtime,
               "convolution_relu: other must have the shape and dtype of the result, {} of {}, but got {} of {}",
               to_string(out.sizes()), name_of(out.dtype), to_string(other->sizes()), name_of(other->dtype));
}

cuda::ConvReluCall describe_convolution_relu(const Call& c) {
  const Args convolution = convolution_args(c);
  return {convolution_call(Call{op_convolution, convolution, c.outs}), args::convolution_relu_core(c).share_other()};
}

void run_convolution_then_relu(const Call& c) {
  const args::convolution_relu_core a(c);
  const autograd::NoGrad no_grad;
  Tensor out = alias(*c.outs[0]);
  out->keep_version(0);
  call_out(op_convolution, convolution_args(c), &out);
  if (a.has_other()) add_(out, a.share_other());
  relu_(out);
}

void plain_convolution_relu(const Call& c) {
  const args::convolution_relu_core a(c);
  const autograd::NoGrad no_grad;
  const auto in_double = [](const TensorImpl* t) { return t ? to(alias(*t), DType::F64) : Tensor(); };
  const Tensor sum = convolution(in_double(&a.input()), in_double(&a.weight()), in_double(a.bias()), a.stride(),
                                 a.padding(), a.dilation(), false, kNoOutputPadding, a.groups());
  cpu::copy_reference(*c.outs[0], *relu(a.has_other() ? add(sum, in_double(a.other())) : sum));
}

// The gradient of what ReLU gets is that of `other`, and of a convolution.
Grads convolution_relu_grads(const grads::convolution_relu_core& a, const Tensor& g) {
  const Tensor passed = threshold_backward(g, a.result(0), 0);
  grads::convolution_relu_core::Result out;
  const IntList stride = a.stride(), padding = a.padding(), dilation = a.dilation();
  const Shape input = a.shape_of_input(), weight = a.shape_of_weight();
  const auto at = [](IntList list, size_t d) { return list[list.size == 1 ? 0 : d]; };
  if (a.needs_input()) {
    std::vector<int64_t> extra;  // rows that no window reached
    for (size_t d = 0; d + 2 < input.size(); ++d)
      extra.push_back(input[d + 2] - ((g.size(static_cast<int64_t>(d) + 2) - 1) * at(stride, d) - 2 * at(padding, d) +
                                      at(dilation, d) * (weight[d + 2] - 1) + 1));
    out.input = convolution(passed, a.weight(), {}, stride, padding, dilation, true, extra, a.groups());
  }
  if (a.needs_weight())
    out.weight = _convolution_weight_grad(a.input(), passed, weight, stride, padding, dilation, a.groups());
  if (a.has_bias() && a.needs_bias()) {
    std::vector<int64_t> dims{0};
    for (int64_t d = 2; d < g.dim(); ++d) dims.push_back(d);
    out.bias = sum(passed, dims);
  }
  if (a.has_other() && a.needs_other()) out.other = passed;
  return out;
}
}  // namespace

STRATA_OP(convolution_relu_core,
          "_convolution_relu(Tensor input, Tensor weight, Tensor? bias, Tensor? other, int[] stride, int[] padding, "
          "int[] dilation, int groups) -> Tensor")
  .doc("relu(convolution(input, weight, bias) + other) over 1 to 3 spatial dimensions.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .autocast_cuda(Autocast::Lower)
  .infer(infer_convolution_relu)
  .kernel("in_turn", run_convolution_then_relu)
  .kernel("reference", plain_convolution_relu)
  .with([](OpRecord& op) {
    using namespace cuda;  // NOLINT: a list of its kernels
    add_planned<describe_convolution_relu, plan_convolution_relu_compiled, run_convolution_relu_compiled>(
      op, Backend::Cuda, "product_compiled");
    add_planned<describe_convolution_relu, plan_convolution_relu_cudnn, run_convolution_relu_cudnn>(op, Backend::Cuda,
                                                                                                    "cudnn");
    op.from(Source::Cudnn);
    add_planned<describe_convolution_relu, plan_convolution_relu_mma, run_convolution_relu_mma>(op, Backend::Cuda,
                                                                                                "tensor_cores");
  })
  .cuda("in_turn", run_convolution_then_relu)
  .saves({"input", "weight"})
  .saves_result()
  .grad([](const grads::convolution_relu_core& c, const Tensor& g) { return convolution_relu_grads(c, g); })
  .samples({"f(2,4,5), f(6,2,3), f(6), None, [2], [1], [1], 2", "f(2,3,5), f(4,3,3), None, f(2,4,5), [1], [1], [1], 1",
            "f(1,2,5,6), f(3,2,2,3), f(3), f(1,3,3,3), [1,2], [0,1], [2,1], 1"})
  .error("f(2,4,5), f(6,4,3), None, None, [0], [1], [1], 1", ErrorKind::Runtime, "stride must be greater than zero")
  .error("f(2,4,5), f(6,4,3), None, f(2,6,5), [1], [0], [1], 1", ErrorKind::Runtime, "shape and dtype of the result");

STRATA_OP(convolution_relu,
          "nn.functional.convolution_relu(Tensor input, Tensor weight, Tensor? bias=None, Tensor? other=None, int[] "
          "stride=1, int[] padding=0, int[] dilation=1, int groups=1) -> Tensor")
  .doc(
    "relu(convolution(input, weight, bias) + other) over 1 to 3 spatial dimensions; on GPUs in one kernel where there "
    "is one.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& other, IntList stride,
                IntList padding, IntList dilation, int64_t groups) {
    return _convolution_relu(input, weight, bias, other, stride, padding, dilation, groups);
  })
  .samples({"f(2,4,5), f(6,4,3), f(6)", "f(1,2,5,6), f(3,2,3,3), f(3), f(1,3,5,6), padding=1"});

STRATA_OP(cudnn_convolution_relu,
          "cudnn_convolution_relu(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
          "dilation, int groups) -> Tensor")
  .doc("nn.functional.convolution_relu under PyTorch's name.")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                IntList dilation, int64_t groups) {
    return _convolution_relu(input, weight, bias, {}, stride, padding, dilation, groups);
  })
  .samples({"f(2,4,5), f(6,4,3), f(6), [1], [0], [1], 1"});

STRATA_OP(
  cudnn_convolution_add_relu,
  "cudnn_convolution_add_relu(Tensor input, Tensor weight, Tensor z, Scalar? alpha, Tensor? bias, int[] stride, "
  "int[] padding, int[] dilation, int groups) -> Tensor")
  .doc("relu(convolution(input, weight, bias) + alpha * z).")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& z, std::optional<Scalar> alpha,
                const Tensor& bias, IntList stride, IntList padding, IntList dilation, int64_t groups) {
    const Tensor other = alpha && alpha->to_double() != 1 ? mul(z, *alpha) : z;
    return _convolution_relu(input, weight, bias, other, stride, padding, dilation, groups);
  })
  .samples({"f(2,4,5), f(6,4,3), f(2,6,3), 2, f(6), [1], [0], [1], 1",
            "f(2,4,5), f(6,4,3), f(2,6,3), None, None, [1], [0], [1], 1"});

}  // namespace strata
