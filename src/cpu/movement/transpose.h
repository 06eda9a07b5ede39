// Transposes blocks of a matrix in registers.
//
// L x L elements (L = 16 bytes / element size) are transposed by log2(L) rounds of interleaving vector i with vector i
// + L/2. A tile is 64 bytes wide in both directions, so that every cache line is used completely. Bound by memory.
#pragma once
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "tensor/dtype.h"

namespace strata::cpu {

template <class T> struct Vec16 {
  static constexpr int kLanes = 16 / sizeof(T);
  typedef T type [[gnu::vector_size(16)]];
};

template <class V, int kLanes, size_t... i> inline V interleave_low(V a, V b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (i % 2 ? kLanes + i / 2 : i / 2)...);
}
template <class V, int kLanes, size_t... i> inline V interleave_high(V a, V b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (i % 2 ? kLanes + kLanes / 2 + i / 2 : kLanes / 2 + i / 2)...);
}

// v[i][j] becomes v[j][i].
template <class T> inline void transpose_block(typename Vec16<T>::type* v) {
  using V = typename Vec16<T>::type;
  constexpr int n = Vec16<T>::kLanes;
  constexpr auto lanes = std::make_index_sequence<n>();
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
    V w[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      w[2 * i] = interleave_low<V, n>(v[i], v[i + n / 2], lanes);
      w[2 * i + 1] = interleave_high<V, n>(v[i], v[i + n / 2], lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) v[i] = w[i];
  }
}

// Non-temporal stores: for outputs larger than the cache, which would otherwise be read before they are written.
template <bool kStream, class V> inline void store_vector(void* to, V v) {
#ifdef __SSE2__
  if constexpr (kStream) return _mm_stream_si128(static_cast<__m128i*>(to), reinterpret_cast<__m128i>(v));
#endif
  std::memcpy(to, &v, sizeof v);
}

// d[r * ds + c] = s[c * ss + r] for r < rows, c < cols. kStream: d and ds are multiples of 16 bytes. A line block is
// read completely before it is written: with power-of-two strides the cache could not hold its lines longer.
template <class T, bool kStream>
void transpose_tile(T* d, int64_t ds, const T* s, int64_t ss, int64_t rows, int64_t cols) {
  using V = typename Vec16<T>::type;
  constexpr int n = Vec16<T>::kLanes, line = 4 * n;
  alignas(64) T block[line * line];
  int64_t c = 0;
  for (; c + line <= cols; c += line) {
    int64_t r = 0;
    for (; r + line <= rows; r += line) {
      for (int i = 0; i < line; i += n)
        for (int j = 0; j < line; j += n) {
          V v[n];
          for (int k = 0; k < n; ++k) std::memcpy(&v[k], s + (c + i + k) * ss + r + j, sizeof(V));
          transpose_block<T>(v);
          for (int k = 0; k < n; ++k) std::memcpy(block + (j + k) * line + i, &v[k], sizeof(V));
        }
      for (int j = 0; j < line; ++j)
        for (int i = 0; i < line; i += n) {
          V v;
          std::memcpy(&v, block + j * line + i, sizeof(V));
          store_vector<kStream>(d + (r + j) * ds + c + i, v);
        }
    }
    for (; r < rows; ++r)
      for (int i = 0; i < line; ++i) d[r * ds + c + i] = s[(c + i) * ss + r];
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = c; k < cols; ++k) d[r * ds + k] = s[k * ss + r];
}

}  // namespace strata::cpu
