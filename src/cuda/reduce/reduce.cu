// Reductions over any set of dimensions: sums, products, extremes, norms, all and any.
//
// Bound by memory: each element is read once. A block computes `per_block` results. The threads of a result each reduce
// a strided subset of the elements, runs of 32 in the compute type, the runs in the wide type (double, int64_t), then
// the threads' values as a tree. Long results are split into parts that a second launch reduces. The
// order of operations depends on the shape only, so each run gives the same bits.
// fmad: off
#include "cuda/common/eights.cuh"
#include "cuda/common/warp.cuh"
#include "cuda/reduce/folds.cuh"
#include "cuda/reduce/results.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kRun = kReduceRun;

// Writes one result, or its part, to offset `at` of the output.
template <class T>
__device__ __forceinline__ void finish(const ReduceParams& p, typename WideOf<T>::type total, int64_t at) {
  if (p.partial) {
    reinterpret_cast<typename WideOf<T>::type*>(p.partial)[int64_t(blockIdx.y) * p.kept.count + at] = total;
    return;
  }
  if constexpr (TagOf<T>::value != kI64) {
    if (p.divide != 1) total /= p.divide;
    if (p.root) total = sqrt(total);
    if (p.out_type == kF64) *reinterpret_cast<double*>(p.out + at * 8) = total;
    else if (p.out_type == kI64) *reinterpret_cast<int64_t*>(p.out + at * 8) = int64_t(total);  // counts
    else store<float>(const_cast<void*>(element(p.out, p.out_type, at)), p.out_type, float(total));
  } else {
    store<T>(const_cast<void*>(element(p.out, p.out_type, at)), p.out_type, total);
  }
}

// Reduces the values of a result's threads and writes the result: threads of different warps meet in shared memory, those
// of a warp by shuffles.
template <class C, class T>
__device__ __forceinline__ void leave(const ReduceParams& p, typename WideOf<T>::type total, int lane, int per_result,
                                      int64_t result) {
  __shared__ typename WideOf<T>::type shared[kThreads];
  total = over_threads<C>(total, lane, per_result, p.columns ? p.per_block : 1, p.columns ? 1 : 32, shared);
  if (lane != 0 || result >= p.kept.count) return;
  finish<T>(p, total, place_of(p, result));
}

template <class C, class M, class T> __device__ __forceinline__ void reduce(const ReduceParams& p) {
  using Wide = typename WideOf<T>::type;
  const int per_result = kThreads / p.per_block, thread = threadIdx.x;
  const int own = p.columns ? thread % p.per_block : thread / per_result;   // index of the result in the block
  const int lane = p.columns ? thread / p.per_block : thread % per_result;  // index of the thread in the result
  const int64_t result = int64_t(blockIdx.x) * p.per_block + own;
  Wide total = C::template identity<Wide>();
  if (result < p.kept.count) {
    const int64_t begin = int64_t(blockIdx.y) * p.part, end = min(begin + p.part, p.gone.count);
    const int64_t base = offset_of(p.kept, result);
    const auto fold_all = [&](auto get) {
      constexpr int kAhead = 4;  // elements that are loaded before the first is used
      for (int64_t i = begin + lane; i < end;) {
        T run = C::template identity<T>();
        for (int k = 0; k < kRun && i < end; k += kAhead, i += kAhead * per_result) {
          T v[kAhead];
#pragma unroll
          for (int a = 0; a < kAhead; ++a) {
            v[a] = C::template identity<T>();
            const int64_t at = i + a * per_result;
            if (at < end) v[a] = get(base + offset_of(p.gone, at));
          }
#pragma unroll
          for (int a = 0; a < kAhead; ++a)
            if (i + a * per_result < end) run = C::both(run, M::map(v[a]));
        }
        total = C::both(total, Wide(run));
      }
    };
    if (p.x_type == TagOf<T>::value) fold_all([&](int64_t at) { return reinterpret_cast<const T*>(p.x)[at]; });
    else fold_all([&](int64_t at) { return load<T>(element(p.x, p.x_type, at), p.x_type); });
  }
  leave<C, T>(p, total, lane, per_result, result);
}

