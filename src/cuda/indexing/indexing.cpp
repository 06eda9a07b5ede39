// Launches the kernels of cuda/indexing/indexing.cu and combine.cu: rows at index tensors, embedding.
#include "cuda/indexing/indexing.h"

#include <bit>

#include "cuda/common/axes.h"
#include "cuda/indexing/combine.h"
#include "cuda/indexing/indexing_params.h"
#include "cuda/indexing/take.h"
#include "cuda/movement/dense.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kIndexThreads = 256, kItems = 4;
constexpr int64_t kFewIndices = 64;  // up to this many are added by one thread per column; more are sorted by row

// The largest unit in bytes that can be moved at once.
int64_t unit_of(const TensorImpl& table, const Axes& outer, const Axes& inner, int first, size_t indexed,
                const TensorImpl& block, bool by_element) {
  const auto element = static_cast<int64_t>(size_of(table.dtype));
  if (by_element || inner.dims != 1 || inner.stride[0] != 1) return element;
  int64_t bits = inner.count * element | static_cast<int64_t>(address(table) | address(block)) | 16;
  for (int d = 0; d < outer.dims; ++d) bits |= outer.stride[d] * element;
  for (size_t k = 0; k < indexed; ++k) bits |= table.strides[static_cast<size_t>(first) + k] * element;
  return bits & -bits;
}

// The dimensions before and after the indexed ones, in units.
struct Rows {
  Axes outer, inner;
  int64_t unit, per_unit;  // bytes, elements
};
Rows rows_of(const TensorImpl& table, const TensorImpl& block, int first, size_t indexed, bool by_element) {
  Rows r{joined_axes(table, table, 0, first), joined_axes(table, table, first + static_cast<int>(indexed), table.ndim),
         0, 0};
  r.unit = unit_of(table, r.outer, r.inner, first, indexed, block, by_element);
  r.per_unit = r.unit / static_cast<int64_t>(size_of(table.dtype));
  if (r.per_unit > 1) {
    r.inner.count /= r.per_unit;
    r.inner.size[0] = r.inner.count;
  }
  for (int d = 0; d < r.outer.dims; ++d) r.outer.stride[d] /= r.per_unit;
  return r;
}

RowsParams plan(const Rows& rows, const TensorImpl& table, const TensorImpl& block, int first,
                std::span<const Tensor> indices, bool single) {
  const auto& [outer, inner, unit, per_unit] = rows;
  STRATA_CHECK(indices.size() <= kAxesMost, NotImplemented,
               "index: device kernels take at most {} index tensors, got {}; flatten() the dimensions first", kAxesMost,
               indices.size());
  RowsParams p{};
  p.table = address(table);
  p.block = address(block);
  p.type = tag(table);
  p.single = single;
  p.log_unit = std::countr_zero(static_cast<uint64_t>(unit));
  p.n = indices[0].numel();
  p.outer = axes_params(outer, outer.stride, "index");
  p.inner = axes_params(inner, inner.stride, "index");
  p.indices = static_cast<int32_t>(indices.size());
  p.index_type = tag(*indices[0]);
  int64_t weight = 1;
  for (size_t k = indices.size(); k-- > 0;) {
    const size_t d = static_cast<size_t>(first) + k;
    STRATA_CHECK(table.shape[d] > 0 || p.n == 0, Index, "index: dimension {} has size 0, so no index is in range", d);
    p.index[k] = {address(*indices[k]), table.shape[d], table.strides[d] / per_unit, weight};
    weight *= table.shape[d];
  }
  p.total = p.outer.count * p.n * p.inner.count;
  p.fast = p.total <= INT32_MAX;
  if (p.fast && p.total > 0) {
    p.by_inner = divisor(static_cast<uint32_t>(p.inner.count));
    p.by_n = divisor(static_cast<uint32_t>(p.n));
  }
  return p;
}

// Makes all index tensors contiguous and of one dtype, as the kernels require.
std::vector<Tensor> dense_indices(std::span<const Tensor> indices, Workspace& workspace) {
  std::vector<Tensor> out;
  for (const Tensor& t : indices) out.push_back(dense(*t, workspace));
  return out;
}

int64_t row_count(const RowsParams& p) {
  int64_t rows = 1;
  for (int k = 0; k < p.indices; ++k) rows *= p.index[k].size;
  STRATA_CHECK(rows <= INT32_MAX && p.n <= INT32_MAX, NotImplemented,
               "index_put: {} rows at {} indices are more than the device kernels count", rows, p.n);
  return rows;
}

// The row numbers that the indices refer to.
Tensor row_numbers(const Stream& stream, RowsParams p, Workspace& workspace) {
  static const Function kernel("indexing", "row_numbers");
  Tensor keys = workspace.take(p.n, DType::I32);
  p.keys = address(*keys);
  if (!workspace.planning()) stream.launch(kernel, {blocks_for(p.n, kIndexThreads)}, {kIndexThreads}, 0, p);
  return keys;
}

void check(const Stream& stream, RowsParams& p) {
  static const Function kernel("indexing", "check_rows");
  p.faults = fault_sink(stream.gpu());
  if (p.n > 0) stream.launch(kernel, {blocks_for(p.n, kIndexThreads)}, {kIndexThreads}, 0, p);
}

