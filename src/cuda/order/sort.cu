// Stable sorting of short lines, with the original indices of the elements; one element of sorted lines.
//
// A block sorts as many lines as fit 2048 elements in shared memory, with a bitonic network over (key, index). That
// order is total, so the sort is stable. It takes one pass over memory. Longer lines: radix.cu.
#include "cuda/order/bitonic.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

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

}  // namespace

extern "C" __global__ void __launch_bounds__(256) sort_lines_u32(SortParams p) { sort_lines<Packed>(p); }
extern "C" __global__ void __launch_bounds__(256) sort_lines_u64(SortParams p) { sort_lines<Pair>(p); }

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
