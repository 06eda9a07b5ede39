// Blocks at work: pointwise with 16-byte loads, reductions with shuffles, softmax, scan, transpose, histogram, Philox.
extern "C" __global__ void pointwise(const float4* x, const float4* y, float4* out, float scale, int n) {
  const int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    const float4 a = x[i], b = y[i];
    float4 r;
    r.x = fmaxf(a.x * scale + b.x, 0.0f);
    r.y = fmaxf(a.y * scale + b.y, 0.0f);
    r.z = fmaxf(a.z * scale + b.z, 0.0f);
    r.w = fmaxf(a.w * scale + b.w, 0.0f);
    out[i] = r;
  }
}

extern "C" __global__ void gelu(const float* x, float* out, int n) {
  const int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
    out[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

template <class F> __device__ float block_reduce(float v, float start, const F& f) {
  __shared__ float part[32];
  for (int d = 16; d > 0; d >>= 1) v = f(v, __shfl_xor_sync(0xffffffffu, v, d));
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : start;
  for (int d = 16; d > 0; d >>= 1) v = f(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}

extern "C" __global__ void row_sum(const float* x, float* out, int columns) {
  const float* row = x + (long long)blockIdx.x * columns;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c];
  sum = block_reduce(sum, 0.0f, [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void softmax(const float* x, float* out, int columns) {
  const float* row = x + (long long)blockIdx.x * columns;
  float most = -INFINITY;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) most = fmaxf(most, row[c]);
  most = block_reduce(most, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += __expf(row[c] - most);
  sum = block_reduce(sum, 0.0f, [](float a, float b) { return a + b; });
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    out[(long long)blockIdx.x * columns + c] = __expf(row[c] - most) / sum;
}

// An inclusive scan of 1024 numbers per block.
extern "C" __global__ void scan(const int* x, int* out) {
  __shared__ int part[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  int v = x[at];
  for (int d = 1; d < 32; d <<= 1) {
    const int other = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += other;
  }
  if (lane == 31) part[warp] = v;
  __syncthreads();
  if (warp == 0) {
    int s = part[lane];
    for (int d = 1; d < 32; d <<= 1) {
      const int other = __shfl_up_sync(0xffffffffu, s, d);
      if (lane >= d) s += other;
    }
    part[lane] = s;
  }
  __syncthreads();
  out[at] = v + (warp ? part[warp - 1] : 0);
}

extern "C" __global__ void transpose(const float* x, float* out, int rows, int columns) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (r + k < rows && c < columns) tile[threadIdx.y + k][threadIdx.x] = x[(long long)(r + k) * columns + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x;
  r = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (r + k < columns && c < rows) out[(long long)(r + k) * rows + c] = tile[threadIdx.x][threadIdx.y + k];
}

extern "C" __global__ void histogram(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned bins[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x)
    if (bins[b]) atomicAdd(&out[b], bins[b]);
}

extern "C" __global__ void philox(unsigned long long seed, uint4* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned key[2] = {(unsigned)seed, (unsigned)(seed >> 32)}, c[4] = {(unsigned)i, 0, 0, 0};
  for (int round = 0; round < 10; ++round) {
    const unsigned h0 = __umulhi(0xD2511F53u, c[0]), l0 = 0xD2511F53u * c[0];
    const unsigned h1 = __umulhi(0xCD9E8D57u, c[2]), l1 = 0xCD9E8D57u * c[2];
    const unsigned next[4] = {h1 ^ c[1] ^ key[0], l1, h0 ^ c[3] ^ key[1], l0};
    for (int k = 0; k < 4; ++k) c[k] = next[k];
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  out[i] = make_uint4(c[0], c[1], c[2], c[3]);
}

// A barrier over all blocks, through an atomic counter: needs a cooperative launch.
extern "C" __global__ void grid_barrier(int* data, unsigned* arrived, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  for (int round = 0; round < rounds; ++round) {
    const int left = data[round % 2 * n + (i + 1) % n];
    data[(round + 1) % 2 * n + i] = left + data[round % 2 * n + i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicAdd(arrived, 1u);
      while (*(volatile unsigned*)arrived < gridDim.x * (round + 1)) __nanosleep(20);
    }
    __syncthreads();
  }
}
