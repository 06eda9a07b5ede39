#include "cpu/nn/grid_sample.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace strata::cpu {
namespace {

// A coordinate in pixels and its derivative with respect to the grid's value.
template <class T> struct Place { T at, slope; };

template <class T> Place<T> in_pixels(T v, int64_t size, bool corners) {
  const T n = static_cast<T>(size);
  return corners ? Place<T>{(v + 1) / 2 * (n - 1), (n - 1) / 2} : Place<T>{((v + 1) * n - 1) / 2, n / 2};
}
template <class T> Place<T> clipped(Place<T> p, int64_t size) {
  if (p.at <= 0) return {0, 0};
  const T most = static_cast<T>(size - 1);
  return p.at >= most ? Place<T>{most, 0} : p;
}
template <class T> Place<T> reflected(Place<T> p, T low, T high) {  // reflects between low and high
  if (low == high) return {0, 0};
  T x = p.at - low, slope = p.slope;
  if (x < 0) {
    x = -x;
    slope = -slope;
  }
  const T span = high - low, extra = std::fmod(x, span);
  const bool odd = static_cast<int64_t>(std::floor(x / span)) % 2 != 0;
  return odd ? Place<T>{span - extra + low, -slope} : Place<T>{extra + low, slope};
}
template <class T> Place<T> padded(const GridSample& s, Place<T> p, int64_t size) {
  if (s.padding == GridSample::Padding::Border) return clipped(p, size);
  if (s.padding == GridSample::Padding::Reflection) {
    const T n = static_cast<T>(size);
    p = s.align_corners ? reflected<T>(p, 0, n - 1) : reflected<T>(p, T(-0.5), n - T(0.5));
    return clipped(p, size);
  }
  return std::isfinite(p.at) && std::abs(p.at) < T(1e9) ? p : Place<T>{-100, 0};
}

// Up to four inputs along one dimension, their weights, and the derivatives of the weights with respect to the grid's
// value.
template <class T> struct Taps {
  int count;
  int64_t index[4];  // -1: outside, treated as 0
  T weight[4], slope[4];
};
int64_t inside(int64_t i, int64_t size) { return i >= 0 && i < size ? i : -1; }

template <class T> Taps<T> taps(const GridSample& s, T v, int64_t size) {
  Taps<T> t;
  Place<T> p = in_pixels(v, size, s.align_corners);
  if (s.mode == GridSample::Mode::Cubic) {  // padding applies to each of the four inputs
    if (!std::isfinite(p.at) || std::abs(p.at) > T(1e9)) p = {-100, 0};
    const T low = std::floor(p.at), part = p.at - low, a = T(-0.75);
    t.count = 4;
    for (int k = 0; k < 4; ++k) {
      const T d = std::abs(part + 1 - static_cast<T>(k)), sign = part + 1 - static_cast<T>(k) < 0 ? T(-1) : T(1);
      t.weight[k] =
        d < 1 || (d == 1 && k != 0 && k != 3) ? ((a + 2) * d - (a + 3)) * d * d + 1 : (((d - 5) * d + 8) * d - 4) * a;
      const T slope = d < 1 ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * d * d - 10 * d + 8) * a;
      t.slope[k] = slope * sign * p.slope;
      const T place = low - 1 + static_cast<T>(k);
      t.index[k] = inside(
        static_cast<int64_t>(s.padding == GridSample::Padding::Zeros ? place : padded<T>(s, {place, 0}, size).at),
        size);
    }
    return t;
  }
  p = padded(s, p, size);
  if (s.mode == GridSample::Mode::Nearest) {
    t.count = 1;
    t.index[0] = inside(static_cast<int64_t>(std::nearbyint(p.at)), size);
    t.weight[0] = 1;
    t.slope[0] = 0;
    return t;
  }
  const T low = std::floor(p.at), part = p.at - low;
  t.count = 2;
  for (int k = 0; k < 2; ++k) t.index[k] = inside(static_cast<int64_t>(low) + k, size);
  t.weight[0] = 1 - part;
  t.weight[1] = part;
  t.slope[0] = -p.slope;
  t.slope[1] = p.slope;
  return t;
}

