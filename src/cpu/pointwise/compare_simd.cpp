#include "cpu/pointwise/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/compare.h"
#define STRATA_FUNCTOR_LIST "functors/compare.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/compare_simd.cpp"
#include "cpu/pointwise/loops.inl"
