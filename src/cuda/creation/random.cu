// Random numbers from the Philox stream, the same as on the host: distributions, integers, Bernoulli draws, dropout.
// ptx: compute_75 compute_80
//
// Bound by the number of instructions: ten rounds of Philox, about 50, give four words, and 20 to 45 more turn a word into
// a number; then by memory, to which each element is written once. Float normal numbers have the host's bits, the others
// differ by at most one unit in the last place. A block gives four elements of one word or two of two words; a thread
// computes several. The common distributions have kernels of their own: the others need many more registers.
#include "cuda/common/eights.cuh"
#include "cuda/creation/dropout.cuh"
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

// log(1 - u); 1 - u is exact, as u is a multiple of 2^-24 or 2^-53.
template <class T> __device__ __forceinline__ T log_of_rest(T u) { return log(T(1) - u); }

// n % range without a division: the quotient by the reciprocal is at most two too small.
__device__ __forceinline__ uint64_t remainder(uint64_t n, uint64_t range, uint64_t reciprocal) {
  uint64_t rest = n - __umul64hi(n, reciprocal) * range;
  if (rest >= range) rest -= range;
  return rest >= range ? rest - range : rest;
}
// The same for a range of at most kSmallRange: 32 bits of each number are enough after the first products. Without those
// of the lower halves, the quotient is at most four too small.
__device__ __forceinline__ uint32_t small_remainder(uint32_t high, uint32_t low, uint32_t range, uint64_t reciprocal) {
  const uint32_t upper = uint32_t(reciprocal >> 32), lower = uint32_t(reciprocal);
  const uint32_t quotient = high * upper + __umulhi(high, lower) + __umulhi(low, upper);
  uint32_t rest = low - quotient * range;
  rest = min(rest, rest - 2 * range);  // a negative difference is a large number
  rest = min(rest, rest - 2 * range);
  return min(rest, rest - range);
}

// The natural logarithm of n / 2^24 for 0 < n <= 2^24: logf without its branches for other arguments.
__device__ __forceinline__ float log_of_fraction(uint32_t n) {
  const uint32_t bits = __float_as_uint(float(n)), exponent = (bits - 0x3f2aaaabu) & 0xff800000u;
  const float f = __uint_as_float(bits - exponent) - 1;
  float r = fmaf(__uint_as_float(0xbe055027u), f, __uint_as_float(0x3e1039f6u));
  r = fmaf(r, f, __uint_as_float(0xbdf8cdccu));
  r = fmaf(r, f, __uint_as_float(0x3e0f2955u));
  r = fmaf(r, f, __uint_as_float(0xbe2ad8b9u));
  r = fmaf(r, f, __uint_as_float(0x3e4ced0bu));
  r = fmaf(r, f, __uint_as_float(0xbe7fff22u));
  r = fmaf(r, f, __uint_as_float(0x3eaaaa78u));
  r = fmaf(r, f, -0.5f);
  r = fmaf(f * r, f, f);
  return fmaf(fmaf(float(int(exponent)), 0x1p-23f, -24.0f), __uint_as_float(0x3f317218u), r);
}

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

// Writes the pieces of a thread. Elements of the compute type need no conversion, and one address is enough for all.
template <class T, int kPieces>
__device__ __forceinline__ void put_all(const RandomParams& p, const T (&v)[kPieces][16 / sizeof(T)]) {
  constexpr int kItems = 16 / sizeof(T);
  const int64_t first = piece_start<kItems, kPieces>(0), step = int64_t(blockDim.x) * kItems;
  if (p.vectors && p.out_type == TagOf<T>::value && first + (kPieces - 1) * step + kItems <= p.count) {
    T* const to = reinterpret_cast<T*>(p.out) + first;
#pragma unroll
    for (int k = 0; k < kPieces; ++k) store_common<T>(to + k * step, TagOf<T>::value, v[k]);
    return;
  }
#pragma unroll
  for (int k = 0; k < kPieces; ++k) put(p, first + k * step, v[k]);
}

