// Pointwise kernels of device/functors/special.h.
#include "device/functors/special.h"
#define STRATA_FUNCTOR_LIST "functors/special.inc"
#include "cuda/pointwise/pointwise.cuh"
