// What reductions fold and how: for the kernels of single ops and for groups of ops, with the same bits.
#pragma once
#include <math.h>
#include <stdint.h>

#include "cuda/common/row_threads.cuh"
#include "cuda/common/warp.cuh"

namespace strata::cuda {

template <class T> struct WideOf { using type = double; };
template <> struct WideOf<int64_t> { using type = int64_t; };

template <class T> __device__ T lowest() { return T(-INFINITY); }
template <> __device__ inline int64_t lowest() { return int64_t(0x8000000000000000ull); }
template <class T> __device__ T highest() { return T(INFINITY); }
template <> __device__ inline int64_t highest() { return 0x7fffffffffffffffll; }

// Those of tests also combine words of four small bytes, and the bytes of a word.
struct Plus {
  template <class T> static __device__ T identity() { return T(0); }
  template <class T> static __device__ T both(T a, T b) { return a + b; }
  static __device__ uint32_t both_bytes(uint32_t a, uint32_t b) { return a + b; }
  static __device__ uint32_t over_bytes(uint32_t word) { return word * 0x01010101u >> 24; }
};
struct Times {
  template <class T> static __device__ T identity() { return T(1); }
  template <class T> static __device__ T both(T a, T b) { return a * b; }
};
struct Larger {  // propagates NaN
  template <class T> static __device__ T identity() { return lowest<T>(); }
  template <class T> static __device__ T both(T a, T b) { return b > a || b != b ? b : a; }
};
struct Smaller {
  template <class T> static __device__ T identity() { return highest<T>(); }
  template <class T> static __device__ T both(T a, T b) { return b < a || b != b ? b : a; }
};
struct Either {  // for 0 and 1
  template <class T> static __device__ T identity() { return T(0); }
  template <class T> static __device__ T both(T a, T b) { return b > a ? b : a; }
  static __device__ uint32_t both_bytes(uint32_t a, uint32_t b) { return a | b; }
  static __device__ uint32_t over_bytes(uint32_t word) { return word != 0; }
};
struct Each {
  template <class T> static __device__ T identity() { return T(1); }
  template <class T> static __device__ T both(T a, T b) { return b < a ? b : a; }
  static __device__ uint32_t both_bytes(uint32_t a, uint32_t b) { return a & b; }
  static __device__ uint32_t over_bytes(uint32_t word) { return word == 0x01010101u; }
};
struct Same {
  static constexpr bool kTests = false;  // asked for where there are integers
  template <class T> static __device__ T map(T v) { return v; }
};
struct NanToZero {
  template <class T> static __device__ T map(T v) { return v == v ? v : T(0); }
};
struct Nonzero {
  static constexpr bool kTests = true;
  template <class T> static __device__ T map(T v) { return v != T(0) ? T(1) : T(0); }
};
struct Absolute {
  template <class T> static __device__ T map(T v) { return v < T(0) ? -v : v; }
};
struct Squared {
  template <class T> static __device__ T map(T v) { return v * v; }
};

// Eight or two runs of a thread.
template <class C, class T, int kRuns> __device__ __forceinline__ T over_runs(T (&run)[kRuns]) {
#pragma unroll
  for (int half = kRuns / 2; half > 0; half /= 2)
#pragma unroll
    for (int j = 0; j < half; ++j) run[j] = C::both(run[j], run[j + half]);
  return run[0];
}

// The value of the lane `by` above this one.
__device__ __forceinline__ double from_above(double v, int by) { return __shfl_down_sync(kAllLanes, v, by); }
__device__ __forceinline__ int64_t from_above(int64_t v, int by) {
  return __shfl_down_sync(kAllLanes, static_cast<long long>(v), by);
}

// Reduces the values of a result's threads, for lane 0: threads of different warps meet in shared memory, those of a warp by
// shuffles. Threads of a result are `apart` from each other; those nearer than `nearest` may be of different warps.
template <class C, class Wide, int kThreads>
__device__ __forceinline__ Wide over_threads(Wide total, int lane, int per_result, int apart, int nearest,
                                             Wide (&shared)[kThreads]) {
  const int thread = threadIdx.x;
  shared[thread] = total;
  int half = per_result / 2;
  for (; half >= nearest; half /= 2) {
    __syncthreads();
    if (lane >= half) continue;
    total = C::both(total, shared[thread + half * apart]);
    shared[thread] = total;
  }
  __syncwarp();
  for (; half > 0; half /= 2) total = C::both(total, from_above(total, half));
  return total;
}

// --- in groups -------------------------------------------------------------------------------------------------------------
// The fold of a row, for all of its threads. Word 0 has the bits of the number that the result is divided by; word 1 is not 0 if
// its root is taken.
template <class C, class M> struct RowFold {
  template <class Row, class T, class X>
  static __device__ __forceinline__ void run(const Row& row, const T*, const uint64_t* word, const X& x, T& out) {
    using Wide = typename WideOf<T>::type;
    constexpr int kMostThreads = 1024;
    __shared__ Wide shared[kMostThreads];
    wait_for_row(row.threads);
    T run[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) run[j] = C::template identity<T>();
#pragma unroll
    for (int k = 0; k < Row::kVectors; ++k)
      if (row.has(k)) {
        T v[8];
        x(k, v);
#pragma unroll
        for (int j = 0; j < 8; ++j) run[j] = C::both(run[j], M::map(v[j]));
      }
    Wide total = C::both(C::template identity<Wide>(), Wide(over_runs<C>(run)));
    total = over_threads<C>(total, row.lane, row.threads, 1, 32, shared);
    if (row.threads > 32) {  // lane 0 has written its sum before the last barrier but one, and reads nothing after it
      if (row.lane == 0) shared[threadIdx.x] = total;
      __syncthreads();
      total = shared[threadIdx.x - row.lane];
    } else {
      total = __shfl_sync(0xffffffffu, total, int(threadIdx.x % 32) & -row.threads);
    }
    const double divide = __longlong_as_double(int64_t(word[0]));
    if (divide != 1) total /= divide;
    if (word[1]) total = sqrt(total);
    out = T(total);
  }
};

}  // namespace strata::cuda
