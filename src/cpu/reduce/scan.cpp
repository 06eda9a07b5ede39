// A scan along the innermost dimension is a chain of dependent additions, so four rows advance together. If there are few
// rows, each is cut into pieces of a fixed length: the totals of the pieces come first and give every piece its start,
// then pieces are scanned like rows. Across the innermost dimension, a tile of columns advances together and the compiler
// vectorizes over them. Float sums use double: a million additions stay accurate.
#include "cpu/reduce/scan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "cpu/lines.h"

namespace strata::cpu {
namespace {

constexpr int64_t kColumns = 64;
constexpr int kTogether = 4;         // lines that one thread scans at the same time
constexpr int64_t kPiece = 1 << 12;  // elements
constexpr int64_t kManyRows = 64;    // so many rows are not cut into pieces
constexpr int64_t kWork = 1 << 15;   // minimum elements per thread

double log_add(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  const double high = std::max(a, b), low = std::min(a, b);
  return std::isinf(high) && high == low ? high : high + std::log1p(std::exp(low - high));
}

template <Scan kind, class W> inline W next(W a, W v) {
  if constexpr (kind == Scan::LogSumExp) return static_cast<W>(log_add(static_cast<double>(a), static_cast<double>(v)));
  else if constexpr (std::is_integral_v<W> && kind == Scan::Sum)
    return static_cast<W>(static_cast<uint64_t>(a) + static_cast<uint64_t>(v));
  else if constexpr (std::is_integral_v<W>) return static_cast<W>(static_cast<uint64_t>(a) * static_cast<uint64_t>(v));
  else if constexpr (kind == Scan::Sum) return a + v;
  else return a * v;
}
template <Scan kind, class W> constexpr W start() {
  if constexpr (kind == Scan::Prod) return 1;
  else if constexpr (kind == Scan::LogSumExp && std::is_floating_point_v<W>) return -INFINITY;
  else return 0;
}

// Lines as contiguous runs of the compute type T, in place if they already are that.
template <class T> struct Run {
  const Lines& lines;
  bool direct = lines.stride() == 1 && lines.dtype() == dtype_of<T>;
  std::byte* at(int64_t row, int64_t first) const {
    return lines.at(row) + first * lines.stride() * static_cast<int64_t>(size_of(lines.dtype()));
  }
  const T* read(int64_t row, int64_t first, int64_t n, T* buffer) const {
    if (direct) return lines.data<T>(row) + first;
    load_block<T>(lines.dtype(), at(row, first), lines.stride(), n, buffer);
    return buffer;
  }
};

// y[k][i] = x[k][0] + … + x[k][i], started with total[k].
template <Scan kind, class T> void scan_together(const T* const* x, T* const* y, Wide<T>* total, int64_t n) {
  static_assert(kTogether == 4);
  const T *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
  T *y0 = y[0], *y1 = y[1], *y2 = y[2], *y3 = y[3];
  Wide<T> a = total[0], b = total[1], c = total[2], d = total[3];
  for (int64_t i = 0; i < n; ++i) {
    a = next<kind, Wide<T>>(a, x0[i]);
    b = next<kind, Wide<T>>(b, x1[i]);
    c = next<kind, Wide<T>>(c, x2[i]);
    d = next<kind, Wide<T>>(d, x3[i]);
    y0[i] = static_cast<T>(a);
    y1[i] = static_cast<T>(b);
    y2[i] = static_cast<T>(c);
    y3[i] = static_cast<T>(d);
  }
}
template <Scan kind, class T> void scan_one(const T* x, T* y, Wide<T> total, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    total = next<kind, Wide<T>>(total, x[i]);
    y[i] = static_cast<T>(total);
  }
}
template <Scan kind, class T> Wide<T> total_of(const T* x, int64_t n) {
  constexpr int kChains = 8;
  Wide<T> part[kChains];
  std::fill_n(part, kChains, start<kind, Wide<T>>());
  int64_t i = 0;
  for (; i + kChains <= n; i += kChains)
    for (int k = 0; k < kChains; ++k) part[k] = next<kind, Wide<T>>(part[k], x[i + k]);
  for (; i < n; ++i) part[0] = next<kind, Wide<T>>(part[0], x[i]);
  for (int k = 1; k < kChains; ++k) part[0] = next<kind, Wide<T>>(part[0], part[k]);
  return part[0];
}

// Rows are cut into `pieces` of `length` elements; totals, if any, are the starts of the pieces.
template <Scan kind, class T>
void scan_pieces(const Run<T>& from, const Run<T>& to, int64_t pieces, int64_t length, const Wide<T>* starts) {
  const int64_t n = from.lines.length(), count = from.lines.count() * pieces;
  const int64_t groups = (count + kTogether - 1) / kTogether;
  parallel_for(groups, std::max<int64_t>(1, kWork / (kTogether * length)), [&](int64_t begin, int64_t end) {
    const int64_t room = kTogether * length;
    const auto loaded = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(from.direct ? 0 : room));
    const auto made = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(to.direct ? 0 : room));
    for (int64_t g = begin; g < end; ++g) {
      const T* x[kTogether];
      T* y[kTogether];
      Wide<T> total[kTogether];
      int64_t size[kTogether] = {};
      const int members = static_cast<int>(std::min<int64_t>(kTogether, count - g * kTogether));
      for (int k = 0; k < members; ++k) {
        const int64_t i = g * kTogether + k, row = i / pieces, first = i % pieces * length;
        size[k] = std::min(length, n - first);
        x[k] = from.read(row, first, size[k], loaded.get() + k * length);
        y[k] = to.direct ? to.lines.template data<T>(row) + first : made.get() + k * length;
        total[k] = starts ? starts[i] : start<kind, Wide<T>>();
      }
      if (size[kTogether - 1] == length && size[0] == length && size[1] == length && size[2] == length)
        scan_together<kind, T>(x, y, total, length);
      else
        for (int k = 0; k < members; ++k) scan_one<kind, T>(x[k], y[k], total[k], size[k]);
      if (!to.direct)
        for (int k = 0; k < members; ++k) {
          const int64_t i = g * kTogether + k;
          store_run<T>(y[k], to.at(i / pieces, i % pieces * length), to.lines.dtype(), to.lines.stride(), size[k]);
        }
    }
  });
}

