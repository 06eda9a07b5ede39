#include "cpu/pointwise/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/activations.h"
#define STRATA_FUNCTOR_LIST "functors/activations.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/activations_simd.cpp"
#include "cpu/pointwise/loops.inl"
