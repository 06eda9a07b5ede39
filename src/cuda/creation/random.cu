// Random numbers from the Philox stream, the same as on the host: distributions, integers, Bernoulli draws, dropout.
//
// Bound by memory and by the integer arithmetic of Philox (each element is written once; ten rounds give four words), by
// double arithmetic for the other distributions. Float normal numbers have the host's bits, the others differ by at
// most one unit in the last place. A block gives four elements of one word or two of two words; a thread computes
// several. The common distributions have kernels of their own: the others need many more registers.
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

// The Philox blocks of this launch. A captured launch reads the seed and the stream position from the device, where each replay
// writes them.
struct Blocks {
  uint64_t seed, first;
  template <class Params> __device__ explicit Blocks(const Params& p) : seed(p.seed), first(p.first) {
    if (const auto* base = reinterpret_cast<const uint64_t*>(p.base)) {
      seed = base[0];
      first += base[1];
    }
  }
  __device__ __forceinline__ PhiloxBlock operator[](int64_t block) const {
    return philox(seed, first + uint64_t(block));
  }
};

// log(1 - u); 1 - u is exact, as u is a multiple of 2^-24 or 2^-53.
template <class T> __device__ __forceinline__ T log_of_rest(T u) { return log(T(1) - u); }

// n % range without a division: the quotient by the reciprocal is at most two too small.
__device__ __forceinline__ uint64_t remainder(uint64_t n, uint64_t range, uint64_t reciprocal) {
  uint64_t rest = n - __umul64hi(n, reciprocal) * range;
  if (rest >= range) rest -= range;
  return rest >= range ? rest - range : rest;
}
// The same for a range of at most 2^30: then 32 bits of each number are enough after the first product.
__device__ __forceinline__ uint32_t small_remainder(uint64_t n, uint32_t range, uint64_t reciprocal) {
  uint32_t rest = uint32_t(n) - uint32_t(__umul64hi(n, reciprocal)) * range;
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
    case kExponential: return a == T(1) ? -log_of_rest(u) : -log_of_rest(u) / a;
    case kCauchy: return plus_product(a, b, T(tan(double(T(3.141592653589793) * (u - T(0.5))))));
    default: return max(T(1), ceil(log_of_rest(u) / T(log1p(-double(a)))));
  }
}

// The first element of a thread's piece number `piece` of kPieces, each of kItems elements. Neighbouring threads have neighbouring
// pieces, so that a warp writes whole lines of memory.
template <int kItems, int kPieces> __device__ __forceinline__ int64_t piece_start(int piece) {
  return ((int64_t(blockIdx.x) * kPieces + piece) * blockDim.x + threadIdx.x) * kItems;
}

// Writes 16 bytes of elements, as a vector where possible.
template <class T>
__device__ __forceinline__ void put(const RandomParams& p, int64_t first, const T (&v)[16 / sizeof(T)]) {
  constexpr int kItems = 16 / sizeof(T);
  if (p.vectors && first + kItems <= p.count) {
    store_common<T>(const_cast<void*>(element(p.out, p.out_type, first)), p.out_type, v);
    return;
  }
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    if (first + j < p.count) store<T>(const_cast<void*>(element(p.out, p.out_type, first + j)), p.out_type, v[j]);
}

// kOf: the distribution, or kAnyOf for the one in the parameters.
constexpr int32_t kAnyOf = -1;
template <class T, int32_t kOf> __device__ __forceinline__ void fill(const RandomParams& p) {
  constexpr int kPer = 16 / sizeof(T);  // elements of a Philox block
  const int32_t distribution = kOf == kAnyOf ? p.distribution : kOf;
  const Blocks blocks(p);
  T u[kRandomBlocks][kPer];
#pragma unroll
  for (int b = 0; b < kRandomBlocks; ++b) {
    const PhiloxBlock block = blocks[piece_start<1, kRandomBlocks>(b)];
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      if constexpr (sizeof(T) == 4) u[b][j] = float(block.word[j] >> p.shift) * p.unit;
      else u[b][j] = uniform_f64(block.word[2 * j], block.word[2 * j + 1]);
    }
  }
