// Our own matrix products: c = alpha * a b (+ c), any strides, for float, double and int64.
#pragma once
#include <cstdint>
#include <utility>

#include "device/product.h"
#include "tensor/dtype.h"

namespace strata::cpu {

struct Gemm : Product {
  bool accumulate = false;

  int64_t batches() const {
    int64_t count = 1;
    for (int d = 0; d < batch_dims; ++d) count *= batch[d];
    return count;
  }
  void offsets(int64_t index, int64_t& a, int64_t& b, int64_t& c) const {
    a = b = c = 0;
    for (int d = batch_dims; d-- > 0; index /= batch[d]) {
      const int64_t i = index % batch[d];
      a += i * a_b[d];
      b += i * b_b[d];
      c += i * c_b[d];
    }
  }
};

// c^T = b^T a^T: the caller exchanges a and b.
inline Gemm transposed(Gemm g) {
  std::swap(g.m, g.n);
  std::swap(g.c_m, g.c_n);
  std::swap(g.a_m, g.b_n);
  std::swap(g.a_k, g.b_k);
  std::swap(g.a_b, g.b_b);
  return g;
}

// Register tiles (Highway). The same bits for any thread count: a thread owns whole tiles of c.
void gemm_simd(const Gemm& g, const float* a, const float* b, float* c);
void gemm_simd(const Gemm& g, const double* a, const double* b, double* c);
void gemm_rows(const Gemm& g, const int64_t* a, const int64_t* b, int64_t* c);
// Rows [first, last) of one product of integers, with unit strides along n.
void integer_rows(const Gemm& g, const int64_t* a, const int64_t* b, int64_t* c, int64_t first, int64_t last);
// A bfloat16 matrix with unit stride along k times a vector, or two vectors; false if it is something else.
bool gemv_bf16(const Gemm& g, const BFloat16* a, const BFloat16* b, BFloat16* c);
// Fits the L1 cache: no threads, no library call.
inline bool gemm_small(int64_t m, int64_t n, int64_t k) {
  return k <= 256 && n * k <= 64 * 64 && m * n * k <= 64 * 64 * 64;
}
inline bool gemm_small(const Gemm& g) { return g.c_n == 1 && gemm_small(g.m * g.batches(), g.n, g.k); }
// Short sums of many results: bound by the memory of the result, so gemm_simd reads a and b in place.
constexpr int64_t kShallow = 16;
inline bool gemm_is_shallow(const Gemm& g) {
  return g.k <= kShallow && g.b_n == 1 && g.c_n == 1 && g.m >= 8 && g.n >= 32;
}
bool gemm_is_dots(const Gemm& g);           // dot products with one vector, along unit strides
bool gemm_is_matrix_vector(const Gemm& g);  // gemm_simd runs at memory speed: better than a library's general product
// The reference: three nested loops.
template <class T> void gemm_reference(const Gemm& g, const T* a, const T* b, T* c) {
  for (int64_t batch = 0; batch < g.batches(); ++batch) {
    int64_t ao, bo, co;
    g.offsets(batch, ao, bo, co);
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) {
        T sum = 0;
        for (int64_t p = 0; p < g.k; ++p) sum += a[ao + i * g.a_m + p * g.a_k] * b[bo + p * g.b_k + j * g.b_n];
        T& out = c[co + i * g.c_m + j * g.c_n];
        out = static_cast<T>(g.alpha) * sum + (g.accumulate ? out : T(0));
      }
  }
}

}  // namespace strata::cpu
