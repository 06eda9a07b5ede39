// Rows at offsets. The index tensors are first turned into one list of offsets; then each row is a memcpy or a short
// strided loop. Bound by memory (random rows).
#include "cpu/indexing/indexing.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/lines.h"
#include "cpu/movement/copy.h"

namespace strata::cpu {

constexpr int64_t kGrain = 1 << 14;  // elements per piece of parallel work
constexpr int64_t kStretch = 16;     // neighbouring elements that are worth a call
constexpr int64_t kManySteps = 64;   // so many outer steps keep every thread busy

IndexedDims::IndexedDims(const TensorImpl& t, int first_dim, std::span<const Tensor> indices, bool wrap, const char* op)
    : first(first_dim),
      count(static_cast<int>(indices.size())),
      n(indices.empty() ? 1 : indices[0].numel()),
      offset(new int64_t[static_cast<size_t>(n)]()) {
  for (int k = 0; k < count; ++k) {
    const Tensor held = packed(*indices[static_cast<size_t>(k)]);
    const TensorImpl& index = *held;
    STRATA_ASSERT(index.dtype == DType::I64 && index.numel == n);
    const int dim = first + k;
    const int64_t size = t.ndim ? t.shape[dim] : 1, stride = t.ndim ? t.strides[dim] : 1, low = wrap ? -size : 0;
    const auto* values = reinterpret_cast<const int64_t*>(index.data);
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t v = values[i];
        STRATA_CHECK(v >= low && v < size, Index, "{}: index {} is out of range for dimension {} with size {}", op, v,
                     dim, size);
        offset[static_cast<size_t>(i)] += (v < 0 ? v + size : v) * stride;
      }
    });
  }
}

