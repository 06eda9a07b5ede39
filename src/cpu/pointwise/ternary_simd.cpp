#include "cpu/pointwise/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/ternary.h"
#define STRATA_FUNCTOR_LIST "functors/ternary.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/ternary_simd.cpp"
#include "cpu/pointwise/loops.inl"
