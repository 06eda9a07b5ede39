// Reductions in groups of deferred ops (record/rows.h): of rows, of columns, and of all elements of a contiguous tensor.
#include "cpu/reduce/partition.h"

namespace strata::cpu {

namespace {
// Rows of n elements.
template <class T> void describe_rows(const Reduction& r, int64_t n, RowOp& op) {
  op.row = n;
  op.out[0] = {RowExtent::Rows};
  op.run = [&fold = fold_table<T>(r.fold), n, type = r.out.dtype, finish = r.finish](const RowBlock& b) {
    fold_whole_rows(fold, static_cast<const T*>(b.in[0]), b.count, n, n, static_cast<std::byte*>(b.out[0]), type, 1,
                    finish);
  };
}
// All elements: runs are folded in blocks, and combined as in Job::rows().
template <class T> void describe_total(const Reduction& r, RowOp& op) {
  using W = Wide<T>;
  const FoldTable<T>& fold = fold_table<T>(r.fold);
  const int64_t n = r.x.numel, count = ceil_div(n, kRun);
  const std::shared_ptr<W[]> runs(new W[static_cast<size_t>(count)]);
  op.align = kRun;
  op.joins = true;
  op.out[0] = {RowExtent::Whole};
  op.run = [&fold, runs](const RowBlock& b) {
    for (int64_t i = 0; i < b.count; i += kRun)
      runs[(b.first + i) / kRun] = fold.run(static_cast<const T*>(b.in[0]) + i, std::min(kRun, b.count - i));
  };
  op.finish = [&fold, runs, count, type = r.out.dtype, finish = r.finish](std::byte* const* outs) {
    if (!outs[0]) return;
    W total = fold.identity;
    for (int64_t from = 0; from < count; from += kChunk / kRun) {
      W part = fold.identity;
      for (int64_t i = from; i < std::min(count, from + kChunk / kRun); ++i) part = fold.combine(part, runs[i]);
      total = from == 0 ? part : fold.combine(total, part);
    }
    store(outs[0], type, 0, 1, &total, 1, finish);
  };
}
// Columns of rows of n elements: the rows of a chunk are added by one thread, as in Job::columns().
template <class T> void describe_columns(const Reduction& r, int64_t rows, int64_t n, RowOp& op) {
  using W = Wide<T>;
  const FoldTable<T>& fold = fold_table<T>(r.fold);
  const ColumnPartition parts(rows, n, r.x.dtype == dtype_of<T>);
  const std::shared_ptr<T[]> chunks(new T[static_cast<size_t>(ceil_div(rows, parts.chunk) * n)]);
  op.row = n;
  op.unit = parts.chunk;
  op.together = kRowsAtOnce;
  op.joins = true;
  op.out[0] = {RowExtent::Whole};
  op.run = [&fold, chunks, n, unit = parts.chunk](const RowBlock& b) {
    T* const acc = chunks.get() + b.first / unit * n;
    if (b.first % unit == 0) std::fill_n(acc, n, static_cast<T>(fold.identity));
    const T* rows_of[kRowsAtOnce];
    for (int64_t i = 0; i < b.count; i += kRowsAtOnce) {
      const int count = static_cast<int>(std::min<int64_t>(kRowsAtOnce, b.count - i));
      for (int k = 0; k < count; ++k) rows_of[k] = static_cast<const T*>(b.in[0]) + (i + k) * n;
      fold.columns(rows_of, count, n, acc);
    }
  };
  op.finish = [&fold, chunks, parts, rows, n, type = r.out.dtype, finish = r.finish](std::byte* const* outs) {
    if (!outs[0]) return;
    const Buffer<W> total = buffer<W>(n), part = buffer<W>(n);
    for (int64_t p = 0; p < parts.pieces; ++p) {
      W* const into = p == 0 ? total.get() : part.get();
      std::fill_n(into, n, fold.identity);
      for (int64_t row = p * parts.piece; row < std::min(rows, (p + 1) * parts.piece); row += parts.chunk)
        fold.widen(chunks.get() + row / parts.chunk * n, n, into);
      if (p > 0) fold.merge(part.get(), n, total.get());
    }
    store(outs[0], type, 0, 1, total.get(), n, finish);
  };
}
}  // namespace

std::optional<RowOp> rows_of_reduction(const Reduction& r) {
  const auto is_usual = [](DType t) { return is_floating(t) && size_of(t) > 1; };
  if (!r.x.contiguous || r.x.numel < 2 || !is_usual(r.x.dtype) || !is_usual(r.cast) || !r.out.contiguous) return {};
  const ReducePlan plan(r.x, r.reduced);
  const Axes &kept = plan.kept, &gone = plan.gone;
  RowOp op{.compute = compute_type(r.cast), .shape = r.x.sizes(), .in = {{{}, &r.x}}};
  const bool plain = gone.dims == 1 && kept.dims == 1;
  const bool total = kept.dims == 0, rows = plain && gone.stride[0] == 1 && column_of(plan) < 0 && gone.count <= kChunk,
             columns = plain && kept.stride[0] == 1 && gone.stride[0] == kept.size[0] && column_of(plan) == 0 &&
                       !is_narrow(plan);
  const int64_t n = total ? 1 : rows ? gone.count : kept.size[0];
  if (!(total || rows || columns) || (!total && n < 2)) return {};
  dispatch_compute(r.cast, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>)
      total ? describe_total<T>(r, op) : rows ? describe_rows<T>(r, n, op) : describe_columns<T>(r, gone.count, n, op);
  });
  return op;
}

}  // namespace strata::cpu
