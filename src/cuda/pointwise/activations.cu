// Pointwise kernels of device/functors/activations.h.
// ptx: compute_75 compute_80
#include "device/functors/activations.h"
#define STRATA_FUNCTOR_LIST "functors/activations.inc"
#include "cuda/pointwise/pointwise.cuh"
