// A tensor with a border of one value, or cropped.
//
// Bound by memory and by the index arithmetic, about ten instructions per axis: elements are read and written once, four
// reads in flight per thread.
#include "cuda/common/index.cuh"
#include "cuda/movement/pad_params.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

template <class U> __device__ __forceinline__ void pad(const PadParams& p) {
  const uint32_t first = blockIdx.x * uint32_t(kThreads * kPadItems) + threadIdx.x;
  U v[kPadItems], border;
  memcpy(&border, p.value, sizeof border);
#pragma unroll
  for (int j = 0; j < kPadItems; ++j) {
    uint32_t rest = first + j * kThreads;
    if (rest >= p.total) continue;
    int64_t at = 0;
    bool inside = true;
#pragma unroll
    for (int d = 0; d < kPadAxes; ++d) {
      if (d >= p.axes) break;
      const uint32_t i = split_off(rest, p.size[d]) - uint32_t(p.before[d]);
      inside &= i < uint32_t(p.length[d]);
      at += i * p.stride[d];
    }
    v[j] = border;
    if (inside) v[j] = reinterpret_cast<const U*>(p.x)[at];
  }
#pragma unroll
  for (int j = 0; j < kPadItems; ++j)
    if (first + j * kThreads < p.total) reinterpret_cast<U*>(p.out)[first + j * kThreads] = v[j];
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) pad_0(PadParams p) { pad<uint8_t>(p); }
extern "C" __global__ void __launch_bounds__(256) pad_1(PadParams p) { pad<uint16_t>(p); }
extern "C" __global__ void __launch_bounds__(256) pad_2(PadParams p) { pad<uint32_t>(p); }
extern "C" __global__ void __launch_bounds__(256) pad_3(PadParams p) { pad<uint64_t>(p); }
extern "C" __global__ void __launch_bounds__(256) pad_4(PadParams p) { pad<uint4>(p); }

}  // namespace strata::cuda
