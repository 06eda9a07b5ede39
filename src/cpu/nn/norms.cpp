#include "cpu/nn/norms.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/movement/runs.h"
#include "record/rows.h"

namespace strata::cpu {
namespace {

// Sixteen running sums, added to a double every 4096 elements: vectorizes, and keeps float's error small.
template <class T, class Term> double chunked_sum(int64_t n, Term term) {
  double total = 0;
  for (int64_t at = 0; at < n; at += 4096) {
    const int64_t end = std::min<int64_t>(n, at + 4096);
    T acc[16] = {};
    int64_t i = at;
    for (; i + 16 <= end; i += 16)
      for (int l = 0; l < 16; ++l) acc[l] += term(i + l);
    for (; i < end; ++i) acc[0] += term(i);
    for (T a : acc) total += static_cast<double>(a);
  }
  return total;
}

template <class Body> void over_channels(const Channels& k, Body body) {
  parallel_for(k.c, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, k.n * k.s)), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) body(c);
  });
}
template <class Body> void over_planes(const Channels& k, Body body) {
  parallel_for(k.n * k.c, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, k.s)), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) body(p % k.c, p * k.s);
  });
}
}  // namespace

template <class T>
void channel_affine(const Channels& k, const T* x, const T* mean, const T* scale, const T* shift, T* y) {
  over_planes(k, [&](int64_t c, int64_t at) {
    const T m = mean[c], a = scale[c], b = shift[c];
    for (int64_t i = at; i < at + k.s; ++i) y[i] = (x[i] - m) * a + b;
  });
}

void narrow_channel_affine(const Channels& k, DType type, const std::byte* x, const float* mean, const float* scale,
                           const float* shift, std::byte* y) {
  constexpr int64_t kBlock = 1024;  // elements converted at a time: they stay in the L1 cache
  const auto size = static_cast<int64_t>(size_of(type));
  over_planes(k, [&](int64_t c, int64_t at) {
    float buffer[kBlock];
    const float m = mean[c], a = scale[c], b = shift[c];
    for (int64_t i = 0; i < k.s; i += kBlock) {
      const int64_t n = std::min(kBlock, k.s - i);
      load_run(buffer, x + (at + i) * size, type, 1, n);
      for (int64_t j = 0; j < n; ++j) buffer[j] = (buffer[j] - m) * a + b;
      store_run(buffer, y + (at + i) * size, type, 1, n);
    }
  });
}

template <class T>
void row_affine(int64_t rows, int64_t c, const T* x, const T* mean, const T* scale, const T* shift, T* y) {
  parallel_for(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, c)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* from = x + r * c;
      T* to = y + r * c;
      for (int64_t i = 0; i < c; ++i) to[i] = (from[i] - mean[i]) * scale[i] + shift[i];
    }
  });
}

template <class T>
void channel_grad_sums(const Channels& k, const T* g, const T* x, const T* mean, T* sum_g, T* sum_gx) {
  over_channels(k, [&](int64_t c) {
    double a = 0, b = 0;
    const T m = mean[c];
    for (int64_t n = 0; n < k.n; ++n) {
      const T *gr = g + (n * k.c + c) * k.s, *xr = x + (n * k.c + c) * k.s;
      a += chunked_sum<T>(k.s, [&](int64_t i) { return gr[i]; });
      b += chunked_sum<T>(k.s, [&](int64_t i) { return gr[i] * (xr[i] - m); });
    }
    sum_g[c] = static_cast<T>(a);
    sum_gx[c] = static_cast<T>(b);
  });
}

template <class T>
void channel_combine(const Channels& k, const T* g, const T* x, const T* mean, const T* a, const T* b, const T* d,
                     T* out) {
  over_planes(k, [&](int64_t c, int64_t at) {
    const T m = mean[c], p = a[c], q = b[c], r = d[c];
    for (int64_t i = at; i < at + k.s; ++i) out[i] = g[i] * p + (x[i] - m) * q + r;
  });
}

template <class T>
ColumnGradSums<T>::ColumnGradSums(int64_t rows, int64_t n, bool wants_gx, bool wants_g)
    : rows_(rows), n_(n), unit_(row_unit(n)) {
  const auto size = static_cast<size_t>((rows + unit_ - 1) / unit_ * n);
  if (wants_gx) gx_.reset(new T[size]);
  if (wants_g) g_.reset(new T[size]);
}

template <class T>
void ColumnGradSums<T>::add(int64_t first, int64_t count, const T* g, const T* x, const T* mean, const T* rstd) const {
  T *const sum_gx = gx_ ? gx_.get() + first / unit_ * n_ : nullptr, *const sum_g =
                                                                      g_ ? g_.get() + first / unit_ * n_ : nullptr;
  if (first % unit_ == 0) {
    if (sum_gx) std::fill_n(sum_gx, n_, T(0));
    if (sum_g) std::fill_n(sum_g, n_, T(0));
  }
  for (int64_t r = 0; r < count; ++r, g += n_, x += n_) {
    const T m = mean ? mean[r] : T(0), s = rstd[r];
    if (sum_gx)
      for (int64_t i = 0; i < n_; ++i) sum_gx[i] += g[i] * (x[i] - m) * s;
    if (sum_g)
      for (int64_t i = 0; i < n_; ++i) sum_g[i] += g[i];
  }
}

template <class T> void ColumnGradSums<T>::finish(T* sum_gx, T* sum_g) const {
  const int64_t units = (rows_ + unit_ - 1) / unit_;
  const auto total = [&](const T* parts, T* out) {
    if (!parts || !out) return;
    parallel_for(n_, std::max<int64_t>(16, 16384 / std::max<int64_t>(1, units)), [&](int64_t begin, int64_t end) {
      std::vector<double> sums(static_cast<size_t>(end - begin));
      for (int64_t u = 0; u < units; ++u)
        for (int64_t i = begin; i < end; ++i)
          sums[static_cast<size_t>(i - begin)] += static_cast<double>(parts[u * n_ + i]);
      for (int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(sums[static_cast<size_t>(i - begin)]);
    });
  };
  total(gx_.get(), sum_gx);
  total(g_.get(), sum_g);
}

#define STRATA_NORMS(T)                                                                                           \
  template void channel_affine(const Channels&, const T*, const T*, const T*, const T*, T*);                      \
  template void row_affine(int64_t, int64_t, const T*, const T*, const T*, const T*, T*);                         \
  template void channel_grad_sums(const Channels&, const T*, const T*, const T*, T*, T*);                         \
  template void channel_combine(const Channels&, const T*, const T*, const T*, const T*, const T*, const T*, T*); \
  template class ColumnGradSums<T>;
STRATA_NORMS(float)
STRATA_NORMS(double)
#undef STRATA_NORMS

}  // namespace strata::cpu
