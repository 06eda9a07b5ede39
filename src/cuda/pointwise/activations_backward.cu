// Pointwise kernels of device/functors/activations_backward.h.
#include "device/functors/activations_backward.h"
#define STRATA_FUNCTOR_LIST "functors/activations_backward.inc"
#include "cuda/pointwise/pointwise.cuh"
