// Pointwise kernels of device/functors/unary_math.h.
#include "device/functors/unary_math.h"
#define STRATA_FUNCTOR_LIST "functors/unary_math.inc"
#include "cuda/pointwise/pointwise.cuh"
