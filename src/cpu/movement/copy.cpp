// Strided to strided copies. The dimensions are merged as far as both layouts allow, then one of four inner loops runs:
// memcpy, a fill, a blocked transpose (the fast dimensions of source and target differ) or a plain strided loop. Bound
// by memory, except the last.
#include "cpu/movement/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/parallel.h"
#include "cpu/movement/convert.h"
#include "cpu/movement/runs.h"
#include "cpu/movement/transpose.h"

namespace strata::cpu {

constexpr int64_t kGrain = 1 << 15;          // bytes per piece of parallel work
constexpr int64_t kShortRow = 16;            // elements
constexpr int64_t kMediumRow = 512;          // bytes
constexpr int64_t kStreamBytes = 16 << 20;   // larger outputs bypass the cache
constexpr int64_t kTall = 1024, kWide = 64;  // rows and columns of a transposed block, in elements
constexpr int64_t kBlocks = 64;              // there are so many, if the blocks can be less tall

PairWalk::PairWalk(Shape shape, const int64_t* sa, const int64_t* sb) {
  int order[kMaxDims], m = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    count *= shape[d];
    if (shape[d] == 1) continue;
    int k = m++;  // insertion sort, slowest first
    for (; k > 0 && std::abs(sa[order[k - 1]]) < std::abs(sa[d]); --k) order[k] = order[k - 1];
    order[k] = static_cast<int>(d);
  }
  if (count == 0) return;
  for (int k = 0; k < m; ++k) {
    const int d = order[k];
    if (n && a[n - 1] == sa[d] * shape[d] && b[n - 1] == sb[d] * shape[d]) {
      size[n - 1] *= shape[d];
      a[n - 1] = sa[d];
      b[n - 1] = sb[d];
    } else {
      size[n] = shape[d];
      a[n] = sa[d];
      b[n] = sb[d];
      ++n;
    }
  }
}

PairRows::PairRows(const PairWalk& w, int outer, int64_t row) : w_(w), outer_(outer) {
  for (int d = outer; d-- > 0; row /= w.size[d]) {
    index_[d] = row % w.size[d];
    a += index_[d] * w.a[d];
    b += index_[d] * w.b[d];
  }
}

namespace {

// body(dst offset, src offset, length): rows along the innermost dimension; long ones are split.
template <class Body> void each_row(const PairWalk& w, int64_t element, const Body& body) {
  if (w.n == 0) return body(0, 0, 1);
  const int outer = w.n - 1;
  const int64_t length = w.size[outer], rows = w.count / length;
  const int64_t piece =
    std::max<int64_t>(length, 1) > 4 * kGrain / element && rows < 16 ? 2 * kGrain / element : length;
  const int64_t pieces = (length + piece - 1) / piece;
  parallel_for(rows * pieces, std::max<int64_t>(1, kGrain / (piece * element)), [&](int64_t begin, int64_t end) {
    PairRows at(w, outer, begin / pieces);
    for (int64_t i = begin, part = begin % pieces; i < end; ++i) {
      const int64_t from = part * piece;
      body(at.a + from * w.a[outer], at.b + from * w.b[outer], std::min(piece, length - from));
      if (++part == pieces) {
        part = 0;
        at.next();
      }
    }
  });
}

// The dimension in which the source is contiguous, if that is not the innermost one; otherwise -1. Elements of 16 bytes
// are not transposed in registers: a vector holds one.
template <class T> int transposed_dim(const PairWalk& w) {
  if constexpr (sizeof(T) == 16) return -1;
  if (w.n < 2 || w.a[w.n - 1] != 1 || w.size[w.n - 1] < 4) return -1;
  for (int d = 0; d < w.n - 1; ++d)
    if (w.b[d] == 1 && w.size[d] >= 4) return d;
  return -1;
}

// Calls tile(dst offset, src offset, rows, cols) on blocks of the two dimensions j (contiguous in src) and the innermost.
template <class Tile> void each_tile(const PairWalk& w, int j, int64_t element, const Tile& tile) {
  PairWalk outer = w;  // all dimensions except the two
  outer.n = 0;
  for (int d = 0; d < w.n - 1; ++d)
    if (d != j) {
      outer.size[outer.n] = w.size[d];
      outer.a[outer.n] = w.a[d];
      outer.b[outer.n] = w.b[d];
      ++outer.n;
    }
  const int k = w.n - 1;
  const int64_t rows = w.size[j], cols = w.size[k], matrices = w.count / (rows * cols);
  const int64_t wide = (cols + kWide - 1) / kWide;
  int64_t height = kTall;
  while (height > kWide && matrices * ((rows + height - 1) / height) * wide < kBlocks) height /= 2;
  const int64_t tall = (rows + height - 1) / height;
  parallel_for(
    matrices * tall * wide, std::max<int64_t>(1, kGrain / (height * kWide * element)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const PairRows at(outer, outer.n, i / (tall * wide));
        const int64_t r = i / wide % tall * height, c = i % wide * kWide;
        tile(at.a + r * w.a[j] + c, at.b + r + c * w.b[k], std::min(height, rows - r), std::min(kWide, cols - c));
      }
    });
}

