// Cumulative sums, products, log-sums and extremes along one dimension: lines that a thread, a warp or a block scans.
//
// Bound by memory: each element is read and written once. Across lines, each thread walks along one line and its
// neighbours along the neighbouring lines. Along lines, a warp or a block processes tiles of one line: each thread scans
// 16 bytes of the compute type, shuffles scan the threads' totals, and a carry goes from tile to tile. Few long lines:
// scan_tiles.cu. The order of operations depends on the shape only.
#include "cuda/reduce/scan_kinds.cuh"

namespace strata::cuda {
namespace {

constexpr int kAhead = 8;

template <class K> __device__ __forceinline__ void walk(const ScanParams& p) {
  using T = typename K::Element;
  const int64_t line = int64_t(blockIdx.x) * kScanThreads + threadIdx.x;
  if (line >= p.lines) return;
  const int64_t base = line / p.inner * p.n * p.inner + line % p.inner;
  typename K::State s = K::none();
  int64_t i = 0;
  for (; i + kAhead <= p.n; i += kAhead) {
    T v[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) v[j] = load<T>(element(p.x, p.x_type, base + (i + j) * p.inner), p.x_type);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      s = K::both(s, K::of(v[j], i + j));
      put<K>(p, base + (i + j) * p.inner, s);
    }
  }
  for (; i < p.n; ++i) {
    s = K::both(s, K::of(load<T>(element(p.x, p.x_type, base + i * p.inner), p.x_type), i));
    put<K>(p, base + i * p.inner, s);
  }
}

template <class K> __device__ __forceinline__ void scan(const ScanParams& p) {
  using T = typename K::Element;
  using State = typename K::State;
  constexpr int kItems = 16 / sizeof(T);
  if (p.walk) return walk<K>(p);
  __shared__ State of_warps[2][kScanWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool whole = p.warps > 1;  // the block has one line
  const int64_t line = whole ? blockIdx.x : int64_t(blockIdx.x) * kScanWarps + warp;
  if (line >= p.lines) return;
  const int64_t base = line / p.inner * p.n * p.inner + line % p.inner;
  State carry = K::none();
  const int64_t tile = int64_t(whole ? kScanThreads : 32) * kItems;
  int turn = 0;
  for (int64_t at = 0; at < p.n; at += tile, turn ^= 1) {
    const int64_t own = at + int64_t(whole ? threadIdx.x : lane) * kItems;
    T v[kItems];
    load_items<T>(p, base, own, p.n, v);
    State s[kItems];
    scan_items<K>(v, own, s);
    const State sum = warp_scan<K>(s[kItems - 1]);  // of this thread and those below it
    State before = from_below(sum, 1);
    if (lane == 0) before = K::none();
    if (whole) {  // two arrays in turn, so that one barrier is enough
      if (lane == 31) of_warps[turn][warp] = sum;
      __syncthreads();
      State below = carry;
      for (int w = 0; w < warp; ++w) below = K::both(below, of_warps[turn][w]);
      before = K::both(below, before);
      for (int w = 0; w < kScanWarps; ++w) carry = K::both(carry, of_warps[turn][w]);
    } else {
      before = K::both(carry, before);
      carry = from_lane(K::both(carry, sum), 31);
    }
    put_states<K>(p, base, own, p.n, before, s);
  }
}
}  // namespace

#define STRATA_SCAN(name, K, suffix, T) \
  extern "C" __global__ void __launch_bounds__(256) name##_##suffix(ScanParams p) { scan<K<T>>(p); }
STRATA_SCANS(STRATA_SCAN)

}  // namespace strata::cuda
