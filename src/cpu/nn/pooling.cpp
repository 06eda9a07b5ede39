#include "cpu/nn/pooling.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "cpu/reduce/reduce.h"

namespace strata::cpu {
namespace {
using Window = PoolWindow;

template <class F> void over_planes(int64_t planes, int64_t work, F f) {
  parallel_for(planes, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) f(plane);
  });
}

// The windows of each dimension, computed once for all planes.
class Windows {
 public:
  explicit Windows(const PoolShape& p) {
    for (int d = 0; d < 3; ++d) {
      along_[d].reserve(static_cast<size_t>(p.out[d]));
      for (int64_t o = 0; o < p.out[d]; ++o) along_[d].push_back(p.window(d, o));
    }
  }
  // f(output index within the plane, three windows)
  template <class F> void each(F f) const {
    int64_t o = 0;
    for (const Window& a : along_[0])
      for (const Window& b : along_[1])
        for (const Window& c : along_[2]) f(o++, a, b, c);
  }

 private:
  std::vector<Window> along_[3];
};

constexpr int64_t kLongRun = 32;  // elements from which on a SIMD reduction is faster

template <class T> T divisor_of(const PoolShape& p, const Window& a, const Window& b, const Window& c) {
  if (p.divisor) return static_cast<T>(p.divisor);
  return static_cast<T>(p.include_pad ? a.full * b.full * c.full : (a.hi - a.lo) * (b.hi - b.lo) * (c.hi - c.lo));
}
// The sum of a window's elements. Windows of whole rows (or planes) are one long run; long runs use the SIMD sum.
template <class T> T window_sum(const PoolShape& p, const T* in, const Window& a, const Window& b, const Window& c) {
  const bool rows = c.hi - c.lo == p.in[2], planes = rows && b.hi - b.lo == p.in[1];
  const int64_t run = (c.hi - c.lo) * (rows ? b.hi - b.lo : 1) * (planes ? a.hi - a.lo : 1);
  T sum = 0;
  for (int64_t i = a.lo; i < (planes ? a.lo + 1 : a.hi); ++i)
    for (int64_t j = b.lo; j < (rows ? b.lo + 1 : b.hi); ++j) {
      const T* from = in + (i * p.in[1] + j) * p.in[2] + c.lo;
      if (run >= kLongRun) sum += static_cast<T>(fold_table<T>(Fold::Sum).run(from, run));
      else
        for (int64_t k = 0; k < run; ++k) sum += from[k];
    }
  return sum;
}
bool empty(const Window& a, const Window& b, const Window& c) { return a.hi <= a.lo || b.hi <= b.lo || c.hi <= c.lo; }
}  // namespace

template <class T> void max_windows(const PoolShape& p, const T* x, T* y, int64_t* index) {
  const Windows windows(p);
  over_planes(p.planes, p.in_size(), [&](int64_t plane) {
    const T* in = x + plane * p.in_size();
    T* out = y + plane * p.out_size();
    int64_t* at = index + plane * p.out_size();
    windows.each([&](int64_t o, const Window& a, const Window& b, const Window& c) {
      T best =
        std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
      int64_t where = (a.lo * p.in[1] + b.lo) * p.in[2] + c.lo;
      for (int64_t i = a.lo; i < a.hi; i += a.step)
        for (int64_t j = b.lo; j < b.hi; j += b.step) {
          const int64_t row = (i * p.in[1] + j) * p.in[2];
          if constexpr (std::is_floating_point_v<T>)
            if (c.step == 1 && c.hi - c.lo >= kLongRun) {
              const T most = static_cast<T>(fold_table<T>(Fold::Max).run(in + row + c.lo, c.hi - c.lo));
              if (most <= best) continue;
              if (most > best) {  // not NaN, of which the loop below finds the last
                best = most;
                where = std::find(in + row + c.lo, in + row + c.hi, most) - in;
                continue;
              }
            }
          for (int64_t k = c.lo; k < c.hi; k += c.step) {
            const T v = in[row + k];
            if (v > best || v != v) {
              best = v;
              where = row + k;
            }
          }
        }
      out[o] = best;
      at[o] = where;
    });
  });
}

namespace {
// The means of neighbouring windows along the last dimension that are inside of the input: all are added at once, one input
// of each window after the other, so that the compiler vectorizes the loop.
template <int64_t kStride, class T> void add_strided(const T* from, int64_t stride, int64_t n, T* sums) {
  for (int64_t o = 0; o < n; ++o) sums[o] += from[o * (kStride ? kStride : stride)];
}
template <class T>
void mean_row(const PoolShape& p, const T* in, const Window& a, const Window& b, int64_t first, int64_t count,
              T divisor, T* out) {
  constexpr int64_t kBlock = 128;
  T sums[kBlock];
  const int64_t stride = p.stride[2];
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t n = std::min(kBlock, count - at);
    std::fill_n(sums, n, T(0));
    for (int64_t i = a.lo; i < a.hi; ++i)
      for (int64_t j = b.lo; j < b.hi; ++j) {
        const T* row = in + (i * p.in[1] + j) * p.in[2] + (first + at) * stride - p.padding[2];
        for (int64_t k = 0; k < p.kernel[2]; ++k) {
          if (stride == 1) add_strided<1>(row + k, 1, n, sums);
          else if (stride == 2) add_strided<2>(row + k, 2, n, sums);
          else add_strided<0>(row + k, stride, n, sums);
        }
      }
    for (int64_t o = 0; o < n; ++o) out[at + o] = sums[o] / divisor;
  }
}

