#include "cpu/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/parallel.h"

namespace strata::cpu {

namespace {

constexpr int64_t kChunk = 1 << 16;     // elements of one output reduced by one task
constexpr int64_t kTile = 4096;         // columns reduced together: their accumulators fit the L1 cache
constexpr int64_t kLoaded = 1024;       // columns (or elements) converted at once if they cannot be read in place
constexpr int64_t kPieces = 32;         // maximum parts of a long column that run in parallel
constexpr int64_t kTaskWork = 1 << 15;  // minimum elements per thread

template <class T> using Buffer = std::unique_ptr<T[]>;
template <class T> Buffer<T> buffer(int64_t n) { return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(n)); }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class W>
void store(std::byte* out, DType type, int64_t at, int64_t stride, const W* values, int64_t n, const Finish& finish) {
  dispatch_real(type, [&]<class To>() {
    To* p = reinterpret_cast<To*>(out) + at;
    for (int64_t i = 0; i < n; ++i) {
      W v = values[i];
      if constexpr (std::is_floating_point_v<W>) {
        if (finish.divide != 1) v /= finish.divide;
        if (finish.root) v = std::sqrt(v);
      }
      p[i * stride] = convert<To>(v);
    }
  });
}

template <class W>
void store(const TensorImpl& out, int64_t at, int64_t stride, const W* values, int64_t n, const Finish& finish) {
  store(out.data, out.dtype, at, stride, values, n, finish);
}

// Folds rows of n contiguous elements, `step` apart.
template <class T>
void fold_whole_rows(const FoldTable<T>& fold, const T* x, int64_t rows, int64_t n, int64_t step, std::byte* out,
                     DType type, int64_t out_step, const Finish& finish) {
  constexpr int64_t kTogether = 64;
  Wide<T> totals[kTogether];
  for (int64_t from = 0; from < rows; from += kTogether) {
    const int64_t count = std::min(kTogether, rows - from);
    for (int64_t i = 0; i < count; ++i) totals[i] = fold.run(x + (from + i) * step, n);
    store(out, type, from * out_step, out_step, totals, count, finish);
  }
}

// Narrow contiguous columns, such as [n, 3].
bool is_narrow(const ReducePlan& plan) {
  const Axes &kept = plan.kept, &gone = plan.gone;
  return kept.dims == 1 && gone.dims == 1 && kept.stride[0] == 1 && kept.size[0] < 64 &&
         gone.stride[0] == kept.size[0] && gone.count >= 128;
}
// The kept dimension along which columns are combined; -1: rows are reduced one by one.
int column_of(const ReducePlan& plan) {
  const Axes &kept = plan.kept, &gone = plan.gone;
  if (kept.dims == 0) return -1;
  const int last = kept.dims - 1;
  const int widest = static_cast<int>(std::max_element(kept.size, kept.size + kept.dims) - kept.size);
  const int column = kept.size[last] >= 16 ? last : widest;
  const int64_t inner = gone.stride[gone.dims - 1];
  const bool inner_goes = inner != 0 && std::abs(inner) < std::abs(kept.stride[last] ? kept.stride[last] : INT64_MAX);
  return inner_goes && !(gone.count < 32 && kept.size[column] >= 64) ? -1 : column;
}

template <class T> struct Job {
  const FoldTable<T>& fold;
  const TensorImpl& x;
  const ReducePlan& plan;
  const TensorImpl& out;
  const Finish& finish;
  int64_t element = static_cast<int64_t>(size_of(x.dtype));
  bool same_type = x.dtype == dtype_of<T>;
  using W = Wide<T>;

  const std::byte* at(int64_t offset) const { return x.data + offset * element; }

  // --- rows: the innermost dimension is reduced -------------------------------------------------------------------
  W fold_range(const std::byte* base, int64_t begin, int64_t end) const {
    const Axes& gone = plan.gone;
    const int64_t length = gone.size[gone.dims - 1], stride = gone.stride[gone.dims - 1];
    const bool direct = same_type && stride == 1 && (length >= 64 || gone.dims == 1);
    const bool bools = x.dtype == DType::Bool && stride == 1;
    W total = fold.identity;
    T block[kLoaded];
    int64_t filled = 0;
    for (int64_t i = begin; i < end;) {
      const int64_t inner = i % length;
      int64_t n = std::min(end - i, length - inner);
      const std::byte* p = base + gone.offset(i) * element;
      if (direct) {
        total = fold.combine(total, fold.run(reinterpret_cast<const T*>(p), n));
      } else if (bools) {
        total = fold.combine(total, fold.bools(reinterpret_cast<const BoolByte*>(p), n));
      } else {
        n = std::min(n, kLoaded - filled);
        load_block<T>(x.dtype, p, stride, n, block + filled);
        filled += n;
        if (filled == kLoaded) {
          total = fold.combine(total, fold.run(block, filled));
          filled = 0;
        }
      }
      i += n;
    }
    return filled ? fold.combine(total, fold.run(block, filled)) : total;
  }

  void rows() const {
    const Axes &kept = plan.kept, &gone = plan.gone;
    const int64_t chunks = ceil_div(gone.count, kChunk), tasks = kept.count * chunks;
    if (chunks == 1 && same_type && gone.dims == 1 && gone.stride[0] == 1 && kept.dims == 1) {  // many short rows
      return parallel_for(tasks, std::max<int64_t>(1, kTaskWork / gone.count), [&](int64_t begin, int64_t end) {
        const int64_t step = kept.stride[0], out_step = kept.out_stride[0];
        std::byte* const to = out.data + begin * out_step * static_cast<int64_t>(size_of(out.dtype));
        fold_whole_rows(fold, reinterpret_cast<const T*>(at(begin * step)), end - begin, gone.count, step, to,
                        out.dtype, out_step, finish);
      });
    }
    if (chunks == 1) {
      return parallel_for(tasks, std::max<int64_t>(1, kTaskWork / gone.count), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const W total = fold_range(at(kept.offset(i)), 0, gone.count);
          store(out, kept.out_offset(i), 1, &total, 1, finish);
        }
      });
    }
    const Buffer<W> parts = buffer<W>(tasks);
    parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = i % chunks * kChunk;
        parts[i] = fold_range(at(kept.offset(i / chunks)), from, std::min(gone.count, from + kChunk));
      }
    });
    for (int64_t i = 0; i < kept.count; ++i) {
      W total = parts[i * chunks];
      for (int64_t c = 1; c < chunks; ++c) total = fold.combine(total, parts[i * chunks + c]);
      store(out, kept.out_offset(i), 1, &total, 1, finish);
    }
  }

  // --- columns: the innermost dimension is kept, rows are combined
  // ----------------------------------------------------
  // Reduces rows [from, to) of n columns that start at base into acc, in T. Rows that cannot be read in place are loaded
  // into `loaded`.
  void fold_chunk(const std::byte* base, int64_t stride, int64_t n, int64_t from, int64_t to, T* loaded, T* acc) const {
    const T* rows_of[kRowsAtOnce];
    std::fill_n(acc, n, static_cast<T>(fold.identity));
    for (int64_t r = from; r < to; r += kRowsAtOnce) {
      const int count = static_cast<int>(std::min<int64_t>(kRowsAtOnce, to - r));
      for (int k = 0; k < count; ++k) {
        const std::byte* p = base + plan.gone.offset(r + k) * element;
        if (same_type && stride == 1) {
          rows_of[k] = reinterpret_cast<const T*>(p);
        } else {
          load_block<T>(x.dtype, p, stride, n, loaded + k * n);
          rows_of[k] = loaded + k * n;
        }
      }
      fold.columns(rows_of, count, n, acc);
    }
  }
  // The same for rows [begin, end), into total. `chunk` rows are reduced in T before widening.
  void fold_rows(const std::byte* base, int64_t stride, int64_t n, int64_t begin, int64_t end, int64_t chunk,
                 W* total) const {
    T acc[kTile];
    Buffer<T> loaded;
    if (!same_type || stride != 1) loaded = buffer<T>(kRowsAtOnce * n);
    for (int64_t from = begin; from < end; from += chunk) {
      fold_chunk(base, stride, n, from, std::min(end, from + chunk), loaded.get(), acc);
      fold.widen(acc, n, total);
    }
  }

  void columns(int column) const {
    Axes outer;
    const Axes& kept = plan.kept;
    for (int d = 0; d < kept.dims; ++d)
      if (d != column) outer.add(kept.size[d], kept.stride[d], kept.out_stride[d]);
    const int64_t width = kept.size[column], stride = kept.stride[column], out_stride = kept.out_stride[column];
    const int64_t limit = same_type && stride == 1 ? kTile : kLoaded;
    const int64_t tiles = ceil_div(width, limit), tile = ceil_div(width, tiles), rows = plan.gone.count;
    // The partition depends on the shape only.
    const int64_t chunk = std::clamp<int64_t>((1 << 17) / tile, 32, 1024) / kRowsAtOnce * kRowsAtOnce;
    const int64_t pieces = std::min(kPieces, ceil_div(rows, 4 * chunk)),
                  piece = ceil_div(ceil_div(rows, pieces), chunk) * chunk;
    const int64_t tasks = outer.count * tiles;
    const auto locate = [&](int64_t task, const std::byte*& base, int64_t& to, int64_t& n) {
      const int64_t o = task / tiles, c = task % tiles * tile;
      base = at(outer.offset(o) + c * stride);
      to = outer.out_offset(o) + c * out_stride;
      n = std::min(tile, width - c);
    };
    const std::byte* base;
    int64_t to, n;
    // One chunk whose result is not converted is reduced where it belongs.
    const bool in_place = same_type && stride == 1 && out_stride == 1 && out.dtype == dtype_of<T> && rows <= chunk &&
                          finish.divide == 1 && !finish.root;
    if (in_place)
      return parallel_for(tasks, std::max<int64_t>(1, kTaskWork / (rows * tile)), [&](int64_t begin, int64_t end) {
        const std::byte* base;
        int64_t to, n;
        for (int64_t i = begin; i < end; ++i) {
          locate(i, base, to, n);
          fold_chunk(base, stride, n, 0, rows, nullptr, reinterpret_cast<T*>(out.data) + to);
        }
      });
    if (pieces == 1 || tasks >= kPieces) {
      return parallel_for(tasks, std::max<int64_t>(1, kTaskWork / (rows * tile)), [&](int64_t begin, int64_t end) {
        const std::byte* base;
        int64_t to, n;
        W total[kTile], part[kTile];
        for (int64_t i = begin; i < end; ++i) {
          locate(i, base, to, n);
          for (int64_t p = 0; p < pieces; ++p) {
            W* into = p == 0 ? total : part;
            std::fill_n(into, n, fold.identity);
            fold_rows(base, stride, n, std::min(rows, p * piece), std::min(rows, (p + 1) * piece), chunk, into);
            if (p > 0) fold.merge(part, n, total);
          }
          store(out, to, out_stride, total, n, finish);
        }
      });
    }
    const Buffer<W> parts = buffer<W>(tasks * pieces * tile);
    parallel_for(tasks * pieces, 1, [&](int64_t begin, int64_t end) {
      const std::byte* base;
      int64_t to, n;
      for (int64_t i = begin; i < end; ++i) {
        locate(i / pieces, base, to, n);
        const int64_t p = i % pieces;
        std::fill_n(parts.get() + i * tile, n, fold.identity);
        fold_rows(base, stride, n, std::min(rows, p * piece), std::min(rows, (p + 1) * piece), chunk,
                  parts.get() + i * tile);
      }
    });
    for (int64_t i = 0; i < tasks; ++i) {
      locate(i, base, to, n);
      W* total = parts.get() + i * pieces * tile;
      for (int64_t p = 1; p < pieces; ++p) fold.merge(total + p * tile, n, total);
      store(out, to, out_stride, total, n, finish);
    }
  }

  // --- narrow contiguous columns, such as [n, 3]: several rows are treated as one wide row --------------------------
  void narrow() const {
    const int64_t width = plan.kept.size[0], group = 64 / width, wide = group * width, rows = plan.gone.count;
    const int64_t chunk = 256 * group, chunks = ceil_div(rows, chunk);
    const Buffer<W> parts = buffer<W>(chunks * width);
    parallel_for(chunks, std::max<int64_t>(1, kTaskWork / (chunk * width)), [&](int64_t begin, int64_t end) {
      T acc[64], loaded[kRowsAtOnce * 64];
      const T* rows_of[kRowsAtOnce];
      for (int64_t c = begin; c < end; ++c) {
        W* total = parts.get() + c * width;
        std::fill_n(total, width, fold.identity);
        std::fill_n(acc, wide, static_cast<T>(fold.identity));
        const int64_t from = c * chunk * width, groups = std::min(chunk, rows - c * chunk) / group;
        const auto read = [&](int64_t offset, int64_t n, T* into) {
          if (same_type) return reinterpret_cast<const T*>(at(offset));
          load_block<T>(x.dtype, at(offset), 1, n, into);
          return static_cast<const T*>(into);
        };
        for (int64_t r = 0; r < groups; r += kRowsAtOnce) {
          const int count = static_cast<int>(std::min<int64_t>(kRowsAtOnce, groups - r));
          for (int k = 0; k < count; ++k) rows_of[k] = read(from + (r + k) * wide, wide, loaded + k * 64);
          fold.columns(rows_of, count, wide, acc);
        }
        for (int64_t g = 0; g < group; ++g) fold.widen(acc + g * width, width, total);
        std::fill_n(acc, width, static_cast<T>(fold.identity));
        for (int64_t r = groups * group; r < std::min(chunk, rows - c * chunk); ++r) {  // of the last chunk
          rows_of[0] = read(from + r * width, width, loaded);
          fold.columns(rows_of, 1, width, acc);
        }
        fold.widen(acc, width, total);
      }
    });
    for (int64_t c = 1; c < chunks; ++c) fold.merge(parts.get() + c * width, width, parts.get());
    store(out, 0, plan.kept.out_stride[0], parts.get(), width, finish);
  }

  void run() const {
    if (is_narrow(plan)) return narrow();
    const int column = column_of(plan);
    column < 0 ? rows() : columns(column);
  }
};

}  // namespace

