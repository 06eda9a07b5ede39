#include "cuda/linalg/sparse.h"

#include "cuda/common/tensors.h"
#include "cuda/linalg/sparse_params.h"
#include "cuda/movement/dense.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kSparseThreads = 256;
constexpr int64_t kNarrow = 16;  // columns up to which a warp computes an element

// The device is that of the result: an empty operand in the workspace has none.
template <class Params>
void launch_sparse(const Function (&of_float_and_double)[2], Params p, const TensorImpl& out, int64_t threads) {
  const Stream stream = stream_of(out.device);
  p.faults = fault_sink(stream.gpu());
  stream.launch(of_float_and_double[out.dtype == DType::F64], {blocks_for(threads, kSparseThreads)}, {kSparseThreads},
                0, p);
}
}  // namespace

void compressed_product(const TensorImpl& out, const TensorImpl& starts, const TensorImpl& columns,
                        const TensorImpl& values, const TensorImpl& table, Workspace& workspace) {
  const DType type = compute_type(out.dtype);
  const Tensor s = dense(starts, workspace), c = dense(columns, workspace), v = dense(values, type, workspace),
               t = dense(table, type, workspace);
  const DenseOut to(out, type, workspace);
  if (workspace.planning() || out.numel == 0) return;
  static const Function wide[] = {{"sparse", "compressed_wide_f"}, {"sparse", "compressed_wide_d"}};
  static const Function narrow[] = {{"sparse", "compressed_narrow_f"}, {"sparse", "compressed_narrow_d"}};
  CompressedProductParams p{};
  p.starts = address(*s);
  p.columns = address(*c);
  p.values = address(*v);
  p.table = address(*t);
  p.out = address(*to);
  p.rows = out.shape[0];
  p.count = columns.numel;
  p.table_rows = table.shape[0];
  p.n = out.shape[1];
  if (p.n <= kNarrow) {
    launch_sparse(narrow, p, out, out.numel * 32);
  } else {
    launch_sparse(wide, p, out, out.numel);
  }
  to.finish();
}

void row_products(const TensorImpl& out, const TensorImpl& a, const TensorImpl& b, const TensorImpl& a_rows,
                  const TensorImpl& b_rows, Workspace& workspace) {
  const DType type = compute_type(out.dtype);
  const Tensor x = dense(a, type, workspace), y = dense(b, type, workspace), i = dense(a_rows, workspace),
               j = dense(b_rows, workspace);
  const DenseOut to(out, type, workspace);
  if (workspace.planning() || out.numel == 0) return;
  static const Function products[] = {{"sparse", "row_products_f"}, {"sparse", "row_products_d"}};
  RowProductsParams p{};
  p.a = address(*x);
  p.b = address(*y);
  p.a_rows = address(*i);
  p.b_rows = address(*j);
  p.out = address(*to);
  p.a_count = a.shape[0];
  p.b_count = b.shape[0];
  p.count = out.numel;
  p.n = a.shape[1];
  launch_sparse(products, p, out, out.numel * 32);
  to.finish();
}

}  // namespace strata::cuda
