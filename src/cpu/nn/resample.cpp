#include "cpu/nn/resample.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace strata::cpu {
namespace {

double cubic(double x, double a) {  // Keys' kernel
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

Taps wide_taps(int64_t in, int64_t out, Filter filter, double scale) {  // the filter widens with the scale: no aliasing
  const double size = filter == Filter::Cubic ? 4 : 2, stretch = std::max(scale, 1.0), support = size / 2 * stretch;
  Taps t;
  t.in = in;
  t.out = out;
  t.count = std::min<int64_t>(in, static_cast<int64_t>(std::ceil(support)) * 2 + 1);
  t.index.resize(static_cast<size_t>(out * t.count));
  t.weight.resize(t.index.size());
  for (int64_t o = 0; o < out; ++o) {
    const double centre = scale * (static_cast<double>(o) + 0.5);
    const int64_t low = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const int64_t n =
      std::clamp<int64_t>(std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), in) - low, 0, t.count);
    double total = 0;
    for (int64_t k = 0; k < t.count; ++k) {
      const size_t at = static_cast<size_t>(o * t.count + k);
      const double x = (static_cast<double>(k + low) - centre + 0.5) / stretch;
      t.index[at] = std::min(low + k, in - 1);
      t.weight[at] = k >= n ? 0 : filter == Filter::Cubic ? cubic(x, -0.5) : std::max(0.0, 1 - std::abs(x));
      total += t.weight[at];
    }
    for (int64_t k = 0; k < t.count && total != 0; ++k) t.weight[static_cast<size_t>(o * t.count + k)] /= total;
  }
  return t;
}
}  // namespace

Taps make_taps(int64_t in, int64_t out, Filter filter, bool align_corners, double scale, bool antialias, bool single) {
  const auto rounded = [single](double v) { return single ? static_cast<double>(static_cast<float>(v)) : v; };
  const bool nearest = is_nearest(filter);
  if (nearest) single = true;
  if (!nearest && align_corners) scale = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  else if (scale <= 0) scale = static_cast<double>(in) / static_cast<double>(out);
  // As in PyTorch, equal sizes are a copy whatever factor was given, except in bicubic mode without antialias.
  if (in == out && !nearest && (filter == Filter::Linear || antialias)) scale = 1;
  scale = single ? static_cast<double>(static_cast<float>(scale)) : scale;
  if (antialias && !nearest) return wide_taps(in, out, filter, scale);
  Taps t;
  t.in = in;
  t.out = out;
  t.count = nearest ? 1 : filter == Filter::Linear ? 2 : 4;
  t.index.resize(static_cast<size_t>(out * t.count));
  t.weight.resize(t.index.size());
  for (int64_t o = 0; o < out; ++o) {
    int64_t* index = &t.index[static_cast<size_t>(o * t.count)];
    double* weight = &t.weight[static_cast<size_t>(o * t.count)];
    const double place = static_cast<double>(o);
    if (nearest) {
      const float at = filter == Filter::NearestExact ? (static_cast<float>(o) + 0.5f) * static_cast<float>(scale)
                                                      : static_cast<float>(o) * static_cast<float>(scale);
      index[0] = std::min(static_cast<int64_t>(std::floor(at)), in - 1);
      if (filter == Filter::NearestInPlane && (out == in || out == 2 * in)) index[0] = out == in ? o : o / 2;
      weight[0] = 1;
      continue;
    }
    double source = align_corners ? scale * place : rounded(rounded(scale * (place + 0.5)) - 0.5);
    if (filter == Filter::Linear && source < 0) source = 0;
    const int64_t low = static_cast<int64_t>(std::floor(source));
    const double part = source - static_cast<double>(low);
    if (filter == Filter::Linear) {
      index[0] = std::min(low, in - 1);
      index[1] = std::min(low + 1, in - 1);
      weight[0] = 1 - part;
      weight[1] = part;
    } else {
      for (int64_t k = 0; k < 4; ++k) {
        index[k] = std::clamp<int64_t>(low - 1 + k, 0, in - 1);
        weight[k] = cubic(part + 1 - static_cast<double>(k), -0.75);
      }
    }
  }
  return t;
}

