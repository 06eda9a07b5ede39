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

STRATA_PHILOX_FN PhiloxBlock philox(uint64_t seed, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0, p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
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
