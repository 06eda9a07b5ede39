// Small matrices are read in place. Larger ones are packed: a in blocks of kHeight x kDepth, b in blocks of kDepth x
// kAcross, as the register tiles read them. Bound by the multiply-add rate.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linalg/gemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "cpu/linalg/gemm.h"
#include "cpu/linalg/gemm_narrow.h"
#include "tensor/allocator.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#include "cpu/linalg/gemm_tiles.inl"

#include "cpu/linalg/gemm_packed.inl"
constexpr int64_t kBf16Block = 4096;           // products added in float before they are added to a double
constexpr int64_t kManyRows = 64;              // b is packed
constexpr int64_t kWork = 64 * 64 * 64;        // multiplications that take as long as waking a thread
constexpr int64_t kBatchesEach = 4;            // from so many matrices per thread on, matrices are not divided
constexpr int64_t kRowsTogether = 16 * kRows;  // of one thread, without packing

// The rows [first, last) of the product, with a and b in place; b has unit stride along n.
template <class T> void in_place(const Gemm& g, const T* a, const T* b, T* c, int64_t first, int64_t last) {
  const int64_t width = kVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t j = 0; j < g.n; j += width)
    for (int64_t i = first; i < last; i += kRows)
      micro_rows<kRows, T>(std::min<int64_t>(kRows, last - i), g.k, a + i * g.a_m, g.a_m, g.a_k, b + j, g.b_k,
                           c + i * g.c_m + j, g.c_m, std::min(width, g.n - j), static_cast<T>(g.alpha), g.accumulate);
}

// The same for short sums: few rows at a time and along them, so that the result is written in order.
template <class T> void in_place_shallow(const Gemm& g, const T* a, const T* b, T* c, int64_t first, int64_t last) {
  constexpr int64_t kFew = 4;
  const int64_t width = kVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t i = first; i < last; i += kFew)
    for (int64_t j = 0; j < g.n; j += width)
      micro_rows<kFew, T>(std::min<int64_t>(kFew, last - i), g.k, a + i * g.a_m, g.a_m, g.a_k, b + j, g.b_k,
                          c + i * g.c_m + j, g.c_m, std::min(width, g.n - j), static_cast<T>(g.alpha), g.accumulate);
}

template <class T> void run(const Gemm& g, const T* a, const T* b, T* c) {
  const int64_t batches = g.batches();
  if (g.m == 0 || g.n == 0 || batches == 0) return;
  // Small: no packing. The panel of b that one column of tiles reads must stay in the L1 cache.
  const bool small = g.k <= kDepth && g.n * g.k <= 64 * 256 && (g.m < kManyRows || g.b_k <= 64);
  if (g.b_n == 1 && (small || gemm_is_shallow(g))) {
    const int64_t row_work = g.n * std::max(g.k, kShallow);
    const int64_t together = std::clamp<int64_t>(kWork / row_work / kRows, 1, kRowsTogether / kRows) * kRows;
    const int64_t groups = (g.m + together - 1) / together;
    const int64_t work = std::min(g.m, together) * row_work;
    return parallel_for(batches * groups, std::max<int64_t>(1, kWork / work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t ao, bo, co;
        g.offsets(i / groups, ao, bo, co);
        const int64_t first = i % groups * together;
        const auto part = gemm_is_shallow(g) ? in_place_shallow<T> : in_place<T>;
        part(g, a + ao, b + bo, c + co, first, std::min(g.m, first + together));
      }
    });
  }
  constexpr int64_t kWidth = kVectors * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  const int64_t work = g.m * g.n * g.k, threads = num_threads();
  const int64_t parts = batches >= kBatchesEach * threads ? 1 : std::clamp<int64_t>(work / kWork, 1, threads);
  const Grid grid = cut(g.m, g.n, parts, kRows, kWidth);
  const int64_t tiles = grid.down * grid.across;
  parallel_for(
    batches * tiles, std::max<int64_t>(1, kWork * tiles / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
      const int64_t panel = std::min(kAcross, grid.width);
      const auto space = allocate(static_cast<size_t>(kDepth * (kHeight + panel)) * sizeof(T));
      for (int64_t t = begin; t < end; ++t) {
        int64_t ao, bo, co;
        g.offsets(t / tiles, ao, bo, co);
        const int64_t top = t % tiles / grid.across * grid.height, left = t % tiles % grid.across * grid.width;
        const Part part{top, std::min(grid.height, g.m - top), left, std::min(grid.width, g.n - left)};
        product_of_part(g, part, a + ao, b + bo, c + co, reinterpret_cast<T*>(space->data));
      }
    });
}

