// Launches the mma.sync kernels.
#include "cuda/nn/attention.h"

#include <algorithm>

#include "cuda/common/tensors.h"
#include "cuda/nn/attention_layout.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

using attention::Params;

// The widest heads of each group of kernels.
constexpr int kWidths[] = {64, 128, 256};
size_t kernels_for(const Params& p) {
  size_t i = 0;
  while (std::max(p.width, p.value_width) > kWidths[i]) ++i;
  return i;
}

// Kernel variants, indexed by [is_bf16][has_mask][width]; those with a mask also drop weights.
using Kernels3 = const Function[2][2][std::size(kWidths)];
#define STRATA_WIDTHS(file, name)                               \
  {                                                             \
    {file, name "64"}, {file, name "128"}, { file, name "256" } \
  }
#define STRATA_MASKS(file, name) \
  { STRATA_WIDTHS(file, name "_"), STRATA_WIDTHS(file, name "_masked_") }
#define STRATA_KERNELS(file, name) \
  { STRATA_MASKS("attention_" file "_f16", name), STRATA_MASKS("attention_" file "_bf16", name) }

const attention::Shape kForwardShapes[] = {attention::kForwardShape<64>, attention::kForwardShape<128>,
                                           attention::kForwardShape<256>};
const attention::Shape kQueryShapes[] = {attention::kQueryShape<64>, attention::kQueryShape<128>,
                                         attention::kQueryShape<256>};
const attention::Shape kKeyShapes[] = {attention::kKeyShape<64>, attention::kKeyShape<128>, attention::kKeyShape<256>};

void launch(const Stream& stream, const Function& f, const attention::Shape& shape, const Params& p, int64_t rows,
            uint32_t halves = 1) {
  const int64_t entries = int64_t{p.batches} * p.sequences;
  if (rows * entries == 0) return;
  stream.launch(f, {static_cast<uint32_t>(ceil_div(rows, shape.rows) * entries), halves},
                {static_cast<uint32_t>(shape.threads)}, static_cast<uint32_t>(shape.shared), p);
}
}  // namespace

const char* plan_attention(const AttentionCall& a, Plan& plan) {
  static const char* const kVariants[] = {"64", "128", "256"};
  Params p;
  if (const char* reason = plan_attention_inputs(a, plan, p)) return reason;
  if (Runtime::gpu(a.q.device).properties.major < 8) return "for GPUs of compute capability 8.0 and newer";
  plan.variant = kVariants[kernels_for(p)];
  return nullptr;
}
void run_attention(const AttentionCall& a, const Call& c, const Plan&) {
  static Kernels3 kernels = STRATA_KERNELS("forward", "forward");
  const AttentionInputs inputs(a, Workspace(c));
  const Params p = attention_parameters(a, inputs);
  const size_t widths = kernels_for(p);
  // The kernels without a mask scale the scores after they searched the largest one.
  const bool masked = a.mask || a.draws || !(a.scale > 0);
  launch(stream_of(a.q.device), kernels[a.q.dtype == DType::BF16][masked][widths], kForwardShapes[widths], p, p.rows);
}

const char* plan_attention_sequences(const AttentionCall& a, Plan& plan) {
  for (const TensorImpl* t : {a.sequences->row_starts, a.sequences->column_starts})
    if (t->dtype != DType::I32 || !t->contiguous) return "for contiguous int32 starts of sequences";
  return plan_attention(a, plan);
}
void check_attention_sequences(const AttentionCall& a) {
  static const Function check = {"attention_sequences", "check_sequences"};
  const Stream stream = stream_of(a.q.device);
  const auto launch_check = [&](const TensorImpl& starts, const TensorImpl& rows, int64_t longest) {
    attention::SequenceParams p{};
    p.starts = address(starts);
    p.sequences = static_cast<int32_t>(starts.numel - 1);
    p.total = static_cast<int32_t>(rows.shape[rows.ndim - 2]);
    p.longest = static_cast<int32_t>(longest);
    p.faults = fault_sink(stream.gpu());
    stream.launch(check, {1}, {256}, 0, p);
  };
  launch_check(*a.sequences->row_starts, a.q, a.sequences->rows);
  launch_check(*a.sequences->column_starts, a.k, a.sequences->columns);
}

void launch_attention_pairs(const AttentionCall& a, const Params& p) {
  static const Function pairs[] = {{"attention_backward_f16", "pairs"}, {"attention_backward_bf16", "pairs"}};
  const int64_t rows = ceil_div(p.rows, attention::kPairRows) * attention::kPairRows * p.batches * p.sequences;
  if (rows == 0) return;
  stream_of(a.q.device)
    .launch(pairs[a.q.dtype == DType::BF16], {blocks_for(rows, attention::kPairThreads / attention::kPairLanes)},
            {attention::kPairThreads}, 0, p);
}

void run_attention_backward(const AttentionCall& a, const Call& c, const Plan&) {
  static Kernels3 queries = STRATA_KERNELS("backward", "query"), keys = STRATA_KERNELS("backward", "key_value");
  const AttentionInputs inputs(a, Workspace(c));
  const Params p = attention_parameters(a, inputs);
  const Stream stream = stream_of(a.q.device);
  const size_t widths = kernels_for(p);
  const bool bf16 = a.q.dtype == DType::BF16, masked = a.mask || a.draws;
  launch_attention_pairs(a, p);
  launch(stream, queries[bf16][masked][widths], kQueryShapes[widths], p, p.rows);
  const uint32_t halves = kWidths[widths] > 128 ? 2 : 1;  // wide heads: keys and values in different blocks
  launch(stream, keys[bf16][masked][widths], kKeyShapes[widths], p, p.columns, halves);
}

}  // namespace strata::cuda