// --- rows: the elements of a result are contiguous, or runs of whole vectors ------------------------------------
//
// If a result is split into parts, each part reads a strided subset of the pieces: together they walk through memory in
// order. Vectors of 8-byte elements have four pieces. Where all threads have whole vectors, the pieces are dealt out to
// them in turn, so that a warp reads neighbouring ones.

template <class C, class M, class T, Types kTypes, bool kOneRun>
__device__ __forceinline__ typename WideOf<T>::type row_part(const ReduceParams& p, int64_t base, int lane,
                                                             int per_result) {
  using Wide = typename WideOf<T>::type;
  constexpr int kFlight = kInFlight<T, kTypes>;
  constexpr bool kDealt = sizeof(T) == 8 && kTypes == Types::Same && kOneRun;
  Wide total = C::template identity<Wide>();
  const int64_t step = int64_t(per_result) * 8, end = p.gone.count;
  const auto at = [&](int64_t k) {
    return element_as<T, kTypes>(p.x, p.x_type, base + (kOneRun ? k : offset_of(p.gone, k)));
  };
  int64_t i = blockIdx.y * kFlight * step + int64_t(lane) * 8;
  const auto fold_vectors = [&]<bool kWhole>(int64_t from, uint32_t gap) {  // kWhole: all vectors exist
    Eights<T, kFlight, kTypes> read;
    read.load(
      p.x_type, [&](int k) { return at(from + k * step); }, [&](int k) { return kWhole || from + k * step + 8 <= end; },
      gap);
    constexpr int kRuns = sizeof(T) == 8 ? 2 : 8;  // eight of 8 bytes do not fit the registers
    T run[kRuns];
#pragma unroll
    for (int j = 0; j < kRuns; ++j) run[j] = C::template identity<T>();
    read.each(p.x_type, [&](int k, int j, T v) {
      if (kWhole || from + k * step + 8 <= end) run[j % kRuns] = C::both(run[j % kRuns], M::map(v));
    });
    total = C::both(total, Wide(over_runs<C>(run)));
  };
  const int64_t stride = gridDim.y * kFlight * step;
  if constexpr (kDealt)
    for (; i - lane * 8 + kFlight * step <= end; i += stride)
      fold_vectors.template operator()<true>(i - lane * 6, uint32_t(per_result) * 16);
  if constexpr (kOneRun)
    for (; i + (kFlight - 1) * step + 8 <= end; i += stride) fold_vectors.template operator()<true>(i, 16);
  // The rest, or all where there are several runs: their offsets cost more than the tests.
  int64_t last = i;
  for (; i < end; i += stride) {
    fold_vectors.template operator()<false>(i, 16);
    last = i;
  }
  i = last;
  if (end % 8 != 0 && i + kFlight * step > end - end % 8) {  // less than a vector is left, for one thread
    for (int k = 0; k < kFlight; ++k)
      if (i + k * step == end - end % 8)
        for (int64_t e = end - end % 8; e < end; ++e) total = C::both(total, Wide(M::map(load<T>(at(e), p.x_type))));
  }
  return total;
}

// A byte of 1 for each byte that is not 0.
__device__ __forceinline__ uint32_t nonzero_bytes(uint32_t word) {
  return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7 & 0x01010101u;
}