// y[r] = alpha * sum_k matrix[r, k] x[k] (+ y). Rows with unit stride along k: four dot products at a time.
template <class T>
void dot_rows(int64_t rows, int64_t k, const T* matrix, int64_t stride, const T* x, T* y, int64_t y_stride, T alpha,
              bool accumulate) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r) {
    const T* m = matrix + r * stride;
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * lanes <= k; i += 4 * lanes) {
      s0 = hn::MulAdd(hn::LoadU(d, m + i), hn::LoadU(d, x + i), s0);
      s1 = hn::MulAdd(hn::LoadU(d, m + i + lanes), hn::LoadU(d, x + i + lanes), s1);
      s2 = hn::MulAdd(hn::LoadU(d, m + i + 2 * lanes), hn::LoadU(d, x + i + 2 * lanes), s2);
      s3 = hn::MulAdd(hn::LoadU(d, m + i + 3 * lanes), hn::LoadU(d, x + i + 3 * lanes), s3);
    }
    for (; i < k; i += lanes) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, k - i)));
      s0 = hn::MulAdd(hn::MaskedLoad(mask, d, m + i), hn::MaskedLoad(mask, d, x + i), s0);
    }
    const T sum = alpha * hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
    y[r * y_stride] = accumulate ? y[r * y_stride] + sum : sum;
  }
}

// y[j] = alpha * sum_p x[p] rows[p, j] (+ y), j < n: four rows at a time, y stays in the L1 cache.
template <class T>
void add_rows(int64_t k, int64_t n, const T* x, int64_t x_step, const T* rows, int64_t stride, T* y, T alpha,
              bool accumulate) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t p = 0; p < k; p += 4) {
    const int64_t count = std::min<int64_t>(4, k - p);
    const auto factor = [&](int64_t q) HWY_ATTR { return hn::Set(d, q < count ? alpha * x[(p + q) * x_step] : T(0)); };
    const auto f0 = factor(0), f1 = factor(1), f2 = factor(2), f3 = factor(3);
    const T* r0 = rows + p * stride;
    const T *r1 = count > 1 ? r0 + stride : nullptr, *r2 = count > 2 ? r0 + 2 * stride : nullptr,
            *r3 = count > 3 ? r0 + 3 * stride : nullptr;
    const bool keep = accumulate || p > 0;
    for (int64_t j = 0; j < n; j += lanes) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - j)));
      auto sum = keep ? hn::MaskedLoad(mask, d, y + j) : hn::Zero(d);
      sum = hn::MulAdd(f0, hn::MaskedLoad(mask, d, r0 + j), sum);
      if (r1) sum = hn::MulAdd(f1, hn::MaskedLoad(mask, d, r1 + j), sum);
      if (r2) sum = hn::MulAdd(f2, hn::MaskedLoad(mask, d, r2 + j), sum);
      if (r3) sum = hn::MulAdd(f3, hn::MaskedLoad(mask, d, r3 + j), sum);
      hn::BlendedStore(sum, mask, d, y + j);
    }
  }
}

