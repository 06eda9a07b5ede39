// Launches the kernels of cuda/indexing/nonzero.cu.
#include <bit>

#include "cuda/common/axes.h"
#include "cuda/indexing/indexing.h"
#include "cuda/indexing/indexing_params.h"
#include "cuda/movement/dense.h"
#include "cuda/order/look_back.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kNonzeroThreads = 256, kTile = 4096;

NonzeroParams plan(const TensorImpl& x) {
  NonzeroParams p{};
  p.x = address(x);
  p.type = tag(x);
  p.bytes = size_of(x.dtype) == 1 && p.x % 16 == 0;
  p.count = x.numel;
  return p;
}

void write(const Function& kernel, NonzeroParams& p, Device device, Workspace& workspace) {
  const LookBack memory(ceil_div(p.count, kTile), workspace);
  if (workspace.planning()) return;
  p.words = memory.words();
  p.ticket = memory.ticket();
  stream_of(device).launch(kernel, {blocks_for(p.count, kTile)}, {kNonzeroThreads}, 0, p);
}
}  // namespace

int64_t count_nonzero(const TensorImpl& t) {
  static const Function kernel("nonzero", "count_nonzero");
  if (t.numel == 0) return 0;
  const Tensor x = dense(t), count = make_tensor({}, DType::I64, t.device);
  fill(*count, 0);
  NonzeroParams p = plan(*x);
  p.out = address(*count);
  stream_of(t.device).launch(kernel, {blocks_for(t.numel, kTile)}, {kNonzeroThreads}, 0, p);
  return count.item<int64_t>();
}

void nonzero(const TensorImpl& out, const TensorImpl& t, Workspace& workspace) {
  static const Function kernel("nonzero", "write_nonzero");
  if (out.shape[0] == 0) return;
  STRATA_CHECK(t.numel <= INT32_MAX, NotImplemented,
               "nonzero: {} elements are more than the device kernels count; at most {} are supported", t.numel,
               INT32_MAX);
  STRATA_CHECK(t.ndim <= kAxesMost, NotImplemented,
               "nonzero: device kernels take at most {} dimensions, got {}; flatten() the input first", kAxesMost,
               t.ndim);
  const Tensor x = dense(t, workspace);
  const DenseOut to(out, workspace);
  NonzeroParams p = plan(*x);
  p.out = address(*to);
  p.dims = t.ndim;
  for (int d = 0; d < t.ndim; ++d) p.size[d] = divisor(static_cast<uint32_t>(t.shape[t.ndim - 1 - d]));
  write(kernel, p, t.device, workspace);
  to.finish();
}

void masked_select(const TensorImpl& out, const TensorImpl& x, const TensorImpl& mask, Workspace& workspace) {
  static const Function kernel("nonzero", "write_masked");
  if (out.numel == 0) return;
  const Tensor set = dense(mask, workspace), source = dense(x, workspace);
  NonzeroParams p = plan(*set);
  p.source = address(*source);
  p.log_unit = std::countr_zero(size_of(x.dtype));
  p.out = address(out);
  write(kernel, p, x.device, workspace);
}

}  // namespace strata::cuda
