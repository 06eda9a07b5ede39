// Attention and its gradient on a device, fused: the matrix of weights is never stored.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

// Shapes are checked: the batch dimensions of all tensors are equal, those of the mask too.
struct AttentionCall {
  const TensorImpl &q, &k, &v, &out, &log_sums;
  const TensorImpl* mask;  // may be null
  bool causal;
  double scale;
  const TensorImpl *grad = nullptr, *grad_q = nullptr, *grad_k = nullptr, *grad_v = nullptr;  // of the gradient only
};

// On tensor cores from Ampere on (mma.sync). The plan is that of the result or of the gradient.
const char* plan_attention(const AttentionCall& a, Plan& plan);
void run_attention(const AttentionCall& a, const Call& c, const Plan& plan);
void run_attention_backward(const AttentionCall& a, const Call& c, const Plan& plan);

// On Hopper (wgmma and TMA), without a mask.
const char* plan_attention_hopper(const AttentionCall& a, Plan& plan);
void run_attention_hopper(const AttentionCall& a, const Call& c, const Plan& plan);
void run_attention_hopper_backward(const AttentionCall& a, const Call& c, const Plan& plan);

}  // namespace strata::cuda
