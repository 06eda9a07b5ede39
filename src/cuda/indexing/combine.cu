// Reduces the values that index tensors send to the same row: sums, products, extremes.
//
// Deterministic without atomics: the values are sorted by row (stable, so in the order of the index). Rows of several
// columns: a thread reduces the 32 neighbours of a chunk for one column. Rows of one column: a block reduces the 2048
// neighbours of a chunk by a segmented scan. A row within one chunk is finished there. For a row that crosses chunks,
// partial results go to `heads` (the end of an earlier row) and `tails`, and a second launch reduces those. Bound by
// memory: each value is read once, and neighbouring threads read neighbouring columns or values.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/warp.cuh"
#include "cuda/indexing/indexing_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

struct Add {
  template <class T> static __device__ T none() { return T(0); }
  template <class T> static __device__ T both(T a, T b) { return a + b; }
};
struct Multiply {
  template <class T> static __device__ T none() { return T(1); }
  template <class T> static __device__ T both(T a, T b) { return a * b; }
};
template <class T> __device__ T limit(bool high) {
  if constexpr (TagOf<T>::value == kI64) return high ? 0x7fffffffffffffffll : int64_t(0x8000000000000000ull);
  else return T(high ? INFINITY : -INFINITY);
}
struct Max {  // propagates NaN
  template <class T> static __device__ T none() { return limit<T>(false); }
  template <class T> static __device__ T both(T a, T b) { return a != a || (b == b && !(a < b)) ? a : b; }
};
struct Min {
  template <class T> static __device__ T none() { return limit<T>(true); }
  template <class T> static __device__ T both(T a, T b) { return a != a || (b == b && !(b < a)) ? a : b; }
};

struct Sorted {
  const uint32_t* keys;
  uint64_t places;
  bool wide;
  __device__ explicit Sorted(const CombineParams& p)
      : keys(reinterpret_cast<const uint32_t*>(p.keys)), places(p.places), wide(p.wide_places) {}
  __device__ int64_t place(int64_t i) const {  // without places, the values are sorted too
    if (!places) return i;
    return wide ? reinterpret_cast<const int64_t*>(places)[i] : reinterpret_cast<const uint32_t*>(places)[i];
  }
  // The first position of a key, at or before `high`.
  __device__ int64_t first_of(uint32_t key, int64_t high) const {
    int64_t low = 0;
    while (low < high) {
      const int64_t mid = (low + high) / 2;
      if (keys[mid] < key) low = mid + 1;
      else high = mid;
    }
    return low;
  }
};

// Combines the reduced values of a row, the last of which is at position `last`, with the table.
template <class C, class T>
__device__ __forceinline__ void finish(const CombineParams& p, const Sorted& s, int64_t column, int64_t last, T total) {
  const uint32_t row = s.keys[last];
  if (int64_t(row) == p.skip || row >= p.rows) return;
  if (p.mean) total = total / T(last - s.first_of(row, last) + 1);
  const int64_t at = (column / p.inner * p.rows + row) * p.inner + column % p.inner;
  void* to = const_cast<void*>(element(p.table, p.table_type, at));
  store<T>(to, p.table_type, C::template both<T>(load<T>(to, p.table_type), total));
}

struct Position {
  int64_t chunk, column;
};
__device__ __forceinline__ Position position_of(int64_t thread, int64_t columns) {
  if ((thread | columns) >> 32) return {thread / columns, thread % columns};
  return {uint32_t(thread) / uint32_t(columns), uint32_t(thread) % uint32_t(columns)};  // several times faster
}

