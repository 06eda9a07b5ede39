// The first k elements of lines in sorted order, or only the k-th, without sorting the lines.
//
// A block processes a line, or one of several chunks of a long one, whose results are then the line of another launch.
// The key of the k-th element is found digit by digit, eight bits at a time from the top:
// elements that match the known digits are counted by their next digit. One more pass collects the elements before that
// key and as many equal ones as needed, by index, and a bitonic network sorts those (at most 2048). Bound by memory: a
// line is read once per byte of its key, and once or twice more; it stays in the cache meanwhile.
#include "cuda/order/bitonic.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kWarps = 8, kDigits = 256, kAhead = 4;
constexpr uint32_t kAll = 0xffffffffu;

// The keys of a line, or of the block's chunk of it. Bits: of an element.
template <class Key, class Bits> struct Line {
  const SelectParams& p;
  int64_t begin, n;  // of the block's chunk
  int64_t base;
  KeyOrder<Bits> order;
  Bits turn;
  __device__ explicit Line(const SelectParams& params)
      : p(params), order(p.type), turn(p.flip ? KeyOrder<Bits>::kAll : Bits(0)) {
    const int64_t line = blockIdx.x / p.chunks, chunk = blockIdx.x % p.chunks;
    begin = p.n * chunk / p.chunks;
    n = p.n * (chunk + 1) / p.chunks - begin;
    base = (line / p.inner * p.n + begin) * p.inner + line % p.inner;
  }
  __device__ Key operator[](int64_t i) const {
    return Bits(order(reinterpret_cast<const Bits*>(p.x)[base + i * p.inner]) ^ turn);
  }
};

// Calls f(key) for all elements, with several loads in flight.
template <class Key, class Bits, class F>
__device__ __forceinline__ void each(const Line<Key, Bits>& line, const F& f) {
  int64_t i = threadIdx.x;
  for (; i + (kAhead - 1) * kThreads < line.n; i += kAhead * kThreads) {
    Key keys[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) keys[j] = line[i + j * kThreads];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) f(keys[j]);
  }
  for (; i < line.n; i += kThreads) f(line[i]);
}

template <class E, class Bits> __device__ __forceinline__ void select(const SelectParams& p) {
  using Key = typename E::Key;
  __shared__ E entries[kSortBlock];
  __shared__ uint32_t counts[kDigits];
  __shared__ uint32_t found_digit, found_rank, collected;
  __shared__ uint32_t of_warp[2][kWarps];
  const Line<Key, Bits> line(p);
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  int64_t k = p.k;                   // counted from 0
  if (p.what == 1 || p.what == 2) {  // a median: of the non-NaN elements
    if (thread == 0) collected = 0;
    __syncthreads();
    if (is_float(p.type))
      each(line, [&](Key key) {
        if (key == Key(KeyOrder<Bits>::kAll)) atomicAdd(&collected, 1u);
      });
    __syncthreads();
    const int64_t numbers = line.n - collected;
    k = numbers > 0 ? (numbers - 1) / 2 : 0;
    if (p.what == 1 && numbers < line.n) k = numbers;  // the first NaN
  }

  Key known = 0, decided = 0;
  uint32_t rank = uint32_t(k);
  for (int shift = KeyOrder<Bits>::kWidth - 8; shift >= 0; shift -= 8) {
    __syncthreads();
    counts[thread] = 0;
    __syncthreads();
    each(line, [&](Key key) {
      if ((key & decided) == known) atomicAdd(&counts[uint32_t(key >> shift) & (kDigits - 1)], 1u);
    });
    __syncthreads();
    if (warp == 0) {  // find the digit of this rank: eight counts per thread
      uint32_t own = 0;
      for (int j = 0; j < 8; ++j) own += counts[lane * 8 + j];
      uint32_t up_to = own;
      for (int by = 1; by < 32; by *= 2) {
        const uint32_t below = __shfl_up_sync(kAll, up_to, by);
        if (lane >= by) up_to += below;
      }
      uint32_t before = up_to - own;
      if (before <= rank && rank < up_to) {
        int j = lane * 8;
        while (rank >= before + counts[j]) before += counts[j++];
        found_digit = uint32_t(j);
        found_rank = rank - before;
      }
    }
    __syncthreads();
    known |= Key(found_digit) << shift;
    decided |= Key(kDigits - 1) << shift;
    rank = found_rank;
  }

  // `known` is the key of the k-th element, which is number `rank` among equal keys. Those are ordered by index.
  const uint32_t wanted = rank + 1;
  if (thread == 0) collected = 0;
  if (!p.one)
    for (int e = thread; e < kSortBlock; e += kThreads) entries[e] = after_all<E>();
  uint32_t passed = 0;  // equal keys in earlier tiles
  __syncthreads();
  int turn = 0;
  for (int64_t first = 0; first < line.n; first += kThreads, turn ^= 1) {
    const int64_t i = first + thread;
    const Key key = i < line.n ? line[i] : Key(0);
    const bool less = i < line.n && key < known, equal = i < line.n && key == known;
    const uint32_t equals = __ballot_sync(kAll, equal);
    if (lane == 0) of_warp[turn][warp] = __popc(equals);
    __syncthreads();
    uint32_t number = passed + __popc(equals & ((1u << lane) - 1));
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) number += of_warp[turn][w];
      passed += of_warp[turn][w];
    }
    if (p.one) {
      if (equal && number + 1 == wanted) {
        reinterpret_cast<int64_t*>(p.indices)[blockIdx.x] = i;
        reinterpret_cast<Bits*>(p.values)[blockIdx.x] = reinterpret_cast<const Bits*>(p.x)[line.base + i * p.inner];
      }
      if (passed >= wanted) return;
    } else if (less || (equal && number < wanted)) {
      entries[atomicAdd(&collected, 1u)] = E::make(key, uint32_t(i));
    }
  }
  if (p.one) return;
  bitonic_sort(entries, p.padded);
  const int64_t outer = blockIdx.x / p.inner, column = blockIdx.x % p.inner;
  for (int e = thread; e <= k; e += kThreads) {
    const int64_t to = (outer * (k + 1) + e) * p.inner + column;
    const int64_t from = line.begin + entries[e].place();
    reinterpret_cast<int64_t*>(p.indices)[to] =
      p.origin ? reinterpret_cast<const int64_t*>(p.origin)[outer * p.n + from] : from;
    reinterpret_cast<Bits*>(p.values)[to] =
      reinterpret_cast<const Bits*>(p.x)[line.base + int64_t(entries[e].place()) * p.inner];
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) select_u8(SelectParams p) { select<Packed, uint8_t>(p); }
extern "C" __global__ void __launch_bounds__(256) select_u16(SelectParams p) { select<Packed, uint16_t>(p); }
extern "C" __global__ void __launch_bounds__(256) select_u32(SelectParams p) { select<Packed, uint32_t>(p); }
extern "C" __global__ void __launch_bounds__(256) select_u64(SelectParams p) { select<Pair, uint64_t>(p); }

}  // namespace strata::cuda
