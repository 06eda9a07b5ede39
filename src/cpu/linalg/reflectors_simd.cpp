// QR and products with Q, by Householder reflectors. Vector loops factor 16 columns; of 64, the reflectors become one block
// I - V T V^T, with which matrix products update the other columns: most of the work for large matrices, on all threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linalg/reflectors_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/linalg/factorizations.h"
#include "cpu/linalg/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/vector_ops.inl"

constexpr int64_t kLeaf = 16, kPanel = 64;  // columns that loops factor; of a block of reflectors
constexpr int64_t kLeastBlocked = 112;      // reflectors; fewer are used one by one, which is faster
constexpr int64_t kLeastApplied = 224;      // the same where Q multiplies another matrix
constexpr int64_t kFewColumns = 6;          // of the other matrix: loops along the reflectors

// c = alpha a b, or c += alpha a b; b and c are row-major, of a the strides are given.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, double alpha, const T* a, int64_t a_m, int64_t a_k, const T* b,
              int64_t b_ld, bool accumulate, T* c, int64_t c_ld) {
  Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a_m = a_m;
  g.a_k = a_k;
  g.b_k = b_ld;
  g.b_n = 1;
  g.c_m = c_ld;
  g.c_n = 1;
  g.alpha = alpha;
  g.accumulate = accumulate;
  gemm_simd(g, a, b, c);
}

// H(1) ... H(count) = I - V T V^T, where T is an upper triangle.
template <class T> class Block {
 public:
  // The reflectors are columns of a, below the diagonal.
  Block(const T* a, int64_t ld, int64_t rows, int64_t count, const T* tau)
      : rows_(rows), count_(count), v_(static_cast<size_t>(rows * count)), t_(static_cast<size_t>(count * count)) {
    for (int64_t i = 0; i < rows; ++i) {
      T* row = v_.data() + i * count;
      const int64_t below = std::min(i, count);
      std::copy_n(a + i * ld, below, row);
      if (below < count) row[below] = 1;
    }
    std::vector<T> dots(static_cast<size_t>(count * count));  // V^T V
    multiply(count, count, rows, 1, v_.data(), int64_t{1}, count, v_.data(), count, false, dots.data(), count);
    for (int64_t j = 0; j < count; ++j) {  // column j of T is -tau T dots, for the columns before it
      for (int64_t i = 0; i < j; ++i) {
        T sum = 0;
        for (int64_t k = i; k < j; ++k) sum += t(i, k) * dots[static_cast<size_t>(k * count + j)];
        t(i, j) = -tau[j] * sum;
      }
      t(j, j) = tau[j];
    }
  }
  // c (rows x n) becomes H(1) ... H(count) c, or its transpose times c.
  void apply(bool transposed, T* c, int64_t ld, int64_t n) const {
    if (n == 0) return;
    std::vector<T> w(static_cast<size_t>(count_ * n)), tw(w.size());
    multiply(count_, n, rows_, 1, v_.data(), int64_t{1}, count_, c, ld, false, w.data(), n);
    const int64_t along = transposed ? 1 : count_, across = transposed ? count_ : 1;
    multiply(count_, n, count_, 1, t_.data(), along, across, w.data(), n, false, tw.data(), n);
    multiply(rows_, n, count_, -1, v_.data(), count_, int64_t{1}, tw.data(), n, true, c, ld);
  }

 private:
  T& t(int64_t i, int64_t j) { return t_[static_cast<size_t>(i * count_ + j)]; }
  int64_t rows_, count_;
  std::vector<T> v_, t_;
};

// Some columns, copied from the matrix. They are factored in two halves, down to kLeaf columns.
template <class T> class Panel {
 public:
  Panel(const T* a, int64_t ld, int64_t rows, int64_t columns)
      : rows_(rows),
        columns_(columns),
        values_(static_cast<size_t>(rows * columns)),
        leaf_(static_cast<size_t>(rows * kLeaf)) {
    for (int64_t i = 0; i < rows; ++i) std::copy_n(a + i * ld, columns, at(i, 0));
  }
  void factor(T* tau) { factor(0, columns_, tau); }
  void put_back(T* a, int64_t ld) const {
    for (int64_t i = 0; i < rows_; ++i) std::copy_n(values_.data() + i * columns_, columns_, a + i * ld);
  }
  Block<T> block(const T* tau) const { return {values_.data(), columns_, rows_, columns_, tau}; }

 private:
  T* at(int64_t i, int64_t j) { return values_.data() + i * columns_ + j; }
  void factor(int64_t begin, int64_t end, T* tau) {
    if (end - begin <= kLeaf) return factor_leaf(begin, end, tau);
    const int64_t middle = begin + (end - begin + kLeaf) / (2 * kLeaf) * kLeaf;
    factor(begin, middle, tau);
    Block<T>(at(begin, begin), columns_, rows_ - begin, middle - begin, tau + begin)
      .apply(true, at(begin, middle), columns_, end - middle);
    factor(middle, end, tau);
  }
  // In a copy whose columns are contiguous.
  void factor_leaf(int64_t begin, int64_t end, T* tau) {
    const int64_t rows = rows_ - begin, width = end - begin;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; ++j) leaf_[static_cast<size_t>(j * rows + i)] = *at(begin + i, begin + j);
    for (int64_t k = 0; k < std::min(rows, width); ++k) {
      T* x = leaf_.data() + k * rows + k;
      const T factor = tau[begin + k] = make_reflector(x, int64_t{1}, rows - k), first = *x;
      *x = 1;
      for (int64_t j = k + 1; j < width; ++j) {
        T* y = leaf_.data() + j * rows + k;
        add_scaled(y, -factor * dot(x, y, rows - k), x, rows - k);
      }
      *x = first;
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; ++j) *at(begin + i, begin + j) = leaf_[static_cast<size_t>(j * rows + i)];
  }

  int64_t rows_, columns_;
  std::vector<T> values_, leaf_;
};

