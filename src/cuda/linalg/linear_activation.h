// activation(input @ weight.T + bias) in one kernel.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

enum class LinearActivation : uint8_t { Relu, Gelu, GeluTanh, Silu };

struct LinearActivationCall {
  const TensorImpl &input, &weight, *bias;  // [..., k], [n, k] and [n] or null, of one dtype
  const TensorImpl& out;
  const TensorImpl* argument;  // if not null, receives the argument of the activation
  LinearActivation activation;
};

// By cuBLASLt, whose epilogues are ReLU and the tanh approximation of GELU.
const char* plan_linear_activation_cublaslt(const LinearActivationCall& call, Plan& plan);
void run_linear_activation_cublaslt(const LinearActivationCall& call, const Call& c, const Plan& plan);

// By a kernel of strata.gemm.compile.
const char* plan_linear_activation_compiled(const LinearActivationCall& call, Plan& plan);
void run_linear_activation_compiled(const LinearActivationCall& call, const Call& c, const Plan& plan);

}  // namespace strata::cuda