void take(const TensorImpl& out, const TensorImpl& in, int first, std::span<const Tensor> indices, bool front,
          Workspace& workspace) {
  static const Function kernel("indexing", "take_rows");
  const std::vector<Tensor> at = dense_indices(indices, workspace);
  if (workspace.planning()) return;
  const Rows rows = rows_of(in, out, first, at.size(), false);
  RowsParams p = plan(rows, in, out, first, at, false);
  p.front = front;
  const Stream stream = stream_of(out.device);
  if (p.total == 0) return check(stream, p);
  const Taken simple{rows.outer, rows.inner, p.index[0].size, p.index[0].stride, p.n, p.log_unit, front, false};
  if (at.size() == 1 && can_take(simple)) return take(simple, in, *at[0], out);
  p.faults = fault_sink(stream.gpu());
  stream.launch(kernel, {blocks_for(p.total, kIndexThreads * kItems)}, {kIndexThreads}, 0, p);
}
}  // namespace

void take_rows(const TensorImpl& out, const TensorImpl& in, int first, std::span<const Tensor> indices,
               Workspace& workspace) {
  take(out, in, first, indices, false, workspace);
}

void put_rows(const TensorImpl& out, const TensorImpl& values, int first, std::span<const Tensor> indices,
              bool accumulate, bool any_order, Workspace& workspace) {
  static const Function mark("indexing", "mark_rows"), put("indexing", "put_rows"),
    add_units[] = {{"indexing", "add_units_f32"}, {"indexing", "add_units_f64"}};
  static const Function add[] = {
    {"indexing", "add_rows_f32"}, {"indexing", "add_rows_f64"}, {"indexing", "add_rows_i64"}};
  const std::vector<Tensor> at = dense_indices(indices, workspace);
  const bool single = values.numel == 1;
  const Rows rows = rows_of(out, values, first, at.size(), accumulate || single);
  RowsParams p = plan(rows, out, values, first, at, single);
  const Stream stream = stream_of(out.device);
  const bool few = accumulate && p.n <= kFewIndices;
  if (workspace.planning() && (p.total == 0 || few)) return;
  if (p.total == 0) return check(stream, p);
  p.faults = fault_sink(stream.gpu());
  if (few)
    return stream.launch(add[kernel_index(out.dtype)], {blocks_for(p.outer.count * p.inner.count, kIndexThreads)},
                         {kIndexThreads}, 0, p);
  const Grid by_units{blocks_for(p.total, kIndexThreads * kItems)};
  if (accumulate && any_order && adds_in_any_order(out.dtype)) {
    if (!workspace.planning()) stream.launch(add_units[kernel_index(out.dtype)], by_units, {kIndexThreads}, 0, p);
    return;
  }
  if (accumulate) {
    const Tensor table = dense(out, workspace), source = dense(values, workspace);
    Combine c{row_count(p), p.outer.count, 1, p.n};
    c.inner = table.numel() / (c.outer * c.rows);
    combine(Scatter::Add, c, *table, *source, row_numbers(stream, p, workspace), workspace);
    if (!workspace.planning() && table.bytes() != out.data) copy(out, *table);
    return;
  }
  Tensor winners;
  bool hashed = false;
  if (!single && p.n > 1 && !any_order) {
    const int64_t count = row_count(p);
    p.log_slots = std::bit_width(static_cast<uint64_t>(p.n - 1)) + 1;  // two to four slots per index element
    const int64_t slots = int64_t{1} << p.log_slots;
    hashed = 2 * slots < count;  // less memory, which then stays in the cache
    winners = hashed ? workspace.take(slots, DType::I64) : workspace.take(count, DType::I32);
  }
  if (workspace.planning()) return;
  if (winners) {
    fill(*winners, -1);
    (hashed ? p.slots : p.winners) = address(*winners);
    stream.launch(mark, {blocks_for(p.n, kIndexThreads)}, {kIndexThreads}, 0, p);
  }
  stream.launch(put, by_units, {kIndexThreads}, 0, p);
}

void check_indices(const TensorImpl& index, int64_t size, bool wrap) {
  const Tensor at = dense(index);
  RowsParams p{};
  p.n = index.numel;
  p.indices = 1;
  p.index_type = tag(index);
  p.front = !wrap;
  p.index[0] = {address(*at), size, 0, 0};
  check(stream_of(index.device), p);
}

void embedding(const TensorImpl& out, const TensorImpl& weight, const TensorImpl& indices, Workspace& workspace) {
  const Tensor at = alias(indices);
  take(out, weight, 0, std::span(&at, 1), true, workspace);
}

void embedding_backward(const TensorImpl& out, const TensorImpl& grad, const TensorImpl& indices, int64_t padding,
                        bool mean, Workspace& workspace) {
  const Tensor at = dense(indices, workspace), source = dense(grad, workspace);
  const int64_t shape[] = {out.shape[0], out.shape[1]};
  RowsParams p = plan(rows_of(out, *source, 0, 1, true), out, *source, 0, std::span(&at, 1), false);
  p.front = 1;
  if (p.total == 0 && workspace.planning()) return;
  const Stream stream = stream_of(out.device);
  if (!workspace.planning()) fill(out, 0);
  if (p.total == 0) return check(stream, p);
  p.faults = fault_sink(stream.gpu());
  const Combine c{shape[0], 1, shape[1], p.n, padding, mean};
  combine(Scatter::Add, c, out, *source, row_numbers(stream, p, workspace), workspace);
}

}  // namespace strata::cuda