template <class T> void qr(T* a, int64_t m, int64_t n, T* tau) {
  const int64_t count = std::min(m, n);
  if (count < kLeastBlocked) {
    std::vector<T> w(static_cast<size_t>(m));
    for (int64_t k = 0; k < count; ++k) {
      T* v = a + k * n + k;
      tau[k] = make_reflector(v, n, m - k);
      reflect_rows(v, n, tau[k], v + 1, n, m - k, n - k - 1, w.data());
    }
    return;
  }
  for (int64_t k = 0; k < count; k += kPanel) {
    const int64_t width = std::min(kPanel, count - k);
    T* corner = a + k * n + k;
    Panel<T> panel(corner, n, m - k, width);
    panel.factor(tau + k);
    panel.put_back(corner, n);
    if (k + width < n) panel.block(tau + k).apply(true, corner + width, n, n - k - width);
  }
}

template <class T>
void q_from_reflectors(const T* a, int64_t m, int64_t n, const T* tau, int64_t count, T* q, int64_t columns) {
  std::fill_n(q, m * columns, T(0));
  for (int64_t i = 0; i < std::min(m, columns); ++i) q[i * columns + i] = 1;
  if (count < kLeastBlocked) {
    std::vector<T> w(static_cast<size_t>(m));
    for (int64_t k = count; k-- > 0;)
      reflect_rows(a + k * n + k, n, tau[k], q + k * columns, columns, m - k, columns, w.data());
    return;
  }
  for (int64_t k = (count - 1) / kPanel * kPanel; k >= 0;
       k -= kPanel) {  // columns before k have no elements below row k yet
    const Block<T> block(a + k * n + k, n, m - k, std::min(kPanel, count - k), tau + k);
    block.apply(false, q + k * columns + k, columns, columns - k);
  }
}

// One by one. The reflectors are copied as rows. A few columns of b are copied as rows too, so that loops are along vectors.
template <class T>
void apply_singly(const T* a, int64_t m, int64_t n, const T* tau, int64_t count, bool transposed, T* b, int64_t r) {
  constexpr int64_t kTile = 16;
  std::vector<T> v(static_cast<size_t>(count * m)), scratch(static_cast<size_t>(m));
  for (int64_t i0 = 0; i0 < m; i0 += kTile)
    for (int64_t k = 0; k < count; ++k)
      for (int64_t i = std::max(i0, k + 1); i < std::min(m, i0 + kTile); ++i)
        v[static_cast<size_t>(k * m + i)] = a[i * n + k];
  const bool few = r <= kFewColumns;
  std::vector<T> rows(static_cast<size_t>(few ? m * r : 0));
  for (int64_t i = 0; few && i < m; ++i)
    for (int64_t j = 0; j < r; ++j) rows[static_cast<size_t>(j * m + i)] = b[i * r + j];
  for (int64_t step = 0; step < count; ++step) {
    const int64_t k = transposed ? step : count - 1 - step;
    T* x = v.data() + k * m + k;
    *x = 1;
    if (few) {
      for (int64_t j = 0; j < r; ++j) {
        T* y = rows.data() + j * m + k;
        add_scaled(y, -tau[k] * dot(x, y, m - k), x, m - k);
      }
    } else reflect_rows(x, 1, tau[k], b + k * r, r, m - k, r, scratch.data());
  }
  for (int64_t i = 0; few && i < m; ++i)
    for (int64_t j = 0; j < r; ++j) b[i * r + j] = rows[static_cast<size_t>(j * m + i)];
}

template <class T>
void apply_reflectors(const T* a, int64_t m, int64_t n, const T* tau, int64_t count, bool transposed, T* b, int64_t r) {
  if (r == 0) return;
  if (count < kLeastApplied || r <= kFewColumns) return apply_singly(a, m, n, tau, count, transposed, b, r);
  const int64_t panels = (count + kPanel - 1) / kPanel;
  for (int64_t step = 0; step < panels; ++step) {
    const int64_t k = (transposed ? step : panels - 1 - step) * kPanel;
    const Block<T> block(a + k * n + k, n, m - k, std::min(kPanel, count - k), tau + k);
    block.apply(transposed, b + k * r, r, r);
  }
}

template <class T> void fill_with_reflectors(Dense<T>& dense) {
  dense.qr_factor = qr<T>;
  dense.form_q = q_from_reflectors<T>;
  dense.apply_q = apply_reflectors<T>;
}
void FillReflectors(Dense<float>& single, Dense<double>& twice) {
  fill_with_reflectors(single);
  fill_with_reflectors(twice);
}
}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(FillReflectors);
void detail::fill_reflectors(Dense<float>& single, Dense<double>& twice) {
  HWY_DYNAMIC_DISPATCH(FillReflectors)(single, twice);
}
}  // namespace strata::cpu
#endif
