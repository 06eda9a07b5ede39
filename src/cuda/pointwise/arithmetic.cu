// Pointwise kernels of device/functors/arithmetic.h.
#include "device/functors/arithmetic.h"
#define STRATA_FUNCTOR_LIST "functors/arithmetic.inc"
#include "cuda/pointwise/pointwise.cuh"