// The values at several positions: all loads are issued before the first conversion waits for one.
template <class T, int kCount>
__device__ __forceinline__ void load_values(const CombineParams& p, const int64_t (&at)[kCount], T (&v)[kCount]) {
  if (p.values_type == TagOf<T>::value) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) v[j] = reinterpret_cast<const T*>(p.values)[at[j]];
    return;
  }
  if constexpr (sizeof(T) == 4) {
    if (p.values_type == kBF16) {
      uint16_t bits[kCount];
#pragma unroll
      for (int j = 0; j < kCount; ++j) bits[j] = reinterpret_cast<const uint16_t*>(p.values)[at[j]];
#pragma unroll
      for (int j = 0; j < kCount; ++j) v[j] = __uint_as_float(uint32_t(bits[j]) << 16);
      return;
    }
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) v[j] = load<T>(element(p.values, p.values_type, at[j]), p.values_type);
}

template <class C, class T> __device__ __forceinline__ void combine(const CombineParams& p) {
  constexpr int kAhead = 8;  // values in flight
  const int64_t columns = p.outer * p.inner, thread = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  const auto [chunk, column] = position_of(thread, columns);
  if (chunk >= p.chunks) return;
  const Sorted s(p);
  const int64_t begin = chunk * kCombineChunk, end = min(begin + kCombineChunk, p.n);
  const int64_t base = column / p.inner * p.n * p.inner + column % p.inner;
  bool open = begin > 0 && s.keys[begin - 1] == s.keys[begin];
  T total = C::template none<T>();
  for (int64_t first = begin; first < end; first += kAhead) {
    uint32_t keys[kAhead + 1];
    int64_t from[kAhead];
    T values[kAhead];
#pragma unroll
    for (int j = 0; j <= kAhead; ++j) keys[j] = s.keys[min(first + j, p.n - 1)];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) from[j] = p.single ? 0 : base + s.place(min(first + j, p.n - 1)) * p.inner;
    load_values<T>(p, from, values);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int64_t i = first + j;
      if (i >= end) break;
      total = C::template both<T>(total, values[j]);
      if (i + 1 < p.n && keys[j + 1] == keys[j]) continue;
      if (open) reinterpret_cast<T*>(p.heads)[thread] = total;
      else finish<C, T>(p, s, column, i, total);
      open = false;
      total = C::template none<T>();
    }
  }
  if (end < p.n && s.keys[end] == s.keys[end - 1]) reinterpret_cast<T*>(p.tails)[thread] = total;
}

// A segment's running result, and whether a segment begins in the range that it covers.
template <class T> struct Segment {
  T total;
  bool begins;
};
template <class C, class T> __device__ __forceinline__ Segment<T> joined(const Segment<T>& a, const Segment<T>& b) {
  return {b.begins ? b.total : C::template both<T>(a.total, b.total), a.begins || b.begins};
}
template <class T> __device__ __forceinline__ Segment<T> from_below(const Segment<T>& s, int by) {
  Segment<T> below;
  if constexpr (TagOf<T>::value == kI64) below.total = __shfl_up_sync(kAllLanes, static_cast<long long>(s.total), by);
  else below.total = __shfl_up_sync(kAllLanes, s.total, by);
  below.begins = __shfl_up_sync(kAllLanes, int(s.begins), by);
  return below;
}
// What the threads before this one have of the segment that is open at its first element. All threads call it.
template <class C, class T> __device__ __forceinline__ Segment<T> before_thread(const Segment<T>& own) {
  __shared__ Segment<T> of_warp[kThreads / 32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Segment<T> none{C::template none<T>(), false};
  Segment<T> up_to = own;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const Segment<T> below = from_below(up_to, by);
    if (lane >= by) up_to = joined<C, T>(below, up_to);
  }
  if (lane == 31) of_warp[warp] = up_to;
  __syncwarp();  // the barrier needs whole warps
  __syncthreads();
  Segment<T> before = none;
  for (int w = 0; w < warp; ++w) before = joined<C, T>(before, of_warp[w]);
  const Segment<T> below = from_below(up_to, 1);
  return lane == 0 ? before : joined<C, T>(before, below);
}