// Rows of a few elements: two dimensions are one row, so that a row costs no call.
template <class T> void copy_short_rows(const PairWalk& w, T* dst, const T* src) {
  const int k = w.n - 1;
  const int64_t length = w.size[k], da = w.a[k], sb = w.b[k], next_a = w.a[k - 1], next_b = w.b[k - 1];
  PairWalk rows = w;
  rows.n = k;
  rows.count = w.count / length;
  const bool repeats = da == 1 && sb == 0 && next_a == length;
  each_row(rows, length * static_cast<int64_t>(sizeof(T)), [&](int64_t d, int64_t s, int64_t n) {
    if (repeats) return repeat_each(src + s, next_b, n, length, dst + d);
    for (int64_t j = 0; j < n; ++j) {
      T* to = dst + d + j * next_a;
      const T* from = src + s + j * next_b;
      for (int64_t i = 0; i < length; ++i) to[i * da] = from[i * sb];
    }
  });
}

// n elements with one value.
template <class T> void fill_run(T* to, int64_t n, T value) {
  if (n < 16) {
    std::fill_n(to, n, value);
    return;
  }
  T block[16 / sizeof(T)];
  std::fill_n(block, std::size(block), value);
  repeat_block(to, block, static_cast<size_t>(n) * sizeof(T));
}

// Rows of some vectors: several are copied in one call.
template <class T> void copy_medium_rows(const PairWalk& w, T* dst, const T* src) {
  const int k = w.n - 1;
  const int64_t length = w.size[k], element = sizeof(T), to_step = w.a[k - 1] * element,
                from_step = w.b[k - 1] * element;
  PairWalk rows = w;
  rows.n = k;
  rows.count = w.count / length;
  each_row(rows, length * element, [&](int64_t d, int64_t s, int64_t n) {
    copy_runs(dst + d, to_step, src + s, from_step, n, static_cast<size_t>(length * element));
  });
}

template <class T> void copy_same_type(const PairWalk& w, T* dst, const T* src) {
  const int k = w.n - 1;
  const int64_t da = w.n ? w.a[k] : 1, sb = w.n ? w.b[k] : 1;
  if (w.n >= 2 && w.size[k] < kShortRow && transposed_dim<T>(w) < 0) return copy_short_rows(w, dst, src);
  if (w.n >= 2 && da == 1 && sb == 1 && w.size[k] * static_cast<int64_t>(sizeof(T)) <= kMediumRow)
    return copy_medium_rows(w, dst, src);
  if (da == 1 && sb == 1)
    return each_row(w, sizeof(T), [&](int64_t d, int64_t s, int64_t n) {
      copy_run(dst + d, src + s, static_cast<size_t>(n) * sizeof(T));
    });
  if (da == 1 && sb == 0)
    return each_row(w, sizeof(T), [&](int64_t d, int64_t s, int64_t n) { fill_run(dst + d, n, src[s]); });
  if (da == 1 && sb == -1 && sizeof(T) <= 8)
    return each_row(w, sizeof(T),
                    [&](int64_t d, int64_t s, int64_t n) { reverse_run(dst + d, src + s, n, sizeof(T)); });
  const int j = transposed_dim<T>(w);
  if (j < 0)
    return each_row(w, 4 * sizeof(T), [&](int64_t d, int64_t s, int64_t n) {
      for (int64_t i = 0; i < n; ++i) dst[d + i * da] = src[s + i * sb];
    });
  if constexpr (sizeof(T) < 16) {
    bool stream =
      w.count * static_cast<int64_t>(sizeof(T)) >= kStreamBytes && reinterpret_cast<uintptr_t>(dst) % 16 == 0;
    for (int d = 0; d < k; ++d) stream &= w.a[d] * static_cast<int64_t>(sizeof(T)) % 16 == 0;
    each_tile(w, j, sizeof(T), [&](int64_t d, int64_t s, int64_t rows, int64_t cols) {
      if (stream) transpose_tile<T, true>(dst + d, w.a[j], src + s, sb, rows, cols);
      else transpose_tile<T, false>(dst + d, w.a[j], src + s, sb, rows, cols);
    });
  }
}

