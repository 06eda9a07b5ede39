// What compilers make of ordinary C++: calls, switches, local arrays, structures by value, generic pointers, tables.
#include <cassert>
struct Shape {
  int dims;
  long long size[8], stride[8];
};
__constant__ float weights[5] = {0.5f, -1.0f, 2.0f, 4.0f, 0.25f};
__device__ unsigned launches = 3;
static __device__ const unsigned char order[8] = {3, 1, 4, 1, 5, 0, 2, 6};

__device__ __noinline__ float polynomial(float x, int degree) {
  float r = 0;
  for (int k = 0; k <= degree; ++k) r = r * x + weights[k];
  return r;
}
struct Pair {
  double sum;
  int count;
};
__device__ __noinline__ Pair combine(Pair a, Pair b, bool flip) {
  if (flip) return combine({b.sum * 2, b.count}, {a.sum, 1}, false);  // the optimiser unrolls it
  return {a.sum + b.sum, a.count + b.count};
}

extern "C" __global__ void calls(const float* in, double* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float p = polynomial(in[i], i % 5);
  const Pair r = combine({p, i}, {in[i], 2}, false);
  out[i] = r.sum * r.count;
}

extern "C" __global__ void switches(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = in[i], r = 0;
  for (int round = 0; round < 4; ++round) {
    switch (v & 15) {
      case 0: r += 7; break;
      case 1: r ^= v; break;
      case 2: r = r * 3 + 1; [[fallthrough]];
      case 3: r -= 11; break;
      case 5: r += __popc(v); break;
      case 6: r <<= 1; break;
      case 7: r = ~r; break;
      case 8: r += v / 3; break;
      case 9: r ^= 0x55; break;
      case 12: goto end;
      default: r += order[v & 7]; break;
    }
    v = v * 1103515245 + 12345;
  }
end:
  out[i] = r;
}

// Sorts 16 numbers in a local array whose index is not known when compiled, then gathers through a generic pointer.
extern "C" __global__ void local_arrays(const int* in, int* out, int n) {
  __shared__ int spare[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int a[16];
  for (int k = 0; k < 16; ++k) a[k] = i < n ? in[(i + k * 37) % n] : k;
  for (int k = 1; k < 16; ++k)
    for (int j = k; j > 0 && a[j - 1] > a[j]; --j) {
      const int t = a[j];
      a[j] = a[j - 1];
      a[j - 1] = t;
    }
  spare[threadIdx.x] = a[i & 15];
  __syncthreads();
  const int* p = i & 1 ? a : spare;
  if (i & 2) p = in;
  if (i < n) out[i] = p[(i * 5) & 15] + (int)launches;
}

extern "C" __global__ void strided_copy(const float* in, float* out, Shape shape, long long n) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    long long rest = i, offset = 0;
    for (int d = shape.dims - 1; d >= 0; --d) {
      offset += rest % shape.size[d] * shape.stride[d];
      rest /= shape.size[d];
    }
    out[i] = in[offset];
  }
}

extern "C" __global__ void asserts(const int* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) assert(in[i] >= 0 && "the index must not be negative");
}