namespace {

// The dimensions before and after the indexed ones, iterated together with a contiguous [outer, n, inner] block.
struct Parts {
  PairWalk outer, inner;
  int64_t outer_count, row, block;  // elements of a row (inner) and of one outer step (n rows)
  Parts(const TensorImpl& t, const IndexedDims& at)
      : outer(part(t, 0, at.first)), inner(part(t, at.first + at.count, t.ndim)) {
    outer_count = outer.count;
    row = inner.count;
    block = row * at.n;
  }
  // Strides a: of the tensor; b: of the contiguous block.
  static PairWalk part(const TensorImpl& t, int from, int to) {
    int64_t contiguous[kMaxDims], n = 1;
    to = std::min<int>(to, t.ndim);
    from = std::min(from, to);
    for (int d = to; d-- > from;) {
      contiguous[d] = n;
      n *= t.shape[d];
    }
    return PairWalk(Shape(t.shape + from, static_cast<size_t>(to - from)), contiguous + from, t.strides + from);
  }
};

// Calls f(block offset, tensor offset) on the rows of a PairWalk made by Parts; f handles the innermost dimension.
template <class F> void each_inner(const PairWalk& w, int64_t block, int64_t tensor, const F& f) {
  if (w.n <= 1) return f(block, tensor);
  const int64_t rows = w.count / w.size[w.n - 1];
  PairRows at(w, w.n - 1, 0);
  for (int64_t i = 0; i < rows; ++i, at.next()) f(block + at.a, tensor + at.b);
}

template <class T> void take(const TensorImpl& out, const TensorImpl& in, const IndexedDims& at, const Parts& p) {
  T* to = reinterpret_cast<T*>(out.data);
  const T* from = reinterpret_cast<const T*>(in.data);
  const int64_t length = p.inner.n ? p.inner.size[p.inner.n - 1] : 1, stride = p.inner.n ? p.inner.b[p.inner.n - 1] : 1;
  parallel_for(p.outer_count * at.n, std::max<int64_t>(1, kGrain / std::max<int64_t>(p.row, 1)),
               [&](int64_t begin, int64_t end) {
                 PairRows outer(p.outer, p.outer.n, begin / at.n);
                 for (int64_t r = begin, i = begin % at.n; r < end; ++r) {
                   const int64_t source = outer.b + at.offset[static_cast<size_t>(i)];
                   each_inner(p.inner, r * p.row, source, [&](int64_t d, int64_t s) {
                     if (stride == 1) copy_run(to + d, from + s, static_cast<size_t>(length) * sizeof(T));
                     else
                       for (int64_t k = 0; k < length; ++k) to[d + k] = from[s + k * stride];
                   });
                   if (++i == at.n) {
                     i = 0;
                     outer.next();
                   }
                 }
               });
}

// Single elements: the same offsets for each outer step. Neighbouring offsets, as in padding, are copied together.
struct Stretch {
  int64_t begin, end, source;  // indices [begin, end) read from source on
};
std::vector<Stretch> stretches(const IndexedDims& at) {
  std::vector<Stretch> found;
  for (int64_t i = 0; i < at.n;) {
    const int64_t first = at.offset[static_cast<size_t>(i)];
    int64_t end = i + 1;
    while (end < at.n && at.offset[static_cast<size_t>(end)] == first + end - i) ++end;
    if (end - i >= kStretch) found.push_back({i, end, first});
    i = end;
  }
  return found;
}
template <class T>
void take_elements(const TensorImpl& out, const TensorImpl& in, const IndexedDims& at, const Parts& p) {
  T* to = reinterpret_cast<T*>(out.data);
  const T* from = reinterpret_cast<const T*>(in.data);
  const int64_t* offset = at.offset.get();
  const std::vector<Stretch> together = p.outer_count >= 4 ? stretches(at) : std::vector<Stretch>();
  const int64_t pieces = p.outer_count > 1 ? 1 : (at.n + kGrain - 1) / kGrain, piece = (at.n + pieces - 1) / pieces;
  parallel_for(p.outer_count * pieces, std::max<int64_t>(1, kGrain / piece), [&](int64_t begin, int64_t end) {
    PairRows outer(p.outer, p.outer.n, begin / pieces);
    for (int64_t unit = begin; unit < end; ++unit) {
      const T* row = from + outer.b;
      T* made = to + unit / pieces * at.n;
      int64_t i = unit % pieces * piece;
      const int64_t last = std::min(at.n, i + piece);
      for (const Stretch& s : together) {
        for (; i < s.begin; ++i) made[i] = row[offset[i]];
        copy_run(made + i, row + s.source, static_cast<size_t>(s.end - i) * sizeof(T));
        i = s.end;
      }
      for (; i < last; ++i) made[i] = row[offset[i]];
      if ((unit + 1) % pieces == 0) outer.next();
    }
  });
}

// One outer step of single elements; neighbouring offsets in a loop that the compiler vectorizes.
template <class T, class Write>
void put_elements(const IndexedDims& at, const std::vector<Stretch>& together, const T* from, bool single, T* to,
                  const Write& write) {
  const int64_t* offset = at.offset.get();
  int64_t i = 0;
  for (const Stretch& s : together) {
    for (; i < s.begin; ++i) write(to[offset[i]], from[i]);
    for (T* t = to + s.source; i < s.end; ++i, ++t) write(*t, from[i]);
  }
  for (; i < at.n; ++i) write(to[offset[i]], from[single ? 0 : i]);
}

// Outer steps write disjoint elements and are distributed over threads. If there are few, each thread iterates over all
// rows and writes those whose offset is in its range.
template <class T, class Write>
void put(const TensorImpl& out, const TensorImpl& values, const IndexedDims& at, const Parts& p, const Write& write) {
  T* to = reinterpret_cast<T*>(out.data);
  const T* from = reinterpret_cast<const T*>(values.data);
  const bool single = values.numel == 1;
  const int64_t length = p.inner.n ? p.inner.size[p.inner.n - 1] : 1, stride = p.inner.n ? p.inner.b[p.inner.n - 1] : 1;
  const int64_t work = p.outer_count * p.block;
  if (work == 0) return;
  const auto put_row = [&](int64_t o, int64_t base, int64_t i) {
    each_inner(p.inner, single ? 0 : o * p.block + i * p.row, base + at.offset[static_cast<size_t>(i)],
               [&](int64_t s, int64_t d) {
                 if (single)
                   for (int64_t k = 0; k < length; ++k) write(to[d + k * stride], from[0]);
                 else if (stride == 1)
                   for (int64_t k = 0; k < length; ++k) write(to[d + k], from[s + k]);
                 else
                   for (int64_t k = 0; k < length; ++k) write(to[d + k * stride], from[s + k]);
               });
  };
  if (p.outer_count >= std::min<int64_t>(kManySteps, 4 * num_threads())) {
    const std::vector<Stretch> together = p.row == 1 && !single ? stretches(at) : std::vector<Stretch>();
    return parallel_for(p.outer_count, std::max<int64_t>(1, kGrain / p.block), [&](int64_t begin, int64_t end) {
      PairRows outer(p.outer, p.outer.n, begin);
      for (int64_t o = begin; o < end; ++o, outer.next()) {
        if (p.row == 1) put_elements(at, together, from + (single ? 0 : o * at.n), single, to + outer.b, write);
        else
          for (int64_t i = 0; i < at.n; ++i) put_row(o, outer.b, i);
      }
    });
  }
  const auto [low, high] = std::minmax_element(at.offset.get(), at.offset.get() + at.n);
  const int64_t first = *low, range = *high - *low + 1;
  const int64_t owners = work < 2 * kGrain ? 1 : std::min<int64_t>(num_threads(), range);
  const int64_t share = (range + owners - 1) / owners;
  parallel_for(owners, 1, [&](int64_t begin, int64_t end) {
    const int64_t mine = first + begin * share, limit = first + end * share;
    PairRows outer(p.outer, p.outer.n, 0);
    for (int64_t o = 0; o < p.outer_count; ++o, outer.next())
      for (int64_t i = 0; i < at.n; ++i) {
        const int64_t offset = at.offset[static_cast<size_t>(i)];
        if (offset >= mine && offset < limit) put_row(o, outer.b, i);
      }
  });
}
}  // namespace

void take_rows(const TensorImpl& out, const TensorImpl& in, const IndexedDims& at) {
  if (out.numel == 0) return;
  const Parts parts(in, at);
  dispatch_size(out.dtype, [&]<class T> {
    if (parts.row == 1) take_elements<T>(out, in, at, parts);
    else take<T>(out, in, at, parts);
  });
}

void put_rows(const TensorImpl& out, const TensorImpl& values, const IndexedDims& at, bool accumulate) {
  if (out.numel == 0 || at.n == 0) return;
  const Parts parts(out, at);
  if (!accumulate)
    return dispatch_size(out.dtype, [&]<class T> { put<T>(out, values, at, parts, [](T& d, T v) { d = v; }); });
  dispatch_dtype(out.dtype, [&]<class T> {
    put<T>(out, values, at, parts, [](T& d, T v) {
      if constexpr (kIsComplex<T>) d = {d.re + v.re, d.im + v.im};
      else if constexpr (std::is_same_v<T, BoolByte>) d = d || v;
      else if constexpr (std::is_arithmetic_v<T>) d = static_cast<T>(d + v);
      else d = T(static_cast<float>(d) + static_cast<float>(v));
    });
  });
}

}  // namespace strata::cpu
