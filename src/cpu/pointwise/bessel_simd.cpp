#include "cpu/pointwise/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/bessel.h"
#define STRATA_FUNCTOR_LIST "functors/bessel.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/bessel_simd.cpp"
#include "cpu/pointwise/loops.inl"
