// Matrix instructions: C = A B with f16 by mma.sync over cp.async and ldmatrix, and with wmma.
#include <cuda_fp16.h>
#include <mma.h>

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// One warp per 16 x 16 results; A is m x k, B is k x n, both row by row; sizes are multiples of 16.
extern "C" __global__ void gemm_mma(const __half* a, const __half* b, float* c, int m, int n, int k) {
  __shared__ __align__(16) __half as[2][16][24], bs[2][16][24];
  const int lane = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 16;
  float d[2][4] = {};
  const auto load = [&](int stage, int k0) {
    const int r = lane / 2, h = lane % 2 * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&as[stage][r][h])),
                 "l"(a + (row + r) * k + k0 + h));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&bs[stage][r][h])),
                 "l"(b + (k0 + r) * n + column + h));
    asm volatile("cp.async.commit_group;");
  };
  load(0, 0);
  for (int k0 = 0, stage = 0; k0 < k; k0 += 16, stage ^= 1) {
    if (k0 + 16 < k) {
      load(stage ^ 1, k0 + 16);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncwarp();
    unsigned fa[4], fb[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                 : "r"(shared_address(&as[stage][lane % 16][lane / 16 * 8])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                 : "r"(shared_address(&bs[stage][lane % 16][lane / 16 * 8])));
    for (int h = 0; h < 2; ++h)
      asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[h][0]), "+f"(d[h][1]), "+f"(d[h][2]), "+f"(d[h][3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * h]), "r"(fb[2 * h + 1]));
    __syncwarp();
  }
  const int g = lane / 4, t = lane % 4 * 2;
  for (int h = 0; h < 2; ++h)
    for (int r = 0; r < 4; ++r) c[(row + g + r / 2 * 8) * n + column + h * 8 + t + r % 2] = d[h][r];
}

extern "C" __global__ void gemm_wmma(const __half* a, const __half* b, float* c, int m, int n, int k) {
  namespace wmma = nvcuda::wmma;
  const int row = blockIdx.y * 16, column = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int k0 = 0; k0 < k; k0 += 16) {
    wmma::load_matrix_sync(fa, a + row * k + k0, k);
    wmma::load_matrix_sync(fb, b + k0 * n + column, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  for (int e = 0; e < fc.num_elements; ++e) fc.x[e] *= 2.0f;
  wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
}

// The column forms through shared memory, summed in f16.
extern "C" __global__ void wmma_columns(const __half* a, const __half* b, __half* c) {
  namespace wmma = nvcuda::wmma;
  __shared__ __half sa[256], sb[256];
  for (int i = threadIdx.x; i < 256; i += 32) {
    sa[i] = a[i];
    sb[i] = b[i];
  }
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::col_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, __half> fc;
  wmma::fill_fragment(fc, __float2half(1.0f));
  wmma::load_matrix_sync(fa, sa, 16);
  wmma::load_matrix_sync(fb, sb, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_col_major);
}
