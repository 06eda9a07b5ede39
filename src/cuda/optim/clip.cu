// The norm of many tensors as if they were one, scaling them down if it is too large, and unscaling gradients.
//
// Bound by memory: each element is read once for the norm, and read and written once if it is scaled. Three launches
// for 128 tensors: each block writes the norm of its piece in double, one block reduces these, and the last launch
// scales, or does nothing. The host never waits. The order of additions depends on the sizes only.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/tensor_lists.cuh"
#include "cuda/optim/clip_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ double first_of(int32_t kind) { return kind == kSmallest ? double(INFINITY) : 0.0; }
__device__ __forceinline__ double size_of(int32_t kind, double power, double v) {
  switch (kind) {
    case kSumOfSquares: return v * v;
    case kCount: return v != 0;
    case kSumOfPowers: return pow(fabs(v), power);
    default: return fabs(v);
  }
}
__device__ __forceinline__ double both(int32_t kind, double a, double b) {  // propagates NaN
  if (kind == kLargest) return b > a || b != b ? b : a;
  if (kind == kSmallest) return b < a || b != b ? b : a;
  return a + b;
}
// Reduces over all threads; the first one gets the result.
__device__ double folded(int32_t kind, double v) {
  __shared__ double warps[kThreads / 32];
#pragma unroll
  for (int half = 16; half > 0; half /= 2) v = both(kind, v, __shfl_down_sync(0xffffffffu, v, half));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < kThreads / 32; ++w) v = both(kind, v, warps[w]);
  return v;
}

// f(elements, count) for the block's piece, in vectors where possible; f returns whether they changed.
template <class T, class F>
__device__ __forceinline__ void each(const ClippedTensor& t, int64_t begin, int64_t end, F f) {
  constexpr int kVector = 16 / sizeof(T);
  const int32_t type = t.type;
  const uint64_t data = t.data;
  if (t.vectors) {
    const int64_t whole = end - (end - begin) % kVector;
    for (int64_t i = begin + threadIdx.x * kVector; i < whole; i += kThreads * kVector) {
      T v[kVector];
      load_common<T>(element(data, type, i), type, v);
      if (f(v)) store_common<T>(const_cast<void*>(element(data, type, i)), type, v);
    }
    begin = whole;
  }
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    T v[1] = {load<T>(element(data, type, i), type)};
    if (f(v)) store<T>(const_cast<void*>(element(data, type, i)), type, v[0]);
  }
}
template <class F> __device__ __forceinline__ void each_of_piece(const ClipParams& p, F f) {
  const int which = tensor_of_block(p);
  const ClippedTensor t = p.tensor[which];
  const int64_t begin = int64_t(blockIdx.x - p.first_block[which]) * p.piece, end = min(begin + p.piece, t.count);
  if (t.type == kF64) each<double>(t, begin, end, f);
  else each<float>(t, begin, end, f);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) norm_of_pieces(const __grid_constant__ ClipParams p) {
  double sum = first_of(p.kind);
  const auto add = [&](auto& v) {
    for (const auto x : v) sum = both(p.kind, sum, size_of(p.kind, p.power, double(x)));
    return false;
  };
  each_of_piece(p, add);
  sum = folded(p.kind, sum);
  if (threadIdx.x == 0) reinterpret_cast<double*>(p.partial)[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(kThreads) norm_of_all(TotalNormParams p) {
  double sum = first_of(p.kind);
  for (int64_t i = threadIdx.x; i < p.count; i += kThreads)
    sum = both(p.kind, sum, reinterpret_cast<const double*>(p.partials)[i]);
  sum = folded(p.kind, sum);
  if (threadIdx.x > 0) return;
  if (p.kind == kSumOfSquares) sum = sqrt(sum);
  if (p.kind == kSumOfPowers) sum = pow(sum, 1 / p.power);
  store<double>(reinterpret_cast<void*>(p.out), p.out_type, sum);
}

extern "C" __global__ void __launch_bounds__(kThreads) scale_to_norm(const __grid_constant__ ClipParams p) {
  const double factor = p.max_norm / (load<double>(reinterpret_cast<const void*>(p.total), p.total_type) + 1e-6);
  if (factor >= 1) return;  // false for NaN
  const auto scale = [&](auto& v) {
    for (auto& x : v) x *= decltype(+x)(factor);
    return true;
  };
  each_of_piece(p, scale);
}

// p.total: the factor; p.partial, of dtype p.kind: set to 1 if it is not 0 or an element is not finite. One pass over
// memory; every block that finds such an element stores the same value, so the result does not depend on their order.
extern "C" __global__ void __launch_bounds__(kThreads) scale_and_check(const __grid_constant__ ClipParams p) {
  const float factor = load<float>(reinterpret_cast<const void*>(p.total), p.total_type);
  void* const flag = reinterpret_cast<void*>(p.partial);
  bool found = blockIdx.x == 0 && threadIdx.x == 0 && load<float>(flag, p.kind) != 0;
  const auto scale = [&](auto& v) {
    for (auto& x : v) {
      found |= !isfinite(x);
      x *= decltype(+x)(factor);
    }
    return true;
  };
  each_of_piece(p, scale);
  if (__syncthreads_or(found) && threadIdx.x == 0) store<float>(flag, p.kind, 1.0f);
}

// The rule of GradScaler.update(), for one thread.
extern "C" __global__ void update_scale(ScaleParams p) {
  void *const scale = reinterpret_cast<void*>(p.scale), *const tracker = reinterpret_cast<void*>(p.growth_tracker);
  const double now = load<double>(scale, p.scale_type);
  const double steps = load<double>(tracker, p.tracker_type) + 1;
  const bool found = load<float>(reinterpret_cast<const void*>(p.found_inf), p.found_type) != 0;
  const bool grows = !found && steps == double(p.interval);
  if (found) store<double>(scale, p.scale_type, now * p.backoff);
  if (grows && isfinite(float(now * p.growth))) store<double>(scale, p.scale_type, now * p.growth);
  store<double>(tracker, p.tracker_type, found || grows ? 0.0 : steps);
}

}  // namespace strata::cuda
