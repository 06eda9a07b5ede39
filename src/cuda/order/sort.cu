// Stable sorting along one dimension, with the original indices of the elements.
//
// Short lines: a block sorts as many as fit 2048 elements in shared memory, with a bitonic network over (key, index).
// That order is total, so the sort is stable. It takes one pass over memory. Longer lines: a radix sort of all elements
// at once, least significant digit first, eight bits per pass, finally by the line. A pass reads the keys twice and
// writes them once: a block counts the digits of its 4096 elements, the counts are scanned (cuda/reduce/scan.cu), then
// each warp ranks its elements with match.any in their order. Bound by memory: 20 to 28 bytes per element and pass.
#include "cuda/common/index.cuh"
#include "cuda/common/warp.cuh"
#include "cuda/order/bitonic.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kWarps = 8, kDigits = 256, kItems = 16, kTile = kThreads * kItems;

template <class E> __device__ __forceinline__ void sort_lines(const SortParams& p) {
  __shared__ E entries[kSortBlock];
  const int per_block = kSortBlock >> p.log_padded;
  const int64_t first = int64_t(blockIdx.x) * per_block;
  const typename E::Key turn = p.flip ? key_mask<typename E::Key>(p.type) : 0;
  for (int e = threadIdx.x; e < kSortBlock; e += kThreads) {
    const int64_t line = first + (e >> p.log_padded);
    const int i = e & (p.padded - 1);
    entries[e] = after_all<E>();
    if (line < p.lines && i < p.n) {
      const int64_t at = line / p.inner * p.n * p.inner + line % p.inner + i * p.inner;
      entries[e] = E::make(key_of<typename E::Key>(element(p.x, p.type, at), p.type) ^ turn, uint32_t(i));
    }
  }
  bitonic_sort(entries, p.padded);
  for (int e = threadIdx.x; e < kSortBlock; e += kThreads) {
    const int64_t line = first + (e >> p.log_padded);
    const int i = e & (p.padded - 1);
    if (line >= p.lines || i >= p.keep) continue;
    const int64_t outer = line / p.inner, column = line % p.inner, to = (outer * p.keep + i) * p.inner + column;
    const uint32_t place = entries[e].place();
    if (p.indices) reinterpret_cast<int64_t*>(p.indices)[to] = place;
    if (p.values) copy_element(p.values, to, p.x, (outer * p.n + place) * p.inner + column, p.type);
  }
}

template <class Key> __device__ __forceinline__ void make_keys(const SortParams& p) {
  const int64_t e = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (e >= p.lines * p.n) return;
  uint32_t line = uint32_t(e);
  const uint32_t i = split_off(line, p.length);
  const int64_t at = line / p.inner * p.n * p.inner + line % p.inner + i * p.inner;
  const Key turn = p.flip ? key_mask<Key>(p.type) : 0;
  reinterpret_cast<Key*>(p.keys)[e] = key_of<Key>(element(p.x, p.type, at), p.type) ^ turn;
}

__device__ __forceinline__ uint32_t digit_of(const RadixParams& p, uint64_t key, uint32_t place) {
  if (!p.by_line) return uint32_t(key >> p.shift) & (kDigits - 1);
  split_off(place, p.length);
  return place >> p.shift & (kDigits - 1);
}
template <class Key> __device__ __forceinline__ void read(const RadixParams& p, int64_t e, Key& key, uint32_t& place) {
  key = p.by_line ? Key(0) : reinterpret_cast<const Key*>(p.keys)[e];
  place = p.places ? reinterpret_cast<const uint32_t*>(p.places)[e] : uint32_t(e);
}

template <class Key> __device__ __forceinline__ void radix_count(const RadixParams& p) {
  __shared__ uint32_t counts[kDigits];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const int64_t first = int64_t(blockIdx.x) * kTile;
  for (int j = 0; j < kItems; ++j) {
    const int64_t e = first + j * kThreads + threadIdx.x;
    if (e >= p.count) break;
    Key key;
    uint32_t place;
    read(p, e, key, place);
    atomicAdd(&counts[digit_of(p, key, place)], 1u);
  }
  __syncthreads();
  reinterpret_cast<int32_t*>(p.counts)[int64_t(threadIdx.x) * p.tiles + blockIdx.x] = int32_t(counts[threadIdx.x]);
}