void copy_converting(const PairWalk& w, const TensorImpl& dst, const TensorImpl& src) {
  const ConvertRow convert = convert_row(dst.dtype, src.dtype);
  const auto to = static_cast<int64_t>(size_of(dst.dtype)), from = static_cast<int64_t>(size_of(src.dtype));
  const int k = w.n - 1;
  const int64_t da = w.n ? w.a[k] : 1, sb = w.n ? w.b[k] : 1;
  const int j = from == 16 ? -1 : transposed_dim<uint8_t>(w);
  if (j < 0)
    return each_row(w, to + from, [&](int64_t d, int64_t s, int64_t n) {
      convert(dst.data + d * to, da, src.data + s * from, sb, n);
    });
  dispatch_size(src.dtype, [&]<class T> {
    if constexpr (sizeof(T) < 16)
      each_tile(w, j, to + from, [&](int64_t d, int64_t s, int64_t rows, int64_t cols) {
        alignas(64) T buffer[kWide * kWide];
        for (int64_t top = 0; top < rows; top += kWide) {
          const int64_t height = std::min(kWide, rows - top);
          transpose_tile<T, false>(buffer, kWide, reinterpret_cast<const T*>(src.data) + s + top, sb, height, cols);
          for (int64_t r = 0; r < height; ++r)
            convert(dst.data + (d + (top + r) * w.a[j]) * to, 1, reinterpret_cast<const std::byte*>(buffer + r * kWide),
                    1, cols);
        }
      });
  });
}

// The strides of src, broadcast to dst's shape.
void broadcast_strides(const TensorImpl& dst, const TensorImpl& src, int64_t* strides) {
  const int lead = dst.ndim - src.ndim;
  for (int d = 0; d < dst.ndim; ++d) strides[d] = d < lead || src.shape[d - lead] == 1 ? 0 : src.strides[d - lead];
}
}  // namespace

void copy(const TensorImpl& dst, const TensorImpl& src) {
  // The virtual GPU's memory can be read here, a GPU's cannot: without this, a mistake would be seen on GPUs only.
  STRATA_CHECK(dst.device.type == DeviceType::Cpu && src.device.type == DeviceType::Cpu, Internal,
               "a copy on the CPU was given memory of {}",
               to_string(src.device.type == DeviceType::Cpu ? dst.device : src.device));
  int64_t strides[kMaxDims];
  broadcast_strides(dst, src, strides);
  const PairWalk w(dst.sizes(), dst.strides, strides);
  if (w.count == 0) return;
  if (dst.dtype != src.dtype) return copy_converting(w, dst, src);
  dispatch_size(dst.dtype, [&]<class T> {
    copy_same_type(w, reinterpret_cast<T*>(dst.data), reinterpret_cast<const T*>(src.data));
  });
}

void copy_reference(const TensorImpl& dst, const TensorImpl& src) {
  int64_t strides[kMaxDims], index[kMaxDims] = {};
  broadcast_strides(dst, src, strides);
  const ConvertRow convert = convert_row(dst.dtype, src.dtype);
  const auto to = static_cast<int64_t>(size_of(dst.dtype)), from = static_cast<int64_t>(size_of(src.dtype));
  for (int64_t i = 0; i < dst.numel; ++i) {
    int64_t d = 0, s = 0, rest = i;
    for (int k = dst.ndim; k-- > 0; rest /= dst.shape[k]) {
      index[k] = rest % dst.shape[k];
      d += index[k] * dst.strides[k];
      s += index[k] * strides[k];
    }
    convert(dst.data + d * to, 1, src.data + s * from, 1, 1);
  }
}

void fill(const TensorImpl& dst, Scalar value) {
  const PairWalk w(dst.sizes(), dst.strides, dst.strides);
  if (w.count == 0) return;
  alignas(16) std::byte bytes[16];
  dispatch_dtype(dst.dtype, [&]<class T> {
    const T v = value.is_complex() ? convert<T>(value.z) : value.is_float() ? convert<T>(value.f) : convert<T>(value.i);
    std::memcpy(bytes, &v, sizeof v);
  });
  dispatch_size(dst.dtype, [&]<class T> {  // plain integers: loops over bool and the narrow floats are not vectorized
    T v;
    std::memcpy(&v, bytes, sizeof v);
    T* data = reinterpret_cast<T*>(dst.data);
    const int64_t stride = w.n ? w.a[w.n - 1] : 1;
    each_row(w, sizeof(T), [&](int64_t d, int64_t, int64_t n) {
      if (stride == 1) fill_run(data + d, n, v);
      else
        for (int64_t i = 0; i < n; ++i) data[d + i * stride] = v;
    });
  });
}

}  // namespace strata::cpu
