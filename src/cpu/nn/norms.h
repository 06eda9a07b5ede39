// Kernels of the normalization ops. Data is contiguous; statistics are sums in a fixed order, so any thread count gives
// the same bits.
#pragma once
#include <cstdint>
#include <memory>

#include "tensor/dtype.h"

namespace strata::cpu {

// input [n, c, s]: statistics over n and s for each c (batch norm).
struct Channels {
  int64_t n, c, s;
};
// y = (x - mean[c]) scale[c] + shift[c]. Subtracts first: x and the mean may be large compared with the difference.
template <class T>
void channel_affine(const Channels& k, const T* x, const T* mean, const T* scale, const T* shift, T* y);
// The same for contiguous elements of a narrow float type, which are converted block by block.
void narrow_channel_affine(const Channels& k, DType type, const std::byte* x, const float* mean, const float* scale,
                           const float* shift, std::byte* y);
// The same for [rows, c]: channels-last.
template <class T>
void row_affine(int64_t rows, int64_t c, const T* x, const T* mean, const T* scale, const T* shift, T* y);
// Sums over n and s of g and of g (x - mean).
template <class T>
void channel_grad_sums(const Channels& k, const T* g, const T* x, const T* mean, T* sum_g, T* sum_gx);
// out = g a[c] + (x - mean[c]) b[c] + d[c].
template <class T>
void channel_combine(const Channels& k, const T* g, const T* x, const T* mean, const T* a, const T* b, const T* d,
                     T* out);

// Column sums over rows of g (x - mean[row]) rstd[row] and of g. The rows of a unit (row_unit()) are added in order, in T; then the
// units, in double. Either sum may be left out.
template <class T> class ColumnGradSums {
 public:
  ColumnGradSums(int64_t rows, int64_t n, bool wants_gx, bool wants_g);
  int64_t unit() const { return unit_; }
  // Adds `count` rows of one unit, which begin at the pointers. One thread adds all rows of a unit.
  void add(int64_t first, int64_t count, const T* g, const T* x, const T* mean, const T* rstd) const;
  // Null: not needed.
  void finish(T* sum_gx, T* sum_g) const;

 private:
  int64_t rows_, n_, unit_;
  std::shared_ptr<T[]> gx_, g_;  // the sums of each unit
};

}  // namespace strata::cpu