// dot_rows of bfloat16 with sums in float.
template <class Out>
void dot_rows_of_bf16(int64_t rows, int64_t k, const BFloat16* matrix, int64_t stride, const BFloat16* x, Out* y,
                      int64_t y_stride, float alpha) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const BFloat16* p) HWY_ATTR {
    const hn::Rebind<uint32_t, decltype(d)> wide;
    const hn::Rebind<uint16_t, decltype(d)> narrow;
    const auto bits = hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(p)));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  };
  for (int64_t r = 0; r < rows; ++r) {
    const BFloat16* m = matrix + r * stride;
    double total = 0;
    for (int64_t at = 0; at < k; at += kBf16Block) {
      const int64_t end = std::min(k, at + kBf16Block);
      auto s0 = hn::Zero(d), s1 = s0;
      int64_t i = at;
      for (; i + 2 * lanes <= end; i += 2 * lanes) {
        s0 = hn::MulAdd(load(m + i), load(x + i), s0);
        s1 = hn::MulAdd(load(m + i + lanes), load(x + i + lanes), s1);
      }
      float rest = 0;
      for (; i < end; ++i) rest += static_cast<float>(m[i]) * static_cast<float>(x[i]);
      total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1))) + rest);
    }
    y[r * y_stride] = Out(alpha * static_cast<float>(total));
  }
}
void dot_rows_bf16(int64_t rows, int64_t k, const BFloat16* matrix, int64_t stride, const BFloat16* x, BFloat16* y,
                   int64_t y_stride, float alpha) {
  dot_rows_of_bf16(rows, k, matrix, stride, x, y, y_stride, alpha);
}
void dot_sums_bf16(int64_t rows, int64_t k, const BFloat16* matrix, int64_t stride, const BFloat16* x, float* y,
                   int64_t y_stride, float alpha) {
  dot_rows_of_bf16(rows, k, matrix, stride, x, y, y_stride, alpha);
}

void gemm_f32(const Gemm& g, const float* a, const float* b, float* c) { run(g, a, b, c); }
void gemm_f64(const Gemm& g, const double* a, const double* b, double* c) { run(g, a, b, c); }
void gemv_f32(int64_t rows, int64_t k, const float* m, int64_t stride, const float* x, float* y, int64_t y_stride,
              float alpha, bool accumulate) {
  dot_rows(rows, k, m, stride, x, y, y_stride, alpha, accumulate);
}
void gemv_f64(int64_t rows, int64_t k, const double* m, int64_t stride, const double* x, double* y, int64_t y_stride,
              double alpha, bool accumulate) {
  dot_rows(rows, k, m, stride, x, y, y_stride, alpha, accumulate);
}

