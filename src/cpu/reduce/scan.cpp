// A scan along the innermost dimension is sequential per row, so rows are distributed over threads; across it, a tile
// of columns advances together and the compiler vectorizes over them. Float sums use double: a million additions stay
// accurate.
#include "cpu/reduce/scan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "cpu/lines.h"

namespace strata::cpu {
namespace {

constexpr int64_t kColumns = 64;

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

template <Scan kind, class T> void along(const Lines& from, const Lines& to) {
  const int64_t n = from.length();
  parallel_for(from.count(), from.grain(), [&](int64_t begin, int64_t end) {
    std::vector<T> buffer(static_cast<size_t>(n)), result(static_cast<size_t>(n));
    const bool direct = to.stride() == 1 && to.dtype() == dtype_of<T>;
    for (int64_t r = begin; r < end; ++r) {
      const T* x = from.read<T>(r, buffer.data());
      T* y = direct ? to.data<T>(r) : result.data();
      Wide<T> total = start<kind, Wide<T>>();
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(total = next<kind, Wide<T>>(total, x[i]));
      if (!direct) to.write<T>(r, y, n);
    }
  });
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
                       dispatch_dtype(out.dtype, [&]<class To>() {
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

void scan_extremes(bool largest, const TensorImpl& x, int dim, const TensorImpl& values, const TensorImpl& indices) {
  if (x.numel == 0) return;
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
