// Launches the kernels of paged_attention.cuh.
#include "cuda/nn/paged_attention.h"

#include <algorithm>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/nn/attention_params.h"
#include "cuda/nn/paged_attention_params.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

using attention::kPagedRows;
using attention::PagedParams;

constexpr int64_t kBlocks = 512;    // enough to fill a GPU
constexpr int64_t kPartKeys = 256;  // keys that are worth a block
constexpr int64_t kMost = 1 << 28;

bool rows_are_aligned(const TensorImpl& t) {
  if (address(t) % 16 != 0 || (t.shape[t.ndim - 1] > 1 && t.strides[t.ndim - 1] != 1)) return false;
  for (int d = 0; d < t.ndim - 1; ++d)
    if (t.shape[d] > 1 && t.strides[d] % 8 != 0) return false;
  return true;
}
size_t width_of(const PagedParams& p) {
  const int width = std::max(p.width, p.value_width);
  return width > 128 ? 2 : width > 64 ? 1 : 0;
}

PagedParams describe(const PagedAttentionCall& a) {
  PagedParams p{};
  const auto narrow = [](int64_t n) { return static_cast<int32_t>(n); };
  p.sequences = narrow(a.q.shape[0]);
  p.queries = narrow(a.q.shape[1]);
  p.shared_heads = narrow(a.k.shape[2]);
  p.repeats = narrow(a.q.shape[2] / std::max<int64_t>(a.k.shape[2], 1));
  p.rows = p.queries * p.repeats;
  p.row_tiles = narrow(ceil_div(p.rows, kPagedRows));
  p.width = narrow(a.q.shape[3]);
  p.value_width = narrow(a.v.shape[3]);
  p.pages = narrow(a.k.shape[0]);
  p.page_size = divisor(static_cast<uint32_t>(std::max<int64_t>(a.k.shape[1], 1)));
  p.table_pages = narrow(a.table.shape[1]);
  p.most_keys = narrow(a.table.shape[1] * a.k.shape[1]);
  p.window = a.window < 0 || a.window > attention::kFar ? attention::kFar : narrow(a.window);
  p.scale = static_cast<float>(a.scale);
  const int64_t blocks = std::max<int64_t>(int64_t{p.sequences} * p.shared_heads * p.row_tiles, 1);
  const int64_t keys = std::min<int64_t>(p.most_keys, int64_t{p.window} + p.queries);
  p.parts = narrow(std::clamp<int64_t>(ceil_div(kBlocks, blocks), 1, std::max<int64_t>(keys / kPartKeys, 1)));
  p.q = address(a.q);
  p.out = address(a.out);
  p.k = address(a.k);
  p.v = address(a.v);
  for (int d = 0; d < 3; ++d) {
    p.q_steps[d] = a.q.strides[d];
    p.out_steps[d] = a.out.strides[d];
    p.k_steps[d] = a.k.strides[d];
    p.v_steps[d] = a.v.strides[d];
  }
  p.table = address(a.table);
  p.contexts = address(a.contexts);
  return p;
}

// Memory for the parts of each row.
void take_parts(PagedParams& p, Workspace workspace, bool planning) {
  if (p.parts == 1) return;
  const int64_t rows = int64_t{p.sequences} * p.shared_heads * p.rows * p.parts;
  const Tensor sums = workspace.take(rows * p.value_width, DType::F32), stats = workspace.take(rows * 2, DType::F32);
  if (planning) return;
  p.sums = address(*sums);
  p.stats = address(*stats);
}
}  // namespace

const char* plan_paged_attention(const PagedAttentionCall& a, Plan& plan) {
  static const char* const kVariants[] = {"64", "128", "256"};
  if (a.q.dtype != DType::F16 && a.q.dtype != DType::BF16) return "for float16 and bfloat16";
  if (Runtime::gpu(a.q.device).properties.major < 8) return "for GPUs of compute capability 8.0 and newer";
  if (std::max(a.q.shape[3], a.v.shape[3]) > 256) return "for heads of up to 256 features";
  if (!(a.scale > 0)) return "for positive scales";  // scores are scaled after the search for the largest one
  for (const TensorImpl* t : {&a.q, &a.k, &a.v})
    if (!rows_are_aligned(*t)) return "rows of query, key_cache and value_cache are not aligned to 16 bytes";
  for (const TensorImpl* t : {&a.table, &a.contexts})
    if (t->dtype != DType::I32 || !t->contiguous) return "for a contiguous int32 block_table and context_lens";
  const int64_t rows = a.q.shape[1] * a.q.shape[2];
  if (a.q.numel == 0 || a.v.numel == 0 || a.table.numel == 0) return "there are no elements";
  if (a.k.shape[1] > kMost / a.table.shape[1] || rows > kMost || a.k.shape[0] > kMost || a.q.shape[0] > 65535 ||
      a.k.shape[2] * ceil_div(rows, kPagedRows) > 65535)
    return "a size is too large for the grid";
  PagedParams p = describe(a);
  take_parts(p, Workspace(plan), true);
  plan.variant = kVariants[width_of(p)];
  return nullptr;
}

void run_paged_attention(const PagedAttentionCall& a, const Call& c, const Plan&) {
#define STRATA_PAGED(file)                                         \
  {                                                                \
    {file, "paged_64"}, {file, "paged_128"}, { file, "paged_256" } \
  }
  static const Function kernels[2][3] = {STRATA_PAGED("paged_attention_f16"), STRATA_PAGED("paged_attention_bf16")};
#undef STRATA_PAGED
  static const Function combine[] = {{"paged_attention_f16", "combine"}, {"paged_attention_bf16", "combine"}};
  static const struct {
    uint32_t threads, shared;
  } shapes[] = {{attention::PagedSizes<64>::kThreads, attention::PagedSizes<64>::kShared},
                {attention::PagedSizes<128>::kThreads, attention::PagedSizes<128>::kShared},
                {attention::PagedSizes<256>::kThreads, attention::PagedSizes<256>::kShared}};
  const Stream stream = stream_of(a.q.device);
  PagedParams p = describe(a);
  take_parts(p, Workspace(c), false);
  p.faults = fault_sink(stream.gpu());
  const bool bf16 = a.q.dtype == DType::BF16;
  const size_t width = width_of(p);
  stream.launch(kernels[bf16][width],
                {static_cast<uint32_t>(p.parts), static_cast<uint32_t>(p.shared_heads * p.row_tiles),
                 static_cast<uint32_t>(p.sequences)},
                {shapes[width].threads}, shapes[width].shared, p);
  if (p.parts == 1) return;
  const int64_t rows = int64_t{p.sequences} * p.shared_heads * p.rows;
  stream.launch(combine[bf16], {blocks_for(rows, attention::kPagedCombineThreads / 32)},
                {attention::kPagedCombineThreads}, 0, p);
}

}  // namespace strata::cuda