template <class C, class T> __device__ __forceinline__ void combine_tile(const CombineParams& p) {
  constexpr int kItems = kCombineTile / kThreads;
  // a gap after every 32 elements: without, the eight neighbours of each thread would be in the same banks
  __shared__ uint32_t keys[kCombineTile + kCombineTile / 32];
  __shared__ T values[kCombineTile + kCombineTile / 32];
  const auto slot = [](int i) { return i + i / 32; };
  const Sorted s(p);
  const int64_t begin = int64_t(blockIdx.x) * kCombineTile;
  const int count = int(min(p.n - begin, int64_t(kCombineTile)));
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int i = j * kThreads + threadIdx.x;
    if (i >= count) continue;
    keys[slot(i)] = s.keys[begin + i];
    const int64_t from = p.single ? 0 : s.place(begin + i);
    values[slot(i)] = load<T>(element(p.values, p.values_type, from), p.values_type);
  }
  __syncwarp();  // the last tile may be short
  __syncthreads();
  const int first = threadIdx.x * kItems;
  const auto begins = [&](int i) {
    if (i == 0) return begin == 0 || s.keys[begin - 1] != keys[0];
    return keys[slot(i - 1)] != keys[slot(i)];
  };
  Segment<T> own{C::template none<T>(), false};
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    if (first + j < count) own = joined<C, T>(own, Segment<T>{values[slot(first + j)], begins(first + j)});
  Segment<T> run = before_thread<C, T>(own);
  for (int j = 0; j < kItems; ++j) {
    const int i = first + j;
    if (i >= count) return;
    run = joined<C, T>(run, Segment<T>{values[slot(i)], begins(i)});
    const bool at_end = i + 1 == count;
    if (at_end ? begin + i + 1 < p.n && s.keys[begin + i + 1] == keys[slot(i)] : keys[slot(i + 1)] == keys[slot(i)]) {
      if (at_end) reinterpret_cast<T*>(p.tails)[blockIdx.x] = run.total;  // the row continues in the next chunk
    } else if (run.begins) {
      finish<C, T>(p, s, 0, begin + i, run.total);
    } else {
      reinterpret_cast<T*>(p.heads)[blockIdx.x] = run.total;
    }
  }
}

template <class C, class T> __device__ __forceinline__ void combine_parts(const CombineParams& p) {
  const int64_t columns = p.outer * p.inner, thread = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  const auto [chunk, column] = position_of(thread, columns);
  if (chunk >= p.chunks || chunk == 0) return;
  const Sorted s(p);
  const int64_t begin = chunk * p.chunk, end = min(begin + p.chunk, p.n);
  const uint32_t key = s.keys[begin];
  if (s.keys[begin - 1] != key) return;         // no row continues from before
  if (end < p.n && s.keys[end] == key) return;  // the row continues
  const int64_t last = s.first_of(key + 1, end) - 1;
  T total = C::template none<T>();
#pragma unroll 4
  for (int64_t c = s.first_of(key, begin) / p.chunk; c < chunk; ++c)
    total = C::template both<T>(total, reinterpret_cast<const T*>(p.tails)[c * columns + column]);
  total = C::template both<T>(total, reinterpret_cast<const T*>(p.heads)[thread]);
  finish<C, T>(p, s, column, last, total);
}
}  // namespace

#define STRATA_COMBINE(C, suffix, T)                                                                              \
  extern "C" __global__ void __launch_bounds__(256) C##_##suffix(CombineParams p) { combine<C, T>(p); }           \
  extern "C" __global__ void __launch_bounds__(256) C##_tile_##suffix(CombineParams p) { combine_tile<C, T>(p); } \
  extern "C" __global__ void __launch_bounds__(256) C##_parts_##suffix(CombineParams p) { combine_parts<C, T>(p); }
#define STRATA_COMBINE_ALL(C) \
  STRATA_COMBINE(C, f32, float) STRATA_COMBINE(C, f64, double) STRATA_COMBINE(C, i64, int64_t)
STRATA_COMBINE_ALL(Add)
STRATA_COMBINE_ALL(Multiply)
STRATA_COMBINE_ALL(Max)
STRATA_COMBINE_ALL(Min)

}  // namespace strata::cuda
