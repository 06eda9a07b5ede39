// c = alpha * a b (+ c) for 2 to 12 columns of b. If the rows of a are contiguous, a few rows are multiplied with all columns at
// a time: each vector of a is loaded once, and b, which is small, is copied into the order in which it is read. If the columns
// of a are contiguous, strips of a few vectors of rows are summed in registers while k advances. In both, every element of c
// has a sum of its own, in an order that does not depend on which thread computes it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linalg/gemm_narrow_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/parallel.h"
#include "cpu/linalg/gemm_narrow.h"
#include "tensor/allocator.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kWork = 1 << 16;                   // elements of a that take as long to read as waking a thread
constexpr int64_t kDepth = 128;                      // rows of k that all strips read before the next ones
constexpr int64_t kPieces = 16, kPieceDepth = 2048;  // of k, if there are few strips
#if HWY_TARGET <= HWY_AVX3
constexpr int kSums = 24;  // vectors of sums that fit the registers
#else
constexpr int kSums = 12;
#endif
constexpr int held(int columns) { return std::max(1, std::min(4, kSums / columns)); }

template <class T> constexpr int64_t lanes_of() { return static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>())); }

template <class T> void put(T* to, T sum, const Gemm& g) {
  const T value = static_cast<T>(g.alpha) * sum;
  *to = g.accumulate ? *to + value : value;
}

// kR rows of a, contiguous along k, times kN columns; packed[column][k], with zeros up to a multiple of the lanes.
template <int kR, int kN, class T>
HWY_INLINE void dots(const Gemm& g, const T* a, const T* packed, int64_t padded, T* c) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kR][kN];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) sum[r][j] = hn::Zero(d);
  const auto step = [&](int64_t p, auto&& load) HWY_ATTR {
    hn::Vec<decltype(d)> row[kR];
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) row[r] = load(a + r * g.a_m + p);
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) {
      const auto column = hn::LoadU(d, packed + j * padded + p);
#pragma GCC unroll 8
      for (int r = 0; r < kR; ++r) sum[r][j] = hn::MulAdd(row[r], column, sum[r][j]);
    }
  };
  int64_t p = 0;
  for (; p + lanes <= g.k; p += lanes) step(p, [&](const T* from) HWY_ATTR { return hn::LoadU(d, from); });
  if (p < g.k) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(g.k - p));
    step(p, [&](const T* from) HWY_ATTR { return hn::MaskedLoad(mask, d, from); });
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) put(c + r * g.c_m + j * g.c_n, hn::GetLane(hn::SumOfLanes(d, sum[r][j])), g);
}

template <int kR, int kN, class T>
void last_dots(int64_t rows, const Gemm& g, const T* a, const T* packed, int64_t padded, T* c) {
  if constexpr (kR > 0) {
    if (rows == kR) return dots<kR, kN>(g, a, packed, padded, c);
    last_dots<kR - 1, kN>(rows, g, a, packed, padded, c);
  }
}

template <int kN, class T> void by_rows(const Gemm& g, const T* a, const T* b, T* c) {
  constexpr int kR = held(kN);
  const int64_t lanes = lanes_of<T>(), padded = (g.k + lanes - 1) / lanes * lanes, batches = g.batches();
  const bool one_b = std::all_of(g.b_b, g.b_b + g.batch_dims, [](int64_t step) { return step == 0; });
  const int64_t copies = one_b ? 1 : batches;
  const auto space = allocate(static_cast<size_t>(copies * kN * padded) * sizeof(T));
  T* packed = reinterpret_cast<T*>(space->data);
  constexpr int64_t kGathered = kWork / 8;  // elements, one after the other
  parallel_for(copies, std::max<int64_t>(1, kGathered / (kN * padded)), [&](int64_t begin, int64_t end) {
    for (int64_t batch = begin; batch < end; ++batch) {
      int64_t ao, bo, co;
      g.offsets(batch, ao, bo, co);
      T* to = packed + batch * kN * padded;
      for (int j = 0; j < kN; ++j) {
        for (int64_t p = 0; p < g.k; ++p) to[j * padded + p] = b[bo + p * g.b_k + j * g.b_n];
        std::fill(to + j * padded + g.k, to + (j + 1) * padded, T(0));
      }
    }
  });
  const int64_t groups = (g.m + kR - 1) / kR;
  parallel_for(batches * groups, std::max<int64_t>(1, kWork / (kR * g.k)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / groups, row = i % groups * kR;
      int64_t ao, bo, co;
      g.offsets(batch, ao, bo, co);
      const T* columns = packed + (one_b ? 0 : batch) * kN * padded;
      last_dots<kR, kN>(std::min<int64_t>(kR, g.m - row), g, a + ao + row * g.a_m, columns, padded,
                        c + co + row * g.c_m);
    }
  });
}

