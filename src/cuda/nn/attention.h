// Attention and its gradient on a device, fused: the matrix of weights is never stored.
#pragma once
#include <optional>

#include "record/kernel.h"

namespace strata::cuda {

// Sequences of different lengths: the rows of queries, keys and values are those of all sequences, one after the other.
// Row i of a sequence attends to its columns from i + d - left to i + d + right, where d = its columns - its rows.
struct AttentionSequences {
  const TensorImpl *row_starts, *column_starts;  // int32 [sequences + 1], contiguous
  int64_t rows, columns;                         // of the longest sequence
  int64_t left, right;                           // negative: no limit
};

// Shapes are checked: the batch dimensions of all tensors are equal, those of the mask too.
struct AttentionCall {
  const TensorImpl &q, &k, &v, &out, &log_sums;
  const TensorImpl* mask;  // may be null
  bool causal;
  double scale;
  const TensorImpl* draws = nullptr;  // int64 [2]: of dropout, see cuda::reserve_draws; null: nothing is dropped
  double dropout_p = 0;
  const TensorImpl *grad = nullptr, *grad_q = nullptr, *grad_k = nullptr, *grad_v = nullptr;  // of the gradient only
  std::optional<AttentionSequences> sequences = {};
};

// On tensor cores from Ampere on (mma.sync). The plan is that of the result or of the gradient.
const char* plan_attention(const AttentionCall& a, Plan& plan);
void run_attention(const AttentionCall& a, const Call& c, const Plan& plan);
void run_attention_backward(const AttentionCall& a, const Call& c, const Plan& plan);

// The same for sequences, which need int32 starts.
const char* plan_attention_sequences(const AttentionCall& a, Plan& plan);
// Reports starts that are out of order or range, and sequences that are longer than the longest one should be.
void check_attention_sequences(const AttentionCall& a);

// On Hopper (wgmma and TMA), without a mask and dropout.
const char* plan_attention_hopper(const AttentionCall& a, Plan& plan);
void run_attention_hopper(const AttentionCall& a, const Call& c, const Plan& plan);
void run_attention_hopper_backward(const AttentionCall& a, const Call& c, const Plan& plan);

}  // namespace strata::cuda
