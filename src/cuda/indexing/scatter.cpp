// Launches the kernels of cuda/indexing/indexing.cu along one dimension (gather, scatter), of exact_sums.cu and of
// triangle.cu.
#include <bit>

#include "cuda/common/axes.h"
#include "cuda/indexing/combine.h"
#include "cuda/indexing/exact_params.h"
#include "cuda/indexing/indexing.h"
#include "cuda/indexing/indexing_params.h"
#include "cuda/indexing/take.h"
#include "cuda/movement/dense.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kScatterThreads = 256, kScatterItems = 4;
// If lines are this short, or this many and next to each other, one thread walks each line; otherwise colliding elements
// are sorted.
constexpr int64_t kShortLine = 64, kManyLines = 4096;

// The axes of index with the strides of the table, 0 along dim.
Axes along(const TensorImpl& index, const TensorImpl& table, int dim) {
  Axes a;
  for (int d = 0; d < index.ndim; ++d)
    if (index.shape[d] != 1) a.add(index.shape[d], d == dim ? 0 : table.strides[d]);
  return a;
}

AlongParams plan(const TensorImpl& table, int dim, const TensorImpl& index) {
  AlongParams p{};
  p.table = address(table);
  p.type = tag(table);
  p.index = address(index);
  p.index_type = tag(index);
  p.table_count = table.numel;
  p.size = table.ndim ? table.shape[dim] : 1;
  p.stride = table.ndim ? table.strides[dim] : 1;
  STRATA_CHECK(p.size > 0, Index, "scatter: dimension {} has size 0, so no index is in range", dim);
  const Axes a = along(index, table, dim);
  p.axes = axes_params(a, a.stride, "scatter");
  return p;
}

// The part of src that index covers, contiguous; a zero-dimensional src is used for all elements.
Tensor covered(const TensorImpl& src, const TensorImpl& index, Workspace& workspace) {
  if (src.ndim == 0) return alias(src);
  Tensor part = alias(src);
  for (int d = 0; d < index.ndim; ++d) {
    part->numel = part->numel / src.shape[d] * index.shape[d];
    part->shape[d] = index.shape[d];
  }
  part->update_contiguous();
  return dense(*part, workspace);
}

// Whether sums are exact additions of integers (exact_sums.cu): if the words of the table are not many more than the
// values.
bool adds_exactly(const TensorImpl& table, int64_t values, Scatter how) {
  constexpr int64_t kWorthIt = 1 << 14, kMostBytes = 256 << 20;
  return how == Scatter::Add && compute_type(table.dtype) == DType::F32 && values >= kWorthIt && values <= kExactMost &&
         table.numel <= 4 * values && table.numel * kExactWords * 8 <= kMostBytes;
}
void add_exactly(const AlongParams& along, int64_t values, Device device, Workspace& workspace) {
  static const Function find("exact_sums", "find_ranges"), clear("exact_sums", "clear_ranges"),
    add("exact_sums", "add_terms"), round("exact_sums", "round_sums");
  const Tensor words = workspace.take(kExactWords * along.table_count, DType::I64),
               used = workspace.take(1, DType::I32);
  if (workspace.planning()) return;
  fill(*used, 0);
  const bool vectors = along.block % 16 == 0 && reads_in_pieces(static_cast<DType>(along.type), false);
  const ExactParams p{along, address(*words), address(*used), values, vectors};
  const Stream stream = stream_of(device);
  stream.launch(find, {blocks_for(values, kScatterThreads * kExactItems)}, {kScatterThreads}, 0, p);
  stream.launch(clear, {blocks_for(along.table_count, kScatterThreads * kExactAdded), kExactWords}, {kScatterThreads},
                0, p);
  stream.launch(add, {blocks_for(along.axes.count, kScatterThreads * kExactAdded)}, {kScatterThreads}, 0, p);
  stream.launch(round, {blocks_for(along.table_count, kScatterThreads)}, {kScatterThreads}, 0, p);
}

// Whether a block adds each line in shared memory: there must be enough lines, and of them enough values.
bool adds_lines(const AlongParams& p, int64_t length, Scatter how, DType dtype) {
  constexpr int64_t kEnoughLines = 64;
  return how == Scatter::Add && compute_type(dtype) == DType::F32 && p.stride == 1 && p.size <= kExactLine &&
         length <= kExactLineMost && 4 * length >= p.size && p.axes.count / length >= kEnoughLines;
}

void scatter_lines(AlongParams p, int dim, const TensorImpl& out, const TensorImpl& index, const TensorImpl& src,
                   Scatter how) {
  static const Function kernels[] = {
    {"indexing", "scatter_lines_f32"}, {"indexing", "scatter_lines_f64"}, {"indexing", "scatter_lines_i64"}};
  Axes lines;
  int64_t index_stride[kMaxDims], src_stride[kMaxDims];
  for (int d = 0; d < index.ndim; ++d) {
    if (d == dim || index.shape[d] == 1) continue;
    index_stride[lines.dims] = index.strides[d];
    src_stride[lines.dims] = src.ndim ? src.strides[d] : 0;
    lines.add(index.shape[d], out.strides[d]);
  }
  p.axes = axes_params(lines, lines.stride, "scatter");
  for (int d = 0; d < lines.dims; ++d) {
    p.index_stride[d] = index_stride[lines.dims - 1 - d];
    p.block_stride[d] = src_stride[lines.dims - 1 - d];
  }
  p.block = address(src);
  p.single = src.ndim == 0;
  p.how = static_cast<int32_t>(how);
  p.length = index.ndim ? index.shape[dim] : 1;
  p.index_step = index.ndim ? index.strides[dim] : 0;
  p.block_step = src.ndim ? src.strides[dim] : 0;
  const Stream stream = stream_of(out.device);
  stream.launch(kernels[kernel_index(out.dtype)], {blocks_for(lines.count, kScatterThreads)}, {kScatterThreads}, 0, p);
}
}  // namespace