// kOf: the distribution, or kAnyOf for the one in the parameters.
constexpr int32_t kAnyOf = -1;
template <int32_t kOf>
__device__ __forceinline__ void numbers_of(const RandomParams& p, const PhiloxBlock& block, float (&u)[4]) {
  const int32_t distribution = kOf == kAnyOf ? p.distribution : kOf;
  const float a = float(p.a), b = float(p.b);
  if (distribution == kNormal || distribution == kLogNormal) {
#pragma unroll
    for (int j = 0; j < 4; j += 2) normal_pair_of(block.word[j] >> 8, block.word[j + 1] >> 8, u[j], u[j + 1]);
  } else if (kOf == kExponential) {
#pragma unroll
    for (int j = 0; j < 4; ++j) u[j] = -log_of_fraction((1u << 24) - (block.word[j] >> 8));
    return;  // fill() divides
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) u[j] = float(block.word[j] >> p.shift) * p.unit;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) u[j] = from_uniform(distribution, a, b, u[j]);
}
template <int32_t>
__device__ __forceinline__ void numbers_of(const RandomParams& p, const PhiloxBlock& block, double (&u)[2]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) u[j] = uniform_f64(block.word[2 * j], block.word[2 * j + 1]);
  if (p.distribution == kNormal || p.distribution == kLogNormal) to_normals(u[0], u[1]);
#pragma unroll
  for (int j = 0; j < 2; ++j) u[j] = from_uniform(p.distribution, p.a, p.b, u[j]);
}

template <class T, int32_t kOf> __device__ __forceinline__ void fill(const RandomParams& p) {
  const Blocks blocks(p);
  T u[kRandomBlocks][16 / sizeof(T)];
#pragma unroll
  for (int b = 0; b < kRandomBlocks; ++b) numbers_of<kOf>(p, blocks[piece_start<1, kRandomBlocks>(b)], u[b]);
  if (kOf == kExponential && p.a != 1) {
#pragma unroll
    for (int b = 0; b < kRandomBlocks; ++b)
#pragma unroll
      for (int j = 0; j < int(16 / sizeof(T)); ++j) u[b][j] /= T(p.a);
  }
  put_all(p, u);
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
  drop_eight(blocks, thread, p.last, p.all != 0, T(p.scale), v,
             [&](int j, bool keep) { kept[j / 4] |= uint32_t(keep) << 8 * (j % 4); });
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
  int64_t v[kRandomBlocks][2];
#pragma unroll
  for (int b = 0; b < kRandomBlocks; ++b) {
    const PhiloxBlock block = blocks[piece_start<1, kRandomBlocks>(b)];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint32_t high = block.word[2 * j], low = block.word[2 * j + 1];
      uint64_t bits = uint64_t(high) << 32 | low;
      if (kSmall) bits = small_remainder(high, low, uint32_t(p.range), p.reciprocal);
      else if (p.range) bits = remainder(bits, p.range, p.reciprocal);
      v[b][j] = int64_t(uint64_t(p.low) + bits);
    }
  }
  put_all(p, v);
}

// Two Philox blocks for the four elements of a piece.
template <bool kEach> __device__ __forceinline__ void bernoulli(const RandomParams& p) {
  constexpr int kPieces = kBernoulliBlocks / 2;
  const Blocks blocks(p);
  float v[kPieces][4];
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const int64_t first = piece_start<4, kPieces>(piece);
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const PhiloxBlock block = blocks[first / 2 + b];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const uint32_t high = block.word[2 * j], low = block.word[2 * j + 1];
        const int64_t i = first + 2 * b + j;
        bool hit = (uint64_t(high) << 32 | low) < p.limit || p.all;
        if (kEach && i < p.count) {
          const auto chance = load<double>(element(p.chances, p.chances_type, i * p.chance_step), p.chances_type);
          if (!(chance >= 0 && chance <= 1)) *reinterpret_cast<double*>(p.worst) = chance;
          hit = uniform_f64(high, low) < chance;
        }
        v[piece][2 * b + j] = hit ? 1.f : 0.f;
      }
    }
  }
  put_all(p, v);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) integers_any(RandomParams p) { integers<false>(p); }
extern "C" __global__ void __launch_bounds__(256) integers_small(RandomParams p) { integers<true>(p); }
extern "C" __global__ void __launch_bounds__(256) bernoulli_one(RandomParams p) { bernoulli<false>(p); }
extern "C" __global__ void __launch_bounds__(256) bernoulli_each(RandomParams p) { bernoulli<true>(p); }

extern "C" __global__ void leave_draws(DrawStateParams p) {
  const Blocks blocks(p);
  uint64_t* out = reinterpret_cast<uint64_t*>(p.out);
  out[0] = blocks.seed;
  out[1] = blocks.first;
}

extern "C" __global__ void begin_replay(RandomBaseParams p) {
  uint64_t* base = reinterpret_cast<uint64_t*>(p.base);
  base[0] = p.seed;
  base[1] = p.first;
}

}  // namespace strata::cuda
