// Pointwise kernels of device/functors/bessel.h.
#include "device/functors/bessel.h"
#define STRATA_FUNCTOR_LIST "functors/bessel.inc"
#include "cuda/pointwise/pointwise.cuh"
