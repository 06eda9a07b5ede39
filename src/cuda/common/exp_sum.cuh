// A running maximum and the sum of exponentials below it.
#pragma once
#include <math.h>

#include "cuda/common/row_threads.cuh"

namespace strata::cuda {

constexpr int kExpVectors = 4;  // of eight elements: as many are in flight per thread, and raise the maximum once

template <class T> __device__ __forceinline__ T exponential(T v, bool coarse) {
  if constexpr (sizeof(T) == 4)
    if (coarse) return exp_coarse(v);
  return exp(v);
}

// A maximum and the sum of exponentials below it; -infinity and 0 if there was no element above -infinity. kInfinities: a
// maximum of infinity gives a sum of infinity, not of NaN.
template <class T, bool kInfinities> struct ExpSum {
  T most = T(-INFINITY), sum = T(0);
  // While there is no finite element the sum takes 0 as the maximum: NaN still reaches it.
  static __device__ __forceinline__ T below(T most) {
    return most == T(-INFINITY) || (kInfinities && most == T(INFINITY)) ? T(0) : most;
  }
  __device__ __forceinline__ void raise(T to, bool coarse) {
    const T next = max(most, to);
    sum *= exponential<T>(most - below(next), coarse);
    most = next;
  }
  __device__ __forceinline__ void add(T v, bool coarse) { sum += exponential<T>(v - below(most), coarse); }
  // The sum of the row, for all of its threads.
  __device__ __forceinline__ void finish(int threads, bool coarse, T (&space)[2][32]) {
    raise(over_row<Most>(most, threads, space[0]), coarse);
    sum = over_row<Add>(sum, threads, space[1]);
  }
};

}  // namespace strata::cuda
