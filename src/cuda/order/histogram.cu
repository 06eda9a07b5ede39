// Counts of integers, and of numbers in equal bins.
//
// Bound by memory: numbers are read once. If the counts fit shared memory, a block counts a part of the numbers there
// and adds its counts to the result; otherwise it adds to the result directly. Integer sums do not depend on the order.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/warp.cuh"
#include "cuda/order/histogram_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kAhead = 8;

// Calls f(number) for the block's part.
template <class T, class F> __device__ __forceinline__ void each(const HistogramParams& p, const F& f) {
  const int64_t begin = int64_t(blockIdx.x) * p.part, end = min(begin + p.part, p.n);
  int64_t i = begin + threadIdx.x;
  for (; i + (kAhead - 1) * kThreads < end; i += kAhead * kThreads) {
    T v[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) v[j] = load<T>(element(p.x, p.type, i + j * kThreads), p.type);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) f(v[j]);
  }
  for (; i < end; i += kThreads) f(load<T>(element(p.x, p.type, i), p.type));
}

// bin(number) is the number's bin, or negative.
template <class T, class Bin> __device__ __forceinline__ void count(const HistogramParams& p, const Bin& bin) {
  __shared__ uint32_t counts[kSharedBins];
  auto* out = reinterpret_cast<unsigned long long*>(p.counts);
  if (p.bins > kSharedBins) {
    each<T>(p, [&](T v) {
      const int64_t b = bin(v);
      if (b >= 0) atomicAdd(out + b, 1ull);
    });
    return;
  }
  for (int b = threadIdx.x; b < p.bins; b += kThreads) counts[b] = 0;
  __syncthreads();
  each<T>(p, [&](T v) {
    const int64_t b = bin(v);
    if (b >= 0) atomicAdd(&counts[b], 1u);
  });
  __syncthreads();
  for (int b = threadIdx.x; b < p.bins; b += kThreads)
    if (counts[b]) atomicAdd(out + b, static_cast<unsigned long long>(counts[b]));
}

// The bin of a number between low and high, computed as on the CPU.
template <class T> __device__ __forceinline__ void count_equal_bins(const HistogramParams& p) {
  count<T>(p, [&](T number) -> int64_t {
    const double v = number;
    if (!(v >= p.low && v <= p.high)) return -1;
    return min(int64_t((v - p.low) / (p.high - p.low) * double(p.bins)), p.bins - 1);
  });
}
}  // namespace

// The largest of all numbers, and the largest of their complements, which is the complement of the smallest.
extern "C" __global__ void __launch_bounds__(256) integer_range(HistogramParams p) {
  long long most = INT64_MIN, most_complement = INT64_MIN;
  each<int64_t>(p, [&](int64_t v) {
    most = max(most, static_cast<long long>(v));
    most_complement = max(most_complement, ~static_cast<long long>(v));
  });
#pragma unroll
  for (int by = 16; by > 0; by /= 2) {
    most = max(most, __shfl_xor_sync(kAllLanes, most, by));
    most_complement = max(most_complement, __shfl_xor_sync(kAllLanes, most_complement, by));
  }
  if (threadIdx.x % 32 != 0) return;
  atomicMax(reinterpret_cast<long long*>(p.counts), most);
  atomicMax(reinterpret_cast<long long*>(p.counts) + 1, most_complement);
}

extern "C" __global__ void __launch_bounds__(256) count_integers(HistogramParams p) {
  count<int64_t>(p, [&](int64_t v) { return v < p.bins ? v : -1; });
}
extern "C" __global__ void __launch_bounds__(256) count_bins_f32(HistogramParams p) { count_equal_bins<float>(p); }
extern "C" __global__ void __launch_bounds__(256) count_bins_f64(HistogramParams p) { count_equal_bins<double>(p); }
extern "C" __global__ void __launch_bounds__(256) count_bins_i64(HistogramParams p) { count_equal_bins<int64_t>(p); }

}  // namespace strata::cuda
