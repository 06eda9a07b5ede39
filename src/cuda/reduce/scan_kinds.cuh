// Kinds of scans: the state of a range of elements, and how two consecutive ranges are combined.
//
// Float sums and products are computed in double, as on the CPU.
#pragma once
#include "cuda/common/dtypes.cuh"
#include "cuda/common/warp.cuh"
#include "cuda/reduce/scan_params.h"

namespace strata::cuda {

constexpr int kScanThreads = 256, kScanWarps = kScanThreads / 32;

template <class T> struct WideOf { using type = double; };
template <> struct WideOf<int64_t> { using type = int64_t; };

// A kind of scan: its state, the state of one element, combining two consecutive ranges, and the result.
template <class T> struct Sums {
  using Element = T;
  using State = typename WideOf<T>::type;
  static constexpr bool kPlaces = false, kLogs = false;
  static __device__ State none() { return State(0); }
  static __device__ State of(T v, int64_t) { return State(v); }
  static __device__ State both(State a, State b) { return a + b; }
  static __device__ T result(State s) { return T(s); }
};
template <class T> struct Products {
  using Element = T;
  using State = typename WideOf<T>::type;
  static constexpr bool kPlaces = false, kLogs = false;
  static __device__ State none() { return State(1); }
  static __device__ State of(T v, int64_t) { return State(v); }
  static __device__ State both(State a, State b) { return a * b; }
  static __device__ T result(State s) { return T(s); }
};
template <class T> struct LogSum {  // log(exp(most) * (1 + rest)): exact also if one element is much larger
  T most, rest;
};
template <class T> struct LogSums {
  using Element = T;
  using State = LogSum<T>;
  static constexpr bool kPlaces = false, kLogs = true;
  static __device__ State none() { return {T(-INFINITY), T(0)}; }
  static __device__ State of(T v, int64_t) { return {v, T(0)}; }
  static __device__ State both(State a, State b) {
    if (a.most != a.most || b.most != b.most) return {T(NAN), T(0)};
    const bool first = a.most > b.most;
    const T most = first ? a.most : b.most, less = first ? b.most : a.most;
    const T rest = first ? a.rest : b.rest, small = first ? b.rest : a.rest;
    // equal infinities have no difference
    return {most, rest + (T(1) + small) * (most == less ? T(1) : exp(less - most))};
  }
  static __device__ T result(State s) { return s.most + log1p(s.rest); }
};
template <class T> struct Best {
  T value;
  int64_t place;  // negative: nothing yet
};
template <class T, bool kLargest> struct Extremes {  // for equal values the last, and NaN above all
  using Element = T;
  using State = Best<T>;
  static constexpr bool kPlaces = true, kLogs = false;
  static __device__ State none() { return {T(0), -1}; }
  static __device__ State of(T v, int64_t i) { return {v, i}; }
  static __device__ State both(State a, State b) {
    if (a.place < 0) return b;
    if (b.place < 0) return a;
    const bool later =
      b.value != b.value || (a.value == a.value && (kLargest ? b.value >= a.value : b.value <= a.value));
    return later ? b : a;
  }
  static __device__ T result(State s) { return s.value; }
};
template <class T> using Largest = Extremes<T, true>;
template <class T> using Smallest = Extremes<T, false>;

// The state of another lane, by a shuffle of each number in it.
template <class T, class Shuffle> __device__ __forceinline__ T moved(T v, const Shuffle& shuffle) { return shuffle(v); }
template <class Shuffle> __device__ __forceinline__ int64_t moved(int64_t v, const Shuffle& shuffle) {
  return shuffle(static_cast<long long>(v));
}
template <class T, class Shuffle> __device__ __forceinline__ Best<T> moved(const Best<T>& v, const Shuffle& shuffle) {
  return {moved(v.value, shuffle), moved(v.place, shuffle)};
}
template <class T, class Shuffle>
__device__ __forceinline__ LogSum<T> moved(const LogSum<T>& v, const Shuffle& shuffle) {
  return {shuffle(v.most), shuffle(v.rest)};
}
template <class S> __device__ __forceinline__ S from_below(const S& v, int by) {
  return moved(v, [&](auto x) { return __shfl_up_sync(kAllLanes, x, by); });
}
template <class S> __device__ __forceinline__ S from_lane(const S& v, int lane) {
  return moved(v, [&](auto x) { return __shfl_sync(kAllLanes, x, lane); });
}
// The states of all lanes up to each.
template <class K> __device__ __forceinline__ typename K::State warp_scan(typename K::State v) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const typename K::State below = from_below(v, by);
    if (lane >= by) v = K::both(below, v);
  }
  return v;
}

template <class K> __device__ __forceinline__ void put(const ScanParams& p, int64_t at, const typename K::State& s) {
  using T = typename K::Element;
  store<T>(const_cast<void*>(element(p.out, p.out_type, at)), p.out_type, K::result(s));
  if constexpr (K::kPlaces) reinterpret_cast<int64_t*>(p.places)[at] = s.place;
}

// 16 bytes of the compute type from `own` on. Elements at `end` and after it are 0: they come after all others of the
// line, so that they change no result.
template <class T>
__device__ __forceinline__ void load_items(const ScanParams& p, int64_t base, int64_t own, int64_t end,
                                           T (&v)[16 / sizeof(T)]) {
  constexpr int kItems = 16 / sizeof(T);
  if (p.vectors && own + kItems <= end) return load_vector<T>(element(p.x, p.x_type, base + own), p.x_type, v);
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    v[j] = own + j < end ? load<T>(element(p.x, p.x_type, base + (own + j) * p.inner), p.x_type) : T(0);
}
// Their states, each with those before it.
template <class K>
__device__ __forceinline__ void scan_items(const typename K::Element (&v)[16 / sizeof(typename K::Element)],
                                           int64_t own, typename K::State (&s)[16 / sizeof(typename K::Element)]) {
  s[0] = K::of(v[0], own);
#pragma unroll
  for (int j = 1; j < int(16 / sizeof(typename K::Element)); ++j) s[j] = K::both(s[j - 1], K::of(v[j], own + j));
}
// Stores the results, after the elements that `before` covers.
template <class K>
__device__ __forceinline__ void put_states(const ScanParams& p, int64_t base, int64_t own, int64_t end,
                                           const typename K::State& before,
                                           const typename K::State (&s)[16 / sizeof(typename K::Element)]) {
  using T = typename K::Element;
  constexpr int kItems = 16 / sizeof(T);
  if constexpr (!K::kPlaces) {
    if (p.vectors && own + kItems <= end) {
      T v[kItems];
#pragma unroll
      for (int j = 0; j < kItems; ++j) v[j] = K::result(K::both(before, s[j]));
      return store_vector<T>(const_cast<void*>(element(p.out, p.out_type, base + own)), p.out_type, v);
    }
  }
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    if (own + j < end) put<K>(p, base + (own + j) * p.inner, K::both(before, s[j]));
}

#define STRATA_SCANS(X)            \
  X(sum, Sums, f32, float)         \
  X(sum, Sums, f64, double)        \
  X(sum, Sums, i64, int64_t)       \
  X(prod, Products, f32, float)    \
  X(prod, Products, f64, double)   \
  X(prod, Products, i64, int64_t)  \
  X(log_sum, LogSums, f32, float)  \
  X(log_sum, LogSums, f64, double) \
  X(most, Largest, f32, float)     \
  X(most, Largest, f64, double)    \
  X(most, Largest, i64, int64_t)   \
  X(least, Smallest, f32, float)   \
  X(least, Smallest, f64, double)  \
  X(least, Smallest, i64, int64_t)

}  // namespace strata::cuda