// counts: inclusive prefix sums over tiles and digits.
template <class Key> __device__ __forceinline__ void radix_move(const RadixParams& p) {
  __shared__ uint32_t of_warp[kWarps][kDigits];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int w = 0; w < kWarps; ++w) of_warp[w][threadIdx.x] = 0;
  __syncthreads();
  const int64_t first = int64_t(blockIdx.x) * kTile + int64_t(warp) * 32 * kItems + lane;
  Key keys[kItems];
  uint32_t places[kItems], rank[kItems], digits[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int64_t e = first + j * 32;
    keys[j] = 0;
    places[j] = 0;
    rank[j] = 0;
    digits[j] = kDigits;  // past the end: a digit of its own
    if (e < p.count) {
      read(p, e, keys[j], places[j]);
      digits[j] = digit_of(p, keys[j], places[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const uint32_t alike = match_any(digits[j]), below = alike & ((1u << lane) - 1);
    uint32_t before = 0;
    if (digits[j] < kDigits) before = of_warp[warp][digits[j]];
    __syncwarp();
    rank[j] = before + __popc(below);
    if (below == 0 && digits[j] < kDigits) of_warp[warp][digits[j]] = before + __popc(alike);
    __syncwarp();
  }
  __syncthreads();
  {  // where the first element of each warp and digit goes
    const uint32_t digit = threadIdx.x;
    uint32_t total = 0;
    for (int w = 0; w < kWarps; ++w) total += of_warp[w][digit];
    uint32_t at = uint32_t(reinterpret_cast<const int32_t*>(p.counts)[int64_t(digit) * p.tiles + blockIdx.x]) - total;
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t own = of_warp[w][digit];
      of_warp[w][digit] = at;
      at += own;
    }
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    if (digits[j] >= kDigits) continue;
    const uint32_t to = of_warp[warp][digits[j]] + rank[j];
    if (p.keys_out) reinterpret_cast<Key*>(p.keys_out)[to] = keys[j];
    reinterpret_cast<uint32_t*>(p.places_out)[to] = places[j];
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) sort_lines_u32(SortParams p) { sort_lines<Packed>(p); }
extern "C" __global__ void __launch_bounds__(256) sort_lines_u64(SortParams p) { sort_lines<Pair>(p); }
extern "C" __global__ void __launch_bounds__(256) make_keys_u32(SortParams p) { make_keys<uint32_t>(p); }
extern "C" __global__ void __launch_bounds__(256) make_keys_u64(SortParams p) { make_keys<uint64_t>(p); }
extern "C" __global__ void __launch_bounds__(256) radix_count_u32(RadixParams p) { radix_count<uint32_t>(p); }
extern "C" __global__ void __launch_bounds__(256) radix_count_u64(RadixParams p) { radix_count<uint64_t>(p); }
extern "C" __global__ void __launch_bounds__(256) radix_move_u32(RadixParams p) { radix_move<uint32_t>(p); }
extern "C" __global__ void __launch_bounds__(256) radix_move_u64(RadixParams p) { radix_move<uint64_t>(p); }

// Writes values and indices of lines from sorted element numbers.
extern "C" __global__ void __launch_bounds__(256) put_sorted(SortParams p) {
  const int64_t e = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (e >= p.lines * p.n) return;
  uint32_t line = uint32_t(e);
  const uint32_t i = split_off(line, p.length);
  if (i >= p.keep) return;
  const uint32_t place = reinterpret_cast<const uint32_t*>(p.sorted)[e] - line * uint32_t(p.n);
  const int64_t outer = line / p.inner, column = line % p.inner, to = (outer * p.keep + i) * p.inner + column;
  if (p.indices) reinterpret_cast<int64_t*>(p.indices)[to] = place;
  if (p.values) copy_element(p.values, to, p.x, (outer * p.n + place) * p.inner + column, p.type);
}

// One element of each sorted line: the k-th, the median of the non-NaN elements, the most frequent. A block processes a
// line.
extern "C" __global__ void __launch_bounds__(256) pick(PickParams p) {
  __shared__ int64_t best_length[kThreads], best_end[kThreads];
  const int64_t line = blockIdx.x, outer = line / p.inner, column = line % p.inner;
  const auto* order = reinterpret_cast<const int64_t*>(p.order);
  const auto place = [&](int64_t i) { return order[(outer * p.n + i) * p.inner + column]; };
  const auto key = [&](int64_t i) {
    return key_of<uint64_t>(element(p.x, p.type, (outer * p.n + place(i)) * p.inner + column), p.type);
  };
  const auto first_from = [&](uint64_t wanted, int64_t high) {  // the first position whose key is not below
    int64_t low = 0;
    while (low < high) {
      const int64_t mid = (low + high) / 2;
      if (key(mid) < wanted) low = mid + 1;
      else high = mid;
    }
    return low;
  };
  int64_t at = p.k;
  if (p.what == 1 || p.what == 2) {
    const int64_t numbers = is_float(p.type) ? first_from(key_mask<uint64_t>(p.type), p.n) : p.n;
    at = numbers > 0 ? (numbers - 1) / 2 : 0;
    if (p.what == 1 && numbers < p.n) at = numbers;  // the first NaN
  }
  best_end[threadIdx.x] = at;
  if (p.what == 3) {
    int64_t length = 0, end = 0;
    for (int64_t i = threadIdx.x; i < p.n; i += kThreads) {
      const uint64_t own = key(i);
      if (i + 1 < p.n && key(i + 1) == own) continue;
      const int64_t run = i - first_from(own, i) + 1;
      if (run > length) {
        length = run;
        end = i;
      }  // of equally frequent ones the first, which is the smallest
    }
    best_length[threadIdx.x] = length;
    best_end[threadIdx.x] = end;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x >= half) continue;
      const int64_t l = best_length[threadIdx.x + half], e = best_end[threadIdx.x + half];
      if (l > best_length[threadIdx.x] || (l == best_length[threadIdx.x] && e < best_end[threadIdx.x])) {
        best_length[threadIdx.x] = l;
        best_end[threadIdx.x] = e;
      }
    }
  }
  if (threadIdx.x != 0) return;
  at = best_end[0];
  reinterpret_cast<int64_t*>(p.indices)[line] = place(at);
  copy_element(p.values, line, p.x, (outer * p.n + place(at)) * p.inner + column, p.type);
}

}  // namespace strata::cuda
