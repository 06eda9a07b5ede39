// Blocks small enough for the L1 cache are read twice: once for their mean, which is rounded, once for the deviations
// from it. The sum of the deviations corrects the mean and the squares. Blocks are merged by Chan's formula in double
// precision. Nothing cancels, however large the mean is, and memory is read once. The few blocks that are not suited
// for float arithmetic are read in double precision.
#include "cpu/reduce/moments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/parallel.h"

namespace strata::cpu {
namespace {

constexpr int64_t kBlock = 1024, kChunk = 1 << 16, kColumns = 512, kRows = 32, kPieces = 32;

struct Moments {
  double count = 0, mean = 0, squares = 0;
  void merge(const Moments& o) {
    if (o.count == 0) return;
    if (count == 0) {
      *this = o;
      return;
    }
    const double total = count + o.count, delta = o.mean - mean;
    squares += o.squares + delta * delta * (count * o.count / total);
    if (!std::isfinite(delta)) squares = std::numeric_limits<double>::quiet_NaN();
    mean = std::isfinite(delta) ? mean + delta * (o.count / total) : mean + o.mean;  // an infinite mean stays infinite
    count = total;
  }
};

// Of n elements, in double precision.
template <class T> Moments exact_moments(const T* x, int64_t n) {
  Moments m{static_cast<double>(n), 0, 0};
  for (int64_t i = 0; i < n; ++i) m.mean += static_cast<double>(x[i]);
  m.mean /= m.count;
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - m.mean;
    m.squares += d * d;
  }
  return m;
}

// The deviations of `count` elements from `centre` as moments; false if their squares overflow a float, or if they are
// mostly the rounding error of the centre.
template <class T> bool corrected(double count, double inverse, T centre, const Deviations<T>& d, Moments& m) {
  const double sum = static_cast<double>(d.sum), squares = static_cast<double>(d.squares), off = sum * inverse;
  const double error = sum * off;
  m = {count, static_cast<double>(centre) + off, squares - error};
  constexpr bool kFloat = std::is_same_v<T, float>;
  return squares > 2 * error && (!kFloat || (squares > 1e-30 && squares <= std::numeric_limits<float>::max()));
}

struct Target {
  std::byte *variance, *mean;  // null: not needed
  DType type;
  double correction;
  bool root;
  void put(int64_t at, const Moments& m) const {
    const auto set = [&](std::byte* to, double v) {
      if (to) dispatch_real(type, [&]<class To>() { reinterpret_cast<To*>(to)[at] = convert<To>(v); });
    };
    const double by = std::max(0.0, m.count - correction), v = m.squares / by;
    set(variance, root ? std::sqrt(v) : v);
    set(mean, m.count > 0 ? m.mean : NAN);
  }
};

template <class T> void add_block(const FoldTable<T>& sums, const T* block, int64_t n, Moments& into) {
  const double count = static_cast<double>(n);
  const T centre = static_cast<T>(sums.run(block, n) / count);
  Moments m;
  if (!corrected(count, 1 / count, centre, deviations<T>(block, n, centre), m)) m = exact_moments(block, n);
  into.merge(m);
}

// The kept dimension along which columns are combined; -1: rows are read one by one.
int column_of(const ReducePlan& plan) {
  const Axes &kept = plan.kept, &gone = plan.gone;
  if (kept.dims == 0) return -1;
  const int last = kept.dims - 1;
  const int widest = static_cast<int>(std::max_element(kept.size, kept.size + kept.dims) - kept.size);
  const int64_t inner = gone.stride[gone.dims - 1];
  const bool inner_goes = inner != 0 && std::abs(inner) < std::abs(kept.stride[last] ? kept.stride[last] : INT64_MAX);
  return inner_goes ? -1 : kept.size[last] >= 16 ? last : widest;
}

template <class T> struct Job {
  const TensorImpl& x;
  const ReducePlan& plan;
  const Target& target;
  const FoldTable<T>& sums = fold_table<T>(Fold::Sum);
  int64_t element = static_cast<int64_t>(size_of(x.dtype));
  bool same_type = x.dtype == dtype_of<T>;

  Moments range(const std::byte* base, int64_t begin, int64_t end) const {
    const Axes& gone = plan.gone;
    const int64_t length = gone.size[gone.dims - 1], stride = gone.stride[gone.dims - 1];
    const bool direct = same_type && stride == 1 && (length >= 64 || gone.dims == 1);
    Moments total;
    T block[kBlock];
    int64_t filled = 0;
    for (int64_t i = begin; i < end;) {
      int64_t n = std::min({end - i, length - i % length, kBlock - filled});
      const std::byte* p = base + gone.offset(i) * element;
      if (direct) {
        add_block(sums, reinterpret_cast<const T*>(p), n, total);
      } else {
        load_block<T>(x.dtype, p, stride, n, block + filled);
        filled += n;
        if (filled == kBlock) {
          add_block(sums, block, filled, total);
          filled = 0;
        }
      }
      i += n;
    }
    if (filled) add_block(sums, block, filled, total);
    return total;
  }

  void rows() const {
    const Axes &kept = plan.kept, &gone = plan.gone;
    const int64_t chunks = (gone.count + kChunk - 1) / kChunk, tasks = kept.count * chunks;
    std::vector<Moments> parts(static_cast<size_t>(chunks > 1 ? tasks : 0));
    parallel_for(tasks, std::max<int64_t>(1, (1 << 15) / gone.count), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = i % chunks * kChunk;
        const Moments m = range(x.data + kept.offset(i / chunks) * element, from, std::min(gone.count, from + kChunk));
        if (chunks > 1) parts[static_cast<size_t>(i)] = m;
        else target.put(kept.out_offset(i), m);
      }
    });
    for (int64_t i = 0; chunks > 1 && i < kept.count; ++i) {
      Moments total;
      for (int64_t c = 0; c < chunks; ++c) total.merge(parts[static_cast<size_t>(i * chunks + c)]);
      target.put(kept.out_offset(i), total);
    }
  }

  // Rows [begin, end) of n <= kColumns columns.
  void fold_rows(const std::byte* base, int64_t stride, int64_t n, int64_t begin, int64_t end, Moments* total) const {
    const bool direct = same_type && stride == 1;
    std::unique_ptr<T[]> loaded;
    if (!direct) loaded = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(kRows * n));
    T centre[kColumns], sum[kColumns], squares[kColumns];
    const T* at[kRows];
    for (int64_t r = begin; r < end; r += kRows) {
      const int count = static_cast<int>(std::min(kRows, end - r));
      const double inverse = 1.0 / count;
      for (int k = 0; k < count; ++k) {
        const std::byte* p = base + plan.gone.offset(r + k) * element;
        if (direct) at[k] = reinterpret_cast<const T*>(p);
        else {
          load_block<T>(x.dtype, p, stride, n, loaded.get() + k * n);
          at[k] = loaded.get() + k * n;
        }
      }
      std::fill_n(centre, n, T(0));
      for (int k = 0; k < count; k += kRowsAtOnce) sums.columns(at + k, std::min(kRowsAtOnce, count - k), n, centre);
      for (int64_t i = 0; i < n; ++i) centre[i] /= static_cast<T>(count);
      deviation_columns<T>(at, count, n, centre, sum, squares);
      for (int64_t i = 0; i < n; ++i) {
        Moments m;
        if (!corrected<T>(count, inverse, centre[i], {sum[i], squares[i]}, m)) {
          T column[kRows];
          for (int k = 0; k < count; ++k) column[k] = at[k][i];
          m = exact_moments(column, count);
        }
        total[i].merge(m);
      }
    }
  }

  void columns(int column) const {
    Axes outer;
    const Axes& kept = plan.kept;
    for (int d = 0; d < kept.dims; ++d)
      if (d != column) outer.add(kept.size[d], kept.stride[d], kept.out_stride[d]);
    const int64_t width = kept.size[column], stride = kept.stride[column], out_stride = kept.out_stride[column],
                  rows = plan.gone.count;
    const int64_t tiles = (width + kColumns - 1) / kColumns, tile = std::min(width, kColumns);
    const int64_t pieces = std::clamp<int64_t>(rows / (4 * kRows), 1, kPieces),
                  piece = ((rows + pieces - 1) / pieces + kRows - 1) / kRows * kRows;
    const int64_t tasks = outer.count * tiles;
    std::vector<Moments> parts(static_cast<size_t>(tasks * pieces * tile));
    parallel_for(tasks * pieces, std::max<int64_t>(1, (1 << 15) / (std::min(piece, rows) * tile)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t o = i / pieces / tiles, c = i / pieces % tiles * tile, p = i % pieces;
                     fold_rows(x.data + (outer.offset(o) + c * stride) * element, stride, std::min(tile, width - c),
                               std::min(rows, p * piece), std::min(rows, (p + 1) * piece), parts.data() + i * tile);
                   }
                 });
    parallel_for(tasks, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t o = i / tiles, c = i % tiles * tile;
        Moments* total = parts.data() + i * pieces * tile;
        for (int64_t k = 0; k < std::min(tile, width - c); ++k) {
          for (int64_t p = 1; p < pieces; ++p) total[k].merge(total[p * tile + k]);
          target.put(outer.out_offset(o) + (c + k) * out_stride, total[k]);
        }
      }
    });
  }

  void run() const {
    const int column = column_of(plan);
    column < 0 ? rows() : columns(column);
  }
};