// Integers of one byte: 16 in a piece, reduced in 32 bits, which hold the sum of a thread's pieces in flight.
template <class C, class M>
__device__ __forceinline__ int64_t byte_part(const ReduceParams& p, int64_t base, int lane, int per_result) {
  constexpr int kFlight = 4;
  const auto* const from = reinterpret_cast<const uint8_t*>(p.x) + base;
  const int64_t step = int64_t(per_result) * 16, whole = p.gone.count / 16 * 16, stride = gridDim.y * kFlight * step;
  const uint32_t most = p.x_type == kBool ? 1 : 255, sign = p.x_type == kI8 ? 128 : 0;
  const auto value = [&](uint32_t byte) { return int(min(byte, most) ^ sign) - int(sign); };
  int64_t total = C::template identity<int64_t>();
  for (int64_t i = blockIdx.y * kFlight * step + int64_t(lane) * 16; i < whole; i += stride) {
    uint4 read[kFlight];
#pragma unroll
    for (int k = 0; k < kFlight; ++k)  // again the last one, which is not used, past the end
      read[k] = *reinterpret_cast<const uint4*>(from + min(i + k * step, whole - 16));
#pragma unroll
    for (int k = 0; k < kFlight; ++k) {
      if (i + k * step >= whole) break;
      const uint32_t words[4] = {read[k].x, read[k].y, read[k].z, read[k].w};
      if constexpr (M::kTests) {  // four bytes at a time
        uint32_t tests = nonzero_bytes(words[0]);
#pragma unroll
        for (int j = 1; j < 4; ++j) tests = C::both_bytes(tests, nonzero_bytes(words[j]));
        total = C::both(total, int64_t(C::over_bytes(tests)));
      } else {
        int run = M::map(value(words[0] & 0xff));
#pragma unroll
        for (int j = 1; j < 16; ++j) run = C::both(run, M::map(value(words[j / 4] >> j % 4 * 8 & 0xff)));
        total = C::both(total, int64_t(run));
      }
    }
  }
  if (lane == 0 && blockIdx.y == 0)  // less than a piece is left
    for (int64_t i = whole; i < p.gone.count; ++i) total = C::both(total, int64_t(M::map(value(from[i]))));
  return total;
}

template <class C, class M, class T> __device__ __forceinline__ void reduce_rows(const ReduceParams& p) {
  using Wide = typename WideOf<T>::type;
  const int per_result = kThreads / p.per_block, own = int(threadIdx.x) / per_result,
            lane = int(threadIdx.x) % per_result;
  const int64_t result = int64_t(blockIdx.x) * p.per_block + own;
  const auto part_of = [&](int64_t base) -> Wide {
    constexpr Types kOther = sizeof(T) == 4 ? Types::Narrow : Types::Any;
    const bool same = p.x_type == TagOf<T>::value;
    if constexpr (TagOf<T>::value == kI64)
      if (p.bytes) return byte_part<C, M>(p, base, lane, per_result);
    if (p.gone.dims > 1)
      return same ? row_part<C, M, T, Types::Same, false>(p, base, lane, per_result)
                  : row_part<C, M, T, kOther, false>(p, base, lane, per_result);
    return same ? row_part<C, M, T, Types::Same, true>(p, base, lane, per_result)
                : row_part<C, M, T, kOther, true>(p, base, lane, per_result);
  };
  Wide total = C::template identity<Wide>();
  if (result < p.kept.count) total = part_of(offset_of(p.kept, result));
  leave<C, T>(p, total, lane, per_result, result);
}

// --- columns: neighbouring results are adjacent, the elements of one are far apart ----------------------------------
//
// A thread has eight neighbouring results, in 16-byte accesses; 16 threads read 128 of them in a row, and each of 16
// such groups takes every 16th element, a run of them.
template <class C, class M, class T, Types kTypes>
__device__ __forceinline__ void column_part(const ReduceParams& p, int64_t first, int64_t i, int64_t end, T (&run)[8]) {
  constexpr int kFlight = kInFlight<T, kTypes>;
  auto from = reinterpret_cast<uint64_t>(element_as<T, kTypes>(p.x, p.x_type, first + i * p.gone.stride[0]));
  const auto step = reinterpret_cast<uint64_t>(element_as<T, kTypes>(0, p.x_type, kColumnGroups * p.gone.stride[0]));
  for (int left = int(end - i); left > 0; left -= kFlight * kColumnGroups, from += kFlight * step) {
    Eights<T, kFlight, kTypes> read;
    read.load(
      p.x_type, [&](int k) { return reinterpret_cast<const void*>(from + k * step); },
      [&](int k) { return k * kColumnGroups < left; });
    read.each(p.x_type, [&](int k, int j, T v) {
      if (k * kColumnGroups < left) run[j] = C::both(run[j], M::map(v));
    });
  }
}

