// f16 and bf16, single and in pairs: arithmetic, comparisons, functions, conversions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class H> __device__ void singles(const float* a, const float* b, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const H x = H(a[i]), y = H(b[i]);
  out[i] = float(x + y);
  out[n + i] = float(x - y);
  out[2 * n + i] = float(x * y);
  out[3 * n + i] = float(x / y);
  out[4 * n + i] = float(__hfma(x, y, x));
  out[5 * n + i] = float(__hmax(x, y));
  out[6 * n + i] = float(__hmin(x, y));
  out[7 * n + i] = x < y ? 1.0f : 0.0f;
  out[8 * n + i] = float(hexp(y));
  out[9 * n + i] = float(hsqrt(__habs(x)));
  out[10 * n + i] = float(-x);
  out[11 * n + i] = float(int(x)) + float(H(i));
  out[12 * n + i] = float(hfloor(x));
}
extern "C" __global__ void half_singles(const float* a, const float* b, float* out, int n) {
  singles<__half>(a, b, out, n);
}
extern "C" __global__ void brain_singles(const float* a, const float* b, float* out, int n) {
  singles<__nv_bfloat16>(a, b, out, n);
}

extern "C" __global__ void half_pairs(const __half2* a, const __half2* b, __half2* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = __hfma2(a[i], b[i], __hadd2(a[i], __hmul2(b[i], b[i])));
  out[n + i] = __hmax2(a[i], __lowhigh2highlow(b[i]));
  out[2 * n + i] = __floats2half2_rn(__low2float(a[i]) * 3.0f, __high2float(b[i]));
  out[3 * n + i] = __hfma2_relu(a[i], b[i], b[i]);
}
extern "C" __global__ void brain_pairs(const __nv_bfloat162* a, const __nv_bfloat162* b, __nv_bfloat162* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = __hfma2(a[i], b[i], __hadd2(a[i], __hmul2(b[i], b[i])));
  out[n + i] = __hmax2(a[i], __lowhigh2highlow(b[i]));
  out[2 * n + i] = __floats2bfloat162_rn(__low2float(a[i]) * 3.0f, __high2float(b[i]));
  out[3 * n + i] = __hfma2_relu(a[i], b[i], b[i]);
}