// Sliding windows of a few inputs along the last dimension.
template <class T> void mean_sliding(const PoolShape& p, const T* x, T* y) {
  std::vector<Window> along[3];
  for (int d = 0; d < 3; ++d)
    for (int64_t o = 0; o < p.out[d]; ++o) along[d].push_back(p.window(d, o));
  const auto whole = [&](int64_t o) {
    const Window& w = along[2][static_cast<size_t>(o)];
    return w.hi - w.lo == p.kernel[2] && w.full == p.kernel[2];
  };
  int64_t first = 0, last = p.out[2];
  while (first < last && !whole(first)) ++first;
  while (last > first && !whole(last - 1)) --last;
  over_planes(p.planes, p.in_size(), [&](int64_t plane) {
    const T* in = x + plane * p.in_size();
    T* out = y + plane * p.out_size();
    for (const Window& a : along[0])
      for (const Window& b : along[1]) {
        const auto one = [&](int64_t o) {
          const Window& c = along[2][static_cast<size_t>(o)];
          out[o] = empty(a, b, c) ? T(0) : window_sum(p, in, a, b, c) / divisor_of<T>(p, a, b, c);
        };
        for (int64_t o = 0; o < first; ++o) one(o);
        if (last > first && a.hi > a.lo && b.hi > b.lo)
          mean_row(p, in, a, b, first, last - first, divisor_of<T>(p, a, b, along[2][static_cast<size_t>(first)]),
                   out + first);
        else
          for (int64_t o = first; o < last; ++o) one(o);
        for (int64_t o = last; o < p.out[2]; ++o) one(o);
        out += p.out[2];
      }
  });
}
}  // namespace

template <class T> void mean_windows(const PoolShape& p, const T* x, T* y) {
  if (!p.adaptive && p.kernel[2] <= 8 && p.kernel[2] < p.in[2] && p.out[2] >= 4) return mean_sliding(p, x, y);
  const Windows windows(p);
  over_planes(p.planes, p.in_size(), [&](int64_t plane) {
    const T* in = x + plane * p.in_size();
    T* out = y + plane * p.out_size();
    windows.each([&](int64_t o, const Window& a, const Window& b, const Window& c) {
      out[o] = empty(a, b, c) ? T(0) : window_sum(p, in, a, b, c) / divisor_of<T>(p, a, b, c);
    });
  });
}

template <class T> void mean_windows_backward(const PoolShape& p, const T* g, T* out) {
  const Windows windows(p);
  over_planes(p.planes, p.in_size(), [&](int64_t plane) {
    T* to = out + plane * p.in_size();
    const T* grad = g + plane * p.out_size();
    std::fill_n(to, p.in_size(), T(0));
    windows.each([&](int64_t o, const Window& a, const Window& b, const Window& c) {
      if (empty(a, b, c)) return;
      const T share = grad[o] / divisor_of<T>(p, a, b, c);
      for (int64_t i = a.lo; i < a.hi; ++i)
        for (int64_t j = b.lo; j < b.hi; ++j) {
          T* row = to + (i * p.in[1] + j) * p.in[2];
          for (int64_t k = c.lo; k < c.hi; ++k) row[k] += share;
        }
    });
  });
}

namespace {
int64_t checked(int64_t i, int64_t size) {
  STRATA_CHECK(i >= 0 && i < size, Runtime, "found an invalid max index: {} (planes have {} elements)", i, size);
  return i;
}
}  // namespace

template <class T> void plane_gather(int64_t planes, int64_t in, int64_t out, const T* x, const int64_t* index, T* y) {
  over_planes(planes, out, [&](int64_t p) {
    for (int64_t o = 0; o < out; ++o) y[p * out + o] = x[p * in + checked(index[p * out + o], in)];
  });
}
template <class T>
void plane_scatter(int64_t planes, int64_t in, int64_t out, const T* values, const int64_t* index, T* x, bool add) {
  over_planes(planes, in, [&](int64_t p) {
    std::fill_n(x + p * in, in, T(0));
    for (int64_t o = 0; o < out; ++o) {
      T& to = x[p * in + checked(index[p * out + o], in)];
      to = add ? to + values[p * out + o] : values[p * out + o];
    }
  });
}

#define STRATA_POOLING(T)                                                              \
  template void max_windows(const PoolShape&, const T*, T*, int64_t*);                 \
  template void mean_windows(const PoolShape&, const T*, T*);                          \
  template void mean_windows_backward(const PoolShape&, const T*, T*);                 \
  template void plane_gather(int64_t, int64_t, int64_t, const T*, const int64_t*, T*); \
  template void plane_scatter(int64_t, int64_t, int64_t, const T*, const int64_t*, T*, bool);
STRATA_POOLING(float)
STRATA_POOLING(double)
STRATA_POOLING(int64_t)
#undef STRATA_POOLING

}  // namespace strata::cpu
