// Pointwise kernels of device/functors/bitwise.h.
#include "device/functors/bitwise.h"
#define STRATA_FUNCTOR_LIST "functors/bitwise.inc"
#include "cuda/pointwise/pointwise.cuh"
