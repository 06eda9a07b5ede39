// How reductions partition their work, which depends on the shape only, and the last steps of their results: for single reductions
// (reduce.cpp) and for those in groups of deferred ops (row_folds.cpp).
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>

#include "cpu/reduce/reduce.h"

namespace strata::cpu {

constexpr int64_t kChunk = 1 << 16;     // elements of one output reduced by one task
constexpr int64_t kTile = 4096;         // columns reduced together: their accumulators fit the L1 cache
constexpr int64_t kLoaded = 1024;       // columns (or elements) converted at once if they cannot be read in place
constexpr int64_t kPieces = 32;         // maximum parts of a long column that run in parallel
constexpr int64_t kTaskWork = 1 << 15;  // minimum elements per thread

template <class T> using Buffer = std::unique_ptr<T[]>;
template <class T> Buffer<T> buffer(int64_t n) { return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(n)); }
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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
inline bool is_narrow(const ReducePlan& plan) {
  const Axes &kept = plan.kept, &gone = plan.gone;
  return kept.dims == 1 && gone.dims == 1 && kept.stride[0] == 1 && kept.size[0] < 64 &&
         gone.stride[0] == kept.size[0] && gone.count >= 128;
}
// The kept dimension along which columns are combined; -1: rows are reduced one by one.
inline int column_of(const ReducePlan& plan) {
  const Axes &kept = plan.kept, &gone = plan.gone;
  if (kept.dims == 0) return -1;
  const int last = kept.dims - 1;
  const int widest = static_cast<int>(std::max_element(kept.size, kept.size + kept.dims) - kept.size);
  const int column = kept.size[last] >= 16 ? last : widest;
  const int64_t inner = gone.stride[gone.dims - 1];
  const bool inner_goes = inner != 0 && std::abs(inner) < std::abs(kept.stride[last] ? kept.stride[last] : INT64_MAX);
  return inner_goes && !(gone.count < 32 && kept.size[column] >= 64) ? -1 : column;
}

// Columns are reduced in tiles; of each, `chunk` rows are reduced in T, whose results are combined in the wide type for each piece.
struct ColumnPartition {
  int64_t tiles, tile, chunk, pieces, piece;
  ColumnPartition(int64_t rows, int64_t width, bool in_place)
      : tiles(ceil_div(width, in_place ? kTile : kLoaded)),
        tile(ceil_div(width, tiles)),
        chunk(row_unit(tile)),
        pieces(std::min(kPieces, ceil_div(rows, 4 * chunk))),
        piece(ceil_div(ceil_div(rows, pieces), chunk) * chunk) {}
};

}  // namespace strata::cpu