// Adds the products of `depth` values of k to the sums of a strip: sums[column][row of the strip].
template <int kV, int kN, class T>
HWY_INLINE void add_strip(int64_t depth, const T* a, int64_t a_k, const T* b, T* sums, int64_t rows) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kV][kN];
  const bool whole = rows == kV * lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(rows - (kV - 1) * lanes));
#pragma GCC unroll 8
  for (int v = 0; v < kV; ++v)
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) sum[v][j] = hn::LoadU(d, sums + (j * kV + v) * lanes);
  const auto step = [&](int64_t p, auto&& load_last) HWY_ATTR {
    hn::Vec<decltype(d)> row[kV];
#pragma GCC unroll 8
    for (int v = 0; v + 1 < kV; ++v) row[v] = hn::LoadU(d, a + p * a_k + v * lanes);
    row[kV - 1] = load_last(a + p * a_k + (kV - 1) * lanes);
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) {
      const auto factor = hn::Set(d, b[p * kN + j]);
#pragma GCC unroll 8
      for (int v = 0; v < kV; ++v) sum[v][j] = hn::MulAdd(row[v], factor, sum[v][j]);
    }
  };
  if (whole)
    for (int64_t p = 0; p < depth; ++p) step(p, [&](const T* from) HWY_ATTR { return hn::LoadU(d, from); });
  else
    for (int64_t p = 0; p < depth; ++p) step(p, [&](const T* from) HWY_ATTR { return hn::MaskedLoad(mask, d, from); });
#pragma GCC unroll 8
  for (int v = 0; v < kV; ++v)
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) hn::StoreU(sum[v][j], d, sums + (j * kV + v) * lanes);
}

// The last strip may have fewer vectors.
template <int kV, int kN, class T>
void last_strip(int64_t rows, int64_t depth, const T* a, int64_t a_k, const T* b, T* sums) {
  if constexpr (kV > 0) {
    if (rows > (kV - 1) * lanes_of<T>()) return add_strip<kV, kN>(depth, a, a_k, b, sums, rows);
    last_strip<kV - 1, kN>(rows, depth, a, a_k, b, sums);
  }
}

