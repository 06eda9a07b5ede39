#include "cpu/pointwise/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/activations_backward.h"
#define STRATA_FUNCTOR_LIST "functors/activations_backward.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/activations_backward_simd.cpp"
#include "cpu/pointwise/loops.inl"
