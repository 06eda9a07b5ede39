#include "cpu/movement/overlap.h"

#include <algorithm>
#include <numeric>

#include "base/parallel.h"
#include "cpu/movement/copy.h"

namespace strata::cpu {
namespace {

constexpr int64_t kNoEnd = INT64_MAX / 2;
constexpr int64_t kSerial = 1 << 15;  // elements that one thread adds in the time it takes to wake the others

// The places of memory that a piece of the work may write to.
struct Places {
  int64_t begin, end;
};

template <class T> void add_row(T* __restrict to, const T* __restrict from, int64_t n, int64_t a, int64_t b) {
  if (a == 1 && b == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(to[i] + from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * a] = static_cast<T>(to[i * a] + from[i * b]);
  }
}

// Adds the elements of a walk, except those whose place is not in `places`.
template <class T> void add_walk(T* to, const T* from, const PairWalk& w, const Places* places) {
  const int last = w.n - 1;
  const int64_t n = w.size[last], a = w.a[last], b = w.b[last], count = w.count / n;
  PairRows rows(w, last, 0);
  for (int64_t r = 0; r < count; ++r, rows.next()) {
    int64_t begin = 0, end = n;
    if (places && a == 0) end = rows.a >= places->begin && rows.a < places->end ? n : 0;
    else if (places) {
      begin = std::clamp<int64_t>((places->begin - rows.a + a - 1) / a, 0, n);
      end = std::clamp<int64_t>((places->end - rows.a + a - 1) / a, 0, n);
      if (rows.a >= places->begin) begin = 0;
      if (rows.a >= places->end) end = 0;
    }
    if (begin < end) add_row(to + rows.a + begin * a, from + rows.b + begin * b, end - begin, a, b);
  }
}

PairWalk part(const PairWalk& whole, int d, int64_t size) {
  PairWalk w = whole;
  w.count = w.count / w.size[d] * size;
  w.size[d] = size;
  return w;
}

int64_t reach_below(const PairWalk& w, int d) {  // the largest offset that the dimensions after d add up to
  int64_t reach = 0;
  for (int k = d + 1; k < w.n; ++k) reach += (w.size[k] - 1) * w.a[k];
  return reach;
}

// The largest dimension of which two indices never have a place in common; -1 if there is none. The dimensions after it
// reach less far than its stride, and those before it advance by multiples of a number that is larger than both.
int separate_dimension(const PairWalk& w) {
  int best = -1;
  int64_t step = 0;  // the greatest common divisor of the strides before d
  for (int d = 0; d < w.n; ++d) {
    const int64_t below = reach_below(w, d);
    const bool apart = below < w.a[d] && (d == 0 || (w.size[d] - 1) * w.a[d] + below < step);
    if (apart && (best < 0 || w.size[d] > w.size[best])) best = d;
    step = std::gcd(step, w.a[d]);
  }
  return best;
}

template <class T> void add_all(T* to, const T* from, const PairWalk& w) {
  if (w.count < kSerial || num_threads() == 1) return add_walk(to, from, w, nullptr);
  const int d = separate_dimension(w);
  if (d >= 0 && w.size[d] > 1) {
    parallel_for(w.size[d], std::max<int64_t>(1, kSerial / 2 / (w.count / w.size[d])), [&](int64_t begin, int64_t end) {
      add_walk(to + begin * w.a[d], from + begin * w.b[d], part(w, d, end - begin), nullptr);
    });
    return;
  }
  if (w.a[0] == 0) return add_walk(to, from, w, nullptr);  // all strides are 0: one place
  // Each thread writes to a range of memory and visits all indices of the first dimension that reach into it.
  const int64_t before = reach_below(w, 0) / w.a[0];
  const int64_t grain = std::max({int64_t{1}, kSerial / 2 / (w.count / w.size[0]), 8 * before});
  parallel_for(w.size[0], grain, [&](int64_t begin, int64_t end) {
    const Places places{begin * w.a[0], end == w.size[0] ? kNoEnd : end * w.a[0]};
    const auto add = [&](int64_t low, int64_t high, bool all) {
      if (low >= high) return;
      const Places moved{places.begin - low * w.a[0], places.end - low * w.a[0]};
      add_walk(to + low * w.a[0], from + low * w.b[0], part(w, 0, high - low), all ? nullptr : &moved);
    };
    const int64_t inside = end == w.size[0] ? end : std::max(begin, end - before);
    add(std::max<int64_t>(0, begin - before), begin, false);
    add(begin, inside, true);
    add(inside, end, false);
  });
}

}  // namespace

void add_overlapping(const TensorImpl& dst, const TensorImpl& src) {
  if (src.numel == 0) return;
  const PairWalk w(dst.sizes(), dst.strides, src.strides);
  dispatch_compute(dst.dtype, [&]<class T> {
    T* to = reinterpret_cast<T*>(dst.data);
    const T* from = reinterpret_cast<const T*>(src.data);
    if (w.n == 0) *to = static_cast<T>(*to + *from);
    else add_all(to, from, w);
  });
}

}  // namespace strata::cpu
