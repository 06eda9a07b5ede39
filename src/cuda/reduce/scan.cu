// Cumulative sums, products, log-sums and extremes along one dimension.
//
// Bound by memory: each element is read and written once (read twice if a line is split into parts). Across lines, each
// thread walks along one line and its neighbours along the neighbouring lines. Along lines, a warp or a block processes
// tiles of one line: each thread scans 16 bytes of the compute type, shuffles scan the threads' totals, and a carry
// goes from tile to tile. Long lines are split into parts: one launch for the parts' totals, one to scan those, one for
// the parts. The order of operations depends on the shape only. Float sums are computed in double, as on the CPU.
#include "cuda/common/dtypes.cuh"
#include "cuda/reduce/scan_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kAhead = 8;
constexpr uint32_t kAll = 0xffffffffu;

template <class T> struct WideOf { using type = double; };
template <> struct WideOf<int64_t> { using type = int64_t; };

__device__ double log_add(double a, double b) {
  if (a != a || b != b) return NAN;
  const double high = a > b ? a : b, low = a > b ? b : a;
  return isinf(high) && high == low ? high : high + log1p(exp(low - high));
}

// A kind of scan: its state, the state of one element, and combining two consecutive ranges.
template <class T> struct Sums {
  using Element = T;
  using State = typename WideOf<T>::type;
  static constexpr bool kPlaces = false;
  static __device__ State none() { return State(0); }
  static __device__ State of(T v, int64_t) { return State(v); }
  static __device__ State both(State a, State b) { return a + b; }
};
template <class T> struct Products {
  using Element = T;
  using State = typename WideOf<T>::type;
  static constexpr bool kPlaces = false;
  static __device__ State none() { return State(1); }
  static __device__ State of(T v, int64_t) { return State(v); }
  static __device__ State both(State a, State b) { return a * b; }
};
template <class T> struct LogSums {
  using Element = T;
  using State = double;
  static constexpr bool kPlaces = false;
  static __device__ State none() { return -INFINITY; }
  static __device__ State of(T v, int64_t) { return double(v); }
  static __device__ State both(State a, State b) { return log_add(a, b); }
};
template <class T> struct Best {
  T value;
  int64_t place;  // negative: nothing yet
};
template <class T, bool kLargest> struct Extremes {  // for equal values the last, and NaN above all
  using Element = T;
  using State = Best<T>;
  static constexpr bool kPlaces = true;
  static __device__ State none() { return {T(0), -1}; }
  static __device__ State of(T v, int64_t i) { return {v, i}; }
  static __device__ State both(State a, State b) {
    if (a.place < 0) return b;
    if (b.place < 0) return a;
    const bool later =
      b.value != b.value || (a.value == a.value && (kLargest ? b.value >= a.value : b.value <= a.value));
    return later ? b : a;
  }
};

template <class T> __device__ __forceinline__ T from_below(T v, int by) { return __shfl_up_sync(kAll, v, by); }
__device__ __forceinline__ int64_t from_below(int64_t v, int by) {
  return __shfl_up_sync(kAll, static_cast<long long>(v), by);
}
template <class T> __device__ __forceinline__ Best<T> from_below(const Best<T>& v, int by) {
  return {from_below(v.value, by), from_below(v.place, by)};
}

template <class K> __device__ __forceinline__ void put(const ScanParams& p, int64_t at, const typename K::State& s) {
  using T = typename K::Element;
  void* to = const_cast<void*>(element(p.out, p.out_type, at));
  if constexpr (K::kPlaces) {
    store<T>(to, p.out_type, s.value);
    reinterpret_cast<int64_t*>(p.places)[at] = s.place;
  } else {
    store<T>(to, p.out_type, T(s));
  }
}
template <class K>
__device__ __forceinline__ void put_total(const ScanParams& p, int64_t at, const typename K::State& s) {
  if constexpr (K::kPlaces) {
    reinterpret_cast<typename K::Element*>(p.out)[at] = s.value;
    reinterpret_cast<int64_t*>(p.places)[at] = s.place;
  } else {
    reinterpret_cast<typename K::State*>(p.out)[at] = s;
  }
}
// The carry into a part.
template <class K>
__device__ __forceinline__ typename K::State carried(const ScanParams& p, int64_t line, int64_t part) {
  const int64_t at = line * p.parts + part - 1;
  if constexpr (K::kPlaces) {
    const int64_t from = line * p.parts + reinterpret_cast<const int64_t*>(p.carry_parts)[at];
    return {reinterpret_cast<const typename K::Element*>(p.carry)[at],
            reinterpret_cast<const int64_t*>(p.carry_places)[from]};
  } else {
    return reinterpret_cast<const typename K::State*>(p.carry)[at];
  }
}

template <class K> __device__ __forceinline__ void walk(const ScanParams& p) {
  using T = typename K::Element;
  const int64_t line = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (line >= p.lines) return;
  const int64_t base = line / p.inner * p.n * p.inner + line % p.inner;
  typename K::State s = K::none();
  int64_t i = 0;
  for (; i + kAhead <= p.n; i += kAhead) {
    T v[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) v[j] = load<T>(element(p.x, p.x_type, base + (i + j) * p.inner), p.x_type);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      s = K::both(s, K::of(v[j], i + j));
      put<K>(p, base + (i + j) * p.inner, s);
    }
  }
  for (; i < p.n; ++i) {
    s = K::both(s, K::of(load<T>(element(p.x, p.x_type, base + i * p.inner), p.x_type), i));
    put<K>(p, base + i * p.inner, s);
  }
}

