// Indices of extremes along one dimension: argmax, argmin, max and min with indices.
//
// Bound by memory, with the partition of reduce.cu: rows and columns are read in 16-byte pieces, several in flight, and
// long results are split into parts that a second launch compares. A thread meets its elements in the order of their
// indices, so it keeps the first of equal ones; between threads the lower index wins. NaN comes before every number.
#include "cuda/common/eights.cuh"
#include "cuda/reduce/results.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kNowhere = 0x7fffffffffffffffll;

template <class T, bool kLargest> struct Best {
  T value = T(0);
  int64_t place = kNowhere;
  __device__ __forceinline__ static bool beats(T a, T b) {
    if (a != a) return b == b;
    return kLargest ? a > b : a < b;
  }
  __device__ __forceinline__ void meet(T v, int64_t i) {  // i is larger than all before
    if (place != kNowhere && !beats(v, value)) return;
    value = v;
    place = i;
  }
  __device__ __forceinline__ void join(T v, int64_t i) {
    if (i == kNowhere) return;
    const bool equal = v == value || (v != v && value != value);
    if (place == kNowhere || beats(v, value) || (equal && i < place)) {
      value = v;
      place = i;
    }
  }
};

template <class T, bool kLargest>
__device__ __forceinline__ void put(const ArgReduceParams& p, const Best<T, kLargest>& best, int64_t at) {
  reinterpret_cast<int64_t*>(p.places)[at] = best.place;
  if (p.values) store<T>(const_cast<void*>(element(p.values, p.of.x_type, at)), p.of.x_type, best.value);
}
template <class T, bool kLargest>
__device__ __forceinline__ void leave(const ArgReduceParams& p, const Best<T, kLargest>& best, int64_t result) {
  if (!p.part_values) return put(p, best, place_of(p.of, result));
  const int64_t at = int64_t(blockIdx.y) * p.of.kept.count + result;
  reinterpret_cast<T*>(p.part_values)[at] = best.value;
  reinterpret_cast<int64_t*>(p.part_places)[at] = best.place;
}

// The best of the threads of a result, which are `apart` from each other.
template <class T, bool kLargest>
__device__ __forceinline__ Best<T, kLargest> over_threads(Best<T, kLargest> best, int lane, int per_result, int apart) {
  __shared__ T values[kThreads];
  __shared__ int64_t places[kThreads];
  const int thread = threadIdx.x;
  values[thread] = best.value;
  places[thread] = best.place;
  for (int half = per_result / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane >= half) continue;
    best.join(values[thread + half * apart], places[thread + half * apart]);
    values[thread] = best.value;
    places[thread] = best.place;
  }
  return best;
}