template <int kN, class T> void by_columns(const Gemm& g, const T* a, const T* b, T* c) {
  constexpr int kV = held(kN);
  constexpr int64_t kLanes = lanes_of<T>(), kStrip = kV * kLanes;
  const int64_t batches = g.batches(), strips = (g.m + kStrip - 1) / kStrip, all = batches * strips;
  const int64_t pieces = std::clamp<int64_t>(std::min(g.k / kPieceDepth, kPieces / all), 1, kPieces);
  const auto space = allocate(static_cast<size_t>(batches * g.k * kN + pieces * all * kStrip * kN) * sizeof(T));
  T *packed = reinterpret_cast<T*>(space->data), *sums = packed + batches * g.k * kN;
  parallel_for(batches * g.k, std::max<int64_t>(1, kWork / kN), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t ao, bo, co;
      g.offsets(i / g.k, ao, bo, co);
      for (int j = 0; j < kN; ++j) packed[i * kN + j] = b[bo + i % g.k * g.b_k + j * g.b_n];
    }
  });
  // Of strip i: rows of c and their sum over all pieces.
  const auto finish = [&](int64_t i) {
    const int64_t first = i % strips * kStrip, rows = std::min(kStrip, g.m - first),
                  stride = (rows + kLanes - 1) / kLanes * kLanes;
    int64_t ao, bo, co;
    g.offsets(i / strips, ao, bo, co);
    for (int64_t r = 0; r < rows; ++r)
      for (int j = 0; j < kN; ++j) {
        T sum = 0;
        for (int64_t p = 0; p < pieces; ++p) sum += sums[(p * all + i) * kStrip * kN + j * stride + r];
        put(c + co + (first + r) * g.c_m + j * g.c_n, sum, g);
      }
  };
  parallel_for(pieces * all, std::max<int64_t>(1, kWork * pieces / (kStrip * g.k)), [&](int64_t begin, int64_t end) {
    std::fill(sums + begin * kStrip * kN, sums + end * kStrip * kN, T(0));
    for (int64_t at = begin, next; at < end; at = next) {
      const int64_t piece = at / all, batch = at % all / strips;
      next = std::min(end, at - at % strips + strips);
      int64_t ao, bo, co;
      g.offsets(batch, ao, bo, co);
      const int64_t last = g.k * (piece + 1) / pieces;
      for (int64_t p = g.k * piece / pieces, depth; p < last; p += depth) {
        depth = std::min(kDepth, last - p);
        for (int64_t i = at; i < next; ++i) {
          const int64_t first = i % strips * kStrip;
          last_strip<kV, kN>(std::min(kStrip, g.m - first), depth, a + ao + first + p * g.a_k, g.a_k,
                             packed + (batch * g.k + p) * kN, sums + i * kStrip * kN);
        }
      }
    }
    for (int64_t i = begin; pieces == 1 && i < end; ++i) finish(i);
  });
  for (int64_t i = 0; pieces > 1 && i < all; ++i) finish(i);
}

template <int kN, class T> void run(const Gemm& g, const T* a, const T* b, T* c) {
  if constexpr (kN > 1) {
    if (g.n != kN) return run<kN - 1>(g, a, b, c);
    if (g.a_k == 1) by_rows<kN>(g, a, b, c);
    else by_columns<kN>(g, a, b, c);
  }
}
}  // namespace

void narrow_f32(const Gemm& g, const float* a, const float* b, float* c) { run<kMostColumns>(g, a, b, c); }
void narrow_f64(const Gemm& g, const double* a, const double* b, double* c) { run<kMostColumns>(g, a, b, c); }

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {

HWY_EXPORT(narrow_f32);
HWY_EXPORT(narrow_f64);

namespace {
// A large factor of m x k, with these strides, to be multiplied with n columns.
bool few_columns(int64_t n, int64_t m, int64_t k, int64_t down, int64_t along) {
  if (n < 2 || n > kMostColumns || m < kLeastRows) return false;
  return (along == 1 && k >= kLeastDepth) || (down == 1 && k >= kLeastRows && std::max(m, k / 4) >= kLeastDepth);
}
bool few_columns(const Gemm& g) { return few_columns(g.n, g.m, g.k, g.a_m, g.a_k); }
template <class T, class F> void narrow(const Gemm& g, const T* a, const T* b, T* c, F f) {
  if (g.batches() == 0) return;
  if (few_columns(g)) f(g, a, b, c);
  else f(transposed(g), b, a, c);
}
}  // namespace

bool gemm_is_narrow(const Gemm& g) { return few_columns(g) || few_columns(g.m, g.n, g.k, g.b_n, g.b_k); }

void gemm_narrow(const Gemm& g, const float* a, const float* b, float* c) {
  narrow(g, a, b, c, [](auto... v) { HWY_DYNAMIC_DISPATCH(narrow_f32)(v...); });
}
void gemm_narrow(const Gemm& g, const double* a, const double* b, double* c) {
  narrow(g, a, b, c, [](auto... v) { HWY_DYNAMIC_DISPATCH(narrow_f64)(v...); });
}

}  // namespace strata::cpu
#endif