void thin_f32(int64_t k, int64_t n, const float* x, int64_t x_step, const float* rows, int64_t stride, float* y,
              float alpha, bool accumulate) {
  add_rows(k, n, x, x_step, rows, stride, y, alpha, accumulate);
}
void thin_f64(int64_t k, int64_t n, const double* x, int64_t x_step, const double* rows, int64_t stride, double* y,
              double alpha, bool accumulate) {
  add_rows(k, n, x, x_step, rows, stride, y, alpha, accumulate);
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {

HWY_EXPORT(gemm_f32);
HWY_EXPORT(gemm_f64);
HWY_EXPORT(gemv_f32);
HWY_EXPORT(gemv_f64);
HWY_EXPORT(thin_f32);
HWY_EXPORT(thin_f64);
HWY_EXPORT(dot_rows_bf16);
HWY_EXPORT(dot_sums_bf16);

namespace {
// The tiles require unit stride along n in c. A transposed c is the product of the transposed factors.
template <class T, class F> void with_rows(Gemm g, const T* a, const T* b, T* c, F f) {
  if (g.k == 0 && g.accumulate) return;
  if (g.c_n != 1 && g.n > 1 && (g.c_m == 1 || g.m == 1)) {
    g = transposed(g);
    std::swap(a, b);
  }
  if (g.n == 1) g.c_n = 1;
  if (g.n == 1 && g.b_n != 1) g.b_n = 1;
  if (g.c_n == 1) return f(g, a, b, c);
  const int64_t batches = g.batches();
  const auto space = allocate(static_cast<size_t>(g.m * g.n) * sizeof(T));
  T* t = reinterpret_cast<T*>(space->data);
  for (int64_t batch = 0; batch < batches; ++batch) {
    int64_t ao, bo, co;
    g.offsets(batch, ao, bo, co);
    Gemm one = g;
    one.batch_dims = 0;
    one.c_m = g.n;
    one.c_n = 1;
    for (int64_t i = 0; g.accumulate && i < g.m * g.n; ++i) t[i] = c[co + i / g.n * g.c_m + i % g.n * g.c_n];
    f(one, a + ao, b + bo, t);
    for (int64_t i = 0; i < g.m * g.n; ++i) c[co + i / g.n * g.c_m + i % g.n * g.c_n] = t[i];
  }
}
}  // namespace

namespace {
// Element accesses that take as long as waking a thread: smaller work is not distributed.
constexpr int64_t kThinWork = 1 << 17;
constexpr int64_t kThinPieces = 16;
constexpr int64_t kDotWork = 1 << 16;  // the same for rows times a vector, whose results need no further addition

// A vector times a matrix with unit stride along n, or a column times a row: memory-bound.
bool is_thin(const Gemm& g) {
  return g.batch_dims == 0 && g.k > 0 && (g.m == 1 || g.k == 1) && g.b_n == 1 && g.c_n == 1 && g.n > 1;
}
// The same with the factors exchanged: a transposed matrix times a vector, as in gradients of matrix times vector.
bool is_thin_transposed(const Gemm& g) { return g.n == 1 && is_thin(transposed(g)); }
template <class T, class F> bool thin(const Gemm& g, const T* a, const T* b, T* c, F f) {
  if (!is_thin(g)) return is_thin_transposed(g) && thin(transposed(g), b, a, c, f);
  if (g.k == 1) {
    parallel_for(g.m, std::max<int64_t>(1, kThinWork / g.n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        f(g.k, g.n, a + i * g.a_m, g.a_k, b, g.b_k, c + i * g.c_m, static_cast<T>(g.alpha), g.accumulate);
    });
    return true;
  }
  // Threads partition the rows, as do products with the transposed matrix and updates of it, so that lines stay in
  // their caches. The partition depends on the sizes only, so any number of threads gives the same bits.
  const int64_t pieces = g.k * g.n < kThinWork || g.k < 4 * kThinPieces ? 1 : kThinPieces;
  if (pieces == 1) {
    f(g.k, g.n, a, g.a_k, b, g.b_k, c, static_cast<T>(g.alpha), g.accumulate);
    return true;
  }
  const auto partial = allocate(static_cast<size_t>(pieces * g.n) * sizeof(T));
  T* sums = reinterpret_cast<T*>(partial->data);
  parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      const int64_t begin = g.k * p / pieces, end = g.k * (p + 1) / pieces;
      f(end - begin, g.n, a + begin * g.a_k, g.a_k, b + begin * g.b_k, g.b_k, sums + p * g.n, static_cast<T>(g.alpha),
        false);
    }
  });
  for (int64_t j = 0; !g.accumulate && j < g.n; ++j) c[j] = sums[j];
  for (int64_t p = g.accumulate ? 0 : 1; p < pieces; ++p)
    for (int64_t j = 0; j < g.n; ++j) c[j] += sums[p * g.n + j];
  return true;
}

template <class T> using Factor = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

// Few long rows are cut along k into pieces of this many elements, which threads share. The pieces depend on the sizes only,
// so any number of threads gives the same sum.
constexpr int64_t kDotPiece = 1 << 14;
constexpr int64_t kFewDots = 64;

template <class T, class F>
void long_dots(int64_t rows, int64_t k, const T* matrix, int64_t stride, const T* x, T* y, int64_t step, double alpha,
               bool accumulate, F f) {
  const int64_t pieces = (k + kDotPiece - 1) / kDotPiece;
  std::vector<Factor<T>> sums(static_cast<size_t>(rows * pieces));
  parallel_for(rows * pieces, 2, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i % pieces * kDotPiece;
      f(int64_t{1}, std::min(kDotPiece, k - at), matrix + i / pieces * stride + at, stride, x + at, sums.data() + i,
        int64_t{1}, Factor<T>(1), false);
    }
  });
  for (int64_t r = 0; r < rows; ++r) {
    const auto first = sums.begin() + r * pieces;
    T& out = y[r * step];
    const double before = accumulate ? static_cast<double>(static_cast<Factor<T>>(out)) : 0;
    out = T(static_cast<Factor<T>>(before + alpha * std::accumulate(first, first + pieces, 0.0)));
  }
}