template <Scan kind, class T> void along(const Lines& from_lines, const Lines& to_lines) {
  const Run<T> from{from_lines}, to{to_lines};
  const int64_t n = from_lines.length(), rows = from_lines.count();
  if (rows >= kManyRows || n < 2 * kPiece) return scan_pieces<kind, T>(from, to, 1, n, nullptr);
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  std::vector<Wide<T>> starts(static_cast<size_t>(rows * pieces));
  parallel_for(rows * pieces, kWork / kPiece, [&](int64_t begin, int64_t end) {
    const auto loaded = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(from.direct ? 0 : kPiece));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % pieces * kPiece, m = std::min(kPiece, n - first);
      starts[static_cast<size_t>(i)] = total_of<kind, T>(from.read(i / pieces, first, m, loaded.get()), m);
    }
  });
  for (int64_t r = 0; r < rows; ++r) {
    Wide<T> total = start<kind, Wide<T>>();
    for (int64_t p = 0; p < pieces; ++p) {
      Wide<T>& at = starts[static_cast<size_t>(r * pieces + p)];
      total = next<kind, Wide<T>>(total, std::exchange(at, total));
    }
  }
  scan_pieces<kind, T>(from, to, pieces, kPiece, starts.data());
}

// x and out are [outer][n][width] with width contiguous in both.
template <Scan kind, class T> void across(const TensorImpl& x, int dim, const TensorImpl& out) {
  const int last = x.ndim - 1;
  Axes outer;
  for (int d = 0; d < last; ++d)
    if (d != dim) outer.add(x.shape[d], x.strides[d], out.strides[d]);
  const int64_t width = x.shape[last], n = x.shape[dim], tiles = (width + kColumns - 1) / kColumns;
  const auto in_size = static_cast<int64_t>(size_of(x.dtype)), out_size = static_cast<int64_t>(size_of(out.dtype));
  const bool direct = out.dtype == dtype_of<T>;
  parallel_for(outer.count * tiles, std::max<int64_t>(1, (1 << 14) / (n * std::min(width, kColumns))),
               [&](int64_t begin, int64_t end) {
                 T row[kColumns], made[kColumns];
                 Wide<T> total[kColumns];
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t c = i % tiles * kColumns, w = std::min(kColumns, width - c);
                   const std::byte* p = x.data + (outer.offset(i / tiles) + c) * in_size;
                   std::byte* q = out.data + (outer.out_offset(i / tiles) + c) * out_size;
                   std::fill_n(total, kColumns, start<kind, Wide<T>>());
                   for (int64_t r = 0; r < n; ++r, p += x.strides[dim] * in_size, q += out.strides[dim] * out_size) {
                     const T* v = row;
                     if (x.dtype == dtype_of<T>) v = reinterpret_cast<const T*>(p);
                     else load_block<T>(x.dtype, p, 1, w, row);
                     T* y = direct ? reinterpret_cast<T*>(q) : made;
                     for (int64_t k = 0; k < w; ++k)
                       y[k] = static_cast<T>(total[k] = next<kind, Wide<T>>(total[k], v[k]));
                     if (!direct)
                       dispatch_real(out.dtype, [&]<class To>() {
                         for (int64_t k = 0; k < w; ++k) reinterpret_cast<To*>(q)[k] = convert<To>(y[k]);
                       });
                   }
                 }
               });
}

template <class F> void with_kind(Scan kind, F&& f) {
  switch (kind) {
    case Scan::Sum: return f.template operator()<Scan::Sum>();
    case Scan::Prod: return f.template operator()<Scan::Prod>();
    case Scan::LogSumExp: return f.template operator()<Scan::LogSumExp>();
  }
}
}  // namespace

