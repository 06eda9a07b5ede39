// Linear layers whose activation is part of the product's kernel.
#include "cuda/linalg/linear_activation.h"

#include <fmt/core.h>

#include "autograd/autograd.h"
#include "cpu/movement/copy.h"
#include "ops/planned.h"
#include "strata/args/linalg/linear_activation.h"
#include "strata/ops.h"

namespace strata {
namespace {

using cuda::LinearActivation;

LinearActivation activation_of(std::string_view name) {
  static constexpr std::string_view kNames[] = {"relu", "gelu", "gelu_tanh", "silu"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<LinearActivation>(i);
  fail(ErrorKind::Value, fmt::format("linear_activation: activation '{}' is unknown; expected 'relu', 'gelu', "
                                     "'gelu_tanh' or 'silu'",
                                     name));
}

Tensor activated(const Tensor& argument, LinearActivation activation) {
  switch (activation) {
    case LinearActivation::Relu: return relu(argument);
    case LinearActivation::Gelu: return nn::functional::gelu(argument);
    case LinearActivation::GeluTanh: return nn::functional::gelu(argument, "tanh");
    default: return nn::functional::silu(argument);
  }
}
// The gradient of the argument; that of ReLU may come from the result instead.
Tensor argument_grad(const Tensor& g, const Tensor& argument, LinearActivation activation) {
  switch (activation) {
    case LinearActivation::Relu: return threshold_backward(g, argument, 0);
    case LinearActivation::Gelu: return gelu_backward(g, argument, "none");
    case LinearActivation::GeluTanh: return gelu_backward(g, argument, "tanh");
    default: return silu_backward(g, argument);
  }
}

Tensor matrix_of(const Tensor& t) {
  return reshape(t, {checked_numel(t.shape().first(t.shape().size() - 1)), t.size(-1)});
}

Grads linear_grads(const grads::linear_activation_core& c, const Tensor& g) {
  grads::linear_activation_core::Result out;
  if (c.needs_input()) out.input = matmul(g, c.weight());
  if (c.needs_weight()) out.weight = mm(transpose(matrix_of(g), 0, 1), matrix_of(c.input()));
  if (c.needs_bias()) out.bias = sum_to_size(g, c.shape_of_bias());
  return out;
}

// keep: 1 if the argument is stored for the gradient, which ReLU does not need.
bool stores_argument(const args::linear_activation_core& c) {
  return c.keep().value_or(false) && activation_of(c.activation()) != LinearActivation::Relu;
}

cuda::LinearActivationCall describe_linear_activation(const Call& call) {
  const args::linear_activation_core c(call);
  return {c.input(),
          c.weight(),
          c.bias(),
          *call.outs[0],
          stores_argument(c) ? &*call.outs[1] : nullptr,
          activation_of(c.activation())};
}

// A product, then the activation. A product with a given result is copied there, so only a stored argument is one.
void run_linear_then_activation(const Call& call) {
  const args::linear_activation_core c(call);
  const autograd::NoGrad no_grad;
  Tensor out = alias(*call.outs[0]), argument;
  out->keep_version(0);
  const Tensor input = alias(c.input()), weight = alias(c.weight()), bias = c.bias() ? alias(*c.bias()) : Tensor();
  if (stores_argument(c)) {
    argument = alias(*call.outs[1]);
    argument->keep_version(0);
    call_out(op_linear, Args(input, weight, bias), &argument);
  } else {
    argument = nn::functional::linear(input, weight, bias);
  }
  switch (activation_of(c.activation())) {
    case LinearActivation::Relu: return call_out(op_relu, Args(argument), &out);
    case LinearActivation::Gelu: return call_out(op_gelu, Args(argument, "none"), &out);
    case LinearActivation::GeluTanh: return call_out(op_gelu, Args(argument, "tanh"), &out);
    default: return call_out(op_silu, Args(argument), &out);
  }
}

void plain_linear_activation(const Call& call) {
  const args::linear_activation_core c(call);
  const autograd::NoGrad no_grad;
  const auto wide = [](const TensorImpl* t) { return t ? to(alias(*t), DType::F64) : Tensor(); };
  const Tensor argument = nn::functional::linear(wide(&c.input()), wide(&c.weight()), wide(c.bias()));
  cpu::copy_reference(*call.outs[0], *activated(argument, activation_of(c.activation())));
  if (stores_argument(c)) cpu::copy_reference(*call.outs[1], *argument);
}
}  // namespace

STRATA_OP(linear_activation_core,
          "_linear_activation(Tensor input, Tensor weight, Tensor? bias, str activation, bool? keep=None) -> (Tensor, "
          "Tensor)")
  .doc("activation(linear(input, weight, bias)), and the argument of the activation if its gradient needs it.")
  .keeps_for_grad("keep")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .autocast(Autocast::Lower)
  .infer([](const Call& call) {
    const args::linear_activation_core c(call);
    STRATA_CHECK(c.weight().ndim == 2, Runtime,
                 "linear_activation: weight must have 2 dimensions [out_features, in_features], got shape {}",
                 to_string(c.weight().sizes()));
    op_linear.record.infer_fn(Call{op_linear, call.args, call.outs});  // its parameters are the first three
    const int64_t none[] = {0};
    activation_of(c.activation());
    call.outs[1]->dtype = call.outs[0]->dtype;
    call.outs[1]->set_shape(stores_argument(c) ? call.outs[0]->sizes() : Shape(none, 1));
  })
  .kernel("in_turn", run_linear_then_activation)
  .kernel("reference", plain_linear_activation)
  .with([](OpRecord& op) {
    add_planned<describe_linear_activation, cuda::plan_linear_activation_cublaslt,
                cuda::run_linear_activation_cublaslt>(op, Backend::Cuda, "cublaslt");
    op.from(Source::CublasLt);
    op.cuda("in_turn", run_linear_then_activation);
    // Only where it was timed and won: on an H200 the erf of GELU and SiLU in the epilogue of 8192 x 3072 x 768 take 164 and 210 us,
    // the product of cuBLASLt and a pointwise kernel 94.
    add_planned<describe_linear_activation, cuda::plan_linear_activation_compiled,
                cuda::run_linear_activation_compiled>(op, Backend::Cuda, "compiled");
  })
  .saves({"input", "weight", "bias"})
  .saves_result({0, 1})
  .no_grad_outputs({1})
  .grad([](const grads::linear_activation_core& c, const Tensor& g) -> Grads {
    const LinearActivation activation = activation_of(c.activation());
    return linear_grads(c, argument_grad(g, c.result(activation == LinearActivation::Relu ? 0 : 1), activation));
  })
  .grad_for_graph([](const grads::linear_activation_core& c, const Tensor& g) -> Grads {
    const Tensor argument = nn::functional::linear(c.input(), c.weight(), c.has_bias() ? c.bias() : Tensor());
    return linear_grads(c, argument_grad(g, argument, activation_of(c.activation())));
  })
  .samples({"f(3,4), f(5,4), f(5), 'gelu'", "f(3,4), f(5,4), None, 'relu'", "f(2,3,4), f(5,4), f(5), 'gelu_tanh'",
            "f(4), f(5,4), f(5), 'silu', True", "f(0,4), f(5,4), f(5), 'relu'", "f(3,0), f(2,0), f(2), 'silu'"})
  .error("f(3,4), f(5,3), None, 'relu'", ErrorKind::Runtime, "cannot be multiplied")
  .error("f(3,4), f(4), None, 'relu'", ErrorKind::Runtime, "weight must have 2 dimensions")
  .error("f(3,4), f(5,4), f(4), 'relu'", ErrorKind::Runtime, "bias must have shape [5]")
  .error("f(3,4), f(5,4), None, 'mish'", ErrorKind::Value, "expected 'relu', 'gelu'");

STRATA_OP(linear_activation,
          "nn.functional.linear_activation(Tensor input, Tensor weight, Tensor? bias=None, str activation='relu') -> "
          "Tensor")
  .doc(
    "activation(input @ weight.T + bias) with 'relu', 'gelu', 'gelu_tanh' or 'silu'. On GPUs the activation is part of "
    "the product's kernel: its argument is rounded only where a gradient needs it.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& bias, std::string_view activation) {
    return std::get<0>(_linear_activation(input, weight, bias, activation));
  })
  .samples({"f(3,4), f(5,4), f(5)", "f(3,4), f(5,4), activation='gelu'", "f(4), f(5,4), f(5), activation='silu'"})
  .error("f(3,4), f(5,4), activation='x'", ErrorKind::Value, "expected 'relu', 'gelu'");

STRATA_OP(addmm_activation,
          "_addmm_activation(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool "
          "use_gelu=False) -> Tensor")
  .doc("relu(addmm(input, mat1, mat2)), or its gelu: the tanh approximation on GPUs and the exact one on the CPU.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& mat1, const Tensor& mat2, Scalar beta, Scalar alpha, bool use_gelu) {
    const bool on_cpu = input.device().type == DeviceType::Cpu;
    const LinearActivation activation = !use_gelu ? LinearActivation::Relu
                                        : on_cpu  ? LinearActivation::Gelu
                                                  : LinearActivation::GeluTanh;
    const bool is_linear = input.dim() == 1 && mat1.dim() == 2 && mat2.dim() == 2 && beta.to_double() == 1 &&
                           alpha.to_double() == 1 && input.size(0) == mat2.size(1);
    if (!is_linear) return activated(addmm(input, mat1, mat2, beta, alpha), activation);
    const char* name = !use_gelu ? "relu" : on_cpu ? "gelu" : "gelu_tanh";
    return std::get<0>(_linear_activation(mat1, transpose(mat2, 0, 1), input, name));
  })
  .samples({"f(5), f(3,4), f(4,5)", "f(3,5), f(3,4), f(4,5), beta=2, alpha=3"})
  .error("f(2,2), f(3,4), f(4,5)", ErrorKind::Runtime, "cannot be broadcast");

}  // namespace strata
