// C = A B in float: tiles of 64 x 64 in shared memory, 4 x 4 results per thread, 16-byte loads.
extern "C" __global__ void __launch_bounds__(256)
  gemm_tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
  __shared__ float as[16][64 + 4], bs[16][64];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16, row = blockIdx.y * 64, column = blockIdx.x * 64;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += 16) {
    const int ar = t / 4, ak = t % 4 * 4;
    const float4 av = *reinterpret_cast<const float4*>(&a[(row + ar) * k + k0 + ak]);
    as[ak][ar] = av.x;
    as[ak + 1][ar] = av.y;
    as[ak + 2][ar] = av.z;
    as[ak + 3][ar] = av.w;
    *reinterpret_cast<float4*>(&bs[t / 16][tx * 4]) =
      *reinterpret_cast<const float4*>(&b[(k0 + t / 16) * n + column + tx * 4]);
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; ++kk) {
      const float4 x = *reinterpret_cast<const float4*>(&as[kk][ty * 4]),
                   y = *reinterpret_cast<const float4*>(&bs[kk][tx * 4]);
      const float xv[4] = {x.x, x.y, x.z, x.w}, yv[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] += xv[i] * yv[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<float4*>(&c[(row + ty * 4 + i) * n + column + tx * 4]) =
      make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}

// The plain form: one result per thread, with checks of the edges.
extern "C" __global__ void gemm_plain(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[16][16], bs[16][16];
  const int tx = threadIdx.x, ty = threadIdx.y, r = blockIdx.y * 16 + ty, q = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int k0 = 0; k0 < k; k0 += 16) {
    as[ty][tx] = r < m && k0 + tx < k ? a[r * k + k0 + tx] : 0.0f;
    bs[ty][tx] = k0 + ty < k && q < n ? b[(k0 + ty) * n + q] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += as[ty][i] * bs[i][tx];
    __syncthreads();
  }
  if (r < m && q < n) c[r * n + q] = sum;
}
