// Parameters of the kernels that draw random numbers; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct RandomParams {
  uint64_t out;
  uint64_t chances, worst;  // of Bernoulli draws: their probabilities, and where an invalid one is reported
  int32_t out_type, chances_type;
  int32_t distribution;  // record/distributions.h
  int32_t shift;         // of a word, to the number of bits of a uniform number
  int32_t vectors;       // out can be written in vectors (store_common)
  int32_t chance_step;
  float unit;  // two to the minus number of those bits
  int64_t count;
  uint64_t seed, first;  // the stream and its first block
  uint64_t base;         // if not 0: the device address of both; `first` is added to the block
  double a, b;
  uint64_t limit;  // Bernoulli draws of 64 bits that are below give 1
  int32_t all;     // so do all others
  int64_t low;
  uint64_t range;       // 0: all of 2^64
  uint64_t reciprocal;  // floor((2^64 - 1) / range)
};

constexpr int kRandomBlocks = 4;     // Philox blocks of a thread: independent, so that their latencies overlap
constexpr int kBernoulliBlocks = 8;  // sixteen elements
constexpr uint64_t kSmallRange = uint64_t{1} << 29;
constexpr int kDropoutItems = 8;  // of a thread: two Philox blocks

struct DropoutParams {
  uint64_t x, out, mask;  // x or mask may be 0: then out is 1 or 0, and no mask is written
  int32_t type, vectors;
  int64_t count;
  uint64_t seed, first, base;
  uint32_t last;  // elements whose draw of 32 bits is above are kept
  int32_t all;    // so are all others
  double scale;
};

struct DrawStateParams {
  uint64_t out;  // int64 [2]: the seed, the first block
  uint64_t seed, first, base;
};

}  // namespace strata::cuda
