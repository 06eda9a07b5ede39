// Random numbers from the Philox stream, the same as on the host: distributions, integers, Bernoulli draws, dropout.
//
// Bound by memory for uniform numbers and dropout (each element is written once; ten Philox rounds give four words), by
// double arithmetic for the other distributions. Float normal numbers have the host's bits, the others differ by at
// most one unit in the last place. A thread computes one Philox block: four elements of one word or two of two words.
#include "cuda/common/eights.cuh"
#include "cuda/creation/random_params.h"
#include "cuda/runtime/graph_params.h"
#include "device/normal.h"

namespace strata::cuda {
namespace {

enum Distributions : int32_t {
  kUniform,
  kNormal,
  kLogNormal,
  kExponential,
  kCauchy,
  kGeometric
};  // as in record/distributions.h

// The thread's block. A captured launch reads the seed and the stream position from the device, where each replay
// writes them.
template <class Params> __device__ __forceinline__ PhiloxBlock philox_of(const Params& p, int64_t thread) {
  const uint64_t* base = reinterpret_cast<const uint64_t*>(p.base);
  return philox(base ? base[0] : p.seed, (base ? base[1] : 0) + p.first + uint64_t(thread));
}

// log(1 - u); 1 - u is exact, as u is a multiple of 2^-24 or 2^-53.
template <class T> __device__ __forceinline__ T log_of_rest(T u) { return log(T(1) - u); }

// n % range without a division: the quotient by the reciprocal is at most two too small.
__device__ __forceinline__ uint64_t remainder(uint64_t n, uint64_t range, uint64_t reciprocal) {
  uint64_t rest = n - __umul64hi(n, reciprocal) * range;
  if (rest >= range) rest -= range;
  return rest >= range ? rest - range : rest;
}

__device__ __forceinline__ void to_normals(float& even, float& odd) { normal_pair(even, odd, even, odd); }
__device__ __forceinline__ void to_normals(double& even, double& odd) {  // Box-Muller transform
  const double radius = sqrt(-2 * log(1 - even));
  double s, c;
  sincos(6.283185307179586 * odd, &s, &c);
  even = radius * c;
  odd = radius * s;
}

template <class T> __device__ __forceinline__ T from_uniform(int32_t distribution, T a, T b, T u) {
  switch (distribution) {
    case kUniform: return plus_product(a, u, b - a);
    case kNormal: return plus_product(a, u, b);
    case kLogNormal: return T(exp(double(plus_product(a, u, b))));
    case kExponential: return -log_of_rest(u) / a;
    case kCauchy: return plus_product(a, b, T(tan(double(T(3.141592653589793) * (u - T(0.5))))));
    default: return max(T(1), ceil(log_of_rest(u) / T(log1p(-double(a)))));
  }
}

// Writes the elements of one Philox block, as vectors where possible.
template <class T, int kItems>
__device__ __forceinline__ void put(uint64_t out, int32_t type, int64_t first, int64_t count, bool vectors,
                                    const T (&v)[kItems]) {
  constexpr int kVector = 16 / sizeof(T);
  if (vectors && first + kItems <= count) {
#pragma unroll
    for (int j = 0; j < kItems; j += kVector)
      store_vector<T>(const_cast<void*>(element(out, type, first + j)), type,
                      reinterpret_cast<const T(&)[kVector]>(v[j]));
    return;
  }
  for (int j = 0; j < kItems; ++j)
    if (first + j < count) store<T>(const_cast<void*>(element(out, type, first + j)), type, v[j]);
}

template <class T> __device__ __forceinline__ void fill(const RandomParams& p) {
  constexpr int kItems = 16 / sizeof(T);
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, first = thread * kItems;
  if (first >= p.count) return;
  const PhiloxBlock block = philox_of(p, thread);
  T u[kItems];
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int j = 0; j < 4; ++j) u[j] = float(block.word[j] >> p.shift) * p.unit;
  } else {
#pragma unroll
    for (int j = 0; j < 2; ++j) u[j] = uniform_f64(block.word[2 * j], block.word[2 * j + 1]);
  }
  if (p.distribution == kNormal || p.distribution == kLogNormal) {
#pragma unroll
    for (int j = 0; j < kItems; j += 2) to_normals(u[j], u[j + 1]);
  }
#pragma unroll
  for (int j = 0; j < kItems; ++j) u[j] = from_uniform(p.distribution, T(p.a), T(p.b), u[j]);
  put(p.out, p.out_type, first, p.count, p.vectors, u);
}

