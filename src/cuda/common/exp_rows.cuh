// Sums of exponentials of contiguous rows, in one pass: a running maximum and the sum of the exponentials below it.
//
// A row has a power of two of threads. Rows of odd length are not aligned: the elements before the first 16-byte boundary
// and after the last one are read one by one, those between in vectors. Partial results are combined in an order that
// depends on the shape only.
#pragma once
#include "cuda/common/eights.cuh"
#include "cuda/common/exp_sum.cuh"

namespace strata::cuda {

struct ExpRow {
  int64_t row, base;  // its number and its first element
  int thread;
  bool exists;
  int64_t head, vectors;  // elements before the first boundary; whole vectors after it
};
// P has x, type, threads and rows. singly: no vectors.
template <class P> __device__ __forceinline__ ExpRow exp_row_of(const P& p, int64_t n, bool singly) {
  const int shift = 31 - __clz(p.threads);
  ExpRow r;
  r.row = int64_t(blockIdx.x) * (blockDim.x >> shift) + (threadIdx.x >> shift);
  r.base = r.row * n;
  r.thread = int(threadIdx.x) & (p.threads - 1);
  r.exists = r.row < p.rows;
  // Vectors of eight: 16 bytes of a 16-bit type, 32 or 64 bytes of wider ones, which are read in parts of 16.
  const uint64_t size = p.type == kF64 ? 8 : p.type == kF32 ? 4 : 2;
  const uint64_t off = (p.x + uint64_t(r.base) * size) % 16;
  r.head = singly ? n : min(int64_t((16 - off) % 16 / size), n);
  r.vectors = (n - r.head) / 8;
  return r;
}

// The sum of a row, for all of its threads. All threads of the block call it.
template <class T, bool kInfinities, class P>
__device__ __forceinline__ ExpSum<T, kInfinities> exp_sum_of(const P& p, const ExpRow& r, int64_t n,
                                                             T (&space)[2][32]) {
  constexpr int kVectors = kExpVectors;
  const bool coarse = p.type == kBF16 || p.type == kF16;
  ExpSum<T, kInfinities> own;
  const auto single = [&](int64_t i) {
    const T v = load<T>(element(p.x, p.type, r.base + i), p.type);
    own.raise(v, coarse);
    own.add(v, coarse);
  };
  if (r.exists) {
    for (int64_t i = r.thread; i < r.head; i += p.threads) single(i);
    for (int64_t i = r.head + r.vectors * 8 + r.thread; i < n; i += p.threads) single(i);
    const int64_t first = r.base + r.head;
    for (int64_t v = r.thread; v < r.vectors; v += int64_t(p.threads) * kVectors) {
      Eights<T, kVectors, Types::Common> x;
      x.template load<true>(
        p.type, [&](int k) { return element(p.x, p.type, first + (v + int64_t(k) * p.threads) * 8); },
        [&](int k) { return v + int64_t(k) * p.threads < r.vectors; });
      T most = T(-INFINITY);
      x.each(p.type, [&](int, int, T e) { most = max(most, e); });
      own.raise(most, coarse);
      x.each(p.type, [&](int, int, T e) { own.add(e, coarse); });
    }
  }
  own.finish(p.threads, coarse, space);
  return own;
}

}  // namespace strata::cuda
