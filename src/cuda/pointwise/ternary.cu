// Pointwise kernels of device/functors/ternary.h.
#include "device/functors/ternary.h"
#define STRATA_FUNCTOR_LIST "functors/ternary.inc"
#include "cuda/pointwise/pointwise.cuh"
