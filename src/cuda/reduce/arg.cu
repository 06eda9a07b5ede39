// Indices of extremes along one dimension: argmax, argmin, max and min with indices.
//
// Bound by memory, with the partition of reduce.cu: rows and columns are read in 16-byte pieces, several in flight, and
// long results are split into parts that a second launch compares. A thread meets its elements in the order of their
// indices, so it keeps the first of equal ones; between threads the lower index wins. NaN comes before every number.
#include "cuda/common/eights.cuh"
#include "cuda/common/warp.cuh"
#include "cuda/reduce/results.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kNowhere = 0x7fffffffffffffffll;

// The value that any other replaces.
template <class T, bool kLargest> __device__ __forceinline__ T worst() {
  if constexpr (TagOf<T>::value == kI64) return kLargest ? int64_t(0x8000000000000000ull) : 0x7fffffffffffffffll;
  else return T(kLargest ? -INFINITY : INFINITY);
}

template <class T, bool kLargest> struct Best {
  T value;
  int64_t place;  // of the first element, until one beats the worst value
  __device__ __forceinline__ Best() : value(worst<T, kLargest>()), place(kNowhere) {}
  __device__ __forceinline__ static bool beats(T a, T b) { return b == b && !(kLargest ? a <= b : a >= b); }
  __device__ __forceinline__ void meet(T v, int64_t i) {  // i is larger than all before
    if (!beats(v, value)) return;
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

template <class T> __device__ __forceinline__ T from_above(T v, int by) { return __shfl_down_sync(kAllLanes, v, by); }
__device__ __forceinline__ int64_t from_above(int64_t v, int by) {
  return __shfl_down_sync(kAllLanes, static_cast<long long>(v), by);
}
// The best of the threads of a result, which are `apart` from each other: in shared memory and, within a warp, by
// shuffles.
template <class T, bool kLargest>
__device__ __forceinline__ Best<T, kLargest> over_threads(Best<T, kLargest> best, int lane, int per_result, int apart) {
  __shared__ T values[kThreads];
  __shared__ int64_t places[kThreads];
  const int thread = threadIdx.x, nearest = apart == 1 ? 32 : 1;
  values[thread] = best.value;
  places[thread] = best.place;
  int half = per_result / 2;
  for (; half >= nearest; half /= 2) {
    __syncthreads();
    if (lane >= half) continue;
    best.join(values[thread + half * apart], places[thread + half * apart]);
    values[thread] = best.value;
    places[thread] = best.place;
  }
  __syncwarp();
  for (; half > 0; half /= 2) {
    const T value = from_above(best.value, half);
    const int64_t place = from_above(best.place, half);
    best.join(value, place);
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
    int64_t i = int64_t(blockIdx.y) * r.part + lane;
    if (i < end) best.place = i;
    for (; i < end; i += kAhead * per_result) {
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

// A part reads a strided subset of the pieces of its row, as in reduce.cu. Within the vectors in flight, places are small
// constants.
template <class T, Types kTypes, bool kLargest>
__device__ __forceinline__ Best<T, kLargest> row_part(const ReduceParams& r, int64_t base, int lane, int per_result) {
  constexpr int kFlight = kInFlight<T, kTypes>;
  Best<T, kLargest> best;
  const int64_t step = int64_t(per_result) * 8, whole = r.gone.count / 8 * 8, stride = gridDim.y * kFlight * step;
  const auto at = [&](int64_t k) { return element_as<T, kTypes>(r.x, r.x_type, base + k); };
  int64_t i = blockIdx.y * kFlight * step + int64_t(lane) * 8;
  const auto meet_vectors = [&]<bool kWhole>() {  // kWhole: all vectors exist
    Eights<T, kFlight, kTypes> read;
    read.load(
      r.x_type, [&](int k) { return at(i + k * step); }, [&](int k) { return kWhole || i + k * step < whole; });
    T value = best.value;
    int found = -1;
    read.each(r.x_type, [&](int k, int j, T v) {
      if ((!kWhole && i + k * step >= whole) || !best.beats(v, value)) return;
      value = v;
      found = k * 8 + j;
    });
    if (found < 0) return;
    best.value = value;
    best.place = i + found / 8 * step + found % 8;
  };
  if (i < whole) best.place = i;
  for (; i + (kFlight - 1) * step < whole; i += stride) meet_vectors.template operator()<true>();
  if (i < whole) meet_vectors.template operator()<false>();
  if (lane == 0 && blockIdx.y == 0)  // less than a vector is left
    for (int64_t e = whole; e < r.gone.count; ++e) {
      if (best.place == kNowhere) best.place = e;
      best.meet(load<T>(at(e), r.x_type), e);
    }
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

// A thread has eight neighbouring results, and every 16th element of each. Places are relative to i.
template <class T, Types kTypes, bool kLargest>
__device__ __forceinline__ void column_part(const ReduceParams& r, int64_t first, int64_t i, int count, T (&value)[8],
                                            int (&place)[8]) {
  constexpr int kFlight = kInFlight<T, kTypes>;
  for (int e = 0; e < count; e += kFlight * kColumnGroups) {
    Eights<T, kFlight, kTypes> read;
    read.load(
      r.x_type,
      [&](int k) {
        return element_as<T, kTypes>(r.x, r.x_type, first + (i + e + k * kColumnGroups) * r.gone.stride[0]);
      },
      [&](int k) { return e + k * kColumnGroups < count; });
    read.each(r.x_type, [&](int k, int j, T v) {
      if (e + k * kColumnGroups >= count || !Best<T, kLargest>::beats(v, value[j])) return;
      value[j] = v;
      place[j] = e + k * kColumnGroups;
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
  const int64_t begin = int64_t(blockIdx.y) * r.part + group, end = min(begin - group + r.part, r.gone.count);
  T value[8];
  int place[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    value[j] = worst<T, kLargest>();
    place[j] = 0;
  }
  const int count = first < r.kept.count ? int(end - begin) : 0;
  constexpr Types kOther = sizeof(T) == 4 ? Types::Narrow : Types::Any;
  if (r.x_type == TagOf<T>::value) column_part<T, Types::Same, kLargest>(r, first, begin, count, value, place);
  else column_part<T, kOther, kLargest>(r, first, begin, count, value, place);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    values[group][lane * 8 + j] = value[j];
    places[group][lane * 8 + j] = count > 0 ? begin + place[j] : kNowhere;
  }
  __syncthreads();
  const int64_t result = int64_t(blockIdx.x) * kColumnResults + threadIdx.x;
  if (threadIdx.x >= kColumnResults || result >= r.kept.count) return;
  Best<T, kLargest> all;
  for (int g = 0; g < kColumnGroups; ++g) all.join(values[g][threadIdx.x], places[g][threadIdx.x]);
  leave(p, all, result);
}

template <class T, bool kLargest> __device__ __forceinline__ void parts(const ArgReduceParams& p) {
  const int64_t result = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / p.lanes, count = p.of.kept.count;
  const int lane = int(threadIdx.x) % p.lanes;
  Best<T, kLargest> best;
  if (result < count)
    for (int64_t k = lane; k < p.parts; k += p.lanes)
      best.join(reinterpret_cast<const T*>(p.part_values)[k * count + result],
                reinterpret_cast<const int64_t*>(p.part_places)[k * count + result]);
  if (p.lanes > 1) best = over_threads(best, lane, p.lanes, 1);
  if (lane != 0 || result >= count) return;
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
