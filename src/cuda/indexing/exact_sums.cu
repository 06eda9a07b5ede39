// Sums of floats into a table by atomic additions of integers: exact, so that they do not depend on the order.
//
// A float is an integer of 24 bits times a power of two. The exponents are divided into ranges of kExactRange; an element
// of the table has one 64-bit word per range, to which the floats of that range are added as integers. Each float is one
// atomic addition, and the words hold kExactMost of them. Infinities and NaN are counted in a word of their own. The
// sums are rounded once, when the words of an element are added to the table in double. Most data has floats of a few
// ranges only: the others are neither cleared nor read. Bound by the atomic additions of the L2 cache.
//
// Lines of few elements fit in shared memory. There, the largest exponent that goes to an element is found first, and
// each float is rounded to a multiple of a unit far below it: one word is enough, and the result is independent of the
// order too. Bound by memory.
#include "cuda/common/warp.cuh"
#include "cuda/indexing/exact_params.h"
#include "cuda/indexing/targets.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kItems = kExactAdded;

// A float as an integer for the word of a range.
struct Term {
  int range;
  int64_t number;
};
__device__ __forceinline__ Term term_of(float v) {
  const uint32_t bits = __float_as_uint(v), exponent = bits >> 23 & 255, fraction = bits & 0x7fffffu;
  const bool negative = bits >> 31;
  if (exponent == 255) {
    const bool up = fraction || !negative, down = fraction || negative;  // NaN counts as both infinities
    return {kExactRanges, int64_t(up) | int64_t(down) << 32};
  }
  const uint32_t e = max(exponent, 1u) - 1;
  const auto size = int64_t(uint64_t(fraction | (exponent ? 1u << 23 : 0)) << (e % kExactRange));
  return {int(e / kExactRange), negative ? -size : size};
}
__device__ __forceinline__ double sum_of_infinities(int64_t word) {
  double sum = 0;
  if (uint32_t(word)) sum += double(INFINITY);
  if (uint64_t(word) >> 32) sum -= double(INFINITY);
  return sum;
}
__device__ __forceinline__ double power_of_two(int exponent) {
  return __longlong_as_double(static_cast<long long>(exponent + 1023) << 52);
}
__device__ __forceinline__ void add_to_table(const AlongParams& p, int64_t at, double sum) {
  if (sum == 0) return;  // also keeps -0, to which the CPU would have added +0
  void* const to = const_cast<void*>(element(p.table, p.type, at));
  store<float>(to, p.type, float(double(load<float>(to, p.type)) + sum));
}
__device__ __forceinline__ float value_of(const ExactParams& p, int64_t e) {
  return load<float>(element(p.along.block, p.along.type, p.along.single ? 0 : e), p.along.type);
}
__device__ __forceinline__ bool is_used(const ExactParams& p, int range) {
  return *reinterpret_cast<const uint32_t*>(p.used) >> range & 1;
}
}  // namespace

// Finds the ranges that occur: a bit each.
extern "C" __global__ void __launch_bounds__(256) find_ranges(ExactParams p) {
  __shared__ uint32_t of_block;
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  uint32_t least = 254, most = 0;  // exponents of the finite floats
  bool special = false;
  const auto meet = [&](float v) {
    const uint32_t bits = __float_as_uint(v) & 0x7fffffffu, exponent = bits >> 23;
    special |= exponent == 255;
    if (bits == 0 || exponent == 255) return;  // zeros are not added
    least = min(least, exponent);
    most = max(most, exponent + 1);  // 0: there was none
  };
  const int64_t begin = int64_t(blockIdx.x) * kThreads * kExactItems;
  if (p.vectors && begin + kThreads * kExactItems <= p.values) {
    constexpr int kVectors = kExactItems / 4;
    float v[kVectors][4];
#pragma unroll
    for (int j = 0; j < kVectors; ++j)
      load_common<float>(element(p.along.block, p.along.type, begin + (j * kThreads + threadIdx.x) * 4), p.along.type,
                         v[j]);
#pragma unroll
    for (int j = 0; j < kVectors; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) meet(v[j][i]);
  } else {
    for (int64_t e = begin + threadIdx.x; e < min(begin + kThreads * kExactItems, p.values); e += kThreads)
      meet(value_of(p, e));
  }
  __syncwarp();
  uint32_t found = special ? 1u << kExactRanges : 0;
  if (most) {  // all ranges between the first and the last one
    const uint32_t first = (max(least, 1u) - 1) / kExactRange, last = (max(most - 1, 1u) - 1) / kExactRange;
    found |= (2u << last) - (1u << first);
  }
#pragma unroll
  for (int by = 16; by > 0; by /= 2) found |= __shfl_xor_sync(kAllLanes, found, by);
  if (threadIdx.x % 32 == 0) atomicOr(&of_block, found);
  __syncthreads();
  auto* const used = reinterpret_cast<uint32_t*>(p.used);
  if (threadIdx.x == 0 && (of_block & ~*reinterpret_cast<volatile uint32_t*>(used))) atomicOr(used, of_block);
}

extern "C" __global__ void __launch_bounds__(256) clear_ranges(ExactParams p) {
  const int range = int(blockIdx.y);
  if (!is_used(p, range)) return;
  auto* const words = reinterpret_cast<uint64_t*>(p.words) + range * p.along.table_count;
  const int64_t first = int64_t(blockIdx.x) * kThreads * kItems + threadIdx.x;
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    if (first + j * kThreads < p.along.table_count) words[first + j * kThreads] = 0;
}

