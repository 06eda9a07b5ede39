#include "cpu/reduce/reduce.h"

#include "base/parallel.h"
#include "cpu/reduce/partition.h"

namespace strata::cpu {

namespace {

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
    // Rows of several matrices, the gradient of a bias for instance: read in the order of memory, with the sums of fold_range.
    if (chunks == 1 && same_type && gone.dims == 2 && gone.stride[1] == 1 && gone.size[1] >= 64 && kept.dims == 1)
      return parallel_for(tasks, std::max<int64_t>(1, kTaskWork / gone.count), [&](int64_t begin, int64_t end) {
        constexpr int64_t kTogether = 64;
        W totals[kTogether];
        for (int64_t from = begin; from < end; from += kTogether) {
          const int64_t count = std::min(kTogether, end - from);
          std::fill_n(totals, count, fold.identity);
          for (int64_t o = 0; o < gone.size[0]; ++o)
            for (int64_t i = 0; i < count; ++i) {
              const std::byte* row = at(kept.offset(from + i) + o * gone.stride[0]);
              totals[i] = fold.combine(totals[i], fold.run(reinterpret_cast<const T*>(row), gone.size[1]));
            }
          for (int64_t i = 0; i < count; ++i) store(out, kept.out_offset(from + i), 1, totals + i, 1, finish);
        }
      });
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
    const bool one_step = plan.gone.dims == 1;
    std::fill_n(acc, n, static_cast<T>(fold.identity));
    for (int64_t r = from; r < to; r += kRowsAtOnce) {
      const int count = static_cast<int>(std::min<int64_t>(kRowsAtOnce, to - r));
      for (int k = 0; k < count; ++k) {
        const std::byte* p = base + (one_step ? (r + k) * plan.gone.stride[0] : plan.gone.offset(r + k)) * element;
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
    const int64_t rows = plan.gone.count;
    const ColumnPartition partition(rows, width, same_type && stride == 1);
    const int64_t tiles = partition.tiles, tile = partition.tile, chunk = partition.chunk, pieces = partition.pieces,
                  piece = partition.piece;
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

}  // namespace strata::cpu