// f(offset within a plane, weight, slopes by dimension) for each contributing input. Grid values are in the order x, y,
// z.
template <class T, class F> void each_input(const GridSample& s, const T* at, F f) {
  Taps<T> t[3];
  t[0].count = 1;
  t[0].index[0] = 0;
  t[0].weight[0] = 1;
  t[0].slope[0] = 0;  // a plane is a volume of depth 1
  const int64_t sizes[3] = {s.dims == 3 ? s.in[0] : 1, s.in[s.dims - 2], s.in[s.dims - 1]};
  for (int d = 3 - s.dims; d < 3; ++d) t[d] = taps(s, at[2 - d], sizes[d]);
  for (int i = 0; i < t[0].count; ++i)
    for (int j = 0; j < t[1].count; ++j)
      for (int k = 0; k < t[2].count; ++k) {
        if (t[0].index[i] < 0 || t[1].index[j] < 0 || t[2].index[k] < 0) continue;
        const T a = t[0].weight[i], b = t[1].weight[j], c = t[2].weight[k];
        const T slopes[3] = {t[0].slope[i] * b * c, a * t[1].slope[j] * c, a * b * t[2].slope[k]};
        f((t[0].index[i] * sizes[1] + t[1].index[j]) * sizes[2] + t[2].index[k], a * b * c, slopes);
      }
}
int64_t plane_of(const GridSample& s) {
  int64_t n = 1;
  for (int d = 0; d < s.dims; ++d) n *= s.in[d];
  return n;
}
}  // namespace

template <class T> void grid_sample(const GridSample& s, const T* x, const T* grid, T* y) {
  const int64_t plane = plane_of(s);
  parallel_for(s.n * s.out, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, s.c)), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const T* image = x + p / s.out * s.c * plane;
      T* to = y + p / s.out * s.c * s.out + p % s.out;
      for (int64_t c = 0; c < s.c; ++c) to[c * s.out] = 0;
      each_input(s, grid + p * s.dims, [&](int64_t at, T w, const T*) {
        for (int64_t c = 0; c < s.c; ++c) to[c * s.out] += w * image[c * plane + at];
      });
    }
  });
}

template <class T>
void grid_sample_backward(const GridSample& s, const T* g, const T* x, const T* grid, T* gx, T* ggrid) {
  const int64_t plane = plane_of(s);
  parallel_for(s.n, 1, [&](int64_t begin, int64_t end) {  // images are independent
    std::fill(gx + begin * s.c * plane, gx + end * s.c * plane, T(0));
    for (int64_t p = begin * s.out; p < end * s.out; ++p) {
      const int64_t image = p / s.out * s.c * plane, from = p / s.out * s.c * s.out + p % s.out;
      T slope[3] = {};
      each_input(s, grid + p * s.dims, [&](int64_t at, T w, const T* slopes) {
        T sum = 0;
        for (int64_t c = 0; c < s.c; ++c) {
          gx[image + c * plane + at] += w * g[from + c * s.out];
          sum += x[image + c * plane + at] * g[from + c * s.out];
        }
        for (int d = 0; d < 3; ++d) slope[d] += sum * slopes[d];
      });
      for (int d = 0; d < s.dims; ++d) ggrid[p * s.dims + d] = slope[2 - d];
    }
  });
}

template void grid_sample(const GridSample&, const float*, const float*, float*);
template void grid_sample(const GridSample&, const double*, const double*, double*);
template void grid_sample_backward(const GridSample&, const float*, const float*, const float*, float*, float*);
template void grid_sample_backward(const GridSample&, const double*, const double*, const double*, double*, double*);

}  // namespace strata::cpu
