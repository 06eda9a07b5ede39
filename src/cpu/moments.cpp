// Blocks small enough for the first-level cache are read twice: once for their mean, once for the squared deviations from
// it. Blocks are merged by Chan's formula in double precision. Nothing cancels, and memory is read once.
#include "cpu/moments.h"

#include <algorithm>
#include <cmath>
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
    const double total = count + o.count, delta = o.mean - mean;
    squares += o.squares + delta * delta * (count * o.count / total);
    mean += delta * (o.count / total);
    count = total;
  }
};

struct Target {
  const TensorImpl *variance, *mean;
  double correction;
  bool root;
  void put(int64_t at, const Moments& m) const {
    const auto set = [&](const TensorImpl* t, double v) {
      if (t) dispatch_dtype(t->dtype, [&]<class To>() { reinterpret_cast<To*>(t->data)[at] = convert<To>(v); });
    };
    const double by = std::max(0.0, m.count - correction), v = m.squares / by;
    set(variance, root ? std::sqrt(v) : v);
    set(mean, m.count > 0 ? m.mean : NAN);
  }
};

template <class T> struct Job {
  const TensorImpl& x;
  const ReducePlan& plan;
  const Target& target;
  const FoldTable<T>& sums = fold_table<T>(Fold::Sum);
  int64_t element = static_cast<int64_t>(size_of(x.dtype));
  bool same_type = x.dtype == dtype_of<T>;

  void add_block(const T* block, int64_t n, Moments& into) const {
    const double mean = sums.run(block, n) / static_cast<double>(n);
    into.merge({static_cast<double>(n), mean, squared_deviation<T>(block, n, static_cast<T>(mean))});
  }

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
        add_block(reinterpret_cast<const T*>(p), n, total);
      } else {
        load_block<T>(x.dtype, p, stride, n, block + filled);
        filled += n;
        if (filled == kBlock) add_block(block, filled, total), filled = 0;
      }
      i += n;
    }
    if (filled) add_block(block, filled, total);
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
    T mean[kColumns], acc[kColumns];
    const T* at[kRows];
    for (int64_t r = begin; r < end; r += kRows) {
      const int count = static_cast<int>(std::min(kRows, end - r));
      for (int k = 0; k < count; ++k) {
        const std::byte* p = base + plan.gone.offset(r + k) * element;
        if (direct) at[k] = reinterpret_cast<const T*>(p);
        else load_block<T>(x.dtype, p, stride, n, loaded.get() + k * n), at[k] = loaded.get() + k * n;
      }
      std::fill_n(mean, n, T(0)), std::fill_n(acc, n, T(0));
      for (int k = 0; k < count; k += kRowsAtOnce) sums.columns(at + k, std::min(kRowsAtOnce, count - k), n, mean);
      for (int64_t i = 0; i < n; ++i) mean[i] /= static_cast<T>(count);
      squared_deviation_columns<T>(at, count, n, mean, acc);
      for (int64_t i = 0; i < n; ++i)
        total[i].merge({static_cast<double>(count), static_cast<double>(mean[i]), static_cast<double>(acc[i])});
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
    const Axes &kept = plan.kept, &gone = plan.gone;
    if (kept.dims == 0) return rows();
    const int last = kept.dims - 1;
    const int widest = static_cast<int>(std::max_element(kept.size, kept.size + kept.dims) - kept.size);
    const int64_t inner = gone.stride[gone.dims - 1];
    const bool inner_goes = inner != 0 && std::abs(inner) < std::abs(kept.stride[last] ? kept.stride[last] : INT64_MAX);
    if (inner_goes) return rows();
    columns(kept.size[last] >= 16 ? last : widest);
  }
};
}  // namespace

void moments(const TensorImpl& x, uint32_t reduced, double correction, bool root, const TensorImpl* variance,
             const TensorImpl* mean) {
  const ReducePlan plan(x, reduced);
  const Target target{variance, mean, correction, root};
  if (x.numel == 0) {
    for (int64_t i = 0, n = (variance ? variance : mean)->numel; i < n; ++i) target.put(i, {});
  } else if (compute_type(x.dtype) == DType::F64) {
    Job<double>{x, plan, target}.run();
  } else {
    Job<float>{x, plan, target}.run();
  }
}

void moments_reference(const TensorImpl& x, uint32_t reduced, double correction, bool root, const TensorImpl* variance,
                       const TensorImpl* mean) {
  const ReducePlan plan(x, reduced);
  const Target target{variance, mean, correction, root};
  for (int64_t i = 0, n = (variance ? variance : mean)->numel; i < n; ++i) {
    Moments total;
    for (int64_t r = 0; x.numel && r < plan.gone.count; ++r) {
      double v;
      load_block<double>(x.dtype,
                         x.data + (plan.kept.offset(i) + plan.gone.offset(r)) * static_cast<int64_t>(size_of(x.dtype)),
                         1, 1, &v);
      total.merge({1, v, 0});
    }
    target.put(x.numel ? plan.kept.out_offset(i) : i, total);
  }
}

}  // namespace strata::cpu
