// max_pool2d of channels-last tensors, as max_pool.cu: a thread has eight neighbouring channels of one window, or of one
// input pixel, in 16-byte accesses.
#include "cuda/common/eights.cuh"
#include "cuda/nn/max_pool_windows.cuh"

namespace strata::cuda {
namespace {

struct Pixel {
  int32_t n, y, x;
  int64_t channel;
};
__device__ __forceinline__ Pixel pixel_of(uint32_t i, const FastDivisor (&size)[2], const FastDivisor& eights) {
  Pixel p;
  p.channel = int64_t(split_off(i, eights)) * 8;
  p.x = int32_t(split_off(i, size[1]));
  p.y = int32_t(split_off(i, size[0]));
  p.n = int32_t(i);
  return p;
}
__device__ __forceinline__ int64_t offset(const int64_t (&stride)[4], const Pixel& p, int32_t y, int32_t x) {
  return p.n * stride[0] + y * stride[2] + x * stride[3] + p.channel;
}

__device__ __forceinline__ void load_common(uint64_t data, int32_t type, int64_t at, float (&v)[8]) {
  Eights<float, 1, Types::Common> one;
  one.load(
    type, [&](int) { return element(data, type, at); }, [](int) { return true; });
  one.get(type, reinterpret_cast<float(&)[1][8]>(v));
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) forward_last(MaxPoolParams p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Pixel at = pixel_of(uint32_t(i), p.out_div, p.eights);
  float best[8];
  int code[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    best[j] = 0;
    code[j] = -1;
  }
  for (int ky = 0; ky < p.kernel[0]; ++ky) {
    const int32_t y = at.y * p.stride[0] - p.padding[0] + ky * p.dilation[0];
    if (y < 0 || y >= p.in[0]) continue;
    for (int kx = 0; kx < p.kernel[1]; ++kx) {
      const int32_t x = at.x * p.stride[1] - p.padding[1] + kx * p.dilation[1];
      if (x < 0 || x >= p.in[1]) continue;
      float v[8];
      load_common(p.big, p.big_type, offset(p.big_stride, at, y, x), v);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (code[j] >= 0 && !(v[j] > best[j]) && !(v[j] != v[j] && best[j] == best[j])) continue;
        best[j] = v[j];
        code[j] = ky * p.kernel[1] + kx;
      }
    }
  }
  store_eight<float, false>(const_cast<void*>(element(p.small, p.small_type, offset(p.small_stride, at, at.y, at.x))),
                            p.small_type, best);
  if (!p.codes) return;
  uint2 bytes = make_uint2(0, 0);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    bytes.x |= uint32_t(code[j] & 0xff) << 8 * j;
    bytes.y |= uint32_t(code[4 + j] & 0xff) << 8 * j;
  }
  *reinterpret_cast<uint2*>(p.codes + uint64_t(offset(p.code_stride, at, at.y, at.x))) = bytes;
}

extern "C" __global__ void __launch_bounds__(256) backward_last(MaxPoolParams p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Pixel at = pixel_of(uint32_t(i), p.in_div, p.eights);
  float sum[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) sum[j] = 0;
  each_window(p, 0, at.y, [&](int ky, int y) {
    each_window(p, 1, at.x, [&](int kx, int x) {
      const uint2 bytes = *reinterpret_cast<const uint2*>(p.codes + uint64_t(offset(p.code_stride, at, y, x)));
      const uint32_t here = uint32_t(ky * p.kernel[1] + kx);
      float g[8];
      load_common(p.small, p.small_type, offset(p.small_stride, at, y, x), g);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const uint32_t code = (j < 4 ? bytes.x : bytes.y) >> 8 * (j % 4) & 0xff;
        if (code == here) sum[j] += g[j];
      }
    });
  });
  store_eight<float, false>(const_cast<void*>(element(p.big, p.big_type, offset(p.big_stride, at, at.y, at.x))),
                            p.big_type, sum);
}

}  // namespace strata::cuda