// Two Philox blocks per thread: eight elements, so that 16-bit ones are one access.
template <class T> __device__ __forceinline__ void dropout(const DropoutParams& p) {
  constexpr int kItems = kDropoutItems;
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, first = thread * kItems;
  if (first >= p.count) return;
  const bool whole = p.vectors && first + kItems <= p.count;
  T v[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) v[j] = T(1);
  if (p.x && whole) {
    load_eight<T>(element(p.x, p.type, first), p.type, v);
  } else if (p.x) {
#pragma unroll
    for (int j = 0; j < kItems; ++j)
      if (first + j < p.count) v[j] = load<T>(element(p.x, p.type, first + j), p.type);
  }
  uint32_t kept[2] = {0, 0};  // a byte per element
#pragma unroll
  for (int b = 0; b < 2; ++b) {
    const PhiloxBlock block = philox_of(p, 2 * thread + b);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const bool keep = uniform_f32(block.word[j]) >= p.limit;
      kept[b] |= uint32_t(keep) << 8 * j;
      v[4 * b + j] = keep ? v[4 * b + j] * T(p.scale) : T(0);
    }
  }
  if (whole) {
    store_eight<T>(const_cast<void*>(element(p.out, p.type, first)), p.type, v);
    if (p.mask) *reinterpret_cast<uint2*>(p.mask + uint64_t(first)) = make_uint2(kept[0], kept[1]);
    return;
  }
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    if (first + j >= p.count) break;
    store<T>(const_cast<void*>(element(p.out, p.type, first + j)), p.type, v[j]);
    if (p.mask) reinterpret_cast<uint8_t*>(p.mask)[first + j] = uint8_t(kept[j / 4] >> 8 * (j % 4));
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) fill_f32(RandomParams p) { fill<float>(p); }
extern "C" __global__ void __launch_bounds__(256) fill_f64(RandomParams p) { fill<double>(p); }
extern "C" __global__ void __launch_bounds__(256) dropout_f32(DropoutParams p) { dropout<float>(p); }
extern "C" __global__ void __launch_bounds__(256) dropout_f64(DropoutParams p) { dropout<double>(p); }

extern "C" __global__ void __launch_bounds__(256) integers(RandomParams p) {
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, first = thread * 2;
  if (first >= p.count) return;
  const PhiloxBlock block = philox_of(p, thread);
  int64_t v[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const uint64_t bits = uint64_t(block.word[2 * j]) << 32 | block.word[2 * j + 1];
    v[j] = int64_t(uint64_t(p.low) + (p.range ? remainder(bits, p.range, p.reciprocal) : bits));
  }
  put(p.out, p.out_type, first, p.count, p.vectors, v);
}

extern "C" __global__ void __launch_bounds__(256) bernoulli(RandomParams p) {
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, first = thread * 2;
  if (first >= p.count) return;
  const PhiloxBlock block = philox_of(p, thread);
  int64_t v[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    double chance = p.a;
    if (p.chances && first + j < p.count) {
      chance = load<double>(element(p.chances, p.chances_type, (first + j) * p.chance_step), p.chances_type);
      if (!(chance >= 0 && chance <= 1)) *reinterpret_cast<double*>(p.worst) = chance;
    }
    v[j] = uniform_f64(block.word[2 * j], block.word[2 * j + 1]) < chance;
  }
  put(p.out, p.out_type, first, p.count, p.vectors, v);
}

extern "C" __global__ void begin_replay(RandomBaseParams p) {
  uint64_t* base = reinterpret_cast<uint64_t*>(p.base);
  base[0] = p.seed;
  base[1] = p.first;
}

}  // namespace strata::cuda
