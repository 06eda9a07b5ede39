#include "cpu/pointwise/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/special.h"
#define STRATA_FUNCTOR_LIST "functors/special.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/special_simd.cpp"
#include "cpu/pointwise/loops.inl"
