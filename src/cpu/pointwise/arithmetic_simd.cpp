#include "cpu/pointwise/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/arithmetic.h"
#define STRATA_FUNCTOR_LIST "functors/arithmetic.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/arithmetic_simd.cpp"
#include "cpu/pointwise/loops.inl"
