// A group is one row of the row kernels. Small planes: a weight for each element of a sample, since a loop per plane costs more
// than the elements. Large planes: the row is normalized first and scaled plane by plane while it is in the cache.
#include "cpu/nn/group_norm.h"

#include <algorithm>

#include "base/parallel.h"
#include "cpu/nn/row_kernels.h"
#include "tensor/tensor.h"

namespace strata::cpu {
namespace {

constexpr int64_t kGrain = 8192;      // elements of a piece of parallel work
constexpr int64_t kSmallPlane = 64;   // pixels
constexpr int64_t kMostPieces = 16;   // partial sums of the gradients of small planes
constexpr int64_t kPieceSamples = 8;  // least samples of one

template <class T> Tensor buffer(int64_t n) { return make_tensor(Shape(&n, 1), dtype_of<T>); }

// A value for each element of a sample from those of the channels; undefined if there are none.
template <class T> Tensor spread(const Groups& s, const T* values) {
  if (!values) return {};
  const Tensor all = buffer<T>(s.sample_size());
  T* to = all.data<T>();
  for (int64_t c = 0; c < s.groups * s.channels; ++c) std::fill_n(to + c * s.pixels, s.pixels, values[c]);
  return all;
}
bool small_planes(const Groups& s) { return s.pixels < kSmallPlane && (s.samples > 1 || s.pixels == 1); }

template <class F> void each_group(const Groups& s, const F& f) {
  parallel_for(s.samples * s.groups, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.size())),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) f(r, r % s.groups, r * s.size());
               });
}

// Calls before(sample) and adds up g and g times the normalized value over samples and pixels, while they are in the cache.
template <class T, class F>
void sums_of_small_planes(const Groups& s, const T* g, const T* x, const T* mean, const T* rstd, T* gweight, T* gbias,
                          const F& before) {
  const GroupLoops<T>& loops = group_loops<T>();
  const int64_t n = s.sample_size(), pieces = std::clamp<int64_t>(s.samples / kPieceSamples, 1, kMostPieces);
  const Tensor space = buffer<T>(pieces * 2 * n);
  parallel_for(pieces, std::max<int64_t>(1, kGrain * pieces / std::max<int64_t>(1, s.samples * n)),
               [&](int64_t first, int64_t last) {
                 for (int64_t p = first; p < last; ++p) {
                   T* sums = space.data<T>() + p * 2 * n;
                   std::fill_n(sums, 2 * n, T(0));
                   for (int64_t i = s.samples * p / pieces; i < s.samples * (p + 1) / pieces; ++i) {
                     before(i);
                     for (int64_t k = 0; k < s.groups; ++k) {
                       const int64_t row = i * s.groups + k, at = k * s.size();
                       loops.add(s.size(), g + row * s.size(), x + row * s.size(), mean[row], rstd[row], sums + at,
                                 sums + n + at);
                     }
                   }
                 }
               });
  for (int64_t c = 0; c < s.groups * s.channels; ++c) {
    double a = 0, b = 0;
    for (int64_t p = 0; p < pieces; ++p)
      for (int64_t i = 0; i < s.pixels; ++i) {
        const T* at = space.data<T>() + p * 2 * n + c * s.pixels + i;
        a += static_cast<double>(at[0]);
        b += static_cast<double>(at[n]);
      }
    if (gweight) gweight[c] = static_cast<T>(a);
    if (gbias) gbias[c] = static_cast<T>(b);
  }
}
template <class T>
void sums_of_large_planes(const Groups& s, const T* g, const T* x, const T* mean, const T* rstd, T* gweight, T* gbias) {
  const GroupLoops<T>& loops = group_loops<T>();
  constexpr int64_t kBlock = 4096;  // elements added before they are added to a double
  const int64_t channels = s.groups * s.channels;
  parallel_for(channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.samples * s.pixels)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t c = begin; c < end; ++c) {
                   double a = 0, b = 0;
                   for (int64_t i = 0; i < s.samples; ++i) {
                     const int64_t row = i * s.groups + c / s.channels, plane = (i * channels + c) * s.pixels;
                     for (int64_t at = 0; at < s.pixels; at += kBlock) {
                       T sum_g, sum_gx;
                       loops.sums(std::min(kBlock, s.pixels - at), g + plane + at, x + plane + at, mean[row], &sum_g,
                                  &sum_gx);
                       a += static_cast<double>(sum_gx) * static_cast<double>(rstd[row]);
                       b += static_cast<double>(sum_g);
                     }
                   }
                   if (gweight) gweight[c] = static_cast<T>(a);
                   if (gbias) gbias[c] = static_cast<T>(b);
                 }
               });
}
}  // namespace

template <class T>
void group_norm(const Groups& s, double eps, const T* x, const T* weight, const T* bias, T* y, T* mean, T* rstd) {
  const GroupLoops<T>& loops = group_loops<T>();
  const bool small = small_planes(s);
  const Tensor weights = small ? spread(s, weight) : Tensor(), biases = small ? spread(s, bias) : Tensor();
  each_group(s, [&](int64_t row, int64_t group, int64_t at) {
    const auto part = [&](const Tensor& t) { return t ? t.data<T>() + group * s.size() : nullptr; };
    const NormRows<T> p{s.size(), eps, true, part(weights), part(biases)};
    norm_forward(p, x + at, y + at, mean + row, rstd + row, 1);
    if (small || (!weight && !bias)) return;
    for (int64_t k = 0; k < s.channels; ++k) {
      const int64_t c = group * s.channels + k;
      loops.affine(s.pixels, weight ? weight[c] : T(1), bias ? bias[c] : T(0), y + at + k * s.pixels);
    }
  });
}

template <class T>
void group_norm_backward(const Groups& s, const T* g, const T* x, const T* mean, const T* rstd, const T* weight, T* gx,
                         T* gweight, T* gbias) {
  const GroupLoops<T>& loops = group_loops<T>();
  const bool small = small_planes(s);
  const Tensor weights = small ? spread(s, weight) : Tensor();
  const auto input_grad = [&](int64_t row, int64_t group, int64_t at) {
    const T* from = g + at;
    if (weight && !small) {  // the gradient of the normalized value, in the place of the result
      for (int64_t k = 0; k < s.channels; ++k)
        loops.scale(s.pixels, g + at + k * s.pixels, weight[group * s.channels + k], gx + at + k * s.pixels);
      from = gx + at;
    }
    const NormRows<T> p{s.size(), 0, true, weights ? weights.data<T>() + group * s.size() : nullptr, nullptr};
    norm_backward(p, from, x + at, mean + row, rstd + row, gx + at, 1);
  };
  const bool sums = gweight || gbias, together = sums && small && s.samples >= kPieceSamples * kMostPieces;
  if (!together) each_group(s, input_grad);
  if (!sums) return;
  if (!small) return sums_of_large_planes<T>(s, g, x, mean, rstd, gweight, gbias);
  sums_of_small_planes<T>(s, g, x, mean, rstd, gweight, gbias, [&](int64_t sample) {
    for (int64_t k = 0; together && k < s.groups; ++k)
      input_grad(sample * s.groups + k, k, (sample * s.groups + k) * s.size());
  });
}

#define STRATA_GROUP_NORM(T)                                                                 \
  template void group_norm(const Groups&, double, const T*, const T*, const T*, T*, T*, T*); \
  template void group_norm_backward(const Groups&, const T*, const T*, const T*, const T*, const T*, T*, T*, T*);
STRATA_GROUP_NORM(float)
STRATA_GROUP_NORM(double)
#undef STRATA_GROUP_NORM

}  // namespace strata::cpu
