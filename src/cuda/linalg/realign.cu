// Copies matrices of 16-bit elements with misaligned rows into matrices with rows aligned to 16 bytes, which TMA and
// cp.async require. Bound: one read and one write of the matrix.
//
// Every 16-byte vector of the copy is made from the two aligned vectors of the source that overlap it: wide accesses on
// both sides, where element-wise code would issue eight times as many. The second source vector is the next thread's
// first, so it comes from the first-level cache. Vectors are numbered through all rows, so that no thread idles at the
// end of a row, and each thread has kRealignBatch of them in flight.
#include "cuda/linalg/realign_params.h"

namespace strata::cuda {
namespace {

__device__ __forceinline__ uint4 load_until(uint64_t address, uint64_t end) {
  if (address + 16 <= end) return *reinterpret_cast<const uint4*>(address);
  uint32_t w[4] = {0, 0, 0, 0};  // the matrix ends within this vector, or before it
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (address + i * 2 < end) w[i / 2] |= uint32_t(*reinterpret_cast<const uint16_t*>(address + i * 2)) << i % 2 * 16;
  return make_uint4(w[0], w[1], w[2], w[3]);
}

// The 16 bytes that start `shift` bytes into low and high.
__device__ __forceinline__ uint4 extract(uint4 low, uint4 high, uint32_t shift) {
  if (shift & 8) {
    low = make_uint4(low.z, low.w, high.x, high.y);
    high = make_uint4(high.z, high.w, 0, 0);
  }
  if (shift & 4) {
    low = make_uint4(low.y, low.z, low.w, high.x);
    high.x = high.y;
  }
  const uint32_t bits = shift % 4 * 8;  // 0 or 16
  return make_uint4(__funnelshift_r(low.x, low.y, bits), __funnelshift_r(low.y, low.z, bits),
                    __funnelshift_r(low.z, low.w, bits), __funnelshift_r(low.w, high.x, bits));
}

__device__ __forceinline__ void realign(const RealignJob& job) {
  const auto vectors = uint32_t((job.columns + 7) / 8);  // the last one of a row may run into the padding
  const uint32_t count = vectors * uint32_t(job.rows);
  const uint32_t first = blockIdx.x * (kRealignThreads * kRealignBatch) + threadIdx.x;
  for (int64_t batch = blockIdx.z; batch < job.inner * job.outer; batch += gridDim.z) {
    const uint64_t source =
      job.source + 2 * (batch / job.inner * job.source_b[0] + batch % job.inner * job.source_b[1]);
    const uint64_t target = job.target + 2 * batch * job.rows * job.target_ld;
    const uint64_t end = source + 2 * ((job.rows - 1) * job.source_ld + job.columns);
    uint4 low[kRealignBatch], high[kRealignBatch];
#pragma unroll
    for (int i = 0; i < kRealignBatch; ++i) {
      const uint32_t index = first + i * kRealignThreads;
      if (index >= count) break;
      const uint64_t at = source + 2 * (index / vectors * job.source_ld + index % vectors * 8);
      low[i] = load_until(at & ~15ull, end);
      high[i] = load_until((at & ~15ull) + 16, end);
    }
#pragma unroll
    for (int i = 0; i < kRealignBatch; ++i) {
      const uint32_t index = first + i * kRealignThreads;
      if (index >= count) break;
      const uint32_t row = index / vectors, column = index % vectors * 8;
      const uint64_t at = source + 2 * (row * job.source_ld + column);
      *reinterpret_cast<uint4*>(target + 2 * (row * job.target_ld + column)) = extract(low[i], high[i], at & 15);
    }
  }
}
}  // namespace

// Both factors in one launch: blockIdx.y picks the job.
extern "C" __global__ void __launch_bounds__(kRealignThreads) realign_rows(RealignJob first, RealignJob second) {
  if (blockIdx.y == 0) realign(first);
  else realign(second);
}

}  // namespace strata::cuda
