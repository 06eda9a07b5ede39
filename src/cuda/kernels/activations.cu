// Pointwise kernels of device/functors/activations.h.
#include "device/functors/activations.h"
#define STRATA_FUNCTOR_LIST "functors/activations.inc"
#include "cuda/kernels/pointwise.cuh"