void scan(Scan kind, const TensorImpl& x, int dim, const TensorImpl& out) {
  if (x.numel == 0) return;
  const int last = x.ndim - 1;
  const bool columns = dim < last && x.strides[last] == 1 && out.strides[last] == 1 && x.shape[last] >= 8;
  dispatch_compute(out.dtype, [&]<class T>() {
    with_kind(kind, [&]<Scan k>() {
      if (columns) across<k, T>(x, dim, out);
      else along<k, T>(Lines(x, dim), Lines(out, dim));
    });
  });
}

void scan_reference(Scan kind, const TensorImpl& x, int dim, const TensorImpl& out) {
  if (x.numel == 0) return;
  const Lines from(x, dim), to(out, dim);
  const int64_t n = from.length();
  const auto run = [&]<class T>() {
    std::vector<T> row(static_cast<size_t>(n));
    with_kind(kind, [&]<Scan k>() {
      for (int64_t r = 0; r < from.count(); ++r) {
        load_block<T>(x.dtype, from.at(r), from.stride(), n, row.data());
        for (int64_t i = 1; i < n; ++i)
          row[static_cast<size_t>(i)] = next<k, T>(row[static_cast<size_t>(i - 1)], row[static_cast<size_t>(i)]);
        to.write<T>(r, row.data(), n);
      }
    });
  };
  if (is_floating(out.dtype)) run.operator()<double>();
  else run.operator()<int64_t>();
}

namespace {
// Whether v takes the place of the extreme b so far: NaN stays, of equal values the last wins.
template <bool largest, class T> bool takes_over(T v, T b) {
  return (v != v) | ((b == b) & (largest ? v >= b : v <= b));
}

// Of columns: x, values and indices are [outer][n][width], with width contiguous in all.
template <bool largest, class T>
void extremes_across(const TensorImpl& x, int dim, const TensorImpl& values, const TensorImpl& indices) {
  const int last = x.ndim - 1;
  Axes outer, places;
  for (int d = 0; d < last; ++d)
    if (d != dim) {
      outer.add(x.shape[d], x.strides[d], values.strides[d]);
      places.add(x.shape[d], indices.strides[d]);
    }
  const int64_t width = x.shape[last], n = x.shape[dim], tiles = (width + kColumns - 1) / kColumns;
  parallel_for(outer.count * tiles, std::max<int64_t>(1, (1 << 14) / (n * std::min(width, kColumns))),
               [&](int64_t begin, int64_t end) {
                 T best[kColumns];
                 int64_t place[kColumns];
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t c = i % tiles * kColumns, w = std::min(kColumns, width - c);
                   const T* p = reinterpret_cast<const T*>(x.data) + outer.offset(i / tiles) + c;
                   T* to = reinterpret_cast<T*>(values.data) + outer.out_offset(i / tiles) + c;
                   int64_t* at = reinterpret_cast<int64_t*>(indices.data) + places.offset(i / tiles) + c;
                   std::copy_n(p, w, best);
                   for (int64_t r = 0; r < n; ++r) {
                     for (int64_t k = 0; k < w; ++k) {
                       const bool better = takes_over<largest>(p[k], best[k]);
                       to[k] = best[k] = better ? p[k] : best[k];
                       at[k] = place[k] = better ? r : place[k];
                     }
                     p += x.strides[dim];
                     to += values.strides[dim];
                     at += indices.strides[dim];
                   }
                 }
               });
}
}  // namespace

void scan_extremes(bool largest, const TensorImpl& x, int dim, const TensorImpl& values, const TensorImpl& indices) {
  if (x.numel == 0) return;
  const int last = x.ndim - 1;
  if (dim < last && x.strides[last] == 1 && values.strides[last] == 1 && indices.strides[last] == 1 &&
      x.shape[last] >= 8 && x.dtype == compute_type(x.dtype))
    return dispatch_compute(x.dtype, [&]<class T>() {
      largest ? extremes_across<true, T>(x, dim, values, indices) : extremes_across<false, T>(x, dim, values, indices);
    });
  const Lines from(x, dim), to(values, dim), at(indices, dim);
  const int64_t n = from.length();
  dispatch_compute(x.dtype, [&]<class T>() {
    parallel_for(from.count(), from.grain(), [&](int64_t begin, int64_t end) {
      std::vector<T> buffer(static_cast<size_t>(n)), best(static_cast<size_t>(n));
      std::vector<int64_t> place(static_cast<size_t>(n));
      for (int64_t r = begin; r < end; ++r) {
        const T* row = from.read<T>(r, buffer.data());
        T b = row[0];
        int64_t p = 0;
        for (int64_t i = 0; i < n; ++i) {
          const bool better = b != b ? row[i] != row[i] : row[i] != row[i] || (largest ? row[i] >= b : row[i] <= b);
          if (better) {
            b = row[i];
            p = i;
          }
          best[static_cast<size_t>(i)] = b;
          place[static_cast<size_t>(i)] = p;
        }
        to.write<T>(r, best.data(), n);
        at.write<int64_t>(r, place.data(), n);
      }
    });
  });
}

}  // namespace strata::cpu
