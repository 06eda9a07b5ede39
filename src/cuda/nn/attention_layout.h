// Describes a call of attention in the form that its kernels need: rows aligned to 16 bytes, and at most three batch
// dimensions.
#pragma once
#include "cuda/nn/attention.h"
#include "cuda/nn/attention_params.h"

namespace strata::cuda {

// The inputs, or aligned copies of them in the workspace. While planning, copies have no memory.
struct AttentionInputs {
  Tensor q, k, v, grad, pairs;  // grad, pairs: of the gradient
  AttentionInputs(const AttentionCall& a, Workspace workspace);
};

attention::Params attention_parameters(const AttentionCall& a, const AttentionInputs& t);
// Fills in `p`, or returns the reason why no kernel takes the call.
const char* plan_attention_inputs(const AttentionCall& a, Plan& plan, attention::Params& p);

// Computes the logarithms and means that the kernels of the gradient read.
void launch_attention_pairs(const AttentionCall& a, const attention::Params& p);

}  // namespace strata::cuda