void reduce(Fold fold, const TensorImpl& x, DimMask reduced, DType cast, const TensorImpl& out, Finish finish) {
  if (out.numel == 0) return;
  dispatch_compute(cast, [&]<class T>() {
    const FoldTable<T>& table = fold_table<T>(fold);
    if (x.numel == 0) {
      for (int64_t i = 0; i < out.numel; ++i) store(out, i, 1, &table.identity, 1, finish);
    } else if (out.numel == 1 && x.contiguous && x.numel <= kChunk &&
               x.dtype == dtype_of<T>) {  // the common small case
      const Wide<T> total = table.run(reinterpret_cast<const T*>(x.data), x.numel);
      store(out, 0, 1, &total, 1, finish);
    } else {
      const ReducePlan plan(x, reduced);
      Job<T>{table, x, plan, out, finish}.run();
    }
  });
}

void reduce_reference(Fold fold, const TensorImpl& x, DimMask reduced, DType cast, const TensorImpl& out,
                      Finish finish) {
  const ReducePlan plan(x, reduced);
  dispatch_compute(cast, [&]<class T>() {
    const FoldTable<T>& table = fold_table<T>(fold);
    for (int64_t i = 0; i < out.numel; ++i) {
      Wide<T> total = table.identity;
      const int64_t base = plan.kept.offset(i);
      for (int64_t r = 0; r < (x.numel ? plan.gone.count : 0); ++r) {
        T value;
        load_block<T>(x.dtype, x.data + (base + plan.gone.offset(r)) * static_cast<int64_t>(size_of(x.dtype)), 1, 1,
                      &value);
        total = table.combine(total, table.map(value));
      }
      store(out, plan.kept.out_offset(i), 1, &total, 1, finish);
    }
  });
}

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
}  // namespace

std::optional<RowOp> rows_of_reduction(const Reduction& r) {
  const auto is_usual = [](DType t) { return is_floating(t) && size_of(t) > 1; };
  if (!r.x.contiguous || r.x.numel < 2 || !is_usual(r.x.dtype) || !is_usual(r.cast) || !r.out.contiguous) return {};
  const ReducePlan plan(r.x, r.reduced);
  const Axes &kept = plan.kept, &gone = plan.gone;
  RowOp op{.compute = compute_type(r.cast), .shape = r.x.sizes(), .in = {{{}, &r.x}}};
  const bool whole = kept.dims == 0;
  if (!whole && (gone.dims != 1 || gone.stride[0] != 1 || kept.dims != 1 || gone.count < 2 || gone.count > kChunk ||
                 column_of(plan) >= 0))
    return {};
  dispatch_compute(r.cast, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>) whole ? describe_total<T>(r, op) : describe_rows<T>(r, gone.count, op);
  });
  return op;
}

}  // namespace strata::cpu
