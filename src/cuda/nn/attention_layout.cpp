#include "cuda/nn/attention_layout.h"

#include <algorithm>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/creation/random.h"
#include "cuda/pointwise/pointwise.h"

namespace strata::cuda {
namespace {

using attention::kBatchDims;
using attention::Matrices;
using attention::Params;

// Rows that cp.async can read: dense, and aligned to 16 bytes.
bool is_aligned(const TensorImpl& t) {
  const int n = t.ndim;
  if (address(t) % 16 != 0 || (t.shape[n - 1] > 1 && t.strides[n - 1] != 1)) return false;
  for (int d = 0; d < n - 1; ++d)
    if (t.shape[d] > 1 && t.strides[d] % 8 != 0) return false;
  return true;
}
// The tensor itself, or an aligned copy in the workspace. While planning, a copy has a layout only.
Tensor aligned(const TensorImpl& t, Workspace& workspace) {
  if (is_aligned(t)) return alias(t);
  int64_t shape[kMaxDims];
  const auto n = static_cast<size_t>(t.ndim);
  std::copy_n(t.shape, n, shape);
  shape[n - 1] = ceil_div(shape[n - 1], 8) * 8;
  Tensor made = workspace.take(Shape(shape, n), t.dtype);
  made->numel = t.numel;
  made->shape[n - 1] = t.shape[n - 1];
  made->update_contiguous();
  if (!workspace.planning()) copy(*made, t);
  return made;
}

// Pairs of an entry of the batch, where each sequence begins at a multiple of kPairRows.
int64_t pair_rows(const AttentionCall& a) {
  const int64_t rows = a.q.shape[a.q.ndim - 2];
  if (!a.sequences) return ceil_div(rows, attention::kPairRows) * attention::kPairRows;
  return (rows / attention::kPairRows + a.sequences->row_starts->numel) * attention::kPairRows;
}

// Merges the dimensions of the batch through which all tensors step alike, and sets their strides.
struct Batch {
  struct Member {
    const TensorImpl* tensor;
    int64_t* strides;
  };
  Member members[9];
  size_t count = 0;
  int64_t sizes[kMaxDims];
  int dims = 0;

