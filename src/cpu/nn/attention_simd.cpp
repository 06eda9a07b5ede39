// Blocks of kBlockRows queries against blocks of kBlockColumns keys, with a running maximum and sum per query. Keys
// (and, for gradients, values) of a batch entry are transposed into panels once. Blocks outside the window are skipped.
// Bound by the multiply-add rate of the products, two forward and five backward.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/attention_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "cpu/movement/transpose.h"
#include "cpu/nn/attention.h"
#include "tensor/allocator.h"

#define STRATA_SIMD_TARGET
#include "device/math.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/linalg/gemm_tiles.inl"

constexpr int64_t kBlockRows = 4 * kRows, kBlockColumns = 512;

#if HWY_TARGET == HWY_SCALAR
template <class V> HWY_INLINE V exp_of(V x) { return hn::Set(hn::DFromV<V>(), std::exp(hn::GetLane(x))); }
#else
template <class V> HWY_INLINE V exp_of(V x) { return strata::HWY_NAMESPACE::math::exp_coarse(x); }
#endif

template <class T> HWY_INLINE int64_t lanes_of() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>())); }
template <class T> HWY_INLINE int64_t panel_width() { return kVectors * lanes_of<T>(); }
template <class T> HWY_INLINE int64_t padded(int64_t n) {
  return (n + panel_width<T>() - 1) / panel_width<T>() * panel_width<T>();
}

// Rows [0, rows) of a matrix as columns: [panel][k][width], padded with zeros.
template <class T> void pack_rows(const T* from, int64_t row, int64_t rows, int64_t k, T* to) {
  const int64_t width = panel_width<T>();
  for (int64_t j = 0; j < rows; j += width, to += k * width) {
    const int64_t count = std::min(width, rows - j);
    if (count < width) std::fill_n(to, k * width, T(0));
    transpose_tile<T, false>(to, width, from + j * row, row, k, count);
  }
}

// c[rows, columns] = alpha a b (+ c), b in panels or, with panel_stride = width, in place.
template <class T>
void product(int64_t rows, int64_t columns, int64_t k, const T* a, int64_t a_m, int64_t a_k, const T* b, int64_t b_k,
             int64_t panel_stride, T* c, int64_t c_m, T alpha, bool accumulate) {
  const int64_t width = panel_width<T>();
  for (int64_t j = 0; j < columns; j += width)
    for (int64_t i = 0; i < rows; i += kRows)
      micro_rows<kRows, T>(std::min<int64_t>(kRows, rows - i), k, a + i * a_m, a_m, a_k, b + j / width * panel_stride,
                           b_k, c + i * c_m + j, c_m, std::min(width, columns - j), alpha, accumulate);
}

template <class T> HWY_INLINE T largest(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = lanes_of<T>();
  auto m = hn::Set(d, -std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) m = hn::Max(m, hn::LoadU(d, x + i));
  T best = hn::GetLane(hn::MaxOfLanes(d, m));
  for (; i < n; ++i) best = std::max(best, x[i]);
  return best;
}
// x = exp(x - shift) for the first n of `size` values, 0 after them; returns the sum.
template <class T> HWY_INLINE T exponentials(T* x, int64_t n, int64_t size, T shift) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = lanes_of<T>();
  const auto s = hn::Set(d, shift);
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i < n; i += lanes) {  // the rows of a block are padded to whole vectors
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
    const auto e = hn::IfThenElseZero(mask, exp_of(hn::Sub(hn::LoadU(d, x + i), s)));
    hn::StoreU(e, d, x + i);
    sum = hn::Add(sum, e);
  }
  if (i < size) std::fill(x + i, x + size, T(0));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}