namespace {
// Along the innermost dimension, with the taps as arrays of this precision.
template <class T> struct RowTaps {
  const Taps& t;
  std::vector<T> weight;
  explicit RowTaps(const Taps& taps) : t(taps), weight(taps.weight.begin(), taps.weight.end()) {}
  bool copies() const {
    return t.count == 1 && std::all_of(weight.begin(), weight.end(), [](T w) { return w == 1; });
  }

  void row(const T* x, T* y) const {
    const int64_t* index = t.index.data();
    const T* w = weight.data();
    for (int64_t o = 0; o < t.out; ++o, index += t.count, w += t.count) {
      T sum = w[0] * x[index[0]];
      for (int64_t k = 1; k < t.count; ++k) sum += w[k] * x[index[k]];
      y[o] = sum;
    }
  }
  void copy_row(const T* x, T* y) const {
    for (int64_t o = 0; o < t.out; ++o) y[o] = x[t.index[static_cast<size_t>(o)]];
  }
  void row_backward(const T* g, T* x) const {
    const int64_t* index = t.index.data();
    const T* w = weight.data();
    for (int64_t o = 0; o < t.out; ++o, index += t.count, w += t.count)
      for (int64_t k = 0; k < t.count; ++k) x[index[k]] += w[k] * g[o];
  }
};
int64_t rows_per_thread(const Taps& t, int64_t inner) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, t.out * inner));
}
}  // namespace

template <class T> void resample_along(const Taps& t, int64_t outer, int64_t inner, const T* x, T* y) {
  const RowTaps<T> taps(t);
  const bool copies = taps.copies();
  if (inner == 1)
    return parallel_for(outer, rows_per_thread(t, 1), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        copies ? taps.copy_row(x + b * t.in, y + b * t.out) : taps.row(x + b * t.in, y + b * t.out);
    });
  parallel_for(outer, rows_per_thread(t, inner), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t o = 0; o < t.out; ++o) {
        T* to = y + (b * t.out + o) * inner;
        if (copies) {
          std::copy_n(x + (b * t.in + t.index[static_cast<size_t>(o)]) * inner, inner, to);
          continue;
        }
        for (int64_t k = 0; k < t.count; ++k) {
          const T w = static_cast<T>(t.weight[static_cast<size_t>(o * t.count + k)]);
          const T* from = x + (b * t.in + t.index[static_cast<size_t>(o * t.count + k)]) * inner;
          if (k == 0)
            for (int64_t i = 0; i < inner; ++i) to[i] = w * from[i];
          else
            for (int64_t i = 0; i < inner; ++i) to[i] += w * from[i];
        }
      }
  });
}

template <class T> void resample_along_backward(const Taps& t, int64_t outer, int64_t inner, const T* g, T* x) {
  const RowTaps<T> taps(t);
  parallel_for(outer, rows_per_thread(t, inner), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const T* row = g + b * t.out * inner;
      std::fill_n(x + b * t.in * inner, t.in * inner, T(0));
      // Where a strong reduction has left out planes or rows, their gradients are zero.
      if (std::all_of(row, row + t.out * inner, [](T v) { return v == 0; })) continue;
      if (inner == 1) taps.row_backward(row, x + b * t.in);
      for (int64_t o = 0; o < t.out && inner > 1; ++o)
        for (int64_t k = 0; k < t.count; ++k) {
          const T w = static_cast<T>(t.weight[static_cast<size_t>(o * t.count + k)]);
          T* to = x + (b * t.in + t.index[static_cast<size_t>(o * t.count + k)]) * inner;
          const T* from = row + o * inner;
          for (int64_t i = 0; i < inner; ++i) to[i] += w * from[i];
        }
    }
  });
}

template void resample_along(const Taps&, int64_t, int64_t, const float*, float*);
template void resample_along(const Taps&, int64_t, int64_t, const double*, double*);
template void resample_along_backward(const Taps&, int64_t, int64_t, const float*, float*);
template void resample_along_backward(const Taps&, int64_t, int64_t, const double*, double*);

}  // namespace strata::cpu
