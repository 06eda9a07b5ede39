// Along the innermost dimension: the reduction kernels find the best value of each block, then its index is searched in
// the winning block only. Across it: columns are processed together, with the row of their best value so far. Bound by
// memory.
#include "cpu/reduce/arg_reduce.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/lines.h"

namespace strata::cpu {
namespace {

constexpr int64_t kBlock = 1024, kChunk = 1 << 16, kColumns = 1024;

template <class T> struct Best {
  T value;
  int64_t place;
};
template <class T> bool beats(bool largest, T v, T best) {
  return (largest ? v > best : v < best) || (v != v && best == best);
}

// Elements [begin, end) of a row.
template <class T> Best<T> best_of(bool largest, const Lines& rows, int64_t row, int64_t begin, int64_t end) {
  const auto& fold = fold_table<T>(largest ? Fold::Max : Fold::Min);
  const bool direct = rows.stride() == 1 && rows.dtype() == dtype_of<T>;
  const int64_t element = static_cast<int64_t>(size_of(rows.dtype()));
  const std::byte* base = rows.at(row);
  T buffer[kBlock];
  const auto block = [&](int64_t i, int64_t n) {
    const std::byte* p = base + i * rows.stride() * element;
    if (direct) return reinterpret_cast<const T*>(p);
    load_block<T>(rows.dtype(), p, rows.stride(), n, buffer);
    return static_cast<const T*>(buffer);
  };
  Best<T> best{T(), -1};
  for (int64_t i = begin; i < end; i += kBlock) {
    const T v = static_cast<T>(fold.run(block(i, std::min(kBlock, end - i)), std::min(kBlock, end - i)));
    if (best.place < 0 || beats(largest, v, best.value)) best = {v, i};
  }
  const int64_t n = std::min(kBlock, end - best.place);
  best.place += find_value<T>(block(best.place, n), n, best.value);
  return best;
}

template <class T> void put(const TensorImpl* values, const TensorImpl& indices, int64_t at, const Best<T>& best) {
  reinterpret_cast<int64_t*>(indices.data)[at] = best.place;
  if (values)
    dispatch_real(values->dtype,
                  [&]<class To>() { reinterpret_cast<To*>(values->data)[at] = convert<To>(best.value); });
}

template <class T>
void along_rows(bool largest, const Lines& rows, const TensorImpl* values, const TensorImpl& indices) {
  const int64_t length = rows.length(), chunks = (length + kChunk - 1) / kChunk, count = rows.count();
  if (chunks == 1 || count >= 64) {
    return parallel_for(count, rows.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) put(values, indices, r, best_of<T>(largest, rows, r, 0, length));
    });
  }
  std::vector<Best<T>> parts(static_cast<size_t>(count * chunks));
  parallel_for(count * chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      parts[static_cast<size_t>(i)] =
        best_of<T>(largest, rows, i / chunks, i % chunks * kChunk, std::min(length, (i % chunks + 1) * kChunk));
  });
  for (int64_t r = 0; r < count; ++r) {
    Best<T> best = parts[static_cast<size_t>(r * chunks)];
    for (int64_t c = 1; c < chunks; ++c) {
      const Best<T>& other = parts[static_cast<size_t>(r * chunks + c)];
      if (beats(largest, other.value, best.value)) best = other;
    }
    put(values, indices, r, best);
  }
}

// x as [outer][rows][width]: the last dimension is kept and contiguous.
template <class T>
void across_rows(bool largest, const TensorImpl& x, int dim, const TensorImpl* values, const TensorImpl& indices) {
  Axes outer;  // out_stride: in elements of the result
  const int last = x.ndim - 1;
  int64_t out_stride = x.shape[last];
  for (int d = last; d-- > 0;) {
    if (d == dim) continue;
    outer.add(x.shape[d], x.strides[d], out_stride);
    out_stride *= x.shape[d];
  }
  std::reverse(outer.size, outer.size + outer.dims);
  std::reverse(outer.stride, outer.stride + outer.dims);
  std::reverse(outer.out_stride, outer.out_stride + outer.dims);
  const int64_t width = x.shape[last], rows = x.shape[dim], stride = x.strides[dim],
                tiles = (width + kColumns - 1) / kColumns;
  const bool direct = x.dtype == dtype_of<T>;
  const auto element = static_cast<int64_t>(size_of(x.dtype));
  parallel_for(outer.count * tiles, std::max<int64_t>(1, (1 << 15) / (rows * std::min(width, kColumns))),
               [&](int64_t begin, int64_t end) {
                 T best[kColumns], loaded[kColumns];
                 Place<T> place[kColumns];
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t from = i % tiles * kColumns, n = std::min(kColumns, width - from);
                   const std::byte* base = x.data + (outer.offset(i / tiles) + from) * element;
                   load_block<T>(x.dtype, base, 1, n, best);
                   std::fill_n(place, n, Place<T>(0));
                   for (int64_t r = 1; r < rows;) {
                     const std::byte* p = base + r * stride * element;
                     const int count = direct ? static_cast<int>(std::min<int64_t>(8, rows - r)) : 1;
                     if (!direct) load_block<T>(x.dtype, p, 1, n, loaded);
                     arg_columns<T>(largest, direct ? reinterpret_cast<const T*>(p) : loaded, stride,
                                    static_cast<Place<T>>(r), count, n, best, place);
                     r += count;
                   }
                   for (int64_t k = 0; k < n; ++k)
                     put(values, indices, outer.out_offset(i / tiles) + from + k, Best<T>{best[k], place[k]});
                 }
               });
}
}  // namespace

void arg_reduce(bool largest, const TensorImpl& x, int dim, const TensorImpl* values, const TensorImpl& indices) {
  dispatch_compute(x.dtype, [&]<class T>() {
    const int last = x.ndim - 1;
    const bool columns = dim < last && x.strides[last] == 1 && x.shape[last] >= 16 && x.shape[dim] < INT32_MAX;
    if (columns) across_rows<T>(largest, x, dim, values, indices);
    else along_rows<T>(largest, Lines(x, dim), values, indices);
  });
}

void arg_reduce_reference(bool largest, const TensorImpl& x, int dim, const TensorImpl* values,
                          const TensorImpl& indices) {
  const Lines rows(x, dim);
  dispatch_compute(x.dtype, [&]<class T>() {
    std::vector<T> row(static_cast<size_t>(rows.length()));
    for (int64_t r = 0; r < rows.count(); ++r) {
      load_block<T>(x.dtype, rows.at(r), rows.stride(), rows.length(), row.data());
      Best<T> best{row[0], 0};
      for (int64_t i = 1; i < rows.length(); ++i)
        if (beats(largest, row[static_cast<size_t>(i)], best.value)) best = {row[static_cast<size_t>(i)], i};
      put(values, indices, r, best);
    }
  });
}

}  // namespace strata::cpu