template <class T> HWY_INLINE void scale_row(T* x, int64_t n, T factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// The columns that rows [first, last) attend to; the first one begins a panel.
struct Columns {
  int64_t begin, end;
};
template <class T> HWY_INLINE Columns columns_of(const Attention& a, int64_t first, int64_t last) {
  const int64_t width = panel_width<T>();
  return {a.first_column(first) / width * width, a.end_column(last - 1)};
}
// Of the columns [begin, begin + count), those that row i attends to, counted from begin.
HWY_INLINE Columns visible(const Attention& a, int64_t i, int64_t begin, int64_t count) {
  const int64_t from = std::clamp<int64_t>(a.first_column(i) - begin, 0, count);
  return {from, std::clamp<int64_t>(a.end_column(i) - begin, from, count)};
}
// The exponentials of the visible scores minus shift, 0 for the others; returns the sum.
template <class T> HWY_INLINE T visible_exponentials(T* x, Columns visible, int64_t size, T shift) {
  if (visible.begin == visible.end) {
    std::fill_n(x, size, T(0));
    return 0;
  }
  std::fill_n(x, visible.begin, -std::numeric_limits<T>::infinity());
  const T sum = exponentials(x, visible.end, size, shift);
  std::fill_n(x, visible.begin, T(0));
  return sum;
}

template <class T> int64_t forward_space(const Attention& a) {
  return padded<T>(a.columns) * a.width +
         kBlockRows * (padded<T>(std::min(a.columns, kBlockColumns)) + a.value_width + 2);
}

// Queries [r0, r1) of batch entry b; `keys` are its packed keys.
template <class T>
void forward_block(const Attention& a, const AttentionForward<T>& p, int64_t b, int64_t r0, int64_t r1, const T* keys,
                   T* space) {
  const int64_t rows = r1 - r0, ld = padded<T>(std::min(a.columns, kBlockColumns));
  const auto [begin, end] = columns_of<T>(a, r0, r1);
  const T *q = p.q.at(a, b) + r0 * p.q.row, *v = p.v.at(a, b);
  T *weights = space, *sums = space + kBlockRows * (ld + a.value_width), *most = sums + kBlockRows;
  T* out = weights + kBlockRows * ld;
  std::fill_n(sums, rows, T(0));
  std::fill_n(most, rows, -std::numeric_limits<T>::infinity());
  std::fill_n(out, rows * a.value_width, T(0));
  for (int64_t c0 = begin; c0 < end; c0 += kBlockColumns) {
    const int64_t count = std::min(kBlockColumns, end - c0), whole = padded<T>(count);
    product(rows, whole, a.width, q, p.q.row, int64_t{1}, keys + c0 * a.width, panel_width<T>(),
            a.width * panel_width<T>(), weights, ld, static_cast<T>(a.scale), false);
    for (int64_t r = 0; r < rows; ++r) {
      const Columns seen = visible(a, r0 + r, c0, count);
      T* row = weights + r * ld;
      const T before = most[r], now = std::max(before, largest(row + seen.begin, seen.end - seen.begin));
      const T sum = visible_exponentials(row, seen, count, now);
      const T keep = before == now ? T(1) : std::exp(before - now);
      if (keep != T(1)) scale_row(out + r * a.value_width, a.value_width, keep);
      sums[r] = sums[r] * keep + sum;
      most[r] = now;
    }
    product(rows, a.value_width, count, static_cast<const T*>(weights), ld, int64_t{1}, v + c0 * p.v.row, p.v.row,
            panel_width<T>(), out, a.value_width, T(1), true);
  }
  T* to = p.out.at(a, b) + r0 * p.out.row;
  for (int64_t r = 0; r < rows; ++r) {
    const T inverse = sums[r] == 0 ? 0 : 1 / sums[r];  // a row that attends to nothing is zero
    for (int64_t i = 0; i < a.value_width; ++i) to[r * p.out.row + i] = out[r * a.value_width + i] * inverse;
    if (p.log_sums) p.log_sums[b * a.log_step + r0 + r] = most[r] + std::log(sums[r]);
  }
}

template <class T> void forward(const Attention& a, const AttentionForward<T>& p) {
  const int64_t blocks = (a.rows + kBlockRows - 1) / kBlockRows;
  const int64_t work = std::max<int64_t>(1, kBlockRows * a.columns * (a.width + a.value_width));
  parallel_for(a.batches() * blocks, std::max<int64_t>(1, 200000 / work), [&](int64_t begin, int64_t end) {
    const auto memory = allocate(static_cast<size_t>(forward_space<T>(a)) * sizeof(T));
    T* keys = reinterpret_cast<T*>(memory->data);
    for (int64_t u = begin, packed = -1; u < end; ++u) {
      const int64_t b = u / blocks, r0 = u % blocks * kBlockRows;
      if (b != packed) {
        pack_rows(p.k.at(a, b), p.k.row, a.columns, a.width, keys);
        packed = b;
      }
      forward_block(a, p, b, r0, std::min(a.rows, r0 + kBlockRows), static_cast<const T*>(keys),
                    keys + padded<T>(a.columns) * a.width);
    }
  });
}

template <class T> HWY_INLINE T dot(const T* x, const T* y, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = lanes_of<T>();
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
    sum = hn::MulAdd(hn::MaskedLoad(mask, d, x + i), hn::MaskedLoad(mask, d, y + i), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// All of one batch entry: the gradients of its keys and values are accumulated block by block.
template <class T> void backward_entry(const Attention& a, const AttentionBackward<T>& p, int64_t b, T* space) {
  const int64_t width = panel_width<T>(), ld = padded<T>(std::min(a.columns, kBlockColumns));
  T *keys = space, *values = keys + padded<T>(a.columns) * a.width;
  T *weights = values + padded<T>(a.columns) * a.value_width, *slopes = weights + kBlockRows * ld;
  const T *q = p.q.at(a, b), *k = p.k.at(a, b), *v = p.v.at(a, b), *out = p.out.at(a, b), *g = p.grad.at(a, b);
  T *gq = p.grad_q.at(a, b), *gk = p.grad_k.at(a, b), *gv = p.grad_v.at(a, b);
  pack_rows(k, p.k.row, a.columns, a.width, keys);
  pack_rows(v, p.v.row, a.columns, a.value_width, values);
  for (int64_t r = 0; r < a.rows; ++r) std::fill_n(gq + r * p.grad_q.row, a.width, T(0));
  for (int64_t c = 0; c < a.columns; ++c) {
    std::fill_n(gk + c * p.grad_k.row, a.width, T(0));
    std::fill_n(gv + c * p.grad_v.row, a.value_width, T(0));
  }
  for (int64_t r0 = 0; r0 < a.rows; r0 += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, a.rows - r0);
    const auto [begin, end] = columns_of<T>(a, r0, r0 + rows);
    for (int64_t c0 = begin; c0 < end; c0 += kBlockColumns) {
      const int64_t count = std::min(kBlockColumns, end - c0), whole = padded<T>(count);
      product(rows, whole, a.width, q + r0 * p.q.row, p.q.row, int64_t{1}, static_cast<const T*>(keys + c0 * a.width),
              width, a.width * width, weights, ld, static_cast<T>(a.scale), false);
      product(rows, whole, a.value_width, g + r0 * p.grad.row, p.grad.row, int64_t{1},
              static_cast<const T*>(values + c0 * a.value_width), width, a.value_width * width, slopes, ld, T(1),
              false);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t i = r0 + r;
        T *row = weights + r * ld, *slope = slopes + r * ld;
        visible_exponentials(row, visible(a, i, c0, count), count, p.log_sums[b * a.log_step + i]);
        const T mean = dot(g + i * p.grad.row, out + i * p.out.row, a.value_width), scale = static_cast<T>(a.scale);
        for (int64_t c = 0; c < count; ++c) slope[c] = row[c] * (slope[c] - mean) * scale;
      }
      const T *w = weights, *s = slopes;
      product(rows, a.width, count, s, ld, int64_t{1}, k + c0 * p.k.row, p.k.row, width, gq + r0 * p.grad_q.row,
              p.grad_q.row, T(1), true);
      product(count, a.width, rows, s, int64_t{1}, ld, q + r0 * p.q.row, p.q.row, width, gk + c0 * p.grad_k.row,
              p.grad_k.row, T(1), true);
      product(count, a.value_width, rows, w, int64_t{1}, ld, g + r0 * p.grad.row, p.grad.row, width,
              gv + c0 * p.grad_v.row, p.grad_v.row, T(1), true);
    }
  }
}

template <class T> void backward(const Attention& a, const AttentionBackward<T>& p) {
  const int64_t space =
    padded<T>(a.columns) * (a.width + a.value_width) + 2 * kBlockRows * padded<T>(std::min(a.columns, kBlockColumns));
  const int64_t work = std::max<int64_t>(1, a.rows * a.columns * (a.width + a.value_width));
  parallel_for(a.batches(), std::max<int64_t>(1, 100000 / work), [&](int64_t begin, int64_t end) {
    const auto memory = allocate(static_cast<size_t>(space) * sizeof(T));
    for (int64_t b = begin; b < end; ++b) backward_entry(a, p, b, reinterpret_cast<T*>(memory->data));
  });
}

void ForwardFloat(const Attention& a, const AttentionForward<float>& p) { forward(a, p); }
void ForwardDouble(const Attention& a, const AttentionForward<double>& p) { forward(a, p); }
void BackwardFloat(const Attention& a, const AttentionBackward<float>& p) { backward(a, p); }
void BackwardDouble(const Attention& a, const AttentionBackward<double>& p) { backward(a, p); }

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardDouble);
HWY_EXPORT(BackwardFloat);
HWY_EXPORT(BackwardDouble);
template <> void attention_forward(const Attention& a, const AttentionForward<float>& p) {
  HWY_DYNAMIC_DISPATCH(ForwardFloat)(a, p);
}
template <> void attention_forward(const Attention& a, const AttentionForward<double>& p) {
  HWY_DYNAMIC_DISPATCH(ForwardDouble)(a, p);
}
template <> void attention_backward(const Attention& a, const AttentionBackward<float>& p) {
  HWY_DYNAMIC_DISPATCH(BackwardFloat)(a, p);
}
template <> void attention_backward(const Attention& a, const AttentionBackward<double>& p) {
  HWY_DYNAMIC_DISPATCH(BackwardDouble)(a, p);
}
}  // namespace strata::cpu
#endif