  void add(const TensorImpl& t, int64_t* strides) { members[count++] = {&t, strides}; }
  const char* set(Params& p) {
    const TensorImpl& q = *members[0].tensor;
    int at[kMaxDims];  // the innermost dimension of the tensors in each dimension of the batch
    for (int d = 0; d < q.ndim - 2; ++d) {
      if (q.shape[d] == 1) continue;
      const bool merges = dims && std::all_of(members, members + count, [&](const Member& m) {
                            return m.tensor->strides[at[dims - 1]] == m.tensor->strides[d] * q.shape[d];
                          });
      if (!merges) sizes[dims++] = 1;
      sizes[dims - 1] *= q.shape[d];
      at[dims - 1] = d;
    }
    if (dims > kBatchDims) return "the batch has more than three dimensions that cannot be merged";
    int64_t batches = 1;
    for (int d = 0; d < kBatchDims; ++d) {
      const int from = d - (kBatchDims - dims);
      const int64_t size = from < 0 ? 1 : std::min<int64_t>(sizes[from], INT32_MAX);
      p.batch[d] = divisor(static_cast<uint32_t>(size));
      batches *= size;
      for (size_t m = 0; m < count; ++m) members[m].strides[d] = from < 0 ? 0 : members[m].tensor->strides[at[from]];
      if (batches > INT32_MAX) return "the batch is too large for 32 bits";
    }
    p.batches = static_cast<int32_t>(batches);
    return nullptr;
  }
};

void set_rows(Matrices& m, const TensorImpl& t, Batch& batch) {
  m.address = address(t);
  m.row = t.strides[t.ndim - 2];
  batch.add(t, m.batch);
}

const char* lay_out_attention(const AttentionCall& a, const AttentionInputs& t, attention::Params& p) {
  constexpr int64_t kMostRows = 1 << 28, kMostBlocks = INT32_MAX / 2;
  const int n = a.q.ndim;
  const int64_t total_rows = a.q.shape[n - 2], total_columns = a.k.shape[n - 2];
  const auto& sequences = a.sequences;
  const int64_t rows = sequences ? sequences->rows : total_rows,
                columns = sequences ? sequences->columns : total_columns;
  const int64_t width = a.q.shape[n - 1], value_width = a.v.shape[n - 1];
  if (total_rows > kMostRows || total_columns > kMostRows) return "a size is too large for 32 bits";
  if (width > 256 || value_width > 256) return "for heads of up to 256 features";
  p = {};
  p.rows = static_cast<int32_t>(rows);
  p.columns = static_cast<int32_t>(columns);
  p.width = static_cast<int32_t>(width);
  p.value_width = static_cast<int32_t>(value_width);
  p.causal = a.causal;
  p.sequences = 1;
  p.total_rows = static_cast<int32_t>(total_rows);
  p.total_columns = static_cast<int32_t>(total_columns);
  p.left = attention::kFar;
  p.right = a.causal ? 0 : attention::kFar;
  if (sequences) {
    const auto limit = [](int64_t n) {
      return n < 0 || n > attention::kFar ? attention::kFar : static_cast<int32_t>(n);
    };
    p.sequences = static_cast<int32_t>(sequences->row_starts->numel - 1);
    p.row_starts = address(*sequences->row_starts);
    p.column_starts = address(*sequences->column_starts);
    p.left = limit(sequences->left);
    p.right = limit(sequences->right);
    p.from_end = true;
  }
  p.scale = static_cast<float>(a.scale);
  p.log_sums = address(a.log_sums);
  if (const DropRule rule = drop_rule(a.dropout_p); a.draws && !rule.all) {
    p.draws = address(*a.draws);
    p.last_dropped = rule.last;
    p.kept_scale = static_cast<float>(1 / (1 - a.dropout_p));
  }
  Batch batch;
  set_rows(p.q, *t.q, batch);
  set_rows(p.k, *t.k, batch);
  set_rows(p.v, *t.v, batch);
  set_rows(p.out, a.out, batch);
  if (a.grad) {
    p.pairs = address(t.pairs.get());
    p.pair_rows = static_cast<int32_t>(pair_rows(a));
    set_rows(p.grad, *t.grad, batch);
    set_rows(p.grad_q, *a.grad_q, batch);
    set_rows(p.grad_k, *a.grad_k, batch);
    set_rows(p.grad_v, *a.grad_v, batch);
  }
  if (a.mask) {
    p.mask.address = address(*a.mask);
    p.mask.row = a.mask->strides[n - 2];
    p.mask.column = a.mask->strides[n - 1];
    p.mask.type = tag(*a.mask);
    batch.add(*a.mask, p.mask.batch);
  }
  if (const char* reason = batch.set(p)) return reason;
  const int64_t entries = int64_t{p.batches} * p.sequences;
  const int64_t blocks = std::max(rows, columns) / 64 + 1, pairs = rows + attention::kPairRows;
  if (entries > kMostBlocks / std::max(blocks, pairs)) return "a size is too large for 32 bits";
  return nullptr;
}

}  // namespace

AttentionInputs::AttentionInputs(const AttentionCall& a, Workspace workspace)
    : q(aligned(a.q, workspace)), k(aligned(a.k, workspace)), v(aligned(a.v, workspace)) {
  if (!a.grad) return;
  const int64_t rows = a.q.shape[a.q.ndim - 2];
  grad = aligned(*a.grad, workspace);
  const int64_t shape[] = {a.log_sums.numel / std::max<int64_t>(rows, 1), pair_rows(a), 2};
  pairs = workspace.take(shape, DType::F32);
}

attention::Params attention_parameters(const AttentionCall& a, const AttentionInputs& t) {
  Params p;
  const char* reason = lay_out_attention(a, t, p);
  STRATA_ASSERT(reason == nullptr);  // the plan accepted the call
  return p;
}

const char* plan_attention_inputs(const AttentionCall& a, Plan& plan, attention::Params& p) {
  if (a.q.dtype != DType::F16 && a.q.dtype != DType::BF16) return "for float16 and bfloat16";
  if (a.mask && a.mask->dtype != DType::Bool && a.mask->dtype != DType::F32 && a.mask->dtype != DType::F16 &&
      a.mask->dtype != DType::BF16)
    return "for masks of bool, float32, float16 and bfloat16";
  if (a.draws && !a.draws->contiguous) return "the draws of dropout are not contiguous";
  if (!a.log_sums.contiguous || a.log_sums.dtype != DType::F32) return "the logarithms are not contiguous float32";
  if (a.out.shape[a.out.ndim - 1] > 1 && a.out.strides[a.out.ndim - 1] != 1)
    return "the features of the result are not contiguous";
  return lay_out_attention(a, AttentionInputs(a, Workspace(plan)), p);
}

}  // namespace strata::cuda
