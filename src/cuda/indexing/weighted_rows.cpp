#include "cuda/indexing/weighted_rows.h"

#include "cuda/common/tensors.h"
#include "cuda/indexing/indexing.h"
#include "cuda/indexing/weighted_rows_params.h"
#include "cuda/movement/dense.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kWeightedThreads = 256;

WeightedRowsParams params(const TensorImpl& table, const TensorImpl& indices, const TensorImpl& weights,
                          const TensorImpl& sums) {
  WeightedRowsParams p{};
  p.table = address(table);
  p.indices = address(indices);
  p.weights = address(weights);
  p.sums = address(sums);
  p.bags = indices.shape[0];
  p.each = indices.shape[1];
  p.rows = table.shape[0];
  p.n = sums.shape[1];
  return p;
}
void launch(const char* kernel, WeightedRowsParams p, const TensorImpl& like, int64_t threads) {
  if (threads == 0) return;
  static const Function functions[] = {{"weighted_rows", "weighted_rows_f"}, {"weighted_rows", "weighted_rows_d"},
                                       {"weighted_rows", "spread_rows_f"},   {"weighted_rows", "spread_rows_d"},
                                       {"weighted_rows", "multiply_rows_f"}, {"weighted_rows", "multiply_rows_d"}};
  const size_t which = (kernel[0] == 'w' ? 0u : kernel[0] == 's' ? 2u : 4u) + (like.dtype == DType::F64);
  const Stream stream = stream_of(like.device);
  p.faults = fault_sink(stream.gpu());
  stream.launch(functions[which], {blocks_for(threads, kWeightedThreads)}, {kWeightedThreads}, 0, p);
}
}  // namespace

void weighted_rows(const TensorImpl& sums, const TensorImpl& table, const TensorImpl& indices,
                   const TensorImpl& weights, Workspace& workspace) {
  const DType type = compute_type(sums.dtype);
  const Tensor t = dense(table, type, workspace), i = dense(indices, workspace), w = dense(weights, type, workspace);
  const DenseOut out(sums, type, workspace);
  if (workspace.planning()) return;
  launch("weighted_rows", params(*t, *i, *w, *out), *t, sums.numel);
  out.finish();
}

void weighted_rows_table(const TensorImpl& table, const TensorImpl& grad, const TensorImpl& indices,
                         const TensorImpl& weights, Workspace& workspace) {
  const DType type = compute_type(table.dtype);
  const int64_t places = indices.numel, n = table.shape[1];
  const Tensor g = dense(grad, type, workspace), i = dense(indices, workspace), w = dense(weights, type, workspace);
  const int64_t sizes[] = {indices.shape[0], indices.shape[1], n};
  const Tensor rows = workspace.take(Shape(sizes, 3), type);
  const bool direct = table.contiguous && table.dtype == type;
  const Tensor out = direct ? alias(table) : workspace.take(table.sizes(), type);
  out->device = table.device;  // which a tensor of the workspace lacks while planning
  if (!workspace.planning()) launch("spread_rows", params(*rows, *i, *w, *g), *g, places * n);
  embedding_backward(*out, *rows, *i, -1, false, workspace);
  if (!workspace.planning() && !direct) copy(table, *out);
}

void weighted_rows_weights(const TensorImpl& weights, const TensorImpl& grad, const TensorImpl& table,
                           const TensorImpl& indices, Workspace& workspace) {
  const DType type = compute_type(weights.dtype);
  const Tensor g = dense(grad, type, workspace), t = dense(table, type, workspace), i = dense(indices, workspace);
  const DenseOut out(weights, type, workspace);
  if (workspace.planning()) return;
  launch("multiply_rows", params(*t, *i, *out, *g), *t, indices.numel * 32);
  out.finish();
}

}  // namespace strata::cuda
