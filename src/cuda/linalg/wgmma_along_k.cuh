// wgmma of formats whose factors must be dense along k: 8-bit integers and floats, and TF32. A step has 32 bytes of k, like
// one of 16-bit floats, so that the pipeline of hopper_pipeline.cuh takes them in units of two bytes.
#pragma once
#include "cuda/linalg/hopper.cuh"

namespace strata::cuda::hopper {

// One step of 64 x kN x 32 bytes.
template <int kN, KFormat kFormat> struct WgmmaAlongK;

#define STRATA_WGMMA_ALONG_K_OF(types, scales, constraint, kN, kK, count, at_a, at_b, at_p)                       \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #at_p                                                         \
               ", 0;\n"                                                                                           \
               "wgmma.mma_async.sync.aligned.m64n" #kN kK types " {" STRATA_TEXT_##count "}, %" #at_a ", %" #at_b \
                                                                                         ", "                     \
                                                                                         "p" scales ";\n}"        \
               : STRATA_SUMS_##count(constraint, 0)                                                               \
               : "l"(a), "l"(b), "r"(accumulate))
#define STRATA_WGMMA_ALONG_K(format, types, scales, type, constraint, kN, kK, count, at_a, at_b, at_p) \
  template <> struct WgmmaAlongK<kN, KFormat::format> {                                                \
    using Sum = type;                                                                                  \
    static __device__ inline void multiply(type (&d)[count], uint64_t a, uint64_t b, int accumulate) { \
      STRATA_WGMMA_ALONG_K_OF(types, scales, constraint, kN, kK, count, at_a, at_b, at_p);             \
    }                                                                                                  \
  };
#define STRATA_WGMMA_ALONG_K_ALL(format, types, scales, type, constraint, kK)            \
  STRATA_WGMMA_ALONG_K(format, types, scales, type, constraint, 32, kK, 16, 16, 17, 18)  \
  STRATA_WGMMA_ALONG_K(format, types, scales, type, constraint, 64, kK, 32, 32, 33, 34)  \
  STRATA_WGMMA_ALONG_K(format, types, scales, type, constraint, 128, kK, 64, 64, 65, 66) \
  STRATA_WGMMA_ALONG_K(format, types, scales, type, constraint, 192, kK, 96, 96, 97, 98) \
  STRATA_WGMMA_ALONG_K(format, types, scales, type, constraint, 256, kK, 128, 128, 129, 130)
STRATA_WGMMA_ALONG_K_ALL(S8, "s32.s8.s8", "", int, "+r", "k32.")
STRATA_WGMMA_ALONG_K_ALL(E4M3, "f32.e4m3.e4m3", ", 1, 1", float, "+f", "k32.")
STRATA_WGMMA_ALONG_K_ALL(E4M3TimesE5M2, "f32.e4m3.e5m2", ", 1, 1", float, "+f", "k32.")
STRATA_WGMMA_ALONG_K_ALL(E5M2TimesE4M3, "f32.e5m2.e4m3", ", 1, 1", float, "+f", "k32.")
STRATA_WGMMA_ALONG_K_ALL(E5M2, "f32.e5m2.e5m2", ", 1, 1", float, "+f", "k32.")
STRATA_WGMMA_ALONG_K_ALL(TF32, "f32.tf32.tf32", ", 1, 1", float, "+f", "k8.")

}  // namespace strata::cuda::hopper
