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

// The upper half of a product. A device compiler would compute the product of widened numbers with 64-bit operations.
STRATA_PHILOX_FN uint32_t upper_product(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32);
#endif
}

// inner: further blocks of the same position, for elements that need a varying number of them.
STRATA_PHILOX_FN PhiloxBlock philox(uint64_t seed, uint64_t counter, uint32_t inner = 0) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = inner, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint32_t n0 = upper_product(0xCD9E8D57u, c2) ^ c1 ^ k0, n2 = upper_product(0xD2511F53u, c0) ^ c3 ^ k1;
    c1 = 0xCD9E8D57u * c2;
    c3 = 0xD2511F53u * c0;
    c0 = n0;
    c2 = n2;
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