// All indices and values of a thread are read before the first is used, and a bad index is reported at the end: a call
// among the loads would order them.
extern "C" __global__ void __launch_bounds__(256) add_terms(ExactParams p) {
  const int64_t first = int64_t(blockIdx.x) * kThreads * kItems + threadIdx.x;
  int64_t at[kItems];
  float v[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    at[j] = index_at(p.along.index, p.along.index_type, min(first + j * kThreads, p.along.axes.count - 1));
  if (p.along.type == kF32 && !p.along.single) {
#pragma unroll
    for (int j = 0; j < kItems; ++j)
      v[j] = reinterpret_cast<const float*>(p.along.block)[min(first + j * kThreads, p.along.axes.count - 1)];
  } else {
#pragma unroll
    for (int j = 0; j < kItems; ++j) v[j] = value_of(p, min(first + j * kThreads, p.along.axes.count - 1));
  }
  bool bad = false;
  int64_t found = 0;
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int64_t e = first + j * kThreads;
    if (e >= p.along.axes.count) break;
    if (at[j] < 0 || at[j] >= p.along.size) {
      bad = true;
      found = at[j];
      continue;
    }
    if (v[j] == 0) continue;
    const Term term = term_of(v[j]);
    const int64_t to = offset_of(p.along.axes, e) + at[j] * p.along.stride;
    atomicAdd(reinterpret_cast<unsigned long long*>(p.words) + term.range * p.along.table_count + to,
              static_cast<unsigned long long>(term.number));
  }
  if (bad) report(p.along.faults, FaultCode::Index, found, p.along.size);
}

// Adds the sums to the table.
extern "C" __global__ void __launch_bounds__(256) round_sums(ExactParams p) {
  const int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= p.along.table_count) return;
  const auto* const words = reinterpret_cast<const int64_t*>(p.words) + at;
  double sum = 0;
  for (int range = 0; range < kExactRanges; ++range) {
    if (!is_used(p, range)) continue;
    const int64_t word = words[range * p.along.table_count];
    sum += double(word) * power_of_two(range * kExactRange - 149);
  }
  if (is_used(p, kExactRanges)) sum += sum_of_infinities(words[kExactRanges * p.along.table_count]);
  add_to_table(p.along, at, sum);
}

namespace {
constexpr int kLineThreads = 512;
constexpr int kLineBits = 18;  // bits of a unit below the last one of the largest float: 2^20 floats fit in a word

// v in units of 2^-kLineBits times the last bit of a float with exponent `most`; rounded to nearest.
__device__ __forceinline__ int64_t units_of(float v, int most) {
  const uint32_t bits = __float_as_uint(v);
  const int exponent = int(bits >> 23 & 255), up = kLineBits - (most - max(exponent, 1));
  const auto size = int64_t((bits & 0x7fffffu) | (exponent ? 1u << 23 : 0));
  int64_t units = 0;
  if (up >= 0) units = size << up;
  else if (up > -32) units = (size + (int64_t(1) << (-up - 1))) >> -up;
  return bits >> 31 ? -units : units;
}
}  // namespace

// A block adds the values of a line of `length` to a line of the table with at most kExactLine elements.
extern "C" __global__ void __launch_bounds__(512) add_line(AlongParams p) {
  __shared__ uint32_t most[kExactLine], low[kExactLine], high[kExactLine];  // the exponent, and the halves of the word
  const int64_t first = int64_t(blockIdx.x) * p.length, base = offset_of(p.axes, first);
  const int size = int(p.size);
  for (int i = threadIdx.x; i < size; i += kLineThreads) most[i] = low[i] = high[i] = 0;
  __syncthreads();
  const auto value = [&](int64_t e) { return load<float>(element(p.block, p.type, p.single ? 0 : e), p.type); };
  for (int64_t k = threadIdx.x; k < p.length; k += kLineThreads) {
    const int64_t to = target_of(p, first + k);
    const uint32_t exponent = __float_as_uint(value(first + k)) >> 23 & 255;
    if (to >= 0) atomicMax(&most[to - base], max(exponent, 1u));
  }
  __syncwarp();
  __syncthreads();
  for (int64_t k = threadIdx.x; k < p.length; k += kLineThreads) {
    const int64_t i = index_at(p.index, p.index_type, first + k);
    if (i < 0 || i >= p.size) continue;
    const float v = value(first + k);
    uint64_t units = 0;
    if (most[i] < 255) units = uint64_t(units_of(v, int(most[i])));
    else if (const Term term = term_of(v); term.range == kExactRanges) units = uint64_t(term.number);
    if (units == 0) continue;
    const uint32_t part = uint32_t(units), before = atomicAdd(&low[i], part);
    const uint32_t rest = uint32_t(units >> 32) + (before + part < before);  // with the carry
    if (rest) atomicAdd(&high[i], rest);
  }
  __syncwarp();
  __syncthreads();
  for (int i = threadIdx.x; i < size; i += kLineThreads) {
    const auto word = int64_t(uint64_t(high[i]) << 32 | low[i]);
    double sum = 0;
    if (most[i] == 255) sum = sum_of_infinities(word);
    else if (most[i]) sum = double(word) * power_of_two(int(most[i]) - 150 - kLineBits);
    add_to_table(p, base + i, sum);
  }
}

}  // namespace strata::cuda