template <class K> __device__ __forceinline__ void scan(const ScanParams& p) {
  using T = typename K::Element;
  using State = typename K::State;
  constexpr int kItems = 16 / sizeof(T);
  if (p.walk) return walk<K>(p);
  __shared__ State of_warps[2][kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool whole = p.warps > 1;  // the block has one line
  const int64_t line = whole ? blockIdx.x : int64_t(blockIdx.x) * kWarps + warp;
  if (line >= p.lines) return;
  const int64_t begin = int64_t(blockIdx.y) * p.part, end = min(begin + p.part, p.n);
  const int64_t base = line / p.inner * p.n * p.inner + line % p.inner;
  State carry = K::none();
  if (p.carry && blockIdx.y > 0) carry = carried<K>(p, line, blockIdx.y);
  const int64_t tile = int64_t(whole ? kThreads : 32) * kItems;
  int turn = 0;
  for (int64_t at = begin; at < end; at += tile, turn ^= 1) {
    const int64_t own = at + int64_t(whole ? threadIdx.x : lane) * kItems;
    State s[kItems];
    if (p.vectors && own + kItems <= end) {
      T v[kItems];
      load_vector<T>(element(p.x, p.x_type, base + own), p.x_type, v);
#pragma unroll
      for (int j = 0; j < kItems; ++j) s[j] = K::of(v[j], own + j);
    } else {
#pragma unroll
      for (int j = 0; j < kItems; ++j)
        s[j] = own + j < end ? K::of(load<T>(element(p.x, p.x_type, base + (own + j) * p.inner), p.x_type), own + j)
                             : K::none();
    }
#pragma unroll
    for (int j = 1; j < kItems; ++j) s[j] = K::both(s[j - 1], s[j]);
    State sum = s[kItems - 1];  // of this thread and those below it
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const State below = from_below(sum, by);
      if (lane >= by) sum = K::both(below, sum);
    }
    State before = from_below(sum, 1);
    if (lane == 0) before = K::none();
    if (whole) {  // two arrays in turn, so that one barrier is enough
      if (lane == 31) of_warps[turn][warp] = sum;
      __syncthreads();
      State below = carry;
      for (int w = 0; w < warp; ++w) below = K::both(below, of_warps[turn][w]);
      before = K::both(below, before);
      for (int w = 0; w < kWarps; ++w) carry = K::both(carry, of_warps[turn][w]);
    } else {
      before = K::both(carry, before);
      State all = K::both(carry, sum);
      if constexpr (K::kPlaces) {
        all.value = __shfl_sync(kAll, all.value, 31);
        all.place = __shfl_sync(kAll, static_cast<long long>(all.place), 31);
      } else if constexpr (sizeof(State) == 8 && TagOf<T>::value == kI64) {
        all = __shfl_sync(kAll, static_cast<long long>(all), 31);
      } else {
        all = __shfl_sync(kAll, all, 31);
      }
      carry = all;
    }
    if (p.totals) continue;
    if constexpr (!K::kPlaces) {
      if (p.vectors && own + kItems <= end) {
        T v[kItems];
#pragma unroll
        for (int j = 0; j < kItems; ++j) v[j] = T(K::both(before, s[j]));
        store_vector<T>(const_cast<void*>(element(p.out, p.out_type, base + own)), p.out_type, v);
        continue;
      }
    }
#pragma unroll
    for (int j = 0; j < kItems; ++j)
      if (own + j < end) put<K>(p, base + (own + j) * p.inner, K::both(before, s[j]));
  }
  if (p.totals && (whole ? threadIdx.x : lane) == 0) put_total<K>(p, line * p.parts + blockIdx.y, carry);
}

template <class T> using Largest = Extremes<T, true>;
template <class T> using Smallest = Extremes<T, false>;
}  // namespace

#define STRATA_SCAN(name, K, suffix, T) \
  extern "C" __global__ void __launch_bounds__(256) name##_##suffix(ScanParams p) { scan<K<T>>(p); }
STRATA_SCAN(sum, Sums, f32, float)
STRATA_SCAN(sum, Sums, f64, double)
STRATA_SCAN(sum, Sums, i64, int64_t)
STRATA_SCAN(prod, Products, f32, float)
STRATA_SCAN(prod, Products, f64, double)
STRATA_SCAN(prod, Products, i64, int64_t)
STRATA_SCAN(log_sum, LogSums, f32, float)
STRATA_SCAN(log_sum, LogSums, f64, double)
STRATA_SCAN(most, Largest, f32, float)
STRATA_SCAN(most, Largest, f64, double)
STRATA_SCAN(most, Largest, i64, int64_t)
STRATA_SCAN(least, Smallest, f32, float)
STRATA_SCAN(least, Smallest, f64, double)
STRATA_SCAN(least, Smallest, i64, int64_t)

}  // namespace strata::cuda
