// Philox 4x32-10 (Salmon et al., SC 2011): a counter-based generator. Block `counter` of stream `seed` has four 32-bit
// words, so element i of a draw depends only on the seed and its position: the same numbers for any thread count and
// any device.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): NVRTC has no <cstdint>

#ifdef __CUDACC__
#define STRATA_PHILOX_FN __host__ __device__ inline
#else
#define STRATA_PHILOX_FN inline
#endif

namespace strata {

struct PhiloxBlock {
  uint32_t word[4];
};

// Both halves of a product: one instruction of a GPU, where a compiler would take two or more.
STRATA_PHILOX_FN void wide_product(uint32_t a, uint32_t b, uint32_t& high, uint32_t& low) {
#ifdef __CUDA_ARCH__
  uint64_t both;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(both) : "r"(a), "r"(b));
#else
  const uint64_t both = static_cast<uint64_t>(a) * b;
#endif
  high = static_cast<uint32_t>(both >> 32);
  low = static_cast<uint32_t>(both);
}

// inner: further blocks of the same position, for elements that need a varying number of them.
STRATA_PHILOX_FN PhiloxBlock philox(uint64_t seed, uint64_t counter, uint32_t inner = 0) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = inner, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint32_t high0, low0, high2, low2;
    wide_product(0xD2511F53u, c0, high0, low0);
    wide_product(0xCD9E8D57u, c2, high2, low2);
    c0 = high2 ^ c1 ^ k0;
    c1 = low2;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// [0, 1) with 24 bits, and with 53 bits from two words: every value is representable, 1 is never reached.
STRATA_PHILOX_FN float uniform_f32(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }
STRATA_PHILOX_FN double uniform_f64(uint32_t high, uint32_t low) {
  return static_cast<double>((static_cast<uint64_t>(high) << 32 | low) >> 11) * 0x1p-53;
}

}  // namespace strata
