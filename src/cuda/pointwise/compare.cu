// Pointwise kernels of device/functors/compare.h.
#include "device/functors/compare.h"
#define STRATA_FUNCTOR_LIST "functors/compare.inc"
#include "cuda/pointwise/pointwise.cuh"
