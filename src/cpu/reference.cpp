// Plain loops over windows and taps, and plain fills.
#include "cpu/reference.h"

#include <limits>

namespace strata::cpu {
namespace {
using Window = PoolWindow;

// f(plane, output, its three windows), outputs numbered within the plane
template <class F> void each_window(const PoolShape& p, const F& f) {
  for (int64_t plane = 0; plane < p.planes; ++plane) {
    int64_t o = 0;
    for (int64_t i = 0; i < p.out[0]; ++i)
      for (int64_t j = 0; j < p.out[1]; ++j)
        for (int64_t k = 0; k < p.out[2]; ++k) f(plane, o++, p.window(0, i), p.window(1, j), p.window(2, k));
  }
}
// f(position within the plane) for the inputs of a window
template <class F> void each_input(const PoolShape& p, const Window& a, const Window& b, const Window& c, const F& f) {
  for (int64_t i = a.lo; i < a.hi; i += a.step)
    for (int64_t j = b.lo; j < b.hi; j += b.step)
      for (int64_t k = c.lo; k < c.hi; k += c.step) f((i * p.in[1] + j) * p.in[2] + k);
}
template <class T> T divisor(const PoolShape& p, const Window& a, const Window& b, const Window& c) {
  int64_t inside = 0;
  each_input(p, a, b, c, [&](int64_t) { ++inside; });
  return static_cast<T>(p.divisor ? p.divisor : p.include_pad ? a.full * b.full * c.full : inside);
}

// f(plane, output position, input position, weight) for every pair that a resampling connects
template <class F> void each_tap(std::span<const Taps> taps, int64_t planes, const F& f) {
  std::vector<int64_t> outs, counts;
  for (const Taps& t : taps) {
    outs.push_back(t.out);
    counts.push_back(t.count);
  }
  for (int64_t plane = 0; plane < planes; ++plane) {
    int64_t place = 0;
    each_index(outs, [&](const Index& o) {
      each_index(counts, [&](const Index& k) {
        int64_t from = 0;
        double weight = 1;
        for (size_t d = 0; d < taps.size(); ++d) {
          const auto at = static_cast<size_t>(o[d] * taps[d].count + k[d]);
          from = from * taps[d].in + taps[d].index[at];
          weight *= taps[d].weight[at];
        }
        f(plane, place, from, weight);
      });
      ++place;
    });
  }
}
struct PlaneSizes {
  int64_t in = 1, out = 1;
  explicit PlaneSizes(std::span<const Taps> taps) {
    for (const Taps& t : taps) {
      in *= t.in;
      out *= t.out;
    }
  }
};
}  // namespace

void fill_reference(const TensorImpl& dst, Scalar value) {
  each_index(dst.sizes(), [&](const Index& at) {
    if (value.is_complex()) set<Complex<double>>(dst, at, value.z);
    else if (value.is_float()) set<double>(dst, at, value.f);
    else set<int64_t>(dst, at, value.i);
  });
}

template <class T> void max_windows_reference(const PoolShape& p, const T* x, T* y, int64_t* index) {
  each_window(p, [&](int64_t plane, int64_t o, const Window& a, const Window& b, const Window& c) {
    T best =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    int64_t where = (a.lo * p.in[1] + b.lo) * p.in[2] + c.lo;
    each_input(p, a, b, c, [&](int64_t at) {
      const T v = x[plane * p.in_size() + at];
      if (v > best || v != v) {
        best = v;
        where = at;
      }
    });
    y[plane * p.out_size() + o] = best;
    index[plane * p.out_size() + o] = where;
  });
}
template <class T> void mean_windows_reference(const PoolShape& p, const T* x, T* y) {
  each_window(p, [&](int64_t plane, int64_t o, const Window& a, const Window& b, const Window& c) {
    T sum = 0, count = 0;
    each_input(p, a, b, c, [&](int64_t at) {
      sum += x[plane * p.in_size() + at];
      ++count;
    });
    y[plane * p.out_size() + o] = count == 0 ? T(0) : sum / divisor<T>(p, a, b, c);
  });
}
template <class T> void mean_windows_backward_reference(const PoolShape& p, const T* g, T* out) {
  std::fill_n(out, p.planes * p.in_size(), T(0));
  each_window(p, [&](int64_t plane, int64_t o, const Window& a, const Window& b, const Window& c) {
    each_input(p, a, b, c, [&](int64_t at) {
      out[plane * p.in_size() + at] += g[plane * p.out_size() + o] / divisor<T>(p, a, b, c);
    });
  });
}
template void max_windows_reference(const PoolShape&, const double*, double*, int64_t*);
template void max_windows_reference(const PoolShape&, const int64_t*, int64_t*, int64_t*);
template void mean_windows_reference(const PoolShape&, const double*, double*);
template void mean_windows_reference(const PoolShape&, const int64_t*, int64_t*);
template void mean_windows_backward_reference(const PoolShape&, const double*, double*);

void resample_reference(std::span<const Taps> taps, int64_t planes, const double* x, double* y) {
  const PlaneSizes n(taps);
  std::fill_n(y, planes * n.out, 0.0);
  each_tap(taps, planes, [&](int64_t plane, int64_t to, int64_t from, double weight) {
    y[plane * n.out + to] += weight * x[plane * n.in + from];
  });
}
void resample_backward_reference(std::span<const Taps> taps, int64_t planes, const double* g, double* x) {
  const PlaneSizes n(taps);
  std::fill_n(x, planes * n.in, 0.0);
  each_tap(taps, planes, [&](int64_t plane, int64_t to, int64_t from, double weight) {
    x[plane * n.in + from] += weight * g[plane * n.out + to];
  });
}

}  // namespace strata::cpu