// A matrix with unit stride along k times a vector: memory-bound, so the matrix is read once, in order. False: not this
// form.
template <class T, class F> bool matrix_vector(const Gemm& g, const T* a, const T* b, T* c, F f) {
  if (!gemm_is_dots(g)) return false;
  const bool right = g.n == 1;
  const int64_t rows = right ? g.m : g.n, stride = right ? g.a_m : g.b_n, step = right ? g.c_m : g.c_n;
  const T *matrix = right ? a : b, *x = right ? b : a;
  if (rows < kFewDots && g.k >= 4 * kDotPiece)
    long_dots(rows, g.k, matrix, stride, x, c, step, g.alpha, g.accumulate, f);
  else
    parallel_for(rows, std::max<int64_t>(1, kDotWork / g.k), [&](int64_t begin, int64_t end) {
      f(end - begin, g.k, matrix + begin * stride, stride, x, c + begin * step, step, static_cast<Factor<T>>(g.alpha),
        g.accumulate);
    });
  return true;
}

struct Bf16Dots {
  void operator()(int64_t rows, int64_t k, const BFloat16* m, int64_t stride, const BFloat16* x, BFloat16* y,
                  int64_t step, float alpha, bool) const {
    HWY_DYNAMIC_DISPATCH(dot_rows_bf16)(rows, k, m, stride, x, y, step, alpha);
  }
  void operator()(int64_t rows, int64_t k, const BFloat16* m, int64_t stride, const BFloat16* x, float* y, int64_t step,
                  float alpha, bool) const {
    HWY_DYNAMIC_DISPATCH(dot_sums_bf16)(rows, k, m, stride, x, y, step, alpha);
  }
};
}  // namespace

bool gemm_is_dots(const Gemm& g) {
  return g.batch_dims == 0 && g.k > 0 && g.a_k == 1 && g.b_k == 1 && (g.n == 1 || g.m == 1);
}
bool gemm_is_matrix_vector(const Gemm& g) { return is_thin(g) || is_thin_transposed(g) || gemm_is_dots(g); }

void gemm_simd(const Gemm& g, const float* a, const float* b, float* c) {
  if (gemm_is_narrow(g)) return gemm_narrow(g, a, b, c);
  if (matrix_vector(g, a, b, c, [](auto... v) { HWY_DYNAMIC_DISPATCH(gemv_f32)(v...); })) return;
  if (thin(g, a, b, c, [](auto... v) { HWY_DYNAMIC_DISPATCH(thin_f32)(v...); })) return;
  with_rows(g, a, b, c, [](const Gemm& h, const float* x, const float* y, float* z) {
    if (h.k == 0) return gemm_reference(h, x, y, z);
    HWY_DYNAMIC_DISPATCH(gemm_f32)(h, x, y, z);
  });
}
void gemm_simd(const Gemm& g, const double* a, const double* b, double* c) {
  if (gemm_is_narrow(g)) return gemm_narrow(g, a, b, c);
  if (matrix_vector(g, a, b, c, [](auto... v) { HWY_DYNAMIC_DISPATCH(gemv_f64)(v...); })) return;
  if (thin(g, a, b, c, [](auto... v) { HWY_DYNAMIC_DISPATCH(thin_f64)(v...); })) return;
  with_rows(g, a, b, c, [](const Gemm& h, const double* x, const double* y, double* z) {
    if (h.k == 0) return gemm_reference(h, x, y, z);
    HWY_DYNAMIC_DISPATCH(gemm_f64)(h, x, y, z);
  });
}

bool gemv_bf16(const Gemm& g, const BFloat16* a, const BFloat16* b, BFloat16* c) {
  return !g.accumulate && matrix_vector(g, a, b, c, Bf16Dots());
}

}  // namespace strata::cpu
#endif