#pragma unroll
  for (int b = 0; b < kRandomBlocks; ++b) {
    if (distribution == kNormal || distribution == kLogNormal) {
#pragma unroll
      for (int j = 0; j < kPer; j += 2) to_normals(u[b][j], u[b][j + 1]);
    }
#pragma unroll
    for (int j = 0; j < kPer; ++j) u[b][j] = from_uniform(distribution, T(p.a), T(p.b), u[b][j]);
    put(p, piece_start<kPer, kRandomBlocks>(b), u[b]);
  }
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
    Eights<T, 1, Types::Common> read;
    read.load(
      p.type, [&](int) { return element(p.x, p.type, first); }, [](int) { return true; });
    read.get(p.type, reinterpret_cast<T(&)[1][kItems]>(v));
  } else if (p.x) {
#pragma unroll
    for (int j = 0; j < kItems; ++j)
      if (first + j < p.count) v[j] = load<T>(element(p.x, p.type, first + j), p.type);
  }
  const Blocks blocks(p);
  uint32_t kept[2] = {0, 0};  // a byte per element
#pragma unroll
  for (int b = 0; b < 2; ++b) {
    const PhiloxBlock block = blocks[2 * thread + b];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const bool keep = block.word[j] >> 8 >= p.limit;
      kept[b] |= uint32_t(keep) << 8 * j;
      v[4 * b + j] = keep ? v[4 * b + j] * T(p.scale) : T(0);
    }
  }
  if (whole) {
    store_eight<T, false>(const_cast<void*>(element(p.out, p.type, first)), p.type, v);
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

extern "C" __global__ void __launch_bounds__(256) fill_f32(RandomParams p) { fill<float, kAnyOf>(p); }
extern "C" __global__ void __launch_bounds__(256) fill_f64(RandomParams p) { fill<double, kAnyOf>(p); }
extern "C" __global__ void __launch_bounds__(256) uniform_f32(RandomParams p) { fill<float, kUniform>(p); }
extern "C" __global__ void __launch_bounds__(256) normal_f32(RandomParams p) { fill<float, kNormal>(p); }
extern "C" __global__ void __launch_bounds__(256) exponential_f32(RandomParams p) { fill<float, kExponential>(p); }
extern "C" __global__ void __launch_bounds__(256) dropout_f32(DropoutParams p) { dropout<float>(p); }
extern "C" __global__ void __launch_bounds__(256) dropout_f64(DropoutParams p) { dropout<double>(p); }

namespace {
template <bool kSmall> __device__ __forceinline__ void integers(const RandomParams& p) {
  const Blocks blocks(p);
#pragma unroll
  for (int b = 0; b < kRandomBlocks; ++b) {
    const PhiloxBlock block = blocks[piece_start<1, kRandomBlocks>(b)];
    int64_t v[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      uint64_t bits = uint64_t(block.word[2 * j]) << 32 | block.word[2 * j + 1];
      if (kSmall) bits = small_remainder(bits, uint32_t(p.range), p.reciprocal);
      else if (p.range) bits = remainder(bits, p.range, p.reciprocal);
      v[j] = int64_t(uint64_t(p.low) + bits);
    }
    put(p, piece_start<2, kRandomBlocks>(b), v);
  }
}

// Two Philox blocks for the four elements of a piece.
template <bool kEach> __device__ __forceinline__ void bernoulli(const RandomParams& p) {
  constexpr int kPieces = kBernoulliBlocks / 2;
  const Blocks blocks(p);
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const int64_t first = piece_start<4, kPieces>(piece);
    float v[4];
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const PhiloxBlock block = blocks[first / 2 + b];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const uint32_t high = block.word[2 * j], low = block.word[2 * j + 1];
        const int64_t i = first + 2 * b + j;
        bool hit = (uint64_t(high) << 32 | low) >> 11 < p.limit;
        if (kEach && i < p.count) {
          const auto chance = load<double>(element(p.chances, p.chances_type, i * p.chance_step), p.chances_type);
          if (!(chance >= 0 && chance <= 1)) *reinterpret_cast<double*>(p.worst) = chance;
          hit = uniform_f64(high, low) < chance;
        }
        v[2 * b + j] = hit ? 1.f : 0.f;
      }
    }
    put(p, first, v);
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) integers_any(RandomParams p) { integers<false>(p); }
extern "C" __global__ void __launch_bounds__(256) integers_small(RandomParams p) { integers<true>(p); }
extern "C" __global__ void __launch_bounds__(256) bernoulli_one(RandomParams p) { bernoulli<false>(p); }
extern "C" __global__ void __launch_bounds__(256) bernoulli_each(RandomParams p) { bernoulli<true>(p); }

extern "C" __global__ void begin_replay(RandomBaseParams p) {
  uint64_t* base = reinterpret_cast<uint64_t*>(p.base);
  base[0] = p.seed;
  base[1] = p.first;
}

}  // namespace strata::cuda
