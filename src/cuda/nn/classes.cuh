// The class and the weight of a row, and the sums over all rows, for losses over class indices.
#pragma once
#include "cuda/common/dtypes.cuh"
#include "cuda/common/fault.cuh"

namespace strata::cuda {

// The class of a row, or -1 if it is ignored. P has target, target_type, ignore, classes and faults.
template <class P> __device__ __forceinline__ int64_t class_of(const P& p, int64_t row) {
  const int64_t t = load<int64_t>(element(p.target, p.target_type, row), p.target_type);
  if (t == p.ignore) return -1;
  if (t >= 0 && t < p.classes) return t;
  report(p.faults, FaultCode::Target, t, p.classes);
  return -1;
}
template <class T, class P> __device__ __forceinline__ T weight_of(const P& p, int64_t t) {
  return p.weight ? load<T>(element(p.weight, p.weight_type, t), p.weight_type) : T(1);
}

constexpr int kClassThreads = 256;

struct ClassSums {
  double loss = 0, weight = 0;
  __device__ __forceinline__ void add(const ClassSums& other) {
    loss += other.loss;
    weight += other.weight;
  }
};
// The sums over all threads of a block of kClassThreads, for the first one.
__device__ __forceinline__ ClassSums over_block(ClassSums own) {
  __shared__ double space[2][kClassThreads];
  space[0][threadIdx.x] = own.loss;
  space[1][threadIdx.x] = own.weight;
  for (int half = kClassThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    space[0][threadIdx.x] += space[0][threadIdx.x + half];
    space[1][threadIdx.x] += space[1][threadIdx.x + half];
  }
  own.loss = space[0][threadIdx.x];
  own.weight = space[1][threadIdx.x];
  return own;
}

}  // namespace strata::cuda
