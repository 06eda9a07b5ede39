// Instructions of tensor-core kernels from Ampere on (sm_80), one function each: asynchronous copies to shared memory
// (cp.async), loads of 8x8 blocks (ldmatrix) and the products of a warp (mma.sync). Also for kernels that are compiled at
// run time, so without headers of the toolkit.
#pragma once
#include "cuda/linalg/tile_order.cuh"

namespace strata::cuda::mma {

// kBytes bytes, of which the first `there` are copied and the others are zeros.
template <int kBytes = 16> __device__ __forceinline__ void copy_async(uint32_t to, const void* from, int there) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(there)
                 : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending> __device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8x8 blocks; lane i gives the address of row i % 8 of block i / 8.
template <bool kTransposed> __device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// d += a b, of 16 x 8 x 16.
template <bool kBf16>
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#define STRATA_MMA(type)                                              \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "            \
               "{%8, %9}, {%0, %1, %2, %3};"                          \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (kBf16) STRATA_MMA("bf16");
  else STRATA_MMA("f16");
#undef STRATA_MMA
}

// The same with 8-bit integers, of 16 x 8 x 32, and with TF32, of 16 x 8 x 8: 32 bytes of k, in the registers where 16-bit
// floats would be.
__device__ __forceinline__ void multiply_bytes(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
    "{%0, %1, %2, %3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace strata::cuda::mma