void gather(const TensorImpl& out, const TensorImpl& in, int dim, const TensorImpl& index, Workspace& workspace) {
  static const Function kernel("indexing", "gather");
  if (index.numel == 0) return;
  const Tensor at = dense(index, workspace);
  const DenseOut to(out, workspace);
  if (workspace.planning()) return;
  AlongParams p = plan(in, dim, *at);
  const Axes outer = joined_axes(*at, in, 0, dim), inner = joined_axes(*at, in, dim + 1, at.dim());
  const int log_unit = std::countr_zero(size_of(in.dtype));
  const Taken simple{outer, inner, p.size, p.stride, at.dim() ? at->shape[dim] : 1, log_unit, true, true};
  if (can_take(simple)) {
    take(simple, in, *at, *to);
    return to.finish();
  }
  p.block = address(*to);
  const Stream stream = stream_of(out.device);
  p.faults = fault_sink(stream.gpu());
  stream.launch(kernel, {blocks_for(index.numel, kScatterThreads * kScatterItems)}, {kScatterThreads}, 0, p);
  to.finish();
}

void scatter(const TensorImpl& out, int dim, const TensorImpl& index, const TensorImpl& src, Scatter how,
             bool any_order, Workspace& workspace) {
  static const Function mark("indexing", "mark_targets"), put("indexing", "put_targets"),
    number("indexing", "target_numbers"),
    add[] = {{"indexing", "add_targets_u32"}, {"indexing", "add_targets_u64"}},
    add_floats[] = {{"indexing", "add_targets_f32"}, {"indexing", "add_targets_f64"}};
  if (index.numel == 0) return;
  const Stream stream = stream_of(out.device);
  const int64_t length = index.ndim ? index.shape[dim] : 1;
  const bool single = src.ndim == 0, assign = how == Scatter::Assign;
  const bool adjacent = index.ndim > 0 && dim + 1 < index.ndim;
  if (length <= kShortLine || (adjacent && index.numel / length >= kManyLines)) {
    if (workspace.planning()) return;
    AlongParams p = plan(out, dim, index);
    p.faults = fault_sink(stream.gpu());
    return scatter_lines(p, dim, out, index, src, how);
  }
  STRATA_CHECK(out.numel <= INT32_MAX && index.numel <= INT32_MAX, NotImplemented,
               "scatter: {} elements into {} along few lines are more than the device kernels count", index.numel,
               out.numel);
  const Tensor table = dense(out, workspace), at = dense(index, workspace), values = covered(src, index, workspace);
  AlongParams p = plan(*table, dim, *at);
  p.faults = fault_sink(stream.gpu());
  p.block = address(*values);
  p.single = single;
  const Grid grid{blocks_for(index.numel, kScatterThreads)};
  const bool floats = any_order && adds_in_any_order(out.dtype);
  const bool adds = how == Scatter::Add && (floats || is_integral(out.dtype, false)) && size_of(out.dtype) >= 4;
  if (assign || adds) {
    const Tensor winners = assign && !single && !any_order ? workspace.take(out.numel, DType::I32) : Tensor();
    if (workspace.planning()) return;
    if (winners) {
      fill(*winners, -1);
      p.winners = address(*winners);
      stream.launch(mark, grid, {kScatterThreads}, 0, p);
    }
    const bool wide = size_of(out.dtype) == 8;
    stream.launch(assign ? put : floats ? add_floats[wide] : add[wide], grid, {kScatterThreads}, 0, p);
  } else if (!adjacent && adds_lines(p, length, how, out.dtype)) {
    static const Function add_line("exact_sums", "add_line");
    if (workspace.planning()) return;
    p.length = length;
    stream.launch(add_line, {static_cast<uint32_t>(index.numel / length)}, {512}, 0, p);
  } else if (adds_exactly(out, index.numel, how)) {
    add_exactly(p, values.numel(), out.device, workspace);
  } else {
    const Tensor keys = workspace.take(index.numel, DType::I32);
    p.keys = address(*keys);
    if (!workspace.planning()) stream.launch(number, grid, {kScatterThreads}, 0, p);
    Combine c{out.numel, 1, 1, index.numel};
    if (!adjacent) c.lines = index.numel / length;  // one after the other in the table
    combine(how, c, *table, *values, keys, workspace);
  }
  if (!workspace.planning() && table.bytes() != out.data) copy(out, *table);
}

void triangle(const TensorImpl& out, const TensorImpl& x, bool lower, int64_t diagonal, Workspace& workspace) {
  static const Function kernel("triangle", "triangle");
  if (out.numel == 0) return;
  const Tensor from = dense(x, workspace);
  const DenseOut to(out, workspace);
  if (workspace.planning()) return;
  TriangleParams p{};
  p.x = address(*from);
  p.out = address(*to);
  p.type = tag(x);
  p.lower = lower;
  p.count = x.numel;
  p.diagonal = diagonal;
  p.wide_columns = x.shape[x.ndim - 1];
  p.wide_rows = x.shape[x.ndim - 2];
  if (x.numel <= INT32_MAX) {
    p.columns = divisor(static_cast<uint32_t>(p.wide_columns));
    p.rows = divisor(static_cast<uint32_t>(p.wide_rows));
  }
  stream_of(out.device).launch(kernel, {blocks_for(p.count, kScatterThreads * kScatterItems)}, {kScatterThreads}, 0, p);
  to.finish();
}

}  // namespace strata::cuda