template <class C, class M, class T> __device__ __forceinline__ void reduce_columns(const ReduceParams& p) {
  using Wide = typename WideOf<T>::type;
  constexpr int kLanes = kThreads / kColumnGroups;
  static_assert(kLanes * 8 == kColumnResults);
  __shared__ Wide shared[kColumnGroups][kColumnResults + 8];
  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  const int64_t first = (int64_t(blockIdx.x) * kLanes + lane) * 8;
  const int64_t begin = int64_t(blockIdx.y) * p.part, end = min(begin + p.part, p.gone.count);
  T run[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) run[j] = C::template identity<T>();
  if (first < p.kept.count) {
    constexpr Types kOther = sizeof(T) == 4 ? Types::Narrow : Types::Any;
    if (p.x_type == TagOf<T>::value) column_part<C, M, T, Types::Same>(p, first, begin + group, end, run);
    else column_part<C, M, T, kOther>(p, first, begin + group, end, run);
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) shared[group][lane * 8 + j] = Wide(run[j]);
  __syncthreads();
  const int64_t result = int64_t(blockIdx.x) * kColumnResults + threadIdx.x;
  if (threadIdx.x >= kColumnResults || result >= p.kept.count) return;
  Wide sum = shared[0][threadIdx.x];
#pragma unroll
  for (int g = 1; g < kColumnGroups; ++g) sum = C::both(sum, shared[g][threadIdx.x]);
  finish<T>(p, sum, result * p.out_stride[0]);
}

}  // namespace

// Enough blocks per multiprocessor to keep the memory busy.
#define STRATA_FOLD_OF(name, C, M, suffix, T)                                                               \
  extern "C" __global__ void __launch_bounds__(256) name##_##suffix(ReduceParams p) { reduce<C, M, T>(p); } \
  extern "C" __global__ void __launch_bounds__(256, 4) name##Rows_##suffix(ReduceParams p) {                \
    reduce_rows<C, M, T>(p);                                                                                \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(256, 4) name##Columns_##suffix(ReduceParams p) {             \
    reduce_columns<C, M, T>(p);                                                                             \
  }
#define STRATA_FOLD_OF_FLOATS(name, C, M) \
  STRATA_FOLD_OF(name, C, M, f32, float)  \
  STRATA_FOLD_OF(name, C, M, f64, double)
#define STRATA_FOLD(name, C, M)     \
  STRATA_FOLD_OF_FLOATS(name, C, M) \
  STRATA_FOLD_OF(name, C, M, i64, int64_t)
STRATA_FOLD(Sum, Plus, Same)
STRATA_FOLD_OF_FLOATS(NanSum, Plus, NanToZero)
STRATA_FOLD(CountNonzero, Plus, Nonzero)
STRATA_FOLD_OF_FLOATS(SumAbs, Plus, Absolute)  // of norms, which integers do not have
STRATA_FOLD_OF_FLOATS(SumSquares, Plus, Squared)
STRATA_FOLD(Prod, Times, Same)
STRATA_FOLD(Max, Larger, Same)
STRATA_FOLD(Min, Smaller, Same)
STRATA_FOLD_OF_FLOATS(MaxAbs, Larger, Absolute)
STRATA_FOLD_OF_FLOATS(MinAbs, Smaller, Absolute)
STRATA_FOLD(Any, Either, Nonzero)
STRATA_FOLD(All, Each, Nonzero)

}  // namespace strata::cuda
