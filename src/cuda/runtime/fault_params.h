// Reports of errors that only kernels can detect (an index out of range, a division by zero); shared with device code.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

enum class FaultCode : int32_t { None, Index, Target, Division, Probability, Start, Offset };

struct FaultReport {  // in host memory that devices can write to
  int32_t code, op;
  int64_t value, limit;  // value: for a probability, the bits of a double
};
struct FaultSink {  // a kernel parameter
  uint64_t report;  // address of a FaultReport
  int32_t op;       // index of the op's record
  int32_t unused;
};

}  // namespace strata::cuda
