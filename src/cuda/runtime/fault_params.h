// How kernels report what only they can see (an index out of range, a division by zero); compiled by both compilers.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

enum class FaultCode : int32_t { None, Index, Target, Division, Probability };

struct FaultReport {  // in host memory that devices can write to
  int32_t code, op;
  int64_t value, limit;  // value: of a probability the bits of a double
};
struct FaultSink {  // a kernel's parameter
  uint64_t report;  // address of a FaultReport
  int32_t op;       // the number of the op's record
  int32_t unused;
};

}  // namespace strata::cuda