Target target_of(const TensorImpl* variance, const TensorImpl* mean, double correction, bool root) {
  return {variance ? variance->data : nullptr, mean ? mean->data : nullptr, (variance ? variance : mean)->dtype,
          correction, root};
}
}  // namespace

void moments(const TensorImpl& x, DimMask reduced, double correction, bool root, const TensorImpl* variance,
             const TensorImpl* mean) {
  const ReducePlan plan(x, reduced);
  const Target target = target_of(variance, mean, correction, root);
  if (x.numel == 0) {
    for (int64_t i = 0, n = (variance ? variance : mean)->numel; i < n; ++i) target.put(i, {});
  } else if (compute_type(x.dtype) == DType::F64) {
    Job<double>{x, plan, target}.run();
  } else {
    Job<float>{x, plan, target}.run();
  }
}

std::optional<RowOp> rows_of_moments(const TensorImpl& x, DimMask reduced, double correction, bool root,
                                     size_t outputs) {
  if (!x.contiguous || x.numel < 2 || size_of(x.dtype) == 1) return {};
  const ReducePlan plan(x, reduced);
  const Axes &kept = plan.kept, &gone = plan.gone;
  if (gone.dims != 1 || gone.stride[0] != 1 || kept.dims != 1 || gone.count < 2 || gone.count > kChunk ||
      column_of(plan) >= 0)
    return {};
  const int64_t n = gone.count;
  RowOp op{.compute = compute_type(x.dtype), .shape = x.sizes(), .row = n, .in = {{{}, &x}}};
  for (size_t o = 0; o < outputs; ++o) op.out[o] = {RowExtent::Rows};
  const auto set = [&]<class T>() {
    op.run = [&sums = fold_table<T>(Fold::Sum), n, correction, root, type = x.dtype](const RowBlock& b) {
      const Target target{static_cast<std::byte*>(b.out[0]), static_cast<std::byte*>(b.out[1]), type, correction, root};
      const T* row = static_cast<const T*>(b.in[0]);
      for (int64_t r = 0; r < b.count; ++r, row += n) {
        Moments total;
        for (int64_t i = 0; i < n; i += kBlock) add_block(sums, row + i, std::min(kBlock, n - i), total);
        target.put(r, total);
      }
    };
  };
  if (op.compute == DType::F64) set.template operator()<double>();
  else set.template operator()<float>();
  return op;
}

void moments_reference(const TensorImpl& x, DimMask reduced, double correction, bool root, const TensorImpl* variance,
                       const TensorImpl* mean) {
  const ReducePlan plan(x, reduced);
  const Target target = target_of(variance, mean, correction, root);
  for (int64_t i = 0, n = (variance ? variance : mean)->numel; i < n; ++i) {
    Moments total;
    for (int64_t r = 0; x.numel && r < plan.gone.count; ++r) {
      double v;
      load_block<double>(x.dtype,
                         x.data + (plan.kept.offset(i) + plan.gone.offset(r)) * static_cast<int64_t>(size_of(x.dtype)),
                         1, 1, &v);
      total.merge({1, v, v - v});  // 0, or NaN if v is not finite
    }
    target.put(x.numel ? plan.kept.out_offset(i) : i, total);
  }
}

}  // namespace strata::cpu