template <class T, bool kLargest> __device__ __forceinline__ void strided(const ArgReduceParams& p) {
  const ReduceParams& r = p.of;
  const int per_result = kThreads / r.per_block, thread = threadIdx.x;
  const int own = r.columns ? thread % r.per_block : thread / per_result;
  const int lane = r.columns ? thread / r.per_block : thread % per_result;
  const int64_t result = int64_t(blockIdx.x) * r.per_block + own;
  Best<T, kLargest> best;
  if (result < r.kept.count) {
    const int64_t base = offset_of(r.kept, result), end = min((int64_t(blockIdx.y) + 1) * r.part, r.gone.count);
    constexpr int kAhead = 4;  // elements that are loaded before the first is used
    for (int64_t i = int64_t(blockIdx.y) * r.part + lane; i < end; i += kAhead * per_result) {
      T v[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int64_t at = min(i + k * per_result, end - 1);
        v[k] = load<T>(element(r.x, r.x_type, base + at * r.gone.stride[0]), r.x_type);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (i + k * per_result < end) best.meet(v[k], i + k * per_result);
    }
  }
  best = over_threads(best, lane, per_result, r.columns ? r.per_block : 1);
  if (lane == 0 && result < r.kept.count) leave(p, best, result);
}

// A part reads a strided subset of the pieces of its row, as in reduce.cu.
template <class T, Types kTypes, bool kLargest>
__device__ __forceinline__ Best<T, kLargest> row_part(const ReduceParams& r, int64_t base, int lane, int per_result) {
  constexpr int kFlight = kInFlight<T, kTypes>;
  Best<T, kLargest> best;
  const int64_t step = int64_t(per_result) * 8, whole = r.gone.count / 8 * 8, stride = gridDim.y * kFlight * step;
  const auto at = [&](int64_t k) { return element_as<T, kTypes>(r.x, r.x_type, base + k); };
  for (int64_t i = blockIdx.y * kFlight * step + int64_t(lane) * 8; i < whole; i += stride) {
    Eights<T, kFlight, kTypes> read;
    read.load(
      r.x_type, [&](int k) { return at(i + k * step); }, [&](int k) { return i + k * step < whole; });
    read.each(r.x_type, [&](int k, int j, T v) {
      if (i + k * step < whole) best.meet(v, i + k * step + j);
    });
  }
  if (lane == 0 && blockIdx.y == 0)  // less than a vector is left
    for (int64_t i = whole; i < r.gone.count; ++i) best.meet(load<T>(at(i), r.x_type), i);
  return best;
}
template <class T, bool kLargest> __device__ __forceinline__ void rows(const ArgReduceParams& p) {
  const ReduceParams& r = p.of;
  const int per_result = kThreads / r.per_block, own = int(threadIdx.x) / per_result,
            lane = int(threadIdx.x) % per_result;
  const int64_t result = int64_t(blockIdx.x) * r.per_block + own;
  Best<T, kLargest> best;
  if (result < r.kept.count) {
    const int64_t base = offset_of(r.kept, result);
    constexpr Types kOther = sizeof(T) == 4 ? Types::Narrow : Types::Any;
    best = r.x_type == TagOf<T>::value ? row_part<T, Types::Same, kLargest>(r, base, lane, per_result)
                                       : row_part<T, kOther, kLargest>(r, base, lane, per_result);
  }
  best = over_threads(best, lane, per_result, 1);
  if (lane == 0 && result < r.kept.count) leave(p, best, result);
}

// A thread has eight neighbouring results, and every 16th element of each.
template <class T, Types kTypes, bool kLargest>
__device__ __forceinline__ void column_part(const ReduceParams& r, int64_t first, int64_t i, int64_t end,
                                            Best<T, kLargest> (&best)[8]) {
  constexpr int kFlight = kInFlight<T, kTypes>;
  for (; i < end; i += kFlight * kColumnGroups) {
    Eights<T, kFlight, kTypes> read;
    read.load(
      r.x_type,
      [&](int k) { return element_as<T, kTypes>(r.x, r.x_type, first + (i + k * kColumnGroups) * r.gone.stride[0]); },
      [&](int k) { return i + k * kColumnGroups < end; });
    read.each(r.x_type, [&](int k, int j, T v) {
      if (i + k * kColumnGroups < end) best[j].meet(v, i + k * kColumnGroups);
    });
  }
}
template <class T, bool kLargest> __device__ __forceinline__ void columns(const ArgReduceParams& p) {
  const ReduceParams& r = p.of;
  constexpr int kLanes = kThreads / kColumnGroups;
  __shared__ T values[kColumnGroups][kColumnResults];
  __shared__ int64_t places[kColumnGroups][kColumnResults];
  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  const int64_t first = (int64_t(blockIdx.x) * kLanes + lane) * 8;
  const int64_t begin = int64_t(blockIdx.y) * r.part, end = min(begin + r.part, r.gone.count);
  Best<T, kLargest> best[8];
  if (first < r.kept.count) {
    constexpr Types kOther = sizeof(T) == 4 ? Types::Narrow : Types::Any;
    if (r.x_type == TagOf<T>::value) column_part<T, Types::Same, kLargest>(r, first, begin + group, end, best);
    else column_part<T, kOther, kLargest>(r, first, begin + group, end, best);
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    values[group][lane * 8 + j] = best[j].value;
    places[group][lane * 8 + j] = best[j].place;
  }
  __syncthreads();
  const int64_t result = int64_t(blockIdx.x) * kColumnResults + threadIdx.x;
  if (threadIdx.x >= kColumnResults || result >= r.kept.count) return;
  Best<T, kLargest> all;
  for (int g = 0; g < kColumnGroups; ++g) all.join(values[g][threadIdx.x], places[g][threadIdx.x]);
  leave(p, all, result);
}

template <class T, bool kLargest> __device__ __forceinline__ void parts(const ArgReduceParams& p) {
  const int64_t result = int64_t(blockIdx.x) * kThreads + threadIdx.x, count = p.of.kept.count;
  if (result >= count) return;
  Best<T, kLargest> best;
  for (int64_t k = 0; k < p.parts; ++k)
    best.join(reinterpret_cast<const T*>(p.part_values)[k * count + result],
              reinterpret_cast<const int64_t*>(p.part_places)[k * count + result]);
  put(p, best, place_of(p.of, result));
}
}  // namespace

#define STRATA_ARG_OF(name, suffix, T, kLargest)                                                                     \
  extern "C" __global__ void __launch_bounds__(256) name##Columns_##suffix(ArgReduceParams p) {                      \
    columns<T, kLargest>(p);                                                                                         \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(256) name##Rows_##suffix(ArgReduceParams p) { rows<T, kLargest>(p); } \
  extern "C" __global__ void __launch_bounds__(256) name##_##suffix(ArgReduceParams p) { strided<T, kLargest>(p); }  \
  extern "C" __global__ void __launch_bounds__(256) name##Parts_##suffix(ArgReduceParams p) { parts<T, kLargest>(p); }
#define STRATA_ARG(suffix, T)          \
  STRATA_ARG_OF(Min, suffix, T, false) \
  STRATA_ARG_OF(Max, suffix, T, true)
STRATA_ARG(f32, float)
STRATA_ARG(f64, double)
STRATA_ARG(i64, int64_t)

}  // namespace strata::cuda
