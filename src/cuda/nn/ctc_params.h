// Parameters of the kernel of connectionist temporal classification; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

struct CtcSequence {
  int64_t steps, length;  // of the input and of the target
  int64_t target;         // offset of its labels
  int64_t cells;          // offset of its steps * (2 * length + 1) cells in alpha and beta
};

struct CtcParams {
  uint64_t log_probs, loss, grad;         // of the compute type: [steps, n, classes], [n], as log_probs
  uint64_t targets, sequences;            // int64_t; CtcSequence
  uint64_t alpha, beta;                   // workspace of the recursions
  uint64_t failed;                        // int64_t: a label out of range, plus one if it is positive; otherwise 0
  int64_t n, classes, blank, most_steps;  // most_steps: of log_probs
  int32_t zero_infinity;
};

}  // namespace strata::cuda
